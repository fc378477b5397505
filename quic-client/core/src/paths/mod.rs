// SPDX-License-Identifier: Apache-2.0
//! The client's paths of one connection: which there are, which are validated, which is in use, and whether that one
//! still lives.
//!
//! Sans-IO. Addresses come from the caller, packets are quiche's: it makes them on the right path by itself, and the
//! `from` of its `SendInfo` names the socket. A turn of the caller is: datagrams into quiche, [`Paths::poll`], requests
//! (and with them [`Paths::switch`]), packets out, [`Paths::sent`].
//!
//! No path is used unheard (RFC 9000 8.2 and 9). What makes a switch cost nothing is that the others are validated
//! beforehand and kept so: the request leaves on the new path in the same flight. An unvalidated path costs its
//! validation, one round trip.
//!
//! One validation is begun at a time, but for those that the first choice waits for ([`Paths::hurry`]); another may join
//! it once it is late, so that a dead path does not hold up the rest. A path that failed is tried again, less and less often.
//!
//! What quiche 0.30 does that shaped this:
//! - a path whose validation fails while it is the active one takes the connection with it, if no other is validated.
//!   The active path is therefore never challenged, only pinged;
//! - while a challenge waits for room in its path's congestion window nothing else is sent at all, and what was in
//!   flight on a path that was left is never sent again: seams of our quiche crate mend both;
//! - a path keeps its entry and a connection ID for the life of the connection. After [`Paths::remove`] it does not:
//!   our seams give both up, so that an interface can change its address any number of times.

mod arrivals;
mod connection_ids;
mod event;
mod liveness;
mod migration;
mod path;
mod probe;
mod silence;
mod validation;

pub use connection_ids::CidBudget;
pub use event::{PathError, PathEvent, Switch};
pub use path::{PathSpec, PathState, Standby};

use crate::choice::PathId;
use arrivals::Arrivals;
use path::Entry;
use probe::Probe;
use quiche::ConnectionId;
use silence::Watch;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The paths of one connection.
pub struct Paths {
    entries: Vec<Entry>,
    active: PathId,
    standby: Standby,
    preferred: Vec<PathId>,
    /// A switch that waits for this path's validation.
    pending: Option<PathId>,
    watch: Watch,
    arrivals: Arrivals,
    /// When an answer last came in, over whichever path.
    answered: Option<Instant>,
    /// A choice waits for the validations: they are all begun at once.
    hurry: bool,
    /// The active path is dead and there is no other: when to ping next, and how long to wait after that.
    stuck: Option<(Instant, Duration)>,
    /// The path that the latest move left.
    left: Option<PathId>,
    /// When the handshake was seen to be confirmed.
    confirmed: Option<Instant>,
    turn: Option<Instant>,
    datagram: Option<(SocketAddr, Instant)>,
    deadline: Option<Instant>,
    events: VecDeque<PathEvent>,
    retired: Vec<ConnectionId<'static>>,
}

impl Paths {
    /// For a connection opened on `first`.
    pub fn new(first: PathSpec, standby: Standby) -> Self {
        let active = first.id;
        let mut entry = Entry::new(first, PathState::Validated);
        // RFC 9000 5.1.1: the connection ID of the handshake has the number 0.
        entry.cid = Some(0);
        Paths {
            entries: vec![entry],
            active,
            standby,
            preferred: Vec::new(),
            pending: None,
            watch: Watch::default(),
            arrivals: Arrivals::default(),
            answered: None,
            hurry: false,
            stuck: None,
            left: None,
            confirmed: None,
            turn: None,
            datagram: None,
            deadline: None,
            events: VecDeque::new(),
            retired: Vec::new(),
        }
    }

    /// Adds a path. One of the same number is replaced only after its removal.
    pub fn add(&mut self, spec: PathSpec) {
        if self.entry(spec.id).is_none() {
            self.entries.push(Entry::new(spec, PathState::Waiting));
        }
    }

    /// Drops a path whose address is gone. If it is the active one the connection moves first, or as soon as it can.
    pub fn remove(&mut self, path: PathId) {
        if let Some(e) = self.entry_mut(path) {
            e.leaving = true;
        }
    }

    /// The interface of a path went up or down. Down: another takes over at the next [`Paths::poll`]. Whether that was
    /// news.
    pub fn interface(&mut self, path: PathId, up: bool) -> bool {
        let Some(e) = self.entry_mut(path) else { return false };
        if std::mem::replace(&mut e.up, up) == up {
            return false;
        }
        if up {
            e.failures = 0;
            e.due = e.heard;
        } else {
            e.probe = None;
            if e.state != PathState::Lost {
                e.state = PathState::Lost;
                self.events.push_back(PathEvent::Lost(path));
            }
        }
        true
    }

    /// The order in which validated paths take over from one that died; those not named come last, by their RTT.
    pub fn prefer(&mut self, order: Vec<PathId>) {
        self.preferred = order;
    }

    /// Validates a standby path again when its turn comes.
    pub fn reprobe(&mut self, path: PathId) {
        let turn = self.turn;
        if let Some(e) = self.entry_mut(path) {
            e.due = turn;
        }
    }

    /// The path in use.
    pub fn active(&self) -> PathId {
        self.active
    }

    /// State of a path.
    pub fn state(&self, path: PathId) -> PathState {
        self.entry(path).map_or(PathState::Removed, |e| e.state)
    }

    /// RTT of a path's last validation; of the first path, that of the handshake.
    pub fn rtt(&self, path: PathId) -> Option<Duration> {
        self.entry(path)?.rtt
    }

    /// Paths that could not be tried for lack of connection IDs.
    pub fn out_of_budget(&self) -> impl Iterator<Item = PathId> {
        self.entries.iter().filter(|e| e.starved).map(|e| e.spec.id)
    }

    /// The others that can be moved to without a validation, with the round-trip times of their last ones.
    pub fn standby(&self) -> impl Iterator<Item = (PathId, Duration)> {
        let others = self.entries.iter().filter(|e| e.spec.id != self.active && e.usable() && !e.starved);
        others.filter_map(|e| Some((e.spec.id, e.rtt?)))
    }

    /// The path with this local address.
    pub fn at(&self, local: SocketAddr) -> Option<PathId> {
        self.entries.iter().find(|e| e.spec.local == local).map(|e| e.spec.id)
    }

    /// A choice waits for the validations, and they are begun all at once; or no longer.
    pub fn hurry(&mut self, on: bool) {
        self.hurry = on;
    }

    /// A task is outstanding: from now on the active path must not be silent. Or no longer.
    pub fn expecting(&mut self, due: bool, now: Instant) {
        if due && !self.watch.expects() {
            self.arrivals.anew(now);
        }
        self.watch.expect(due, now);
        if !due {
            self.stuck = None;
        }
    }

    /// A datagram arrived on this local address at this time. Only what quiche could decrypt counts in the end; this
    /// makes the time exact where [`Paths::poll`] comes later.
    pub fn heard(&mut self, on: SocketAddr, now: Instant) {
        self.datagram = Some((on, now));
    }

    /// When [`Paths::poll`] is next wanted although nothing arrived.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> impl Iterator<Item = PathEvent> {
        self.events.drain(..)
    }

    /// Our connection IDs that the peer retired: packets to them need no longer be routed.
    pub fn retired(&mut self) -> impl Iterator<Item = ConnectionId<'static>> {
        self.retired.drain(..)
    }

    /// To be called after packets were made, with the time of the turn they were made in: a validation is timed from
    /// the packet that carries the challenge.
    pub fn sent(&mut self, quic: &quiche::Connection, now: Instant) {
        if self.entries.iter().any(|e| e.probe.is_some()) {
            self.turn = Some(now);
            self.observe(quic, now);
            self.set_deadline(quic);
        }
    }

    /// Does what is due: after datagrams were received, and at the [`Paths::deadline`]. `new_cid` makes a connection ID
    /// of ours with its reset token; packets to it must reach this connection from then on.
    pub fn poll(
        &mut self,
        quic: &mut quiche::Connection,
        now: Instant,
        new_cid: &mut impl FnMut() -> (ConnectionId<'static>, u128),
    ) {
        while let Some(cid) = quic.retired_scid_next() {
            self.retired.push(cid);
        }
        if !quic.is_established() || quic.is_draining() || quic.is_closed() {
            self.deadline = None;
            return;
        }
        if self.confirmed.is_none() && quiche::hooks::is_confirmed(quic) {
            self.confirmed = Some(now);
        }
        if self.entries.len() > 1 {
            self.hand_out_cids(quic, new_cid);
        }
        self.observe(quic, now);
        self.turn = Some(now);
        self.take_events(quic, now);
        self.time_probes(quic, now);
        self.judge_active(quic, now);
        self.drop_leaving(quic);
        self.begin_probes(quic, now);
        self.set_deadline(quic);
    }

    fn entry(&self, path: PathId) -> Option<&Entry> {
        self.entries.iter().find(|e| e.spec.id == path)
    }

    fn entry_mut(&mut self, path: PathId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.spec.id == path)
    }

    fn set_state(&mut self, path: PathId, state: PathState) {
        if let Some(e) = self.entry_mut(path) {
            e.state = state;
        }
    }

    fn set_deadline(&mut self, quic: &quiche::Connection) {
        if quic.is_draining() || quic.is_closed() {
            self.deadline = None;
            return;
        }
        let may_probe = self.may_probe(quic);
        let probes = self.entries.iter().filter_map(|e| e.probe.as_ref());
        let free = probes.clone().map(Probe::late_at).max().filter(|_| !self.hurry);
        // A choice that waits is not held up by a path that can't be the best any more.
        let late = probes.clone().filter_map(|p| self.may_be_nearest(p)).max();
        let late = late.filter(|t| self.hurry && self.turn.is_some_and(|now| *t > now));
        // Those that wait for a connection ID are tried when packets come in.
        let next = self.entries.iter().filter(|e| !e.starved).filter_map(|e| self.due(e)).min();
        let next = next.filter(|_| may_probe).map(|t| free.map_or(t, |f| t.max(f)));
        let answers = probes.map(Probe::deadline).min();
        let silence = match self.entry(self.active) {
            Some(e) if e.usable() => self.watch.deadline(self.pto(quic)),
            _ => self.stuck.map(|(at, _)| at),
        };
        self.deadline = [next, answers, silence, late].into_iter().flatten().min();
    }
}
