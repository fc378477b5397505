// SPDX-License-Identifier: Apache-2.0
//! Work of a session, and its requirements.

use super::body::Body;
use super::request::Action;
use crate::request::promised_bytes;
use quiche::ConnectionId;
use std::time::{Duration, Instant};

/// Work of a session.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Label of the flow.
    pub flow: u64,
    /// Whether the requests send the server that label.
    pub tell_flow: bool,
    /// `host:port`, for the `:authority` header.
    pub authority: String,
    /// Path asked for, by each task.
    pub path: String,
    /// Action of each task.
    pub action: Action,
    /// Number of tasks.
    pub tasks: u64,
    /// At most so many at once.
    pub parallel: usize,
    /// Task n starts no sooner than n times this after the first could.
    pub interval: Duration,
    /// The first task starts no sooner than this; `None`: as soon as the connection is up.
    pub start_at: Option<Instant>,
    /// Silence after which we give the connection up.
    pub idle_timeout: Duration,
    /// Payload that a download may have at most.
    pub max_bytes: Option<u64>,
    /// A request fails after this time without progress; `None`: it waits as long as the connection lives.
    pub read_timeout: Option<Duration>,
}

impl Plan {
    /// Authority and path of the request, for messages.
    pub(super) fn asked(&self) -> String {
        format!("{}{}", self.authority, self.path)
    }

    /// Payload that each task moves, where that is known.
    pub(super) fn task_bytes(&self) -> Option<u64> {
        match self.action {
            Action::Download => promised_bytes(&self.path),
            Action::Upload(n) => n,
        }
    }
}

/// Resources that the caller lends a session for one event-loop iteration.
pub struct Means<'a> {
    /// Buffer to read into.
    pub scratch: &'a mut [u8],
    /// Where downloads go.
    pub body: &'a mut dyn Body,
    /// Makes a connection ID with its reset token, both random.
    pub new_cid: &'a mut dyn FnMut() -> (ConnectionId<'static>, u128),
}
