// SPDX-License-Identifier: Apache-2.0
//! The asynchronous interface, for tokio. [`Client`] and its settings are those of the blocking interface.
//!
//! The futures need no runtime of their own: the client's thread wakes them. Only [`connect`] uses tokio's blocking threads,
//! to resolve names.

use crate::client::{self, CancelGuard, add};
use crate::connection_state::Status;
use crate::error::{Error, ErrorKind};
use crate::pipe::{Pipe, Side, State};
use crate::request::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use crate::client::Client;

/// Connects to the server of an https URL and waits for the end of the handshake. If the future is dropped before that,
/// the connection is closed.
///
/// # Errors
/// The URL is not valid, its host has no address, or the connection failed.
pub async fn connect(client: &Client, url: &str) -> Result<Connection, Error> {
    let connection = connect_early(client, url).await?;
    connection.established().await?;
    Ok(connection)
}

/// The same without waiting for the handshake: see [`Client::connect_early`].
///
/// # Errors
/// The URL is not valid, or its host has no address.
pub async fn connect_early(client: &Client, url: &str) -> Result<Connection, Error> {
    let (resolver, url) = (client.clone(), url.to_owned());
    let resolved = tokio::task::spawn_blocking(move || resolver.resolve(&url)).await;
    let target = resolved.map_err(|e| Error::new(ErrorKind::Io, format!("the resolver's thread: {e}")))??;
    Ok(Connection { inner: client.open(target) })
}

/// A connection to a server. Clones are the same connection. It is closed when the last one is dropped, and the last
/// response and body of its requests.
#[derive(Clone)]
pub struct Connection {
    inner: client::Connection,
}

impl From<client::Connection> for Connection {
    fn from(inner: client::Connection) -> Self {
        Connection { inner }
    }
}

impl Connection {
    /// Waits for the end of the handshake.
    ///
    /// # Errors
    /// The handshake failed.
    pub async fn established(&self) -> Result<(), Error> {
        let waiter = self.inner.state().waiter();
        poll_fn(|cx| waiter.poll_up(cx)).await
    }

    /// Sends a request and waits for the header fields of its answer.
    ///
    /// # Errors
    /// The request is not valid, the connection has ended, or the request failed.
    pub async fn request(&self, request: Request) -> Result<Response, Error> {
        let (_, pending) = self.inner.begin(request, false)?;
        PendingResponse { guard: pending.guard }.wait().await
    }

    /// Sends a request whose body is written while the answer may already arrive: an upload, or a tunnel.
    ///
    /// # Errors
    /// The request is not valid, or the connection has ended.
    pub fn open(&self, request: Request) -> Result<(BodyWriter, PendingResponse), Error> {
        let (inner, pending) = self.inner.begin(request, true)?;
        Ok((BodyWriter { inner }, PendingResponse { guard: pending.guard }))
    }

    /// Path and query of the URL that it was made for.
    pub fn url_path(&self) -> &str {
        self.inner.url_path()
    }

    /// Observations, such as the path in use.
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<Error> {
        self.inner.ended()
    }

    /// Waits for the end of the connection, and gives the reason.
    pub async fn closed(&self) -> Error {
        let waiter = self.inner.state().waiter();
        poll_fn(|cx| waiter.poll_end(cx)).await
    }

    /// Closes the connection, with the requests that are under way.
    pub fn close(self) {
        self.inner.state().close();
    }
}

/// The body of a request, while it is written. It must be ended by `shutdown`: if it is dropped before that, the request
/// is cancelled.
pub struct BodyWriter {
    inner: client::BodyWriter,
}

impl BodyWriter {
    fn pipe(&self) -> &Pipe {
        &self.inner.exchange.pipe
    }

    /// Adds a part, and waits while the buffer is full. False: the server wants no more of the body.
    ///
    /// # Errors
    /// The request failed.
    pub async fn send(&self, part: impl Into<Bytes>) -> Result<bool, Error> {
        let part = part.into();
        poll_fn(|cx| self.pipe().poll(cx, Side::Body, |state| state.write(&part))).await
    }

    /// Sends an HTTP datagram of the request (RFC 9297). It may be lost, and is dropped if the server takes none.
    pub fn send_datagram(&self, payload: impl Into<Bytes>) {
        self.inner.send_datagram(payload);
    }

    /// Ends the body.
    pub fn finish(self) {
        self.inner.finish();
    }
}

impl AsyncWrite for BodyWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        /// Part of a write that is copied at a time.
        const PART_BYTES: usize = 64 * 1024;
        let part = Bytes::copy_from_slice(&bytes[..bytes.len().min(PART_BYTES)]);
        self.pipe().poll(cx, Side::Body, |state| state.write(&part)).map(|written| match written? {
            true => Ok(part.len()),
            false => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the server wants no more of the body")),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.is_finished = true;
        self.pipe().act(State::finish);
        Poll::Ready(Ok(()))
    }
}

/// The answer of a request, before its header fields came in. The request is cancelled when this is dropped.
pub struct PendingResponse {
    guard: CancelGuard,
}

impl PendingResponse {
    /// Waits for the header fields.
    ///
    /// # Errors
    /// The request failed.
    pub async fn wait(self) -> Result<Response, Error> {
        let head = poll_fn(|cx| self.guard.0.pipe.poll(cx, Side::Answer, State::take_head)).await;
        let (status, headers) = head?;
        Ok(Response { status, headers, guard: self.guard })
    }
}

/// The answer of a request, whose body is read from it. The request is cancelled when this is dropped before its end.
pub struct Response {
    status: StatusCode,
    headers: HeaderMap,
    guard: CancelGuard,
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

    /// The next part of the body, and none at its end.
    ///
    /// # Errors
    /// The answer is not complete.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        poll_fn(|cx| self.guard.0.pipe.poll(cx, Side::Answer, |state| state.read(usize::MAX))).await
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// The answer is not complete, or has more bytes than `most`.
    pub async fn bytes(mut self, most: usize) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(part) = self.chunk().await? {
            add(&mut whole, &part, most)?;
        }
        Ok(whole.freeze())
    }

    /// Header fields after the body, once its end was read.
    pub fn trailers(&self) -> Option<HeaderMap> {
        self.guard.0.pipe.peek(|state| state.trailers.clone())
    }

    /// The next HTTP datagram of the server (RFC 9297), and none after the request's end.
    ///
    /// # Errors
    /// The request failed.
    pub async fn datagram(&self) -> Result<Option<Bytes>, Error> {
        poll_fn(|cx| self.guard.0.pipe.poll(cx, Side::Datagram, State::receive_datagram)).await
    }
}

impl AsyncRead for Response {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = buffer.remaining();
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        self.guard.0.pipe.poll(cx, Side::Answer, |state| state.read(most)).map(|part| {
            if let Some(part) = part? {
                buffer.put_slice(&part);
            }
            Ok(())
        })
    }
}
