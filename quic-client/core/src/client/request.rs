// SPDX-License-Identifier: Apache-2.0
//! The client's side of one request: its stream, and the rules of HTTP that hold for all answers.

use super::exchange::{Answer, Exchange, Head, Verdict};
use super::outcome::Outcome;
use crate::connection::{Conn, write_payload};
use crate::request::{Alpn, HQ_NOT_FOUND};
use crate::text::printable_bytes;
use quiche::h3::{Header, NameValue};

/// One request that is under way.
pub(crate) struct Request {
    /// Head of the request.
    pub head: Head,
    /// Its bodies.
    pub exchange: Box<dyn Exchange>,
    /// Payload in the measured direction: bytes delivered of an answer, bytes handed to the stack of an upload.
    pub bytes: u64,
    /// Data of the answer that the exchange could not take waits in the transport.
    pub has_unread: bool,
    /// hq-interop: the part of the request line that was not sent yet.
    line_left: Vec<u8>,
    is_body_sent: bool,
    /// The server's side has ended, and ours goes on.
    finished: Option<Outcome>,
    /// HTTP/3: the final header section came in. Always true for hq-interop, which has none.
    answered: bool,
    /// A tunnel that the server opened: its directions end one by one.
    is_tunnel_open: bool,
    expected: Option<u64>,
    /// The path of the answer's redirect, to be requested next.
    pub redirect: Option<String>,
}

impl Request {
    /// A request that was just sent; `line` is the unsent rest of hq-interop's first line, and `None` for HTTP/3.
    pub fn new(head: Head, mut exchange: Box<dyn Exchange>, line: Option<Vec<u8>>) -> Self {
        exchange.begun(if line.is_some() { Alpn::Hq } else { Alpn::H3 });
        Request {
            bytes: 0,
            has_unread: false,
            answered: line.is_some(),
            is_tunnel_open: false,
            line_left: line.unwrap_or_default(),
            is_body_sent: !head.has_body,
            finished: None,
            expected: head.bytes,
            redirect: None,
            head,
            exchange,
        }
    }

    /// HTTP/3's header section of the answer (or its trailers).
    pub fn headers(&mut self, list: &[Header], asked: &str) -> Option<Outcome> {
        let malformed = |what: &str| Some(Outcome::Incomplete(format!("{asked}: malformed answer: {what}")));
        let all = |name: &'static [u8]| list.iter().filter(move |h| h.name() == name).map(|h| h.value());
        // RFC 9114 4.3.2: one status, and none in trailers.
        let status = match (self.answered, all(b":status").count()) {
            (true, 0) => {
                self.exchange.trailers(list);
                return None;
            }
            (true, _) => return malformed("a status after the answer began"),
            (false, 1) => printable_bytes(all(b":status").next().unwrap_or_default()),
            (false, n) => return malformed(&format!("{n} statuses, expected one")),
        };
        let Some(status) = status.parse::<u16>().ok().filter(|_| status.len() == 3 && !status.starts_with('+')) else {
            return malformed("its status is not three digits");
        };
        // RFC 9110 15.2: interim answers come before the one that counts.
        if (100..200).contains(&status) {
            return None;
        }
        self.answered = true;
        self.is_tunnel_open = self.head.is_tunnel() && (200..300).contains(&status);
        let mut content_length = None;
        let mut lengths = all(b"content-length");
        if let Some(first) = lengths.next() {
            // RFC 9110 8.6: digits. If it is there twice, both must agree.
            let digits = std::str::from_utf8(first).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            content_length = digits.and_then(|t| t.parse().ok()).filter(|_| lengths.all(|l| l == first));
            if content_length.is_none() {
                return malformed("content-length is not one number");
            }
        }
        if !self.head.is_upload {
            self.expected = content_length.or(self.expected.filter(|_| status == 200));
        }
        match self.exchange.answered(&Answer { status, headers: list, content_length }) {
            Verdict::Take => None,
            Verdict::End(outcome) => Some(outcome),
            Verdict::Redirect(path) => {
                self.redirect = Some(path);
                None
            }
        }
    }

    /// Whether the answer's data is to be read.
    pub fn is_read(&self) -> bool {
        self.redirect.is_none()
    }

    /// A part of the answer.
    pub fn took_in(&mut self, part: &[u8]) -> Option<Outcome> {
        if !self.answered {
            return Some(Outcome::Incomplete("malformed answer: data before its headers".to_owned()));
        }
        let taken = self.exchange.take(part);
        if !self.head.is_upload && taken.is_ok() {
            self.bytes += part.len() as u64;
        }
        taken.err()
    }

    /// The server ended its side of the stream. Returns the outcome, unless the client's side of a tunnel goes on.
    pub fn finished(&mut self) -> Option<Outcome> {
        if !self.answered {
            return Some(Outcome::Incomplete("malformed answer: it has no headers".to_owned()));
        }
        let outcome = self.exchange.finish();
        if self.is_tunnel_open && !self.is_body_sent && outcome == Outcome::Complete {
            self.finished = Some(outcome);
            return None;
        }
        Some(outcome)
    }

    /// Outcome of a tunnel whose both sides have ended.
    pub fn take_end(&mut self) -> Option<Outcome> {
        if self.is_body_sent { self.finished.take() } else { None }
    }

    /// Whether the whole body was sent, or refused.
    pub fn is_body_sent(&self) -> bool {
        self.is_body_sent
    }

    /// Whether the final header section came in.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Payload still to come, or to be sent, if it is known.
    pub fn left_bytes(&self) -> Option<u64> {
        self.expected.map(|n| n.saturating_sub(self.bytes))
    }

    /// The server gave the stream up with this code.
    pub fn was_reset(&self, code: u64, asked: &str) -> Outcome {
        if code == HQ_NOT_FOUND {
            return Outcome::NotServed(format!("{asked}: not found"));
        }
        Outcome::Incomplete(format!("the server gave up the transfer (code {code:#x}) after {} bytes", self.bytes))
    }

    /// Sends the rest of hq-interop's request line.
    pub fn send_line(&mut self, conn: &mut Conn, stream: u64) -> Result<(), quiche::h3::Error> {
        use quiche::Error;
        while !self.line_left.is_empty() {
            match conn.quic.stream_send(stream, &self.line_left, !self.head.has_body) {
                Ok(n) => drop(self.line_left.drain(..n)),
                // `StreamStopped`: the server's answer has the reason.
                Err(Error::Done | Error::StreamStopped(_)) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends as much of the body as fits, `write` being the protocol's function. Gives the bytes written.
    pub fn send_body(
        &mut self,
        conn: &mut Conn,
        stream: u64,
        write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, quiche::h3::Error>,
    ) -> Result<u64, quiche::h3::Error> {
        use quiche::h3::Error;
        if self.is_body_sent || !self.line_left.is_empty() {
            return Ok(0);
        }
        match write_payload(conn, stream, self.exchange.as_mut(), write) {
            Ok((n, done)) => {
                if self.head.is_upload {
                    self.bytes += n;
                }
                self.is_body_sent = done;
                Ok(n)
            }
            Err(Error::Done | Error::TransportError(quiche::Error::Done)) => Ok(0),
            // The server wants no more of it, and its answer has the reason. `InvalidStreamState`: that was read to its end.
            Err(Error::TransportError(quiche::Error::StreamStopped(_) | quiche::Error::InvalidStreamState(_))) => {
                self.exchange.refused();
                self.is_body_sent = true;
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }
}
