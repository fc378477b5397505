// SPDX-License-Identifier: Apache-2.0
//! A task from its start to its end.

use crate::choice::PathId;
use crate::client::moves::Standstill;
use crate::client::request::Request;
use std::time::{Duration, Instant};

/// A task that is due and has a path; its request was not sent yet.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub task: u64,
    pub path: PathId,
    pub start: Instant,
    pub switched: bool,
    pub cold: bool,
    /// The path is still being validated.
    pub waiting: bool,
    pub moved_to: Option<PathId>,
    /// The path that it left was only late.
    pub was_late: bool,
    /// Each of its moves was made to speed it up.
    pub steered: bool,
    /// A tunnel: its completion time is not the path's.
    pub is_tunnel: bool,
    /// Other tasks were busy when it was chosen, so it took their path.
    pub beside: bool,
}

impl Chosen {
    /// The path it is on.
    pub fn on(&self) -> PathId {
        self.moved_to.unwrap_or(self.path)
    }
}

/// A task whose request was sent.
pub struct Running {
    pub chosen: Chosen,
    pub request: Request,
    /// Set for a download whose connection moved, until it is requested again.
    pub standstill: Option<Standstill>,
    /// Bytes of the answer by the path that carried them.
    pub answered: Vec<(PathId, u64)>,
    /// When something of its body was sent, or something of its answer arrived, last; else when it was sent.
    pub progress: Instant,
}

impl Running {
    /// Whether it is a tunnel in which nothing has moved for `pause`. Nothing is expected of the path then.
    pub fn is_idle(&self, now: Instant, pause: Duration) -> bool {
        self.chosen.is_tunnel && self.request.is_answered() && now.saturating_duration_since(self.progress) >= pause
    }

    /// When it fails if there is no more progress.
    pub fn gives_up_at(&self, read_timeout: Option<Duration>) -> Option<Instant> {
        self.progress.checked_add(read_timeout?)
    }
}
