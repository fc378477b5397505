// SPDX-License-Identifier: Apache-2.0
//! [`Error`]: the reason why a connection or a request failed.

use std::{fmt, io};
use weir_core::client::Outcome;
use weir_io::fault::{CONNECT, Fault, PATHS, TIMEOUT, USAGE};

/// Kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A URL, a header or an option is not valid.
    Usage,
    /// A requested path does not exist or has no usable address.
    Paths,
    /// No connection: the name was not resolved, or the server refused, was unreachable, or ended it in the handshake.
    Connect,
    /// TLS or ALPN failed: an untrusted certificate, or no common protocol or version.
    Tls,
    /// Nothing was heard for the idle timeout, or a request made no progress for the read timeout.
    Timeout,
    /// The answer or the connection ended before its end: reset, truncated, malformed, closed.
    Incomplete,
    /// The server does not serve the resource (redirects, and hq-interop, which has no status).
    NotServed,
    /// The answer is larger than it may be, or the request's head than the congestion window.
    TooLarge,
    /// The request or the connection was closed by this program.
    Closed,
    /// As many requests wait as may wait. Send again when others have ended.
    Busy,
    /// A file, a socket or a system call failed.
    Io,
}

/// Failure of a connection or a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    detail: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Error {
        Error { kind, detail: detail.into() }
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The client's thread has ended by itself.
    pub(crate) fn lost() -> Error {
        Error::new(ErrorKind::Io, "the client's thread has ended, as by a panic of an observer or a strategy")
    }

    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "closed by this program")
    }

    /// Of an outcome that is no success.
    pub(crate) fn of(outcome: &Outcome) -> Error {
        let kind = match outcome {
            Outcome::Complete | Outcome::Stopped | Outcome::Interrupted => return Error::closed(),
            Outcome::Connect(_) => ErrorKind::Connect,
            Outcome::Tls(_) => ErrorKind::Tls,
            Outcome::Timeout(_) => ErrorKind::Timeout,
            Outcome::NotServed(_) => ErrorKind::NotServed,
            Outcome::Incomplete(_) => ErrorKind::Incomplete,
            Outcome::File(_) => ErrorKind::Io,
            Outcome::TooLarge(_) => ErrorKind::TooLarge,
        };
        Error::new(kind, outcome.detail())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let kind = match fault.code {
            USAGE => ErrorKind::Usage,
            CONNECT => ErrorKind::Connect,
            TIMEOUT => ErrorKind::Timeout,
            PATHS => ErrorKind::Paths,
            _ => ErrorKind::Io,
        };
        Error::new(kind, fault.text)
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        let kind = match e.kind {
            ErrorKind::Usage => io::ErrorKind::InvalidInput,
            ErrorKind::Connect => io::ErrorKind::ConnectionRefused,
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            ErrorKind::Incomplete => io::ErrorKind::ConnectionReset,
            ErrorKind::Closed => io::ErrorKind::ConnectionAborted,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, e)
    }
}

/// Outcome of a failure that a fault describes.
pub(crate) fn outcome_of(fault: &Fault) -> Outcome {
    match fault.code {
        CONNECT => Outcome::Connect(fault.text.clone()),
        TIMEOUT => Outcome::Timeout(fault.text.clone()),
        _ => Outcome::File(fault.text.clone()),
    }
}
