// SPDX-License-Identifier: Apache-2.0
//! Outcome of a request or a session.

use crate::connection::{Failure, alert_name};

/// Outcome of a request, or a session of them. Each kind has one exit code.
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
    /// The server does not serve the resource.
    NotServed(String),
    /// The transfer ended before its end.
    Incomplete(String),
    /// Received data could not be written.
    File(String),
    /// The answer is larger than it may be.
    TooLarge(String),
}

impl Outcome {
    /// Outcome of a session whose connection to `peer` (`host:port`) failed after `bytes` of payload; `started`: its
    /// handshake had been done.
    pub(crate) fn of_failure(failure: Failure, peer: &str, started: bool, bytes: u64) -> Outcome {
        match failure {
            Failure::Timeout { established: false } => {
                Outcome::Timeout(format!("no answer from {peer} within the idle timeout"))
            }
            Failure::Timeout { established: true } => {
                Outcome::Timeout(format!("{peer} fell silent for the idle timeout after {bytes} bytes"))
            }
            Failure::Version => Outcome::Tls(format!(
                "{peer}: version negotiation failed: the server speaks no version of QUIC that we do (version 1)"
            )),
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
                    Outcome::Incomplete(format!("{text}, after {bytes} bytes"))
                } else {
                    Outcome::Connect(text)
                }
            }
            Failure::StatelessReset => Outcome::Incomplete(format!(
                "{peer}: stateless reset: the server no longer knows this connection, after {bytes} bytes"
            )),
        }
    }

    /// Adds the caller's knowledge to the detail of a failed handshake.
    pub fn explain(&mut self, why: &str) {
        if let Outcome::Tls(detail) = self {
            *detail += why;
        }
    }

    /// Exit code of a client whose first failure this is; 0 for success.
    pub fn exit_code(&self) -> u8 {
        match self {
            Outcome::Complete | Outcome::Stopped => 0,
            Outcome::Connect(_) => 3,
            Outcome::Tls(_) => 4,
            Outcome::Timeout(_) => 5,
            Outcome::Incomplete(_) => 6,
            Outcome::NotServed(_) => 7,
            Outcome::File(_) => 8,
            Outcome::TooLarge(_) => 10,
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
            Outcome::File(_) => "file",
            Outcome::TooLarge(_) => "too_large",
        }
    }

    /// Details for people; empty where the name is enough.
    pub fn detail(&self) -> &str {
        match self {
            Outcome::Connect(d)
            | Outcome::Tls(d)
            | Outcome::Timeout(d)
            | Outcome::NotServed(d)
            | Outcome::Incomplete(d)
            | Outcome::File(d)
            | Outcome::TooLarge(d) => d,
            Outcome::Complete | Outcome::Stopped | Outcome::Interrupted => "",
        }
    }
}
