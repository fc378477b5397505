// SPDX-License-Identifier: Apache-2.0
//! The end of the server after a signal: no more requests are taken, transfers under way go on for a limited time, then all
//! connections are closed. A second signal closes them at once.

use super::connections::Connections;
use std::time::{Duration, Instant};

/// Time for connections to send their CONNECTION_CLOSE: quiche holds even that back while the congestion window is
/// full.
const CLOSING: Duration = Duration::from_secs(1);

/// Progress of the shutdown.
pub struct Shutdown {
    grace: Duration,
    /// Until when transfers may go on.
    finish_by: Option<Instant>,
    /// Until when connections may take to close.
    close_by: Option<Instant>,
    /// When the next connection without transfers is to be closed.
    idle: Option<Instant>,
}

impl Shutdown {
    /// Transfers have so long after the signal.
    pub fn new(grace: Duration) -> Shutdown {
        Shutdown { grace, finish_by: None, close_by: None, idle: None }
    }

    /// Whether the end has begun.
    pub fn has_begun(&self) -> bool {
        self.finish_by.is_some() || self.close_by.is_some()
    }

    /// Handles all that is due; `signal`: one came.
    pub fn turn(&mut self, signal: bool, connections: &mut Connections, now: Instant) {
        if signal && !self.has_begun() && !self.grace.is_zero() {
            connections.go_away();
            self.finish_by = Some(now + self.grace);
        } else if (signal || self.finish_by.is_some_and(|end| end <= now)) && self.close_by.is_none() {
            connections.close_all();
            self.close_by = Some(now + CLOSING);
        }
        self.idle = None;
        if self.finish_by.is_some() && self.close_by.is_none() {
            self.idle = connections.close_idle(now);
        }
    }

    /// When [`Shutdown::turn`] is next wanted although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let finish_by = self.finish_by.filter(|_| self.close_by.is_none());
        [finish_by, self.close_by, self.idle].into_iter().flatten().min()
    }

    /// Whether the program may end.
    pub fn is_over(&self, connections: &Connections, now: Instant) -> bool {
        self.has_begun() && (connections.have_closed() || self.close_by.is_some_and(|end| end <= now))
    }
}
