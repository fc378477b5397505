// SPDX-License-Identifier: Apache-2.0
//! [`Paths`]: see the module above it.

use super::arrivals::Arrivals;
use super::probe::{Probe, Step, back_off};
use super::watch::{Verdict, Watch};
use crate::choice::PathId;
use crate::transport::CID_LIMIT;
use quiche::{ConnectionId, PathStats};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A standby path without a packet for this long is validated again: NATs forget a silent UDP flow after 30 s and more
/// (RFC 4787 4.3 asks for two minutes), and what was heard long ago says little.
const STALE_AFTER: Duration = Duration::from_secs(25);
/// Longest time between pings on a dead path with no other to go to.
const STUCK_PING_MAX: Duration = Duration::from_secs(1);

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
    /// At each switch, which then costs a round trip. For measuring that. One that failed is tried again by itself
    /// even so: else nobody would learn that it is back.
    Cold,
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// To be validated when its turn comes, or when a connection ID for it is to be had.
    Waiting,
    /// Being validated for the first time, or again after it was lost.
    Probing,
    /// Good to use.
    Validated,
    /// Did not answer; will be tried again.
    Failed,
    /// Fell silent while in use, or its interface is down.
    Lost,
    /// Not one of ours, or no longer.
    Removed,
}

/// What happened to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEvent {
    /// Its validation began.
    Probing(PathId),
    /// It answered.
    Validated {
        /// Which.
        path: PathId,
        /// From the packet with the challenge to its answer.
        rtt: Duration,
    },
    /// It did not answer.
    Failed(PathId),
    /// It fell silent while an answer was due, or its interface went down.
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
    /// It is gone; its connection ID was retired.
    Removed(PathId),
    /// The server keeps answering on another path than the one in use; the connection follows it there.
    Elsewhere {
        /// The path in use.
        active: PathId,
        /// Where answers arrive.
        on: PathId,
    },
}

/// Connection IDs against paths: each path needs one of the peer's and one of ours, and one more on each side lets a
/// retired one be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidBudget {
    /// Paths that want to be used.
    pub wanted: u64,
    /// How many of ours the peer accepts (its `active_connection_id_limit`).
    pub peer_limit: u64,
    /// How many of the peer's we accept.
    pub own_limit: u64,
    /// How many the peer has issued and not retired.
    pub issued: u64,
    /// Paths that can be used; they are the first of them, in the order in which they were added.
    pub usable: u64,
    /// Whether the peer lets us migrate at all (`disable_active_migration`, RFC 9000 18.2).
    pub migration_allowed: bool,
}

/// How a switch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It is the active path.
    Already,
    /// Done: what is sent from now on leaves there.
    Done,
    /// To be validated first; [`PathEvent::Switched`] or [`PathEvent::Failed`] will tell.
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

struct Entry {
    spec: PathSpec,
    state: PathState,
    up: bool,
    /// To be removed as soon as the connection is elsewhere.
    leaving: bool,
    probe: Option<Probe>,
    /// The last one, if it failed.
    unanswered: Option<Probe>,
    /// Time for the next validation.
    due: Option<Instant>,
    failures: u32,
    rtt: Option<Duration>,
    /// Sequence number of the peer's connection ID in use on it; `None`: quiche does not know the path yet.
    cid: Option<u64>,
    sent: usize,
    recv: usize,
    heard: Option<Instant>,
    starved: bool,
    /// `recv` when it became the active path.
    recv_then: usize,
    /// Packets that were no part of a path's validation.
    answers: u64,
}

impl Entry {
    fn new(spec: PathSpec, state: PathState) -> Self {
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

    fn is(&self, stats: &PathStats) -> bool {
        (stats.local_addr, stats.peer_addr) == (self.spec.local, self.spec.peer)
    }

    fn usable(&self) -> bool {
        self.state == PathState::Validated && self.up && !self.leaving
    }
}

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

    /// Whether a path may yet turn out to be nearer than those that are validated: its first validation is still to
    /// begin, or has not lasted longer than the least round-trip time.
    pub fn undecided(&self, quic: &quiche::Connection, now: Instant) -> bool {
        if quic.peer_transport_params().is_some_and(|p| p.disable_active_migration) {
            return false;
        }
        self.entries.iter().filter(|e| e.spec.id != self.active && e.up && !e.leaving).any(|e| match &e.probe {
            Some(probe) => e.state == PathState::Probing && self.may_be_nearest(probe).is_none_or(|until| now < until),
            None => e.state == PathState::Waiting && !e.starved,
        })
    }

    /// Until when an answer would show that this path is the nearest.
    fn may_be_nearest(&self, probe: &Probe) -> Option<Instant> {
        self.entries.iter().filter_map(|e| e.rtt).min().map(|least| probe.answer_by(least))
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

    /// The connection IDs there are for the paths there are.
    pub fn budget(&self, quic: &quiche::Connection) -> CidBudget {
        let params = quic.peer_transport_params();
        let peer_limit = params.map_or(2, |p| p.active_conn_id_limit);
        let migration_allowed = !params.is_some_and(|p| p.disable_active_migration);
        let wanted = self.entries.iter().filter(|e| !e.leaving).count() as u64;
        let known = self.entries.iter().filter(|e| e.cid.is_some()).count() as u64;
        let ours = self.entries.iter().filter(|e| !e.leaving && e.cid.is_some()).count() as u64;
        let spare = quic.available_dcids() as u64;
        let room = peer_limit.min(CID_LIMIT).saturating_sub(known);
        let usable = if migration_allowed { wanted.min(ours + spare.min(room)) } else { wanted.min(1) };
        CidBudget { wanted, peer_limit, own_limit: CID_LIMIT, issued: known + spare, usable, migration_allowed }
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
        self.drop_leaving(quic, now);
        self.begin_probes(quic, now);
        self.set_deadline(quic);
    }

    /// Moves the connection to a path, if need be after validating it. What is sent afterwards leaves there.
    pub fn switch(&mut self, quic: &mut quiche::Connection, path: PathId, now: Instant) -> Result<Switch, PathError> {
        let e = self.entry(path).filter(|e| !e.leaving).ok_or(PathError::Unknown(path))?;
        if path == self.active {
            self.pending = None;
            return Ok(Switch::Already);
        }
        if !e.up {
            return Err(PathError::Down(e.spec.name.clone()));
        }
        if quic.peer_transport_params().is_some_and(|p| p.disable_active_migration) {
            return Err(PathError::Forbidden);
        }
        if self.confirmed.is_none() {
            return Err(PathError::TooEarly);
        }
        if e.state == PathState::Validated {
            self.migrate(quic, path, true, now)?;
            self.set_deadline(quic);
            return Ok(Switch::Done);
        }
        if e.probe.is_none() {
            self.begin_probe(quic, path, now)?;
        }
        self.pending = Some(path);
        self.set_deadline(quic);
        Ok(Switch::Probing)
    }

    fn entry(&self, path: PathId) -> Option<&Entry> {
        self.entries.iter().find(|e| e.spec.id == path)
    }

    fn entry_mut(&mut self, path: PathId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.spec.id == path)
    }

    fn hand_out_cids(
        &mut self,
        quic: &mut quiche::Connection,
        new_cid: &mut impl FnMut() -> (ConnectionId<'static>, u128),
    ) {
        if quic.source_id().is_empty() {
            return;
        }
        let wanted = self.entries.len() + 1;
        let mut missing = wanted.saturating_sub(quiche::hooks::live_scids(quic)).min(quic.scids_left());
        while missing > 0 {
            let (cid, token) = new_cid();
            // An error can only mean that the limit is reached after all.
            if quic.new_scid(&cid, token, false).is_err() {
                break;
            }
            missing -= 1;
        }
    }

    /// Takes over quiche's counts. What it sent since the last look it sent in the last turn.
    fn observe(&mut self, quic: &quiche::Connection, now: Instant) {
        let turn = self.turn.unwrap_or(now);
        let datagram = self.datagram.take();
        let homeless = self.entry(self.active).is_none_or(|e| !e.usable());
        for stats in quic.path_stats() {
            let active = self.active;
            let Some(e) = self.entries.iter_mut().find(|e| e.is(&stats)) else { continue };
            if std::mem::replace(&mut e.sent, stats.sent) != stats.sent
                && let Some(probe) = &mut e.probe
            {
                probe.packet_sent(turn, stats.total_pto_count);
            }
            if std::mem::replace(&mut e.recv, stats.recv) == stats.recv {
                continue;
            }
            let at = datagram.filter(|(on, _)| *on == e.spec.local).map_or(now, |(_, at)| at);
            e.heard = Some(at);
            let answers = quiche::hooks::answers(quic, e.spec.local, e.spec.peer).packets;
            let new = answers - std::mem::replace(&mut e.answers, answers).min(answers);
            if new > 0 {
                // A server that answers elsewhere lives, and so does the way to it.
                self.arrivals.heard(e.spec.id, new, e.spec.id == active, at);
                self.watch.heard(at);
                self.answered = Some(at);
            }
            match &mut e.probe {
                Some(probe) => {
                    let challenge = quiche::hooks::answered_challenge(quic, e.spec.local, e.spec.peer);
                    probe.packet_heard(at, challenge);
                }
                // Nothing else is left, and a server whose window is full of what was lost there has no room for an
                // answer to a challenge.
                None if homeless
                    && e.up
                    && e.rtt.is_some()
                    && matches!(e.state, PathState::Failed | PathState::Lost) =>
                {
                    e.state = PathState::Validated;
                    self.events.push_back(PathEvent::Recovered(e.spec.id));
                }
                // It lives after all: worth a try now.
                None if matches!(e.state, PathState::Failed | PathState::Lost) => e.due = Some(now),
                None => {}
            }
            if e.spec.id == active {
                e.rtt = e.rtt.or(Some(stats.rtt));
                self.watch.heard(at);
                self.stuck = None;
                if e.state == PathState::Lost && e.up {
                    e.state = PathState::Validated;
                    self.events.push_back(PathEvent::Recovered(active));
                }
            }
        }
    }

    fn take_events(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let mut answered: Vec<PathId> = Vec::new();
        let mut failed: Vec<PathId> = Vec::new();
        while let Some(event) = quic.path_event_next() {
            let find = |local, peer| self.entries.iter().find(|e| (e.spec.local, e.spec.peer) == (local, peer));
            match event {
                quiche::PathEvent::Validated(local, peer) => answered.extend(find(local, peer).map(|e| e.spec.id)),
                quiche::PathEvent::FailedValidation(local, peer) => failed.extend(find(local, peer).map(|e| e.spec.id)),
                // The rest is a server's.
                _ => {}
            }
        }
        let homeless = self.entry(self.active).is_none_or(|e| !e.usable());
        let silent = self.entries.iter().filter(|e| e.probe.as_ref().is_some_and(|p| p.is_answered(now, homeless)));
        answered.extend(silent.map(|e| e.spec.id));
        answered.sort();
        answered.dedup();
        for path in answered {
            self.answered(quic, path, now);
        }
        for path in failed {
            self.failed(path, now);
        }
        // quiche moves by itself when it holds the active path for failed.
        let moved = quic.path_stats().find(|p| p.active).filter(|p| self.entry(self.active).is_some_and(|e| !e.is(p)));
        if let Some(stats) = moved
            && let Some(to) = self.entries.iter().find(|e| e.is(&stats)).map(|e| e.spec.id)
        {
            self.lose_active();
            self.arrived(to, true, now);
        }
    }

    fn answered(&mut self, quic: &mut quiche::Connection, path: PathId, now: Instant) {
        let Some(e) = self.entry_mut(path) else { return };
        let Some(probe) = e.probe.take() else {
            if e.state != PathState::Validated {
                // Later than we waited: tried again for its time.
                e.due = Some(now);
            }
            return;
        };
        let rtt = probe.rtt(now);
        e.rtt = Some(rtt);
        e.unanswered = None;
        e.failures = 0;
        e.due = None;
        e.starved = false;
        let was = std::mem::replace(&mut e.state, PathState::Validated);
        self.events.push_back(PathEvent::Validated { path, rtt });
        if was == PathState::Lost {
            self.events.push_back(PathEvent::Recovered(path));
        }
        let homeless = self.entry(self.active).is_none_or(|e| !e.usable());
        if self.pending == Some(path) || homeless {
            self.pending = None;
            // Validated a moment ago: the only possible refusal is that its connection ID was retired meanwhile, and
            // then it stays a standby path that a later switch can try.
            let _ = self.migrate(quic, path, false, now);
            if homeless {
                self.wake(quic);
            }
        } else if self.standby == Standby::Cold && self.active != path {
            self.set_state(path, PathState::Waiting);
        }
    }

    fn failed(&mut self, path: PathId, now: Instant) {
        if path == self.active {
            return;
        }
        let Some(e) = self.entry_mut(path) else { return };
        let Some(probe) = e.probe.take() else { return };
        e.unanswered = Some(probe);
        e.due = Some(now + back_off(e.failures));
        e.failures = e.failures.saturating_add(1);
        if e.state != PathState::Lost {
            e.state = PathState::Failed;
        }
        self.events.push_back(PathEvent::Failed(path));
        if self.pending == Some(path) {
            self.pending = None;
        }
    }

    fn set_state(&mut self, path: PathId, state: PathState) {
        if let Some(e) = self.entry_mut(path) {
            e.state = state;
        }
    }

    fn time_probes(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let mut given_up = Vec::new();
        for e in &mut self.entries {
            let Some(probe) = &mut e.probe else { continue };
            match probe.step(now) {
                Step::Wait => {}
                Step::Again => {
                    // It was accepted before; if its connection ID was retired meanwhile the deadline will tell.
                    let _ = quic.probe_path(e.spec.local, e.spec.peer);
                }
                Step::GiveUp => given_up.push(e.spec.id),
            }
        }
        for path in given_up {
            self.failed(path, now);
        }
    }

    /// When something was last heard over the active path, or an answer over another.
    pub fn last_heard(&self) -> Option<Instant> {
        self.answered.max(self.entry(self.active)?.heard)
    }

    /// Probe timeout of the active path, with the delay that the peer may acknowledge with (RFC 9002 6.2.1).
    pub fn pto(&self, quic: &quiche::Connection) -> Duration {
        // Until it has carried some packets of its own, quiche's RTT of a path is made of acknowledgements that came
        // back over another one; the validation's is right.
        const OWN_PACKETS: usize = 8;
        let delay = quic.peer_transport_params().map_or(25, |p| p.max_ack_delay);
        let path = self.entry(self.active);
        let young = path.filter(|e| e.recv - e.recv_then.min(e.recv) < OWN_PACKETS).and_then(|e| e.rtt);
        let granularity = Duration::from_millis(1);
        let pto = match (young, quic.path_stats().find(|p| p.active)) {
            (Some(rtt), _) => rtt + (rtt * 2).max(granularity),
            (None, Some(p)) => p.rtt + (p.rttvar * 4).max(granularity),
            (None, None) => Duration::from_millis(999),
        };
        pto + Duration::from_millis(delay)
    }

    /// The same, but no less than that of the path that the latest move left: what was lost there is sent again by its
    /// timers.
    pub fn pto_since_move(&self, quic: &quiche::Connection) -> Duration {
        let left = self.left.and_then(|path| self.entry(path));
        let left = left.and_then(|e| quic.path_stats().find(|p| e.is(p))).map(|p| p.rtt + p.rttvar * 4);
        self.pto(quic).max(left.unwrap_or_default())
    }

    fn judge_active(&mut self, quic: &mut quiche::Connection, now: Instant) {
        if self.entry(self.active).is_none_or(|e| !e.usable()) {
            if let Some((at, wait)) = self.stuck
                && at <= now
            {
                self.stuck = Some((now + wait, (wait * 2).min(STUCK_PING_MAX)));
                self.wake(quic);
            }
            self.flee(quic, now);
            return;
        }
        let pto = self.pto(quic);
        if let Some(on) = self.arrivals.elsewhere(now, pto).filter(|on| self.entry(*on).is_some_and(Entry::usable)) {
            let active = self.active;
            if self.watch.expects() && self.migrate(quic, on, true, now).is_ok() {
                self.events.push_back(PathEvent::Elsewhere { active, on });
                self.wake(quic);
                return;
            }
        }
        match self.watch.judge(now, pto) {
            Verdict::Patience => {}
            Verdict::Ping => self.wake(quic),
            // With one path there is nowhere to go, and quiche probes by itself.
            Verdict::Lost if self.entries.len() == 1 => self.watch.heard(now),
            Verdict::Lost => {
                self.lose_active();
                self.stuck = Some((now, pto));
                self.flee(quic, now);
                if self.stuck.is_some() {
                    for e in &mut self.entries {
                        e.failures = 0;
                        e.due = e.due.map(|due| due.min(now));
                    }
                }
            }
        }
    }

    fn lose_active(&mut self) {
        let active = self.active;
        let Some(e) = self.entry_mut(active) else { return };
        if e.state != PathState::Lost {
            e.state = PathState::Lost;
            e.failures = 0;
            self.events.push_back(PathEvent::Lost(active));
        }
    }

    /// Leaves the active path for the best other validated one, if there is any.
    fn flee(&mut self, quic: &mut quiche::Connection, now: Instant) {
        if quic.peer_transport_params().is_some_and(|p| p.disable_active_migration) {
            return;
        }
        let rank = |e: &Entry| {
            let place = self.preferred.iter().position(|p| *p == e.spec.id).unwrap_or(usize::MAX);
            (place, e.rtt.unwrap_or(Duration::MAX))
        };
        let others = self.entries.iter().filter(|e| e.spec.id != self.active && e.usable());
        let Some(to) = others.min_by_key(|e| rank(e)).map(|e| e.spec.id) else { return };
        if self.migrate(quic, to, true, now).is_ok() {
            self.wake(quic);
        } else {
            self.set_state(to, PathState::Failed);
        }
    }

    /// Something that must be acknowledged leaves on the active path at once. After a move it is also what tells the
    /// server of it (RFC 9000 9.2: any packet that is not a probe).
    fn wake(&self, quic: &mut quiche::Connection) {
        // An error means that the connection has no active path: it is over.
        let _ = quic.send_ack_eliciting();
    }

    fn migrate(
        &mut self,
        quic: &mut quiche::Connection,
        to: PathId,
        validated: bool,
        now: Instant,
    ) -> Result<(), PathError> {
        let Some(e) = self.entry_mut(to) else { return Err(PathError::Unknown(to)) };
        match quic.migrate(e.spec.local, e.spec.peer) {
            Ok(cid) => e.cid = Some(cid),
            Err(quiche::Error::OutOfIdentifiers) => {
                e.starved = true;
                // The server may be replacing its IDs (RFC 9000 5.1.2): tried again when packets come in.
                e.due = Some(now);
                return Err(PathError::NoConnectionId(e.spec.name.clone()));
            }
            Err(error) => return Err(PathError::Refused(e.spec.name.clone(), error)),
        }
        self.arrived(to, validated, now);
        Ok(())
    }

    fn arrived(&mut self, to: PathId, validated: bool, now: Instant) {
        let from = std::mem::replace(&mut self.active, to);
        self.left = Some(from);
        self.pending = None;
        self.stuck = None;
        self.watch.heard(now);
        self.arrivals.anew(now);
        if let Some(e) = self.entry_mut(to) {
            e.probe = None;
            e.due = None;
            e.recv_then = e.recv;
        }
        let cold = self.standby == Standby::Cold;
        if let Some(e) = self.entry_mut(from) {
            e.due = (e.state == PathState::Lost).then(|| now + back_off(0));
            if cold && e.state == PathState::Validated {
                e.state = PathState::Waiting;
            }
        }
        self.events.push_back(PathEvent::Switched { from, to, validated });
    }

    fn drop_leaving(&mut self, quic: &mut quiche::Connection, now: Instant) {
        let active = self.active;
        let gone = |e: &Entry| e.leaving && e.spec.id != active;
        for e in self.entries.iter().filter(|e| gone(e)) {
            // Nothing to give up where quiche never knew the path.
            quiche::hooks::give_up(quic, e.spec.local, e.spec.peer);
            self.events.push_back(PathEvent::Removed(e.spec.id));
            if self.pending == Some(e.spec.id) {
                self.pending = None;
            }
        }
        self.entries.retain(|e| !gone(e));
        let _ = now;
    }

    /// When a path is to be validated next, if by itself.
    fn due(&self, e: &Entry) -> Option<Instant> {
        if e.spec.id == self.active || e.probe.is_some() || !e.up || e.leaving {
            return None;
        }
        let homeless = self.entry(self.active).is_none_or(|a| !a.usable());
        // What still comes in from when it was in use must not be taken for an answer.
        let quiet = e.heard.filter(|_| e.state == PathState::Validated).map(|t| t + e.rtt.unwrap_or_default() * 2);
        match (self.standby, e.state) {
            _ if e.due.is_some() => e.due.max(quiet),
            (Standby::Cold, _) if !homeless => None,
            (_, PathState::Waiting) => self.confirmed,
            (_, PathState::Validated) => e.heard.map(|t| t + STALE_AFTER),
            (_, PathState::Failed | PathState::Lost) => self.turn,
            (_, PathState::Probing | PathState::Removed) => None,
        }
    }

    fn may_probe(&self, quic: &quiche::Connection) -> bool {
        let forbidden = quic.peer_transport_params().is_some_and(|p| p.disable_active_migration);
        self.entries.len() > 1 && self.confirmed.is_some() && !forbidden
    }

    fn begin_probes(&mut self, quic: &mut quiche::Connection, now: Instant) {
        if !self.may_probe(quic) {
            return;
        }
        if !self.hurry && self.entries.iter().any(|e| e.probe.as_ref().is_some_and(|p| now < p.late_at())) {
            return;
        }
        let mut due: Vec<(Instant, PathId)> =
            self.entries.iter().filter_map(|e| Some((self.due(e)?, e.spec.id))).filter(|(t, _)| *t <= now).collect();
        due.sort();
        for (_, path) in due {
            if self.begin_probe(quic, path, now).is_ok() && !self.hurry {
                break;
            }
        }
    }

    fn begin_probe(&mut self, quic: &mut quiche::Connection, path: PathId, now: Instant) -> Result<(), PathError> {
        let Some(e) = self.entry_mut(path) else { return Err(PathError::Unknown(path)) };
        let timeouts = quic.path_stats().find(|p| e.is(p)).map_or(0, |p| p.total_pto_count);
        match quic.probe_path(e.spec.local, e.spec.peer) {
            Ok(cid) => e.cid = Some(cid),
            // `InvalidState`: quiche knows the path, but the peer retired its connection ID.
            Err(quiche::Error::OutOfIdentifiers | quiche::Error::InvalidState) => {
                e.starved = true;
                return Err(PathError::NoConnectionId(e.spec.name.clone()));
            }
            Err(error) => return Err(PathError::Refused(e.spec.name.clone(), error)),
        }
        let validated = quic.is_path_validated(e.spec.local, e.spec.peer) == Ok(true);
        e.probe =
            Some(Probe::new(now, e.rtt, timeouts, validated || e.rtt.is_some()).after(e.unanswered.take().as_ref()));
        e.starved = false;
        e.due = None;
        if matches!(e.state, PathState::Waiting | PathState::Failed) {
            e.state = PathState::Probing;
        }
        self.events.push_back(PathEvent::Probing(path));
        Ok(())
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
