// SPDX-License-Identifier: Apache-2.0
//! The paths of one client connection: which there are, which are validated, which is in use, and whether that one
//! still works.
//!
//! There is no I/O here. Addresses come from the caller. Packets come from quiche, which makes each for the right path;
//! the `from` of its `SendInfo` names the socket to send it from. An iteration of the caller is: datagrams into quiche,
//! [`Paths::poll`], requests (and with them [`Paths::switch`]), packets out, [`Paths::sent`].
//!
//! No path is used before it was validated (RFC 9000 8.2 and 9). The other paths are validated beforehand and kept
//! validated, so that a switch costs nothing: the request leaves on the new path at once. A switch to a path that is
//! not validated costs one round trip, for its validation.
//!
//! One validation runs at a time. Another one begins when it is late, so that a dead path does not delay the others.
//! Those that the first choice of a path waits for begin together ([`Paths::hurry`]). A path whose validation failed is
//! tried again, less and less often.
//!
//! Behaviour of quiche 0.30 that this code works around:
//! - when the validation of the active path fails and no other path is validated, quiche closes the connection. So the
//!   active path is never challenged, only pinged;
//! - while a challenge waits for room in its path's congestion window, nothing at all is sent; and packets that were in
//!   flight on a path that the connection left are never sent again. Patches of our quiche crate correct both;
//! - a path keeps its entry and a connection ID as long as the connection exists. Our patches release both after
//!   [`Paths::remove`], so that an interface can change its address any number of times.

mod arrivals;
mod connection_ids;
mod event;
mod liveness;
mod migration;
mod path;
mod probe;
mod silence;
mod validation;

pub use connection_ids::{CidBudget, SPARE_CIDS, issue_cids};
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
    /// The path whose validation a switch waits for.
    pending: Option<PathId>,
    watch: Watch,
    arrivals: Arrivals,
    /// When an answer last came in, over whichever path.
    answered: Option<Instant>,
    /// See [`Paths::hurry`].
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

    /// Adds a path. A path with the same number is replaced only after its removal.
    pub fn add(&mut self, spec: PathSpec) {
        if self.entry(spec.id).is_none() {
            self.entries.push(Entry::new(spec, PathState::Waiting));
        }
    }

    /// Drops a path whose address was removed. If it is the active one the connection moves first, or as soon as it
    /// can.
    pub fn remove(&mut self, path: PathId) {
        if let Some(e) = self.entry_mut(path) {
            e.leaving = true;
        }
    }

    /// The interface of a path went up or down. If it went down, another path takes over at the next [`Paths::poll`].
    /// Returns whether that is a change.
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

    /// The order in which validated paths are taken when the path in use dies. Paths that are not in it come last, by
    /// their RTT.
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

    /// The other paths that the connection can move to without a validation, each with the round-trip time of its last
    /// one.
    pub fn standby(&self) -> impl Iterator<Item = (PathId, Duration)> {
        let others = self.entries.iter().filter(|e| e.spec.id != self.active && e.usable() && !e.starved);
        others.filter_map(|e| Some((e.spec.id, e.rtt?)))
    }

    /// The path with this local address.
    pub fn at(&self, local: SocketAddr) -> Option<PathId> {
        self.entries.iter().find(|e| e.spec.local == local).map(|e| e.spec.id)
    }

    /// While a choice waits for validations (`on`), they all begin at once.
    pub fn hurry(&mut self, on: bool) {
        self.hurry = on;
    }

    /// From now on an answer is due (`due`), so the active path must not be silent; or no answer is due any more.
    pub fn expecting(&mut self, due: bool, now: Instant) {
        if due && !self.watch.expects() {
            self.arrivals.anew(now);
        }
        self.watch.expect(due, now);
        if !due {
            self.stuck = None;
        }
    }

    /// A datagram arrived on this local address at this time. Only packets that quiche could decrypt count; this call
    /// makes their time exact if [`Paths::poll`] comes later.
    pub fn heard(&mut self, on: SocketAddr, now: Instant) {
        self.datagram = Some((on, now));
    }

    /// When [`Paths::poll`] is next wanted although nothing arrived.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Events since the last call.
    pub fn events(&mut self) -> impl Iterator<Item = PathEvent> {
        self.events.drain(..)
    }

    /// Our connection IDs that the peer retired: packets to them need no longer be routed.
    pub fn retired(&mut self) -> impl Iterator<Item = ConnectionId<'static>> {
        self.retired.drain(..)
    }

    /// To be called after packets were made, with the time of that turn: the time of a validation counts from the
    /// packet that carries the challenge.
    pub fn sent(&mut self, quic: &quiche::Connection, now: Instant) {
        if self.entries.iter().any(|e| e.probe.is_some()) {
            self.turn = Some(now);
            self.observe(quic, now);
            self.set_deadline(quic);
        }
    }

    /// Handles all that is due: after datagrams were received, and at the [`Paths::deadline`]. `new_cid` makes a
    /// connection ID of ours and its reset token; packets to it must reach this connection from then on.
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
        self.hand_out_cids(quic, new_cid);
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
