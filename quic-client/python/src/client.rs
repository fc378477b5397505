// SPDX-License-Identifier: Apache-2.0
//! [`Client`] and [`Connection`] of the module.

use crate::events::{EventQueue, Events, Recorder};
use crate::request::{Origin, begin};
use crate::response::Response;
use crate::strategy::PythonStrategy;
use crate::wait::{CHECK, Detached, exception, may_wait, raised, wait};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use weir_core::choice::StrategyKind;
use weir_core::report::samples::Timebase;
use weir_core::request::Alpn;
use weir_io::wait::moment;
use weir_quic::{Builder, FileTickets, tokio};

/// Connections with common settings, on one thread of their own.
///
/// `paths`: interfaces, local addresses, or `auto` for all interfaces; without any the routing table chooses.
/// `ca`: PEM file of the certificates to trust instead of the system's. `insecure`: accepts any certificate.
/// `strategy`: a name (`weir`, `ops`, `pps`, `epsilon-greedy`, `polling`, `best-single`), or a class or function without
/// arguments that makes a `Strategy` for each connection. `window`: `double`, `fast`, `weir` or `static`.
/// `cc`: congestion control by the name that `weir-client --cc` has. `bind`: local address to send from, without paths.
/// `connect_to`: HOST or HOST:PORT to connect to instead of the URL's. `alpn`: `h3`, `hq-interop`.
/// `idle_timeout_s`: seconds without a packet. `read_timeout_s` (300): seconds in which a request makes no progress; None
/// for no limit. `seed`: of random choices. `tickets`: resumes sessions by tickets in memory (True) or in a folder.
/// `events`: keeps events for `events()`.
///
/// Raises UsageError for a wrong setting, PathError for an unknown path, IoError for a file that can't be read.
#[pyclass(frozen, module = "weir_quic")]
pub struct Client {
    client: Detached<weir_quic::Client>,
    events: Option<Arc<EventQueue>>,
}

/// A setting from its name.
fn named<T: std::str::FromStr>(py: Python<'_>, option: &str, name: &str) -> PyResult<T>
where
    T::Err: std::fmt::Display,
{
    name.parse().map_err(|e: T::Err| raised(py, "UsageError", &format!("{option}: {e}")))
}

fn seconds(py: Python<'_>, option: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| raised(py, "UsageError", &format!("{option} {seconds}: expected a number of seconds above 0")))
}

fn strategy(py: Python<'_>, builder: Builder, strategy: &Bound<'_, PyAny>) -> PyResult<Builder> {
    if let Ok(name) = strategy.cast::<PyString>() {
        let name = name.to_string();
        let kind = StrategyKind::named(&name).filter(|kind| kind.name != "oracle").ok_or_else(|| {
            let text = format!(
                "strategy: '{name}' is not a strategy: expected weir, ops, pps, epsilon-greedy, polling, \
                best-single, or a class with a method choose"
            );
            raised(py, "UsageError", &text)
        })?;
        return Ok(builder.strategy(kind));
    }
    if !strategy.is_callable() {
        let text = "strategy: expected a name, or a class or function that makes an object with a method choose";
        return Err(raised(py, "UsageError", text));
    }
    // Counts of references to a Python object need the interpreter's lock, those to this one do not.
    let maker = Arc::new(strategy.clone().unbind());
    Ok(builder.strategy_by(move |_| Box::new(PythonStrategy::new(Arc::clone(&maker)))))
}

fn tickets(py: Python<'_>, builder: Builder, tickets: &Bound<'_, PyAny>) -> PyResult<Builder> {
    if let Ok(resumption) = tickets.cast::<PyBool>() {
        return Ok(builder.resumption(resumption.is_true()));
    }
    let folder: PathBuf = tickets.extract()?;
    let store = FileTickets::new(&folder);
    store
        .map(|store| builder.tickets(store))
        .map_err(|e| raised(py, "IoError", &format!("tickets {}: {e}", folder.display())))
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (paths = Vec::new(), *, ca = None, insecure = false, strategy = None, window = "double",
        cc = "cubic", bind = None, connect_to = None, alpn = None, idle_timeout_s = 30.0, read_timeout_s = Some(300.0),
        seed = None, tickets = None, events = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        ca: Option<PathBuf>,
        insecure: bool,
        strategy: Option<&Bound<'_, PyAny>>,
        window: &str,
        cc: &str,
        bind: Option<String>,
        connect_to: Option<String>,
        alpn: Option<Vec<String>>,
        idle_timeout_s: f64,
        read_timeout_s: Option<f64>,
        seed: Option<u64>,
        tickets: Option<&Bound<'_, PyAny>>,
        events: bool,
    ) -> PyResult<Client> {
        let read_timeout = read_timeout_s.map(|s| seconds(py, "read_timeout_s", s)).transpose()?;
        let mut builder = paths.into_iter().fold(weir_quic::Client::builder(), Builder::path);
        builder = builder.insecure(insecure).window(named(py, "window", window)?).congestion(named(py, "cc", cc)?);
        builder = builder.idle_timeout(seconds(py, "idle_timeout_s", idle_timeout_s)?).read_timeout(read_timeout);
        builder = ca.into_iter().fold(builder, Builder::ca);
        builder = bind.into_iter().fold(builder, Builder::bind);
        builder = connect_to.into_iter().fold(builder, Builder::connect_to);
        builder = seed.into_iter().fold(builder, Builder::seed);
        if let Some(names) = alpn {
            let alpn = names.iter().map(|name| named::<Alpn>(py, "alpn", name)).collect::<PyResult<_>>()?;
            builder = builder.alpn(alpn);
        }
        if let Some(given) = strategy {
            builder = self::strategy(py, builder, given)?;
        }
        if let Some(given) = tickets {
            builder = self::tickets(py, builder, given)?;
        }
        let queue = events.then(|| Arc::new(EventQueue::default()));
        if let Some(queue) = &queue {
            let (start, start_us) = moment();
            builder = builder.observer(Recorder { queue: Arc::clone(queue), timebase: Timebase::new(start, start_us) });
        }
        let client = py.detach(|| builder.build()).map_err(|e| exception(py, &e))?;
        Ok(Client { client: Detached::new(client), events: queue })
    }

    /// Connects to the server of an https URL and waits for the end of the handshake. With `early` it does not wait: early
    /// requests leave in the first packets if there is a ticket.
    ///
    /// Raises UsageError, ConnectError, TlsError or Timeout.
    #[pyo3(signature = (url, *, early = false))]
    fn connect(&self, py: Python<'_>, url: &str, early: bool) -> PyResult<Connection> {
        let origin = Origin::of(py, url)?;
        may_wait(py)?;
        // The system's resolver can't be interrupted.
        let (sender, mut receiver) = sync_channel(1);
        let (client, text) = (self.client.get().clone(), url.to_owned());
        std::thread::Builder::new().name("weir-quic-resolve".to_owned()).spawn(move || {
            // Without a receiver the connection is closed.
            let _ = sender.send(client.connect_early(&text));
        })?;
        let opened = loop {
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(CHECK)) {
                Ok(opened) => break opened.map_err(|e| exception(py, &e))?,
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(raised(py, "IoError", "the resolver's thread ended"));
                }
            }
        };
        let inner = Detached::new(tokio::Connection::from(opened));
        if !early {
            wait(py, inner.get().established())?.map_err(|e| exception(py, &e))?;
        }
        Ok(Connection { inner: Some(inner), origin })
    }

    /// Iterator over the events of all connections: dicts as the lines of `weir-client --events`, with `t_us` in
    /// microseconds of CLOCK_MONOTONIC and the connection's number as `flow`. It ends with the client's last handle.
    ///
    /// Raises UsageError if the client was made without `events=True`.
    fn events(&self, py: Python<'_>) -> PyResult<Events> {
        let queue = self
            .events
            .as_ref()
            .ok_or_else(|| raised(py, "UsageError", "events: the client was made without events=True"))?;
        Ok(Events { queue: Arc::clone(queue) })
    }
}

/// Observations of a connection: name of the path in use, payload in `bytes`, migrations in `switches`, and whether the
/// session was resumed, early data accepted, and the server takes no more requests (GOAWAY).
#[pyclass(frozen, get_all, module = "weir_quic")]
pub struct Status {
    path: String,
    bytes: u64,
    switches: u64,
    is_resumed: bool,
    is_early_data_accepted: bool,
    is_going_away: bool,
}

#[pymethods]
impl Status {
    fn __repr__(&self) -> String {
        let Status { path, bytes, switches, .. } = self;
        format!("Status(path={path:?}, bytes={bytes}, switches={switches}, ...)")
    }
}

/// A connection to a server. As a context manager it is closed at the end of `with`. Threads may share it.
#[pyclass(module = "weir_quic")]
pub struct Connection {
    inner: Option<Detached<tokio::Connection>>,
    origin: Origin,
}

impl Connection {
    fn open(&self, py: Python<'_>) -> PyResult<&tokio::Connection> {
        self.inner.as_ref().map(Detached::get).ok_or_else(|| raised(py, "ClosedError", "the connection is closed"))
    }
}

#[pymethods]
impl Connection {
    /// Sends a request and waits for the header fields of its answer.
    ///
    /// `target`: path with its query, or a URL of the connection's origin; `host:port` for CONNECT. `headers`: a dict, or
    /// pairs. `body`: bytes, a file opened in binary mode, or an iterable of bytes; files and iterables are sent while they
    /// are read. `redirects`: redirects within the origin that are followed. `expected_bytes`: size of the answer, for path
    /// choice. `early`: may be sent as early data; safe methods only.
    ///
    /// Raises UsageError for a wrong request; ClosedError, BusyError, IncompleteError, NotServedError or Timeout.
    #[pyo3(signature = (method, target, *, headers = None, body = None, redirects = 0, expected_bytes = None, early = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn request(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        method: &str,
        target: &str,
        headers: Option<&Bound<'_, PyAny>>,
        body: Option<&Bound<'_, PyAny>>,
        redirects: u32,
        expected_bytes: Option<u64>,
        early: bool,
    ) -> PyResult<Response> {
        let connection = slf.open(py)?.clone();
        let request = slf.origin.request(py, method, target, headers)?.redirects(redirects);
        let request = expected_bytes.into_iter().fold(request, weir_quic::Request::expected_bytes);
        let request = if early { request.early() } else { request };
        drop(slf); // another thread may use the connection during a wait
        begin(py, Detached::new(connection), request, body)
    }

    /// `request("GET", target)`.
    #[pyo3(signature = (target, *, headers = None))]
    fn get(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        target: &str,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Response> {
        Self::request(slf, py, "GET", target, headers, None, 0, None, false)
    }

    /// Path and query of the URL that the connection was made for.
    #[getter]
    fn url_path(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.url_path().to_owned())
    }

    /// Observations, as of the last packet. Raises ClosedError after `close`.
    fn status(&self, py: Python<'_>) -> PyResult<Status> {
        let status = self.open(py)?.status();
        Ok(Status {
            path: status.path,
            bytes: status.bytes,
            switches: status.switches,
            is_resumed: status.is_resumed,
            is_early_data_accepted: status.is_early_data_accepted,
            is_going_away: status.is_going_away,
        })
    }

    /// The reason why the connection has ended, as an exception; None while it is up.
    fn ended(&self, py: Python<'_>) -> PyResult<Option<PyErr>> {
        Ok(self.open(py)?.ended().map(|e| exception(py, &e)))
    }

    /// Closes the connection with its requests, and waits until that was sent.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        inner.get().clone().close();
        wait(py, inner.get().closed()).map(drop)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
