// SPDX-License-Identifier: Apache-2.0
//! The client's side of one request: request and answer.

use super::body::Body;
use super::outcome::Outcome;
use crate::connection::{Conn, Zeros, write_zeros};
use crate::request::{HQ_NOT_FOUND, Method, SERVER_NAME, promised_bytes};
use crate::text::printable_bytes;
use quiche::h3::NameValue;

/// Download or upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// GET; the answer goes to a [`Body`].
    Download,
    /// POST with a body of this many bytes; `None`: until stopped.
    Upload(Option<u64>),
}

// An answer to an upload is one decimal number; more than this is not an answer.
const MAX_ANSWER_BYTES: usize = 64;

/// One request that is under way.
#[derive(Debug)]
pub(crate) struct Request {
    /// Payload in the transfer's direction: bytes delivered of a download, bytes handed to the stack of an upload.
    pub bytes: u64,
    /// hq-interop: the part of the request line that was not sent yet.
    line_left: Vec<u8>,
    action: Action,
    upload_done: bool,
    /// HTTP/3: the final header section came in. Always true for hq-interop, which has none.
    answered: bool,
    /// The server counts an upload's bytes in its answer: ours, or any over hq-interop, which has no status.
    counts: bool,
    expected: Option<u64>,
    /// The most payload that a download may have.
    max_bytes: Option<u64>,
    answer: Vec<u8>,
}

impl Request {
    /// A request for `path`; `line` is the first line of hq-interop, and empty for HTTP/3.
    pub fn new(action: Action, path: &str, line: Vec<u8>, max_bytes: Option<u64>) -> Self {
        let expected = match action {
            Action::Download => promised_bytes(path),
            Action::Upload(_) => None,
        };
        let answered = !line.is_empty();
        let answer = Vec::new();
        Request {
            bytes: 0,
            line_left: line,
            action,
            upload_done: false,
            answered,
            counts: answered,
            expected,
            max_bytes,
            answer,
        }
    }

    /// HTTP/3's header section of the answer (or its trailers, which change nothing).
    pub fn headers(&mut self, list: &[quiche::h3::Header], asked: &str) -> Option<Outcome> {
        let malformed = |what: &str| Some(Outcome::Incomplete(format!("{asked}: malformed answer: {what}")));
        let all = |name: &'static [u8]| list.iter().filter(move |h| h.name() == name).map(|h| h.value());
        // RFC 9114 4.3.2: one status, and none in trailers.
        let status = match (self.answered, all(b":status").count()) {
            (true, 0) => return None,
            (true, _) => return malformed("a status after the answer began"),
            (false, 1) => printable_bytes(all(b":status").next().unwrap_or_default()),
            (false, n) => return malformed(&format!("{n} statuses, expected one")),
        };
        if status.len() != 3 || !status.bytes().all(|b| b.is_ascii_digit()) {
            return malformed("its status is not three digits");
        }
        // RFC 9110 15.2: interim answers come before the one that counts.
        if status.starts_with('1') {
            return None;
        }
        // RFC 9110 15.3: all of them are successes.
        if !status.starts_with('2') {
            return Some(Outcome::NotServed(format!("{asked}: status {status}")));
        }
        self.answered = true;
        if status == "200" {
            self.counts = all(b"server").any(|name| name == SERVER_NAME);
        } else {
            // Not the resource of the path: nothing, a part, or another form of it.
            self.expected = None;
        }
        let mut lengths = all(b"content-length");
        if let Some(first) = lengths.next() {
            // RFC 9110 8.6: digits. If it is there twice, both must agree.
            let digits = std::str::from_utf8(first).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            let Some(n) = digits.and_then(|t| t.parse().ok()).filter(|_| lengths.all(|l| l == first)) else {
                return malformed("content-length is not one number");
            };
            if self.action == Action::Download {
                self.expected = Some(n);
                if let Some(max) = self.max_bytes.filter(|max| n > *max) {
                    let text = format!("{asked}: the answer has {n} bytes, more than the {max} that it may have");
                    return Some(Outcome::TooLarge(text));
                }
            }
        }
        None
    }

    /// A part of the answer.
    pub fn took_in(&mut self, part: &[u8], body: &mut dyn Body) -> Option<Outcome> {
        if !self.answered {
            return Some(Outcome::Incomplete("malformed answer: data before its headers".to_owned()));
        }
        match self.action {
            Action::Download => {
                let bytes = self.bytes + part.len() as u64;
                if let Some(max) = self.max_bytes.filter(|max| bytes > *max) {
                    return Some(Outcome::TooLarge(format!(
                        "the answer has more than the {max} bytes that it may have"
                    )));
                }
                self.bytes = bytes;
                body.take(part).err().map(Outcome::File)
            }
            Action::Upload(_) => {
                let room = MAX_ANSWER_BYTES - self.answer.len();
                self.answer.extend_from_slice(&part[..part.len().min(room)]);
                None
            }
        }
    }

    /// The stream ended. Returns whether the answer is as long as announced.
    pub fn finished(&self, body: &mut dyn Body) -> Outcome {
        if !self.answered {
            return Outcome::Incomplete("malformed answer: it has no headers".to_owned());
        }
        match self.action {
            Action::Download => match self.expected {
                Some(n) if n != self.bytes => Outcome::Incomplete(format!("got {} of {n} bytes", self.bytes)),
                _ => body.finish().map_or_else(Outcome::File, |()| Outcome::Complete),
            },
            Action::Upload(_) if !self.counts => Outcome::Complete,
            Action::Upload(_) => {
                let counted = std::str::from_utf8(&self.answer).ok().and_then(|t| t.trim_end().parse::<u64>().ok());
                match counted {
                    Some(n) if n == self.bytes && self.upload_done => Outcome::Complete,
                    Some(n) => Outcome::Incomplete(format!("sent {} bytes, the server counted {n}", self.bytes)),
                    None => Outcome::Incomplete("the server's answer is not a byte count".to_owned()),
                }
            }
        }
    }

    /// Payload still to come, or to be sent, if it is known.
    pub fn left_bytes(&self) -> Option<u64> {
        let whole = match self.action {
            Action::Download => self.expected,
            Action::Upload(size) => size,
        };
        whole.map(|n| n.saturating_sub(self.bytes))
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
            match conn.quic.stream_send(stream, &self.line_left, self.action == Action::Download) {
                Ok(n) => drop(self.line_left.drain(..n)),
                // `StreamStopped`: the server's answer has the reason.
                Err(Error::Done | Error::StreamStopped(_)) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends as much of an upload as fits, `write` being the protocol's function. Gives the bytes written.
    pub fn upload(
        &mut self,
        conn: &mut Conn,
        stream: u64,
        write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, quiche::h3::Error>,
    ) -> Result<u64, quiche::h3::Error> {
        use quiche::h3::Error;
        let Action::Upload(size) = self.action else { return Ok(0) };
        if self.upload_done || !self.line_left.is_empty() {
            return Ok(0);
        }
        match write_zeros(conn, stream, Zeros { bytes: size.map(|n| n - self.bytes), then_end: true }, write) {
            Ok((n, done)) => {
                self.bytes += n;
                self.upload_done = done;
                Ok(n)
            }
            // `StreamStopped`: the server wants no more of it, and its answer has the reason.
            Err(Error::Done | Error::TransportError(quiche::Error::Done | quiche::Error::StreamStopped(_))) => Ok(0),
            Err(e) => Err(e),
        }
    }
}

impl Action {
    /// The request's method.
    pub(crate) fn method(self) -> Method {
        match self {
            Action::Download => Method::Get,
            Action::Upload(_) => Method::Post,
        }
    }
}
