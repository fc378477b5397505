// SPDX-License-Identifier: Apache-2.0
//! The blocking interface: [`Client`], [`Connection`], [`Response`].

use crate::config::{Builder, Config};
use crate::connection_state::{ConnectionState, Order, Status};
use crate::driver::DriverThread;
use crate::error::{Error, ErrorKind};
use crate::notifier::Notifier;
use crate::pipe::{Pipe, State};
use crate::request::Request;
use crate::target::{Families, Lookup, Target, path_of, target};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use std::io::{self, Read, Write};
use std::sync::Arc;
use weir_core::transport::{MAX_PAYLOAD_BYTES, Transport};
use weir_io::interfaces;

/// Connections with common settings, on one thread of their own. The thread ends with the last of the client and its
/// connections.
#[derive(Clone)]
pub struct Client {
    config: Arc<Config>,
    driver: Arc<DriverThread>,
}

impl Client {
    /// Settings for a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(config: Config) -> Result<Client, Error> {
        let client = Client { driver: Arc::new(DriverThread::start(config.clone())?), config: Arc::new(config) };
        client.families()?;
        Ok(client)
    }

    fn families(&self) -> Result<Families, Error> {
        let requested = self.config.requested()?;
        if requested.is_empty() {
            return Ok(Families::of_bind(self.config.bind()?, "bind"));
        }
        let list = interfaces::list().map_err(weir_io::fault::Fault::io("network interfaces (rtnetlink)"))?;
        Ok(requested.check(&list)?)
    }

    /// The server of a URL, resolved. Blocks as long as the resolver does.
    pub(crate) fn resolve(&self, url: &str) -> Result<Target, Error> {
        let families = self.families()?;
        let lookup = Lookup { connect: self.config.connect_to.as_deref(), option: "connect_to", families: &families };
        Ok(target(url, lookup, path_of)?)
    }

    /// Begins a connection to a resolved server.
    pub(crate) fn open(&self, target: Target) -> Connection {
        let notifier = Notifier::new(Arc::clone(self.driver.remote.wakeup()));
        let path = target.path.clone();
        let state = ConnectionState::new(Arc::new(notifier), target.authority.clone(), self.config.most_waiting);
        let handle = Arc::new(Handle { state: Arc::new(state), _driver: Arc::clone(&self.driver) });
        self.driver.remote.open(target, Arc::clone(&handle.state));
        Connection { handle, path }
    }

    /// Connects to the server of an https URL and waits for the end of the handshake.
    ///
    /// # Errors
    /// The URL is not valid, its host has no address, or the connection failed.
    pub fn connect(&self, url: &str) -> Result<Connection, Error> {
        let connection = self.open(self.resolve(url)?);
        connection.handle.state.wait_up()?;
        Ok(connection)
    }

    /// Connects to the server of an https URL and does not wait for the handshake: requests that are
    /// [early](Request::early) leave with its first packet if there is a ticket ([`Builder::tickets`]), the others after it.
    /// Requests report its failure.
    ///
    /// # Errors
    /// The URL is not valid, or its host has no address.
    pub fn connect_early(&self, url: &str) -> Result<Connection, Error> {
        Ok(self.open(self.resolve(url)?))
    }
}

/// Connects to the server of an https URL over these paths (see [`Builder::path`]), with the default settings.
///
/// # Errors
/// See [`Builder::build`] and [`Client::connect`].
pub fn connect(url: &str, paths: &[&str]) -> Result<Connection, Error> {
    let builder = paths.iter().fold(Client::builder(), |builder, path| builder.path(*path));
    builder.build()?.connect(url)
}

impl Builder {
    /// Checks the settings and starts the client's thread.
    ///
    /// # Errors
    /// A file, a path or an address can't be used, or windows start above their limits.
    pub fn build(self) -> Result<Client, Error> {
        let Transport { stream_window_bytes, max_stream_window_bytes, .. } = self.config.transport;
        let Transport { conn_window_bytes, max_conn_window_bytes, max_payload_bytes, .. } = self.config.transport;
        for (what, start, most) in [
            ("stream", stream_window_bytes, max_stream_window_bytes),
            ("connection", conn_window_bytes, max_conn_window_bytes),
        ] {
            if start == 0 || start > most || most >= 1 << 62 {
                let text = format!("{what} window {start} to {most} bytes: expected at least 1, at most the limit");
                return Err(Error::new(ErrorKind::Usage, text));
            }
        }
        if !(1200..=MAX_PAYLOAD_BYTES).contains(&max_payload_bytes) {
            let text = format!("a payload of {max_payload_bytes} bytes: expected 1200 to 16383 (RFC 9000 14)");
            return Err(Error::new(ErrorKind::Usage, text));
        }
        if self.config.bind.is_some() && !self.config.paths.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "bind and paths: expected one of them"));
        }
        Client::start(self.config)
    }
}

struct Handle {
    state: Arc<ConnectionState>,
    _driver: Arc<DriverThread>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.state.close();
    }
}

/// A connection to a server. Clones are the same connection. It is closed when the last one is dropped, and the last
/// response and body of its requests.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<Handle>,
    path: String,
}

impl Connection {
    pub(crate) fn state(&self) -> &ConnectionState {
        &self.handle.state
    }

    /// Path and query of the URL that it was made for.
    pub fn url_path(&self) -> &str {
        &self.path
    }

    /// Sends a request and waits for the header fields of its answer. Each request takes the path that is expected to
    /// answer first; those that are under way together share one.
    ///
    /// # Errors
    /// The request is not valid, the connection has ended, or the request failed.
    pub fn request(&self, request: Request) -> Result<Response, Error> {
        self.begin(request, false)?.1.wait()
    }

    /// Sends a request whose body is written while the answer may already arrive: an upload, or a tunnel. A body that was
    /// set comes first.
    ///
    /// # Errors
    /// The request is not valid, or the connection has ended.
    pub fn open(&self, request: Request) -> Result<(BodyWriter, PendingResponse), Error> {
        self.begin(request, true)
    }

    pub(crate) fn begin(&self, request: Request, streams: bool) -> Result<(BodyWriter, PendingResponse), Error> {
        let (head, body, redirects) = request.into_head(streams)?;
        let pipe = Arc::new(Pipe::new(Arc::clone(self.handle.state.notifier()), Some(body), !streams));
        let exchange = Arc::new(ExchangeHandle { pipe: Arc::clone(&pipe), _connection: Arc::clone(&self.handle) });
        self.handle.state.push(Order { head, pipe, redirects })?;
        let writer = BodyWriter { exchange: Arc::clone(&exchange), is_finished: !streams };
        Ok((writer, PendingResponse { guard: CancelGuard(exchange) }))
    }

    /// Observations, such as the path in use.
    pub fn status(&self) -> Status {
        self.handle.state.status()
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<Error> {
        self.handle.state.ended()
    }

    /// Closes the connection, with the requests that are under way, and waits until that was sent.
    pub fn close(self) {
        self.handle.state.close();
        self.handle.state.wait_end();
    }
}

/// Common part of a request's handles. The request is cancelled when all of them are dropped.
pub(crate) struct ExchangeHandle {
    pub(crate) pipe: Arc<Pipe>,
    _connection: Arc<Handle>,
}

/// The body of a request, while it is written. It must be ended by [`BodyWriter::finish`]: if it is dropped before that,
/// the request is cancelled.
pub struct BodyWriter {
    pub(crate) exchange: Arc<ExchangeHandle>,
    pub(crate) is_finished: bool,
}

impl BodyWriter {
    /// Adds a part, and waits while the buffer is full. False: the server wants no more of the body, and its answer has
    /// the reason.
    ///
    /// # Errors
    /// The request failed.
    pub fn send(&self, part: impl Into<Bytes>) -> Result<bool, Error> {
        let part = part.into();
        self.exchange.pipe.wait(|state| state.write(&part))
    }

    /// Sends an HTTP datagram of the request (RFC 9297). It may be lost, and is dropped if the server takes none.
    pub fn send_datagram(&self, payload: impl Into<Bytes>) {
        self.exchange.pipe.act(|state| state.send_datagram(payload.into()));
    }

    /// Ends the body.
    pub fn finish(mut self) {
        self.is_finished = true;
        self.exchange.pipe.act(State::finish);
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// Part of a write that is copied at a time.
        const PART_BYTES: usize = 64 * 1024;
        if bytes.is_empty() {
            return Ok(0);
        }
        let part = &bytes[..bytes.len().min(PART_BYTES)];
        match self.send(Bytes::copy_from_slice(part))? {
            true => Ok(part.len()),
            false => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the server wants no more of the body")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            self.exchange.pipe.act(State::cancel);
        }
    }
}

/// Cancels a request when it is dropped.
pub(crate) struct CancelGuard(pub(crate) Arc<ExchangeHandle>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.pipe.act(State::cancel);
    }
}

/// The answer of a request, before its header fields came in. The request is cancelled when this is dropped.
pub struct PendingResponse {
    pub(crate) guard: CancelGuard,
}

impl PendingResponse {
    /// Waits for the header fields.
    ///
    /// # Errors
    /// The request failed.
    pub fn wait(self) -> Result<Response, Error> {
        let (status, headers) = self.guard.0.pipe.wait(State::take_head)?;
        Ok(Response { status, headers, guard: self.guard })
    }
}

/// The answer of a request, whose body is read from it. The request is cancelled when this is dropped before its end.
pub struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) guard: CancelGuard,
}

impl Response {
    /// Status; 200 over hq-interop, which has none.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Header fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Waits for the next part of the body, and gives none at its end. A part that is not taken stays in the transport,
    /// and the server stops when the receive window is full.
    ///
    /// # Errors
    /// The answer is not complete.
    pub fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.guard.0.pipe.wait(|state| state.read(usize::MAX))
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// The answer is not complete, or has more bytes than `most`.
    pub fn bytes(mut self, most: usize) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(part) = self.chunk()? {
            add(&mut whole, &part, most)?;
        }
        Ok(whole.freeze())
    }

    /// Header fields after the body, once its end was read.
    pub fn trailers(&self) -> Option<HeaderMap> {
        self.guard.0.pipe.peek(|state| state.trailers.clone())
    }

    /// Waits for the next HTTP datagram of the server (RFC 9297), and gives none after the request's end.
    ///
    /// # Errors
    /// The request failed.
    pub fn datagram(&self) -> Result<Option<Bytes>, Error> {
        self.guard.0.pipe.wait(State::receive_datagram)
    }
}

/// Adds a part to a body of at most so many bytes.
pub(crate) fn add(whole: &mut BytesMut, part: &[u8], most: usize) -> Result<(), Error> {
    if whole.len() + part.len() > most {
        return Err(Error::new(ErrorKind::TooLarge, format!("the answer has more than {most} bytes")));
    }
    whole.extend_from_slice(part);
    Ok(())
}

impl Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let Some(part) = self.guard.0.pipe.wait(|state| state.read(buffer.len()))? else { return Ok(0) };
        buffer[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}
