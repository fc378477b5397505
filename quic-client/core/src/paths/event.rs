// SPDX-License-Identifier: Apache-2.0
//! Path events, and results of a switch.

use crate::choice::PathId;
use std::time::Duration;

/// Event of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEvent {
    /// Its validation began.
    Probing(PathId),
    /// It answered.
    Validated {
        /// Identifier of the path.
        path: PathId,
        /// From the packet with the challenge to its answer.
        rtt: Duration,
    },
    /// It did not answer.
    Failed(PathId),
    /// It went silent while an answer was due, or its interface went down.
    Lost(PathId),
    /// It answers again.
    Recovered(PathId),
    /// The connection moved.
    Switched {
        /// From here.
        from: PathId,
        /// To there.
        to: PathId,
        /// It had been validated beforehand.
        validated: bool,
    },
    /// It was removed, and its connection ID retired.
    Removed(PathId),
    /// The server keeps answering on another path than the one in use; the connection follows it there.
    Elsewhere {
        /// The path in use.
        active: PathId,
        /// Where answers arrive.
        on: PathId,
    },
}

/// Result of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It is the active path.
    Already,
    /// Done: packets sent from now on leave there.
    Done,
    /// To be validated first; [`PathEvent::Switched`] or [`PathEvent::Failed`] will follow.
    Probing,
}

/// Why a switch is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No such path.
    #[error("path {} is not one of this connection's", .0.0)]
    Unknown(PathId),
    /// Its interface is down.
    #[error("the interface of path '{0}' is down")]
    Down(String),
    /// The peer's transport parameter.
    #[error("the server forbids migration (disable_active_migration)")]
    Forbidden,
    /// RFC 9000 9: not before the handshake is confirmed.
    #[error("the handshake is not confirmed yet")]
    TooEarly,
    /// Too few connection IDs.
    #[error("no connection ID for path '{0}': see the budget of connection IDs")]
    NoConnectionId(String),
    /// quiche refused.
    #[error("path '{0}': {1}")]
    Refused(String, quiche::Error),
}
