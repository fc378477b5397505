// SPDX-License-Identifier: Apache-2.0
//! Requests of one connection, one after the other: header, arguments, method, answer. Every read and write has an end.
use super::arguments::{self, Fields};
use super::failure::{Failure, protocol};
use super::methods::{self, Call, Effect};
use super::output::Output;
use super::shared::Shared;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use thrift::protocol::{TBinaryInputProtocol, TInputProtocol, TMessageIdentifier, TMessageType, TStructIdentifier};
use thrift::{ApplicationError, ApplicationErrorKind, TConfiguration};
use tonic::Status;

/// A request from its first byte to its last, and an answer.
const REQUEST_TIME: Duration = Duration::from_secs(10);
const PROGRAM_TIME: Duration = Duration::from_secs(60);
const HEADER_BYTES: usize = 512;
pub const REQUEST_BYTES: usize = 64 << 10;
/// As in a P4Runtime controller's program.
pub const PROGRAM_BYTES: usize = 16 << 20;
/// Structs within structs.
const DEPTH: usize = 8;
const BUFFER_BYTES: usize = 8 << 10;
/// Of a reason in a line of the log.
const REASON_CHARS: usize = 300;

/// Bytes of a client.
pub trait Source: Read {
    /// Waits for the first byte of a request, for as long as it takes; false at the end.
    ///
    /// # Errors
    /// The connection is broken.
    fn wait(&mut self) -> io::Result<bool>;

    /// All further bytes must come within this time.
    fn within(&mut self, time: Duration);
}

/// A socket whose reads and writes end at a time.
pub struct Timed {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
    end: Option<Instant>,
}

impl Timed {
    pub fn new(stream: TcpStream) -> Timed {
        Timed { stream, buffer: Vec::new(), at: 0, end: None }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(end) = self.end else { return Ok(None) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the request or its answer took too long"));
        }
        Ok(Some(left))
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.stream.set_read_timeout(self.left()?)?;
        self.buffer.resize(BUFFER_BYTES, 0);
        self.at = 0;
        let read = loop {
            match self.stream.read(&mut self.buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(|n| n > 0)
    }
}

impl Read for Timed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() && !self.fill()? {
            return Ok(0);
        }
        let n = out.len().min(self.buffer.len() - self.at);
        out[..n].copy_from_slice(&self.buffer[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Timed {
    fn wait(&mut self) -> io::Result<bool> {
        self.end = None;
        Ok(self.at < self.buffer.len() || self.fill()?)
    }

    fn within(&mut self, time: Duration) {
        self.end = Some(Instant::now() + time);
    }
}

/// The first bytes of a source.
struct Limited<'a> {
    source: &'a mut dyn Read,
    left: usize,
}

impl Read for Limited<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !out.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        let most = out.len().min(self.left);
        let n = self.source.read(&mut out[..most])?;
        self.left -= n;
        Ok(n)
    }
}

/// A decoder of so many bytes.
fn decoder(source: &mut dyn Read, bytes: usize) -> TBinaryInputProtocol<Limited<'_>> {
    let config = TConfiguration::builder()
        .max_message_size(Some(bytes))
        .max_frame_size(Some(bytes))
        .max_string_size(Some(bytes))
        .max_container_size(Some(bytes))
        .max_recursion_depth(Some(DEPTH))
        .build();
    // As BMv2, requests without the protocol's version are accepted.
    TBinaryInputProtocol::with_config(Limited { source, left: bytes }, false, config.unwrap_or_default())
}

/// Serves a connection until it ends; `idle` is called before each wait with true, and after it with false.
pub fn run(
    source: &mut (impl Source + Write),
    from: SocketAddr,
    server: &Shared,
    mut idle: impl FnMut(bool),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    loop {
        idle(true);
        let more = source.wait();
        idle(false);
        if !more? {
            break;
        }
        source.within(REQUEST_TIME);
        let (answer, ends) = one(source, from, server, &runtime);
        source.within(REQUEST_TIME);
        source.write_all(answer.as_ref().map_or(&[], Output::bytes))?;
        if ends {
            break;
        }
    }
    runtime.shutdown_background();
    Ok(())
}

/// The crate prints the kinds of these errors only.
fn reason(error: thrift::Error) -> String {
    match error {
        thrift::Error::Protocol(e) if !e.message.is_empty() => e.message,
        other => other.to_string(),
    }
}

/// One request; gives its answer, and whether the connection ends.
fn one(
    source: &mut (impl Source + Write),
    from: SocketAddr,
    server: &Shared,
    runtime: &tokio::runtime::Runtime,
) -> (Option<Output>, bool) {
    let header = match decoder(source, HEADER_BYTES).read_message_begin() {
        Ok(header) => header,
        Err(e) => {
            tracing::info!("Thrift: {from}: no request of Thrift's binary protocol: {e}");
            return (None, true);
        }
    };
    let one_way = match header.message_type {
        TMessageType::Call => false,
        TMessageType::OneWay => true,
        TMessageType::Reply | TMessageType::Exception => return (None, true),
    };
    // TMultiplexedProtocol: the service in front of the name.
    let (service, name) = header.name.split_once(':').unwrap_or(("", &header.name));
    let method = methods::find(service, name);
    let (program, bytes) = match method {
        Some(m) if m.effect == Effect::Program => match server.programs.try_lock() {
            Ok(turn) => (Some(turn), PROGRAM_BYTES),
            Err(_) => {
                let busy = protocol("another client is sending a program; try again");
                return (Some(refusal(server, name, &header, &busy)), true);
            }
        },
        _ => (None, REQUEST_BYTES),
    };
    if program.is_some() {
        source.within(PROGRAM_TIME);
    }
    let arguments = arguments::read(&mut decoder(source, bytes));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(e) => {
            let reason = reason(e);
            tracing::info!("Thrift: {from}: {}: {reason}", name.escape_debug());
            return (Some(refusal(server, name, &header, &protocol(reason))), true);
        }
    };
    let Some(method) = method else {
        let unknown = Failure::Application(
            ApplicationErrorKind::UnknownMethod,
            format!("there is no method {name} of a service `{service}`"),
        );
        return (Some(refusal(server, name, &header, &unknown)), false);
    };
    let out = answer(method, arguments, from, server, runtime, &header);
    (Some(out).filter(|_| !one_way), false)
}

/// Runs a method.
fn answer(
    method: &methods::Method,
    arguments: Fields,
    from: SocketAddr,
    server: &Shared,
    runtime: &tokio::runtime::Runtime,
    header: &TMessageIdentifier,
) -> Output {
    let object = match method.effect {
        Effect::Change => arguments.string(2).unwrap_or_default(),
        _ => String::new(),
    };
    let mut out = begun(server, method.name, header.sequence_number, TMessageType::Reply);
    let start = out.bytes().len();
    let mut call = Call { arguments, out, server, runtime };
    let result = (method.run)(&mut call);
    out = call.out;
    if let Err(e) = &result {
        let reason: String = e.reason().escape_debug().take(REASON_CHARS).collect();
        tracing::info!("Thrift: {from}: {}: {reason}", method.name);
    }
    if method.effect != Effect::Read {
        let status = result.clone().map_err(|e| Status::invalid_argument(e.reason()));
        server.control.audit(from, method.name, &object, &status);
    }
    match result {
        Ok(()) => {
            out.stop();
            out
        }
        Err(Failure::Declared(code, _)) => {
            out.truncate(start);
            out.nested(1, |e| e.i32(1, code));
            out.stop();
            out
        }
        Err(e @ Failure::Application(..)) => refusal(server, method.name, header, &e),
    }
}

fn begun(server: &Shared, name: &str, sequence: i32, kind: TMessageType) -> Output {
    let mut out = Output::new(server.budget.clone());
    let written = out.protocol().write_message_begin(&TMessageIdentifier::new(name, kind, sequence));
    // A struct has no bytes of its own at its begin; the protocol counts depth by it.
    if let Err(e) = written.and_then(|()| out.protocol().write_struct_begin(&TStructIdentifier::new(""))) {
        tracing::error!("Thrift: an answer could not be encoded: {e}");
    }
    out
}

/// A TApplicationException.
fn refusal(server: &Shared, name: &str, header: &TMessageIdentifier, failure: &Failure) -> Output {
    let kind = match failure {
        Failure::Application(kind, _) => *kind,
        Failure::Declared(..) => ApplicationErrorKind::InternalError,
    };
    let mut out = Output::new(server.budget.clone());
    let id = TMessageIdentifier::new(name, TMessageType::Exception, header.sequence_number);
    let error = ApplicationError::new(kind, failure.reason());
    let written = out
        .protocol()
        .write_message_begin(&id)
        .and_then(|()| thrift::Error::write_application_error_to_out_protocol(&error, out.protocol()));
    if let Err(e) = written {
        tracing::error!("Thrift: an exception could not be encoded: {e}");
    }
    out
}
