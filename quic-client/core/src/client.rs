// SPDX-License-Identifier: Apache-2.0
//! The client's side of one flow: one connection, one request, and how it ended.

use crate::conn::{Conn, Failure, alert_name, write_zeros};
use crate::request::{Alpn, CANCELLED, HQ_NOT_FOUND, Method, NO_ERROR, promised_bytes, with_flow};
use quiche::h3::NameValue;
use std::time::Instant;

/// What a flow is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Label of the flow.
    pub flow: u64,
    /// Whether the request tells the server that label.
    pub tell_flow: bool,
    /// `host:port`, for the `:authority` header.
    pub authority: String,
    /// Path asked for.
    pub path: String,
    /// What to do there.
    pub action: Action,
}

/// Download or upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// GET; the answer is counted and thrown away.
    Download,
    /// POST with a body of this many bytes; `None`: until stopped.
    Upload(Option<u64>),
}

/// How a flow ended. Each kind has one exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes arrived.
    Complete,
    /// Stopped by the duration asked for.
    Stopped,
    /// Stopped by a signal.
    Interrupted,
    /// No connection: refused, unreachable, or cut off while being set up.
    Connect(String),
    /// TLS or ALPN failed.
    Tls(String),
    /// Nothing heard for the idle timeout.
    Timeout(String),
    /// The server does not serve what was asked for.
    NotServed(String),
    /// The transfer ended before its end.
    Incomplete(String),
}

impl Outcome {
    /// Exit code of a client whose first failing flow ended so; 0 for success.
    pub fn exit_code(&self) -> u8 {
        match self {
            Outcome::Complete | Outcome::Stopped => 0,
            Outcome::Connect(_) => 3,
            Outcome::Tls(_) => 4,
            Outcome::Timeout(_) => 5,
            Outcome::Incomplete(_) => 6,
            Outcome::NotServed(_) => 7,
            Outcome::Interrupted => 130,
        }
    }

    /// Short name, for machines.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Stopped => "stopped",
            Outcome::Interrupted => "interrupted",
            Outcome::Connect(_) => "connect",
            Outcome::Tls(_) => "tls",
            Outcome::Timeout(_) => "timeout",
            Outcome::NotServed(_) => "not_served",
            Outcome::Incomplete(_) => "incomplete",
        }
    }

    /// What happened, for people; empty where the name says it all.
    pub fn detail(&self) -> &str {
        match self {
            Outcome::Connect(d)
            | Outcome::Tls(d)
            | Outcome::Timeout(d)
            | Outcome::NotServed(d)
            | Outcome::Incomplete(d) => d,
            Outcome::Complete | Outcome::Stopped | Outcome::Interrupted => "",
        }
    }
}

/// One flow of a client.
pub struct Flow {
    /// Its connection.
    pub conn: Conn,
    /// What it is to do.
    pub plan: Plan,
    /// Payload in the transfer's direction: bytes delivered of a download, bytes handed to the stack of an upload.
    pub bytes: u64,
    /// When the first byte of the answer arrived.
    pub first_byte: Option<Instant>,
    /// When it ended.
    pub ended: Option<Instant>,
    outcome: Option<Outcome>,
    stream: Option<u64>,
    request_left: Vec<u8>,
    upload_done: bool,
    expected: Option<u64>,
    answer: Vec<u8>,
}

// An answer to an upload is one decimal number; more than this is not an answer.
const MAX_ANSWER_BYTES: usize = 64;

impl Flow {
    /// A flow whose connection was just opened.
    pub fn new(conn: Conn, plan: Plan) -> Self {
        let expected = match plan.action {
            Action::Download => promised_bytes(&plan.path),
            Action::Upload(_) => None,
        };
        Flow {
            conn,
            plan,
            bytes: 0,
            first_byte: None,
            ended: None,
            outcome: None,
            stream: None,
            request_left: Vec::new(),
            upload_done: false,
            expected,
            answer: Vec::new(),
        }
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Ends the flow now and closes its connection.
    pub fn end(&mut self, outcome: Outcome, now: Instant) {
        if self.outcome.is_some() {
            return;
        }
        let code = if outcome.exit_code() == 0 { NO_ERROR } else { CANCELLED };
        self.conn.close(code, outcome.name());
        self.outcome = Some(outcome);
        self.ended = Some(now);
    }

    /// Does what can be done after packets arrived or a timer fired. `scratch` is room to read into.
    pub fn advance(&mut self, now: Instant, scratch: &mut [u8]) {
        if self.outcome.is_some() {
            return;
        }
        match self.step(now, scratch) {
            Ok(None) => {}
            Ok(Some(outcome)) => return self.end(outcome, now),
            // The connection's own state says more than this error, if it has one.
            Err(e) => {
                if self.conn.failure().is_none() {
                    return self.end(Outcome::Incomplete(format!("HTTP/3: {e}")), now);
                }
            }
        }
        if let Some(failure) = self.conn.failure() {
            let outcome = self.judge(failure);
            self.end(outcome, now);
        }
    }

    fn judge(&self, failure: Failure) -> Outcome {
        let peer = &self.plan.authority;
        let started = self.conn.established.is_some();
        match failure {
            Failure::Timeout { established: false } => {
                Outcome::Timeout(format!("no answer from {peer} within the idle timeout"))
            }
            Failure::Timeout { established: true } => {
                Outcome::Timeout(format!("{peer} fell silent for the idle timeout after {} bytes", self.bytes))
            }
            Failure::Tls { by_peer, alert } => {
                let who = if by_peer { "refused by the server" } else { "refused by us" };
                Outcome::Tls(format!("{peer}: {who}: {} (alert {alert})", alert_name(alert)))
            }
            Failure::Closed { by_peer, app, code, reason } => {
                let who = if by_peer { "server" } else { "client" };
                let layer = if app { "application" } else { "transport" };
                let text = format!("{peer}: connection closed by the {who}, {layer} code {code:#x} {reason}");
                let text = text.trim_end().to_owned();
                if started {
                    Outcome::Incomplete(format!("{text}, after {} bytes", self.bytes))
                } else {
                    Outcome::Connect(text)
                }
            }
        }
    }

    fn step(&mut self, now: Instant, scratch: &mut [u8]) -> Result<Option<Outcome>, quiche::h3::Error> {
        match self.conn.establish(now)? {
            None => Ok(None),
            Some(Alpn::H3) => self.step_h3(now, scratch),
            Some(Alpn::Hq) => self.step_hq(now, scratch),
        }
    }

    fn request_path(&self) -> String {
        if self.plan.tell_flow { with_flow(&self.plan.path, self.plan.flow) } else { self.plan.path.clone() }
    }

    fn method(&self) -> Method {
        match self.plan.action {
            Action::Download => Method::Get,
            Action::Upload(_) => Method::Post,
        }
    }

    fn took_in(&mut self, part: &[u8], now: Instant) {
        self.first_byte.get_or_insert(now);
        match self.plan.action {
            Action::Download => self.bytes += part.len() as u64,
            Action::Upload(_) => {
                let room = MAX_ANSWER_BYTES - self.answer.len();
                self.answer.extend_from_slice(&part[..part.len().min(room)]);
            }
        }
    }

    // The answer is whole as far as the transport can tell; is it what was promised?
    fn finished(&self) -> Outcome {
        match self.plan.action {
            Action::Download => match self.expected {
                Some(n) if n != self.bytes => Outcome::Incomplete(format!("got {} of {n} bytes", self.bytes)),
                _ => Outcome::Complete,
            },
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

    fn step_h3(&mut self, now: Instant, scratch: &mut [u8]) -> Result<Option<Outcome>, quiche::h3::Error> {
        let Some(mut h3) = self.conn.h3.take() else { return Ok(None) };
        let result = self.step_h3_with(&mut h3, now, scratch);
        self.conn.h3 = Some(h3);
        result
    }

    fn step_h3_with(
        &mut self,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<Option<Outcome>, quiche::h3::Error> {
        use quiche::h3::{Error, Event, Header};
        if self.stream.is_none() {
            let mut headers = vec![
                Header::new(b":method", self.method().as_str().as_bytes()),
                Header::new(b":scheme", b"https"),
                Header::new(b":authority", self.plan.authority.as_bytes()),
                Header::new(b":path", self.request_path().as_bytes()),
                Header::new(b"user-agent", b"weir"),
            ];
            if let Action::Upload(Some(n)) = self.plan.action {
                headers.push(Header::new(b"content-length", n.to_string().as_bytes()));
            }
            let fin = self.plan.action == Action::Download;
            match h3.send_request(&mut self.conn.quic, &headers, fin) {
                Ok(id) => self.stream = Some(id),
                // The server's limits leave no room yet.
                Err(Error::StreamBlocked) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        let Some(stream) = self.stream else { return Ok(None) };
        loop {
            match h3.poll(&mut self.conn.quic) {
                Ok((id, Event::Headers { list, .. })) if id == stream => {
                    let value = |name: &[u8]| {
                        let header = list.iter().find(|h| h.name() == name)?;
                        std::str::from_utf8(header.value()).ok()
                    };
                    let Some(status) = value(b":status") else { continue };
                    if status != "200" {
                        let text = format!("{}{}: status {status}", self.plan.authority, self.plan.path);
                        return Ok(Some(Outcome::NotServed(text)));
                    }
                    if let (Action::Download, Some(n)) = (self.plan.action, value(b"content-length")) {
                        self.expected = n.parse().ok();
                    }
                }
                Ok((id, Event::Data)) if id == stream => loop {
                    match h3.recv_body(&mut self.conn.quic, id, scratch) {
                        Ok(n) => self.took_in(&scratch[..n], now),
                        Err(Error::Done) => break,
                        Err(e) => return Err(e),
                    }
                },
                Ok((id, Event::Finished)) if id == stream => return Ok(Some(self.finished())),
                Ok((id, Event::Reset(code))) if id == stream => return Ok(Some(self.was_reset(code))),
                Ok(_) => {}
                Err(Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        if let Action::Upload(size) = self.plan.action {
            self.upload(size, |quic, part, fin| h3.send_body(quic, stream, part, fin))?;
        }
        Ok(None)
    }

    fn upload(
        &mut self,
        size: Option<u64>,
        write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, quiche::h3::Error>,
    ) -> Result<(), quiche::h3::Error> {
        use quiche::h3::Error;
        let Some(stream) = self.stream.filter(|_| !self.upload_done) else { return Ok(()) };
        match write_zeros(&mut self.conn, stream, size.map(|n| n - self.bytes), write) {
            Ok((n, done)) => {
                self.bytes += n;
                self.upload_done = done;
                Ok(())
            }
            // `StreamStopped`: the server wants no more of it, and its answer tells why.
            Err(Error::Done | Error::TransportError(quiche::Error::Done | quiche::Error::StreamStopped(_))) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn was_reset(&self, code: u64) -> Outcome {
        if code == HQ_NOT_FOUND {
            return Outcome::NotServed(format!("{}{}: not found", self.plan.authority, self.plan.path));
        }
        Outcome::Incomplete(format!("the server gave up the transfer (code {code:#x}) after {} bytes", self.bytes))
    }

    fn step_hq(&mut self, now: Instant, scratch: &mut [u8]) -> Result<Option<Outcome>, quiche::h3::Error> {
        use quiche::Error;
        let stream = match self.stream {
            Some(s) => s,
            None => {
                self.request_left = format!("{} {}\r\n", self.method().as_str(), self.request_path()).into_bytes();
                *self.stream.insert(0)
            }
        };
        while !self.request_left.is_empty() {
            let fin = self.plan.action == Action::Download;
            match self.conn.quic.stream_send(stream, &self.request_left, fin) {
                Ok(n) => drop(self.request_left.drain(..n)),
                Err(Error::Done | Error::StreamLimit) => return Ok(None),
                Err(Error::StreamStopped(code)) => return Ok(Some(self.was_reset(code))),
                Err(e) => return Err(e.into()),
            }
        }
        loop {
            match self.conn.quic.stream_recv(stream, scratch) {
                Ok((n, fin)) => {
                    self.took_in(&scratch[..n], now);
                    if fin {
                        return Ok(Some(self.finished()));
                    }
                }
                // `InvalidStreamState`: nothing has arrived on it yet, or it is over and done.
                Err(Error::Done | Error::InvalidStreamState(_)) => break,
                Err(Error::StreamReset(code)) => return Ok(Some(self.was_reset(code))),
                Err(e) => return Err(e.into()),
            }
        }
        if let Action::Upload(size) = self.plan.action {
            self.upload(size, |quic, part, fin| quic.stream_send(stream, part, fin).map_err(Into::into))?;
        }
        Ok(None)
    }
}
