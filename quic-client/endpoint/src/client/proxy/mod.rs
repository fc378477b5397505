// SPDX-License-Identifier: Apache-2.0
//! `weir-client proxy`: a local proxy whose tunnels are streams of one connection to a relay (MASQUE).
//!
//! [`handshake`] reads a program's request, [`relay`] has the connection, [`tunnel`] and [`udp`] pass the bytes. All of it
//! runs on one thread, beside the library's.

mod access;
mod destination;
mod events;
pub mod fuzz;
mod handshake;
mod handshakes;
mod http;
mod options;
mod relay;
mod socks;
mod tunnel;
mod udp;

use super::complain;
use crate::shared::fault::{CONNECT, Fault, IO, PATHS, TIMEOUT, USAGE};
use crate::shared::options::parsed_from;
use access::Access;
use destination::Destination;
use events::{Events, Log};
use handshake::{Protocol, Request};
use handshakes::{HandshakeSlot, Handshakes};
use options::ProxyOptions;
use relay::{OpenError, Relay};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use weir_core::client::Outcome;
use weir_quic::ErrorKind;

/// Time for the first messages of a local program.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for tunnels to end after a signal.
const STOP: Duration = Duration::from_secs(1);
/// Pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The proxy's command line, if the first argument asks for the proxy.
pub fn command_line() -> Option<Vec<OsString>> {
    let mut words = std::env::args_os().skip(1);
    (words.next()? == "proxy").then(|| std::iter::once("weir-client proxy".into()).chain(words).collect())
}

/// Runs the proxy until a signal; `version` is for `--version`. Returns its exit code.
///
/// # Errors
/// It can't start.
pub fn main(version: &'static str, line: Vec<OsString>) -> Result<u8, Fault> {
    let Some(options) = parsed_from::<ProxyOptions>(version, line)? else { return Ok(0) };
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Names are resolved there.
        .max_blocking_threads(2)
        .build()
        .map_err(Fault::io("threads"))?;
    let local = LocalSet::new();
    let result = local.block_on(&runtime, run(&options));
    drop(local);
    // The resolver may take longer than a user waits.
    runtime.shutdown_timeout(STOP);
    result
}

/// State of the proxy, shared by its tasks.
struct Shared {
    relay: Rc<Relay>,
    access: Access,
    idle: Duration,
    events: Events,
    max_tunnels: usize,
    tunnels: Cell<usize>,
    next_tunnel: Cell<u64>,
    names_destinations: bool,
    /// The last failure that was reported to the user.
    complaint: RefCell<String>,
    stop: watch::Sender<bool>,
}

/// End of a tunnel.
struct Ended {
    outcome: &'static str,
    up_bytes: u64,
    down_bytes: u64,
}

impl Ended {
    /// Of a tunnel in which nothing passed.
    fn early(outcome: &'static str) -> Ended {
        Ended { outcome, up_bytes: 0, down_bytes: 0 }
    }
}

impl Shared {
    /// Waits until the proxy stops.
    async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        if stop.wait_for(|stop| *stop).await.is_err() {
            pending().await
        }
    }

    /// Reports that a tunnel could not be opened: a problem of the relay or its token once, others with `--verbose`.
    fn failed(&self, e: &OpenError, to: &Destination) {
        if e.text.contains("--token") && *self.complaint.borrow() != e.text {
            complain(&e.text);
            self.complaint.replace(e.text.clone());
        }
        if self.names_destinations {
            complain(&format!("{to}: {}", e.text));
        }
    }
}

/// A tunnel's place among `--max-tunnels`.
struct TunnelSlot {
    shared: Rc<Shared>,
}

impl TunnelSlot {
    fn take(shared: &Rc<Shared>) -> Option<TunnelSlot> {
        let free = shared.tunnels.get() < shared.max_tunnels;
        free.then(|| {
            shared.tunnels.set(shared.tunnels.get() + 1);
            TunnelSlot { shared: Rc::clone(shared) }
        })
    }
}

impl Drop for TunnelSlot {
    fn drop(&mut self) {
        self.shared.tunnels.set(self.shared.tunnels.get() - 1);
    }
}

/// Signals that end the proxy.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stops {
    fn catch() -> io::Result<Stops> {
        Ok(Stops {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, and gives the exit code.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => 0,
            _ = self.hangup.recv() => 0,
        }
    }
}

/// The exit code of a failure at the start.
fn fault(e: &weir_quic::Error) -> Fault {
    let code = match e.kind() {
        ErrorKind::Usage => USAGE,
        ErrorKind::Paths => PATHS,
        ErrorKind::Connect => CONNECT,
        ErrorKind::Tls => Outcome::Tls(String::new()).exit_code(),
        ErrorKind::Timeout => TIMEOUT,
        ErrorKind::Incomplete => Outcome::Incomplete(String::new()).exit_code(),
        _ => IO,
    };
    Fault::new(code, format!("--relay: {e}"))
}

async fn run(options: &ProxyOptions) -> Result<u8, Fault> {
    let (token, access) = (options.token()?, options.access()?);
    let mut stops = Stops::catch().map_err(Fault::io("signals"))?;
    let (events, mut log) = Log::create(options.events.as_deref())?;
    let mut builder = options.builder()?;
    if let Some(observer) = events.observer() {
        builder = builder.observer(observer);
    }
    let listen = options.listen;
    let listener = TcpListener::bind(listen).await.map_err(Fault::io(format!("--listen {listen}")))?;
    let client = builder.build().map_err(|e| fault(&e))?;
    let relay = tokio::select! {
        relay = Relay::connect(client, &options.relay, token) => relay.map_err(|e| fault(&e))?,
        code = stops.next() => return Ok(code),
    };
    let bound = listener.local_addr().map_err(Fault::io("--listen"))?;
    crate::shared::fault::print(&format!("listening {bound}\n"))?;

    let shared = Rc::new(Shared {
        relay: Rc::clone(&relay),
        access,
        idle: options.idle_tunnel(),
        events,
        max_tunnels: options.max_tunnels as usize,
        tunnels: Cell::new(0),
        next_tunnel: Cell::new(0),
        names_destinations: options.verbose,
        complaint: RefCell::default(),
        stop: watch::Sender::new(false),
    });
    let code = {
        let serving = serve(&listener, &shared);
        tokio::select! {
            code = stops.next() => code,
            () = relay.keep() => 0,
            () = serving => 0,
            () = log.write() => 0,
        }
    };
    drop(listener);
    shared.stop.send_replace(true);
    let ended = async {
        while shared.tunnels.get() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // A second signal does not wait.
    tokio::select! {
        _ = timeout(STOP, ended) => {}
        _ = stops.next() => {}
    }
    relay.close();
    Ok(if log.finish() || code != 0 { code } else { IO })
}

/// Accepts local programs.
async fn serve(listener: &TcpListener, shared: &Rc<Shared>) {
    let handshakes = Rc::new(Handshakes::default());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let slot = handshakes.slot();
        let id = slot.id();
        let task = spawn_local(program(Rc::clone(shared), stream, slot));
        handshakes.begun(id, task.abort_handle());
    }
}

/// Serves one local program.
async fn program(shared: Rc<Shared>, mut stream: TcpStream, slot: HandshakeSlot) {
    // Small messages must not wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let request = timeout(HANDSHAKE, handshake::read(&mut stream, &shared.access)).await;
    drop(slot);
    let Ok(Ok(request)) = request else { return };
    let protocol = if let Request::Tunnel(protocol, ..) = &request { *protocol } else { Protocol::Socks };
    let Some(_slot) = TunnelSlot::take(&shared) else {
        return tunnel::refuse(&mut stream, protocol, &OpenError::full()).await;
    };
    let number = shared.next_tunnel.replace(shared.next_tunnel.get() + 1);
    let begun = Instant::now();
    let (kind, to, ended) = match request {
        Request::Tunnel(protocol, to, first) => {
            ("tcp", Some(to.clone()), tunnel::serve(&shared, &mut stream, protocol, &to, first).await)
        }
        Request::Associate(port) => ("udp", None, udp::serve(&shared, &mut stream, port).await),
    };
    let to = to.filter(|_| shared.names_destinations).map(|to| to.to_string());
    shared.events.tunnel(number, kind, begun, &shared.relay.path(), &ended, to.as_deref());
}
