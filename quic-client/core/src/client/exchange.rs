// SPDX-License-Identifier: Apache-2.0
//! [`Exchange`]: the bodies of one request, in both directions at once.

use super::outcome::Outcome;
use crate::connection::{Conn, Payload};
use crate::request::Alpn;
use quiche::h3::Header;

/// Head of a request. Over hq-interop only the method and the path are sent.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Method, as in `:method`.
    pub method: String,
    /// Path and query, as in `:path`; not sent with a plain CONNECT.
    pub path: String,
    /// `host:port`, as in `:authority`; `None`: the connection's.
    pub authority: Option<String>,
    /// Protocol of an extended CONNECT (RFC 9220).
    pub protocol: Option<String>,
    /// Header fields, without pseudo-headers.
    pub headers: Vec<Header>,
    /// A body follows, or may follow.
    pub has_body: bool,
    /// The request is measured by its body and not by its answer: an upload.
    pub is_upload: bool,
    /// Payload in the measured direction, where that is known.
    pub bytes: Option<u64>,
    /// The request may be sent before the handshake is done, where an attacker can replay it (RFC 8470).
    pub is_early: bool,
}

impl Head {
    /// Whether a request can be sent twice with the effect of one (RFC 9110 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"].contains(&self.method.as_str())
    }

    /// Whether a request only reads (RFC 9110 9.2.1).
    pub fn is_safe(&self) -> bool {
        ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&self.method.as_str())
    }

    /// A CONNECT, with a protocol or without: it lasts as long as both ends like, so its time and its rate are not the
    /// path's.
    pub fn is_tunnel(&self) -> bool {
        self.method == "CONNECT"
    }

    /// A CONNECT without a protocol, for which there are neither scheme nor path (RFC 9114 4.4).
    pub fn is_plain_connect(&self) -> bool {
        self.is_tunnel() && self.protocol.is_none()
    }
}

/// Header section of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Status, from 200 on.
    pub status: u16,
    /// All fields, with the pseudo-header.
    pub headers: &'a [Header],
    /// Length of the body, where it is announced.
    pub content_length: Option<u64>,
}

/// Decision on an answer's header section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The body is taken.
    Take,
    /// The request ends with this outcome.
    End(Outcome),
    /// The answer is discarded, and this path is requested in its place.
    Redirect(String),
}

/// The bodies of one request and its end. Its [`Payload`] is the request's body.
///
/// A session calls it on the thread of its event loop: nothing here may block for long.
pub trait Exchange: Payload {
    /// The request was sent over this protocol, for the first time or again.
    fn begun(&mut self, alpn: Alpn) {
        let _ = alpn;
    }

    /// The header section of the answer. hq-interop has none.
    fn answered(&mut self, answer: &Answer<'_>) -> Verdict;

    /// Bytes of the answer that can be taken now. Those that can't stay in the transport, and count against the
    /// receive window.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// The next bytes of the answer, at most [`Exchange::room`].
    ///
    /// # Errors
    /// The request ends with this outcome.
    fn take(&mut self, part: &[u8]) -> Result<(), Outcome>;

    /// Header fields after the body.
    fn trailers(&mut self, list: &[Header]) {
        let _ = list;
    }

    /// The server ended the answer.
    fn finish(&mut self) -> Outcome;

    /// Whether the request can be sent again: the answer was lost by a move of the connection.
    fn can_restart(&self) -> bool {
        false
    }

    /// Discards the taken part of the answer, which begins again.
    ///
    /// # Errors
    /// It can't be discarded. The request ends with this outcome.
    fn restart(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    /// The server wants no more of the body (STOP_SENDING).
    fn refused(&mut self) {}

    /// The caller needs no answer any more.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// The request has ended; nothing is called after this.
    fn ended(&mut self, outcome: &Outcome) {
        let _ = outcome;
    }

    /// An HTTP datagram of this request arrived (RFC 9297). It is discarded if it can't be taken at once.
    fn datagram(&mut self, payload: &[u8]) {
        let _ = payload;
    }

    /// The next HTTP datagram to be sent, if there is one.
    fn next_datagram(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// A request that was not sent yet.
pub struct Task {
    /// Its head.
    pub head: Head,
    /// Its bodies.
    pub exchange: Box<dyn Exchange>,
}

/// Requests for a session, one after the other.
pub trait Tasks {
    /// An event-loop iteration of the session begins.
    fn observe(&mut self, now: std::time::Instant, conn: &Conn) {
        let _ = (now, conn);
    }

    /// When the next task may start: on a connection that is up since `up`, with `running` others under way. `None`:
    /// there is none now, or it waits for others to end.
    fn next_due(&mut self, up: std::time::Instant, running: usize) -> Option<std::time::Instant>;

    /// The next one.
    fn take(&mut self) -> Option<Task>;

    /// Payload of the next one, where that is known.
    fn next_bytes(&self) -> Option<u64>;

    /// Whether the next one may be sent before the handshake is done ([`Head::is_early`]).
    fn is_next_early(&self) -> bool {
        false
    }

    /// Number of tasks that are still to come; `None`: not known. A session ends when it is 0 and all have ended.
    fn left(&self) -> Option<u64>;

    /// Those of them that start as soon as others end.
    fn left_at_once(&self) -> u64;
}
