// SPDX-License-Identifier: Apache-2.0
//! Resources that an endpoint adds to those of the request grammar: files, and tunnels to other hosts. The traits keep
//! [`Session`](super::Session) free of I/O.

use super::head::Head;
use super::tunnel_request::TunnelRequest;
use std::io;
use std::time::Instant;

/// A field of an answer.
pub type Field = (&'static str, String);

/// Answer to a request.
pub struct Answer {
    /// Status code (RFC 9110 15).
    pub status: u16,
    /// Fields, without `:status` and `server`.
    pub fields: Vec<Field>,
    /// Its content.
    pub body: AnswerBody,
}

impl Answer {
    /// An answer with a line of text.
    pub fn text(status: u16, text: impl Into<String>) -> Answer {
        Answer { status, fields: Vec::new(), body: AnswerBody::Text(text.into()) }
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.fields.push((name, value.into()));
        self
    }
}

/// Content of an answer.
pub enum AnswerBody {
    /// None.
    Empty,
    /// A short text.
    Text(String),
    /// A part of something long.
    Content(Content),
}

/// Consecutive bytes of a resource that are still to be sent.
pub struct Content {
    /// The resource.
    pub source: Box<dyn ContentSource>,
    /// Offset of the next byte.
    pub offset: u64,
    /// Remaining bytes.
    pub bytes: u64,
}

/// Random access to the bytes of a resource.
pub trait ContentSource {
    /// Reads from `offset` on into `part`, at least one byte; 0 at the end of the resource.
    ///
    /// # Errors
    /// The bytes can't be read. The request's stream is then reset.
    fn read_at(&mut self, offset: u64, part: &mut [u8]) -> io::Result<usize>;
}

/// Resources of one connection's client.
pub trait Resources {
    /// The answer to a request for a file; `None`: there are no files. The request grammar comes after a file that
    /// exists, and before an error.
    fn file(&mut self, head: &Head<'_>) -> Option<Answer>;

    /// Whether tunnels are offered.
    fn relays(&self) -> bool;

    /// Begins a tunnel for the request on `stream`.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    fn tunnel(&mut self, stream: u64, request: &TunnelRequest, now: Instant) -> Result<Box<dyn Tunnel>, Answer>;
}

/// Progress of a tunnel that is being opened.
pub enum Opening {
    /// Not decided yet.
    Pending,
    /// The target is connected.
    Open,
    /// It failed: the answer to the request.
    Failed(Answer),
}

/// A tunnel's connection to its target: a TCP connection or a UDP socket. No function waits; dropping it closes it.
pub trait Tunnel {
    /// Goes on opening it. Not called again after another result than [`Opening::Pending`].
    fn open(&mut self, now: Instant) -> Opening;

    /// When [`Tunnel::open`] is to be called although the target did nothing.
    fn deadline(&self) -> Option<Instant>;

    /// Sends bytes, or one datagram, to the target.
    ///
    /// # Errors
    /// `WouldBlock`: not now. Any other error ends the tunnel.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// The client sends no more: half of the connection is closed.
    fn end(&mut self);

    /// Receives bytes, or one datagram, of the target; 0 bytes: its end, for TCP.
    ///
    /// # Errors
    /// As [`Tunnel::write`].
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Closes the connection as one that failed (RST).
    fn abort(&mut self);
}
