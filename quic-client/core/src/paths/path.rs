// SPDX-License-Identifier: Apache-2.0
//! One path: its addresses, its state, and its records.

use super::probe::Probe;
use crate::choice::PathId;
use quiche::PathStats;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Where a path goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSpec {
    /// Its number.
    pub id: PathId,
    /// Interface name or address, as the user knows it.
    pub name: String,
    /// Local address and port: the socket's.
    pub local: SocketAddr,
    /// The server's.
    pub peer: SocketAddr,
}

/// When paths are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standby {
    /// Beforehand, and again after a long silence.
    Validated,
    /// At each switch, which then costs a round trip: for measuring that cost. A path that failed is still tried again
    /// without a switch, because nothing else would show that it works again.
    Cold,
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Waits for its validation, or for a connection ID.
    Waiting,
    /// Being validated for the first time, or again after it was lost.
    Probing,
    /// Good to use.
    Validated,
    /// Its validation failed; it will be tried again.
    Failed,
    /// It went silent while in use, or its interface is down.
    Lost,
    /// It does not exist, or does not exist any more.
    Removed,
}

pub struct Entry {
    pub spec: PathSpec,
    pub state: PathState,
    pub up: bool,
    /// To be removed as soon as the connection is elsewhere.
    pub leaving: bool,
    pub probe: Option<Probe>,
    /// The last one, if it failed.
    pub unanswered: Option<Probe>,
    /// Time for the next validation.
    pub due: Option<Instant>,
    pub failures: u32,
    pub rtt: Option<Duration>,
    /// Sequence number of the peer's connection ID in use on it; `None`: quiche does not know the path yet.
    pub cid: Option<u64>,
    pub sent: usize,
    pub recv: usize,
    pub heard: Option<Instant>,
    pub starved: bool,
    /// `recv` when it became the active path.
    pub recv_then: usize,
    /// Packets that were no part of a path's validation.
    pub answers: u64,
}

impl Entry {
    pub fn new(spec: PathSpec, state: PathState) -> Self {
        Entry {
            spec,
            state,
            up: true,
            leaving: false,
            probe: None,
            unanswered: None,
            due: None,
            failures: 0,
            rtt: None,
            cid: None,
            sent: 0,
            recv: 0,
            heard: None,
            starved: false,
            recv_then: 0,
            answers: 0,
        }
    }

    pub fn is(&self, stats: &PathStats) -> bool {
        (stats.local_addr, stats.peer_addr) == (self.spec.local, self.spec.peer)
    }

    pub fn usable(&self) -> bool {
        self.state == PathState::Validated && self.up && !self.leaving
    }
}
