// SPDX-License-Identifier: Apache-2.0
//! A client's session: one connection and its tasks (requests, each on a stream of its own), paced and measured.
//!
//! A task's completion time (TCT, Tan Eq. 3) counts from the moment it was due and its path chosen to its last byte.
//!
//! With [`Routes`] a path is chosen for each task. A migration moves the whole connection, so that is done only while
//! no other task is under way; one that is started beside others takes the path they are on.

use super::carried::Carried;
use super::request::{Action, Body, Outcome, Request};
use super::standstill::Standstill;
use super::stay::Stay;
use super::steering::{Move, Other, Steer, View};
use crate::choice::{ChoiceConfig, Chooser, PathId, TaskSample};
use crate::connection::{Conn, Failure, PacketSink, alert_name};
use crate::paths::{CidBudget, PathError, PathEvent, PathSpec, PathState, Paths, Standby, Switch};
use crate::report::events::Event;
use crate::report::samples::Timebase;
use crate::request::{Alpn, CANCELLED, NO_ERROR, promised_bytes, with_flow};
use crate::window::WindowStep;
use quiche::ConnectionId;
use quiche::hooks::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What a session is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Label of the flow.
    pub flow: u64,
    /// Whether the requests tell the server that label.
    pub tell_flow: bool,
    /// `host:port`, for the `:authority` header.
    pub authority: String,
    /// Path asked for, by each task.
    pub path: String,
    /// What to do there.
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
}

impl Plan {
    fn asked(&self) -> String {
        format!("{}{}", self.authority, self.path)
    }
}

/// Sums over the tasks of a session, or over those of one path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Completed.
    pub done: u64,
    /// Ended otherwise.
    pub failed: u64,
    /// Payload.
    pub bytes: u64,
    /// Migrations made for a task.
    pub switches: u64,
    /// Completion times of the completed tasks, in microseconds, in the order they ended.
    pub tct_us: Vec<u64>,
}

impl Tally {
    /// Mean completion time in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        let n = self.tct_us.len();
        (n > 0).then(|| self.tct_us.iter().map(|&t| t as f64).sum::<f64>() / n as f64)
    }

    /// Sample variance of the completion times, in ms squared.
    pub fn variance_ms2(&self) -> Option<f64> {
        let mean = self.mean_us()?;
        let n = self.tct_us.len();
        let squares: f64 = self.tct_us.iter().map(|&t| (t as f64 - mean).powi(2)).sum();
        (n > 1).then(|| squares / (n - 1) as f64 * 1e-6)
    }

    /// The completion time that 95 % of the tasks kept (nearest rank), in microseconds.
    pub fn p95_us(&self) -> Option<u64> {
        let mut sorted = self.tct_us.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 95).div_ceil(100);
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

/// What a session needs of the world for a turn.
pub struct Means<'a> {
    /// Room to read into.
    pub scratch: &'a mut [u8],
    /// Where downloads go.
    pub body: &'a mut dyn Body,
    /// Makes a connection ID with its reset token, both random.
    pub new_cid: &'a mut dyn FnMut() -> (ConnectionId<'static>, u128),
}

/// The paths of a session and how they are chosen.
pub struct Routes {
    paths: Paths,
    chooser: Chooser,
    standby: Standby,
    /// Place of each path in `tallies`. A path that comes back with another address has the same place.
    places: BTreeMap<PathId, usize>,
    tallies: Vec<(String, Tally)>,
    /// Paths that wait for the connection.
    fresh: Vec<PathSpec>,
    budget_told: bool,
    first_rtt_told: bool,
    /// Paths whose interface is down.
    down: BTreeSet<PathId>,
    silent: Vec<Silent>,
    /// Which path carried what was received and not read yet.
    carried: Carried,
    /// A server that answers elsewhere than it is asked.
    stay: Stay,
    /// Whether a running download may move; that needs a strategy that counts what it gains.
    steered: bool,
    steer: Steer,
    /// A move that `steer` asked for.
    by_steer: Option<PathId>,
    /// Until when the first task waits for the paths' validations.
    start_by: Option<Instant>,
}

/// A path that fell silent under a task: dead, or late. It is challenged at once. If it answers before that validation
/// is given up (three probe timeouts) it was late: its failure is taken back, and a task that left it is a sample of it,
/// with its whole completion time. So an RTT spike costs a strategy what it cost the task, whether that sat it out or
/// moved.
struct Silent {
    path: PathId,
    /// Tasks that began on it, moved and ended since.
    ended: Vec<TaskSample>,
}

impl Routes {
    /// For a connection opened on `first`. `others` are validated when it is up.
    pub fn new(first: PathSpec, others: Vec<PathSpec>, standby: Standby, choice: ChoiceConfig) -> Self {
        let paths = Paths::new(first.clone(), standby);
        let steered = choice.strategy.moves_downloads && standby == Standby::Validated;
        let chooser = Chooser::new(choice);
        let (places, tallies) = (BTreeMap::new(), Vec::new());
        let mut routes = Routes {
            paths,
            chooser,
            standby,
            places,
            tallies,
            fresh: others,
            budget_told: false,
            first_rtt_told: false,
            down: BTreeSet::new(),
            silent: Vec::new(),
            carried: Carried::default(),
            stay: Stay::default(),
            steered,
            steer: Steer::default(),
            by_steer: None,
            start_by: None,
        };
        routes.name(&first);
        routes
    }

    fn name(&mut self, spec: &PathSpec) {
        let place = self.tallies.iter().position(|(name, _)| *name == spec.name).unwrap_or_else(|| {
            self.tallies.push((spec.name.clone(), Tally::default()));
            self.tallies.len() - 1
        });
        self.places.insert(spec.id, place);
    }

    /// The latest path of this name.
    fn id_of(&self, name: &str) -> Option<PathId> {
        self.places.iter().filter(|&(_, &i)| self.tallies[i].0 == name).map(|(id, _)| *id).max()
    }

    fn name_of(&self, path: PathId) -> String {
        self.places.get(&path).map_or_else(String::new, |&i| self.tallies[i].0.clone())
    }

    /// A path fell silent while a task was on it.
    fn fell_silent(&mut self, path: PathId) {
        self.silent.retain(|s| s.path != path);
        // A cold path is validated only when the strategy wants it.
        if self.standby == Standby::Validated && !self.down.contains(&path) {
            self.paths.reprobe(path);
            self.silent.push(Silent { path, ended: Vec::new() });
        }
    }

    /// A path answers. Whether it had been held for lost and was only late.
    fn answers(&mut self, path: PathId, now: Instant) -> bool {
        let Some(place) = self.silent.iter().position(|s| s.path == path) else { return false };
        let silent = self.silent.swap_remove(place);
        self.chooser.late(path, now);
        silent.ended.iter().for_each(|task| self.chooser.finished(task, now));
        true
    }

    fn tally_of(&mut self, path: PathId) -> Option<&mut Tally> {
        self.places.get(&path).map(|&i| &mut self.tallies[i].1)
    }
}

/// A task that is due and whose path is chosen; its request is not out yet.
#[derive(Debug, Clone)]
struct Chosen {
    task: u64,
    path: PathId,
    start: Instant,
    switched: bool,
    cold: bool,
    /// The path is still being validated.
    waiting: bool,
    moved_to: Option<PathId>,
    /// The path it left was late only.
    was_late: bool,
    /// Whenever it moved, that was to gain by it.
    steered: bool,
}

impl Chosen {
    /// The path it is on.
    fn on(&self) -> PathId {
        self.moved_to.unwrap_or(self.path)
    }
}

/// A task whose request is out.
#[derive(Debug)]
struct Running {
    chosen: Chosen,
    request: Request,
    /// For a download whose connection moved, until it was asked for anew.
    standstill: Option<Standstill>,
    /// Bytes of the answer by the path that carried them.
    answered: Vec<(PathId, u64)>,
}

/// One connection of a client and its tasks.
pub struct Session {
    /// Its connection.
    pub conn: Conn,
    /// What it is to do.
    pub plan: Plan,
    /// Payload in the transfer's direction: bytes delivered of downloads, bytes handed to the stack of uploads.
    pub bytes: u64,
    /// When the first byte of an answer arrived.
    pub first_byte: Option<Instant>,
    /// When it ended.
    pub ended: Option<Instant>,
    /// Sums over its tasks.
    pub tally: Tally,
    outcome: Option<Outcome>,
    failure: Option<Outcome>,
    /// Time 0 of the pacing.
    base: Option<Instant>,
    /// Up to here every due time was looked at.
    looked: Option<Instant>,
    next_task: u64,
    chosen: Option<Chosen>,
    // Ordered, because the order of writing decides the order of packets.
    running: BTreeMap<u64, Running>,
    next_hq_stream: u64,
    going_away: bool,
    /// `None`: one path, left to the routing table.
    routes: Option<Box<Routes>>,
    cid_budget: Option<CidBudget>,
    /// Something was heard, or sent to be answered.
    lively: Instant,
    timebase: Timebase,
    /// `None`: nobody reads them.
    events: Option<Vec<(Instant, Event)>>,
}

/// Name of the path of a session that leaves it to the routing table.
pub const DEFAULT_PATH: &str = "default";

impl Session {
    /// A session whose connection was just opened at `now`. Events are kept only if `record`ed for someone.
    pub fn new(conn: Conn, plan: Plan, routes: Option<Routes>, timebase: Timebase, record: bool, now: Instant) -> Self {
        let mut session = Session {
            conn,
            plan,
            bytes: 0,
            first_byte: None,
            ended: None,
            tally: Tally::default(),
            outcome: None,
            failure: None,
            base: None,
            looked: None,
            next_task: 0,
            chosen: None,
            running: BTreeMap::new(),
            next_hq_stream: 0,
            going_away: false,
            routes: None,
            cid_budget: None,
            lively: now,
            timebase,
            events: record.then(Vec::new),
        };
        if let Some(mut routes) = routes {
            let first = routes.paths.active();
            routes.chooser.add(first, now);
            let others = std::mem::take(&mut routes.fresh);
            session.routes = Some(Box::new(routes));
            session.path_event(first, "added", None, now);
            for spec in others {
                session.add_path(spec, now);
            }
        }
        session
    }

    /// Adds a path, to be validated when its turn comes.
    pub fn add_path(&mut self, spec: PathSpec, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let id = spec.id;
        let old = routes.id_of(&spec.name);
        routes.name(&spec);
        routes.paths.add(spec);
        routes.chooser.add(id, now);
        if let Some(old) = old {
            routes.chooser.renumbered(old, id);
        }
        // What was never heard is used only if its validation is to be part of the task.
        routes.chooser.set_usable(id, routes.standby == Standby::Cold, now);
        self.path_event(id, "added", None, now);
    }

    /// The address of a path is gone for good.
    pub fn remove_path(&mut self, path: PathId) {
        if let Some(routes) = &mut self.routes {
            routes.paths.remove(path);
        }
    }

    /// Whether the connection still knows a path that was removed.
    pub fn has_path(&self, path: PathId) -> bool {
        self.routes.as_ref().is_some_and(|r| r.paths.state(path) != PathState::Removed)
    }

    /// The interface of a path went up or down; what it did already changes nothing.
    pub fn interface(&mut self, path: PathId, up: bool, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        if up {
            routes.down.remove(&path);
        } else {
            routes.down.insert(path);
            routes.silent.retain(|s| s.path != path);
        }
        if routes.paths.interface(path, up) {
            self.path_event(path, if up { "interface-up" } else { "interface-down" }, None, now);
        }
    }

    /// The connection did not come up on its first path.
    pub fn path_failed(&mut self, now: Instant) {
        if let Some(routes) = &self.routes {
            self.path_event(routes.paths.active(), "failed", None, now);
        }
    }

    fn path_event(&mut self, path: PathId, event: &'static str, rtt: Option<Duration>, now: Instant) {
        if self.events.is_some() {
            let path = self.path_name(path);
            self.event(now, || Event::Path { path, event, rtt_us: rtt.map(|d| d.as_micros() as u64) });
        }
    }

    /// Name and sums of each path, in the order they were added; none if the routing table chooses.
    pub fn path_tallies(&self) -> &[(String, Tally)] {
        self.routes.as_ref().map_or(&[], |r| &r.tallies)
    }

    /// Name of the path in use.
    pub fn active_path(&self) -> String {
        self.routes.as_ref().map_or(DEFAULT_PATH.to_owned(), |r| r.name_of(r.paths.active()))
    }

    /// Tasks that were answered on another path than the connection was on, and whether it followed the server there.
    pub fn answered_elsewhere(&self) -> (u64, bool) {
        self.routes.as_ref().map_or((0, false), |r| r.stay.told())
    }

    /// Connection IDs against paths; none if the routing table chooses or the connection was never up.
    pub fn cid_budget(&self) -> Option<CidBudget> {
        self.cid_budget
    }

    fn path_name(&self, path: PathId) -> String {
        self.routes.as_ref().map_or(DEFAULT_PATH.to_owned(), |r| r.name_of(path))
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Adds why we refused the certificate to the outcome of a failed handshake.
    pub fn explain(&mut self, why: &str) {
        if let Some(outcome) = &mut self.outcome {
            outcome.explain(why);
        }
    }

    /// Takes the events recorded since the last call.
    pub fn take_events(&mut self) -> Vec<(Instant, Event)> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes in one datagram.
    pub fn recv(&mut self, bytes: &mut [u8], tos: u8, info: quiche::RecvInfo, now: Instant) {
        self.lively = now;
        let received = |conn: &Conn| quiche::hooks::received_and_limit_bytes(&conn.quic).0;
        let before = received(&self.conn);
        self.conn.recv(bytes, tos, info);
        let new = received(&self.conn) - before;
        if let Some(routes) = &mut self.routes {
            routes.paths.heard(info.to, now);
            if let Some(path) = routes.paths.at(info.to) {
                routes.carried.received(path, new);
                if path == routes.paths.active() {
                    routes.steer.arrived(new);
                }
            }
        }
    }

    /// Hands every packet that may leave now to `sink`.
    pub fn pump(&mut self, now: Instant, sink: &mut impl PacketSink) {
        self.conn.pump(now, sink);
        if let Some(routes) = &mut self.routes {
            routes.paths.sent(&self.conn.quic, now);
        }
        if let Some(windows) = &mut self.conn.windows {
            for step in windows.steps() {
                let Some(events) = &mut self.events else { continue };
                let stream = if let Scope::Stream(id) = step.scope { Some(id) } else { None };
                let WindowStep { at, window_bytes, promised_bytes, received_bytes, .. } = step;
                events.push((at, Event::Window { stream, window_bytes, promised_bytes, received_bytes }));
            }
        }
    }

    /// When this session next needs a call although nothing arrived.
    pub fn deadline(&self) -> Option<Instant> {
        // A task that could not be started at its time waits for a packet, not for a time gone by.
        let steer = self.routes.as_ref().and_then(|r| r.steer.deadline());
        let start = self.routes.as_ref().and_then(|r| r.start_by).filter(|_| self.next_task == 0);
        let due = [self.next_due(), self.patience_ends(), steer, start].into_iter().flatten();
        let due = due.filter(|t| self.looked.is_none_or(|l| *t > l)).min();
        let paths = self.routes.as_ref().and_then(|r| r.paths.deadline());
        [self.conn.deadline(), due, self.keep_alive(), paths].into_iter().flatten().min()
    }

    /// Does what a deadline calls for; [`Session::advance`] must follow.
    pub fn on_deadline(&mut self, now: Instant) {
        if self.conn.deadline().is_some_and(|t| t <= now) {
            self.conn.on_deadline(now);
        }
        if self.keep_alive().is_some_and(|t| t <= now) {
            self.lively = now;
            // It can only fail on a connection that is gone, which `advance` finds out.
            let _ = self.conn.quic.send_ack_eliciting();
        }
    }

    /// Ends the session now and closes its connection.
    pub fn end(&mut self, outcome: Outcome, now: Instant) {
        if self.outcome.is_some() {
            return;
        }
        self.tell_budget(true, now);
        for (_, task) in std::mem::take(&mut self.running) {
            self.note_end(&task.chosen, None, task.request.bytes, &outcome, now);
        }
        if let Some(chosen) = self.chosen.take() {
            self.note_end(&chosen, None, 0, &outcome, now);
        }
        let code = if outcome.exit_code() == 0 { NO_ERROR } else { CANCELLED };
        self.conn.close(code, outcome.name());
        self.outcome = Some(outcome);
        self.ended = Some(now);
    }

    /// Does what can be done after packets arrived or a timer fired.
    pub fn advance(&mut self, now: Instant, means: &mut Means<'_>) {
        if self.outcome.is_some() {
            return;
        }
        let result = self.step(now, means);
        let done = self.running.is_empty() && self.chosen.is_none();
        if done && self.next_task == self.plan.tasks {
            let outcome = self.failure.take().unwrap_or(Outcome::Complete);
            self.end(outcome, now);
        } else if let Some(failure) = self.conn.failure() {
            let outcome = self.judge(failure);
            self.end(outcome, now);
        } else if let Err(e) = result {
            let text = format!("{}: HTTP/3: {e}", self.plan.authority);
            self.end(Outcome::Incomplete(text), now);
        } else if done && self.going_away {
            let left = self.plan.tasks - self.next_task;
            let text = format!("{}: the server takes no more requests; {left} were left", self.plan.authority);
            let outcome = self.failure.take().unwrap_or(Outcome::Incomplete(text));
            self.end(outcome, now);
        }
    }

    fn judge(&self, failure: Failure) -> Outcome {
        let peer = &self.plan.authority;
        let started = self.conn.established.is_some();
        match failure {
            Failure::Timeout { established: false } => {
                Outcome::Timeout(format!("no answer from {peer} within the idle timeout"))
            }
            Failure::Timeout { established: true } => {
                Outcome::Timeout(format!("{peer} fell silent for the idle timeout after {} bytes", self.bytes))
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
                    Outcome::Incomplete(format!("{text}, after {} bytes", self.bytes))
                } else {
                    Outcome::Connect(text)
                }
            }
            Failure::StatelessReset => Outcome::Incomplete(format!(
                "{peer}: stateless reset: the server no longer knows this connection, after {} bytes",
                self.bytes
            )),
        }
    }

    fn step(&mut self, now: Instant, means: &mut Means<'_>) -> Result<(), quiche::h3::Error> {
        let Some(alpn) = self.conn.establish(now)? else { return Ok(()) };
        if self.base.is_none() {
            self.base = Some(self.plan.start_at.unwrap_or(now));
        }
        self.poll_paths(now, means);
        let Means { scratch, body, .. } = means;
        let result = self.step_tasks(alpn, now, scratch, *body);
        self.steer(now);
        self.watch_paths(now, means);
        result
    }

    fn step_tasks(
        &mut self,
        alpn: Alpn,
        now: Instant,
        scratch: &mut [u8],
        body: &mut dyn Body,
    ) -> Result<(), quiche::h3::Error> {
        // Read first: a task that ends makes room for the next, whose request then leaves in the same flight.
        match alpn {
            Alpn::H3 => {
                let Some(mut h3) = self.conn.h3.take() else { return Ok(()) };
                let result = self.read_h3(&mut h3, now, scratch, body).and_then(|()| {
                    self.ask_anew(now, Some(&mut h3), body)?;
                    self.start_tasks(now, Some(&mut h3))?;
                    self.write_uploads(Some(&mut h3))
                });
                self.conn.h3 = Some(h3);
                result
            }
            Alpn::Hq => {
                self.read_hq(now, scratch, body)?;
                self.ask_anew(now, None, body)?;
                self.start_tasks(now, None)?;
                self.write_uploads(None)
            }
        }
    }

    /// When the next task may start, if one waits for its time alone.
    fn next_due(&self) -> Option<Instant> {
        let room = self.chosen.is_none() && self.running.len() < self.plan.parallel && !self.going_away;
        if !room || self.next_task == self.plan.tasks || self.outcome.is_some() {
            return None;
        }
        let nanos = u64::try_from(self.plan.interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(self.next_task);
        self.base?.checked_add(Duration::from_nanos(nanos))
    }

    /// When the peer should be asked for a sign of life, so that a pause between tasks does not end the connection.
    fn keep_alive(&self) -> Option<Instant> {
        if self.conn.established.is_none() || !self.running.is_empty() || self.outcome.is_some() {
            return None;
        }
        // RFC 9000 10.1: the lesser of both sides' counts; 0 is none.
        let theirs = self.conn.quic.peer_transport_params().map_or(0, |p| p.max_idle_timeout);
        let theirs = if theirs == 0 { Duration::MAX } else { Duration::from_millis(theirs) };
        self.lively.checked_add(self.plan.idle_timeout.min(theirs) / 2)
    }

    fn start_tasks(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        loop {
            if self.chosen.is_none() {
                let Some(due) = self.next_due() else { break };
                if due > now || !self.may_start(now) {
                    break;
                }
                self.choose(now);
            }
            let Some(chosen) = self.chosen.as_ref().filter(|c| !c.waiting) else { break };
            let task = chosen.task;
            let Some((stream, request)) = self.send_request(h3.as_deref_mut())? else { break };
            if let Some(chosen) = self.chosen.take() {
                debug_assert_eq!(chosen.task, task);
                if let Some(routes) = self.routes.as_mut().filter(|_| self.running.is_empty()) {
                    // What came before was no answer: HTTP/3's settings.
                    routes.carried.clear();
                }
                self.running.insert(stream, Running { chosen, request, standstill: None, answered: Vec::new() });
                if let Some(routes) = &mut self.routes {
                    routes.steer.begin(now);
                }
            }
        }
        self.looked = Some(now);
        Ok(())
    }

    /// Whether the first task may choose its path. What is worth it waits until the paths are validated, as far as one
    /// may turn out to be nearer than those that are; not for long.
    fn may_start(&mut self, now: Instant) -> bool {
        /// What a few round trips bring starts at once.
        const SMALL_BYTES: u64 = 64_000;
        const WAIT_MAX: Duration = Duration::from_secs(1);
        let small = self.task_bytes().is_some_and(|n| n <= SMALL_BYTES);
        let Some(routes) = self.routes.as_mut().filter(|r| r.steered && self.next_task == 0) else { return true };
        // A round trip until the handshake is confirmed, and one for the challenges; twice that if one is late.
        let rtt = routes.paths.rtt(routes.paths.active()).unwrap_or(WAIT_MAX);
        let wait = (rtt * 4).min(WAIT_MAX);
        let by = *routes.start_by.get_or_insert(now + wait);
        let waits = !small && now < by && routes.paths.undecided(&self.conn.quic, now);
        routes.paths.hurry(waits);
        !waits
    }

    /// Chooses a path for the next task, and moves there.
    fn choose(&mut self, now: Instant) {
        let task = self.next_task;
        self.next_task += 1;
        let beside = !self.running.is_empty();
        self.chosen = Some(self.choose_path(task, now, beside));
    }

    fn choose_path(&mut self, task: u64, start: Instant, beside: bool) -> Chosen {
        let here = self.routes.as_ref().map_or(PathId(0), |r| r.paths.active());
        let mut chosen = Chosen {
            task,
            path: here,
            start,
            switched: false,
            cold: false,
            waiting: false,
            moved_to: None,
            was_late: false,
            steered: false,
        };
        let bytes = self.task_bytes();
        let Some(routes) = self.routes.as_mut().filter(|_| !beside) else { return chosen };
        if routes.stay.holds(start) {
            let (path, reason) = (routes.name_of(here), "server-stays");
            self.event(start, || Event::Choice { task, path, reason, index: BTreeMap::new() });
            return chosen;
        }
        let Some(choice) = routes.chooser.choose(task, bytes, start, Some(here)) else { return chosen };
        let mut reason = choice.reason;
        match routes.paths.switch(&mut self.conn.quic, choice.path, start) {
            Ok(Switch::Already) => {}
            Ok(Switch::Done) => (chosen.path, chosen.switched) = (choice.path, true),
            Ok(Switch::Probing) => {
                chosen = Chosen { path: choice.path, switched: true, cold: true, waiting: true, ..chosen };
            }
            Err(error) => {
                // The task stays where the connection is.
                reason = match error {
                    PathError::TooEarly => "handshake-unconfirmed",
                    PathError::Forbidden => "migration-forbidden",
                    PathError::NoConnectionId(_) => "no-connection-id",
                    PathError::Down(_) | PathError::Unknown(_) => "path-down",
                    PathError::Refused(..) => "path-refused",
                };
                match error {
                    // A matter of a moment.
                    PathError::TooEarly => {}
                    PathError::Refused(..) => routes.chooser.failed(choice.path, start),
                    // The server may be replacing its IDs; a cold path is tried again when it is chosen again.
                    PathError::NoConnectionId(_) if routes.standby == Standby::Cold => {
                        routes.chooser.failed(choice.path, start);
                    }
                    _ => routes.chooser.set_usable(choice.path, false, start),
                }
            }
        }
        if self.events.is_some() {
            let index = choice.index_ms.iter().map(|(p, v)| (routes.name_of(*p), *v)).collect();
            let path = routes.name_of(chosen.path);
            self.event(start, || Event::Choice { task, path, reason, index });
        }
        self.take_path_events(start);
        chosen
    }

    /// Payload that the next task will move, where that is known.
    fn task_bytes(&self) -> Option<u64> {
        match self.plan.action {
            Action::Download => promised_bytes(&self.plan.path),
            Action::Upload(n) => n,
        }
    }

    /// Before the tasks' turn: what became of the paths.
    fn poll_paths(&mut self, now: Instant, means: &mut Means<'_>) {
        let Some(routes) = &mut self.routes else { return };
        routes.paths.poll(&mut self.conn.quic, now, &mut means.new_cid);
        if !routes.first_rtt_told
            && let Some(rtt) = routes.paths.rtt(routes.paths.active())
        {
            routes.first_rtt_told = true;
            routes.chooser.probed(routes.paths.active(), rtt, now);
        }
        self.take_path_events(now);
        self.tell_budget(false, now);
        // Its path failed while the task waited for it: another one.
        if let Some(chosen) = &self.chosen
            && chosen.waiting
            && let Some(routes) = &self.routes
            && !matches!(routes.paths.state(chosen.path), PathState::Probing | PathState::Waiting)
        {
            let again = self.choose_path(chosen.task, now, false);
            if let Some(chosen) = &mut self.chosen {
                let cold = true;
                *chosen = Chosen { start: chosen.start, cold, ..again };
            }
        }
    }

    /// After the tasks' turn: probes that the strategy asks for, and whether an answer is due.
    fn watch_paths(&mut self, now: Instant, means: &mut Means<'_>) {
        let Some(routes) = &mut self.routes else { return };
        routes.paths.expecting(!self.running.is_empty(), now);
        // A path just lost is challenged in this turn.
        let mut asked = !routes.silent.is_empty();
        while let Some((at, path)) = routes.chooser.next_probe().filter(|(at, _)| *at <= now) {
            routes.chooser.probing(path, now);
            // The path in use is timed by its tasks.
            if path != routes.paths.active() {
                routes.paths.reprobe(path);
                asked = true;
            }
            debug_assert!(at <= now);
        }
        if asked {
            routes.paths.poll(&mut self.conn.quic, now, &mut means.new_cid);
        }
        self.take_path_events(now);
    }

    fn take_path_events(&mut self, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let events: Vec<PathEvent> = routes.paths.events().collect();
        for event in events {
            let Some(routes) = &mut self.routes else { return };
            match event {
                PathEvent::Probing(path) => self.path_event(path, "probing", None, now),
                PathEvent::Validated { path, rtt } => {
                    self.heard_again(path, now);
                    let Some(routes) = &mut self.routes else { return };
                    routes.chooser.set_usable(path, true, now);
                    routes.chooser.probed(path, rtt, now);
                    self.path_event(path, "validated", Some(rtt), now);
                }
                PathEvent::Failed(path) => {
                    routes.silent.retain(|s| s.path != path);
                    // A cold path is tried again when the strategy wants it again.
                    match routes.standby {
                        Standby::Validated => routes.chooser.set_usable(path, false, now),
                        Standby::Cold => routes.chooser.failed(path, now),
                    }
                    self.path_event(path, "failed", None, now);
                }
                PathEvent::Lost(path) => {
                    if self.running.values().any(|t| t.chosen.on() == path) {
                        routes.chooser.failed(path, now);
                        routes.fell_silent(path);
                    }
                    routes.chooser.set_usable(path, false, now);
                    self.path_event(path, "lost", None, now);
                }
                PathEvent::Recovered(path) => {
                    self.heard_again(path, now);
                    let Some(routes) = &mut self.routes else { return };
                    routes.chooser.set_usable(path, true, now);
                    self.path_event(path, "recovered", None, now);
                }
                PathEvent::Switched { from, to, .. } => {
                    self.tally.switches += 1;
                    if let Some(tally) = routes.tally_of(to) {
                        tally.switches += 1;
                    }
                    let ours = routes.by_steer.take() == Some(to);
                    routes.steer.moved(from, to, now);
                    for task in self.running.values_mut() {
                        let chosen = &mut task.chosen;
                        chosen.steered = ours && (chosen.steered || chosen.moved_to.is_none());
                        chosen.moved_to = (!ours || to != chosen.path).then_some(to);
                        // An upload is our stack's to send again, and what the server has of it can't be known.
                        task.standstill = (self.plan.action == Action::Download).then(|| Standstill::new(now));
                    }
                    if let Some(chosen) = &mut self.chosen
                        && chosen.path == to
                    {
                        chosen.waiting = false;
                    }
                    self.path_event(to, "switched", None, now);
                }
                PathEvent::Removed(path) => {
                    routes.chooser.remove(path);
                    self.path_event(path, "removed", None, now);
                }
                PathEvent::Elsewhere { active, on } => {
                    routes.stay.hold(now);
                    let (path, on) = (self.path_name(active), self.path_name(on));
                    self.event(now, || Event::Elsewhere { path, on });
                }
            }
        }
    }

    fn heard_again(&mut self, path: PathId, now: Instant) {
        if self.routes.as_mut().is_some_and(|r| r.answers(path, now)) {
            for task in self.running.values_mut().filter(|t| t.chosen.path == path) {
                task.chosen.was_late = true;
            }
        }
    }

    /// Reports the connection IDs there are: when there are enough, when there can't be, or at the latest at the end.
    fn tell_budget(&mut self, end: bool, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        if self.conn.established.is_none() || routes.budget_told && !end {
            return;
        }
        let budget = routes.paths.budget(&self.conn.quic);
        self.cid_budget = Some(budget);
        if routes.budget_told || (budget.usable < budget.wanted && budget.migration_allowed && !end) {
            return;
        }
        routes.budget_told = true;
        let CidBudget { wanted, peer_limit, own_limit, usable, migration_allowed, .. } = budget;
        self.event(now, || Event::Cid { wanted, peer_limit, own_limit, usable, migration_allowed });
    }

    /// Puts a request on a new stream; `None`: there is no room for it yet.
    fn send_request(
        &mut self,
        h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<Option<(u64, Request)>, quiche::h3::Error> {
        use quiche::h3::{Error, Header};
        if self.conn.quic.peer_streams_left_bidi() == 0 {
            return Ok(None);
        }
        let plan = &self.plan;
        let path = if plan.tell_flow { with_flow(&plan.path, plan.flow) } else { plan.path.clone() };
        let method = plan.action.method().as_str();
        let Some(h3) = h3 else {
            let stream = self.next_hq_stream;
            self.next_hq_stream += 4;
            let mut request =
                Request::new(plan.action, &plan.path, format!("{method} {path}\r\n").into_bytes(), plan.max_bytes);
            // What does not fit now is sent by `write_uploads`.
            send_line(&mut self.conn, stream, &mut request, plan.action)?;
            return Ok(Some((stream, request)));
        };
        let mut headers = vec![
            Header::new(b":method", method.as_bytes()),
            Header::new(b":scheme", b"https"),
            Header::new(b":authority", plan.authority.as_bytes()),
            Header::new(b":path", path.as_bytes()),
            Header::new(b"user-agent", b"weir"),
        ];
        if let Action::Upload(Some(n)) = plan.action {
            headers.push(Header::new(b"content-length", n.to_string().as_bytes()));
        }
        match h3.send_request(&mut self.conn.quic, &headers, plan.action == Action::Download) {
            Ok(stream) => Ok(Some((stream, Request::new(plan.action, &plan.path, Vec::new(), plan.max_bytes)))),
            // The server's limits leave no room yet.
            Err(Error::StreamBlocked | Error::TransportError(quiche::Error::StreamLimit)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Asks anew for downloads that a move brought to a standstill, on other streams.
    fn ask_anew(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
        body: &mut dyn Body,
    ) -> Result<(), quiche::h3::Error> {
        let Some(routes) = &self.routes else { return Ok(()) };
        let (pto, heard) = (routes.paths.pto_since_move(&self.conn.quic), routes.paths.last_heard());
        let over = |t: &Running| t.standstill.is_some_and(|s| s.is_over(now, pto, heard));
        let streams: Vec<u64> = self.running.iter().filter(|(_, t)| over(t)).map(|(&id, _)| id).collect();
        if !streams.is_empty() && self.go_back(now) {
            return Ok(());
        }
        for old in streams {
            // No room for another stream: at the next turn.
            let Some((stream, request)) = self.send_request(h3.as_deref_mut())? else { break };
            let Some(Running { chosen, request: given_up, .. }) = self.running.remove(&old) else { continue };
            // It may be shut already, which is as good.
            let _ = self.conn.quic.stream_shutdown(old, quiche::Shutdown::Read, CANCELLED);
            let (task, path) = (chosen.task, self.path_name(chosen.on()));
            // They come once more; what each path carried stays counted there.
            self.bytes = self.bytes.saturating_sub(given_up.bytes);
            self.running.insert(stream, Running { chosen, request, standstill: None, answered: Vec::new() });
            self.event(now, || Event::Retry { task, path, bytes: given_up.bytes });
            if let Err(text) = body.restart() {
                self.task_over(stream, Outcome::File(text), now);
            }
        }
        Ok(())
    }

    /// Leaves the path for another if the running downloads gain by it.
    fn steer(&mut self, now: Instant) {
        let left = self.left_bytes();
        let Some(routes) = self.routes.as_mut().filter(|r| r.steered) else { return };
        let waiting = self.chosen.as_ref().is_some_and(|c| c.waiting);
        if self.running.is_empty() || waiting || routes.stay.holds(now) || self.plan.action != Action::Download {
            return;
        }
        let others: Vec<Other> = routes.paths.standby().map(|(path, rtt)| Other { path, rtt }).collect();
        let here = routes.paths.active();
        let Some(rtt) = routes.paths.rtt(here) else { return };
        let view = View { active: Other { path: here, rtt }, others: &others, left_bytes: left };
        let Some(Move { to, reason }) = routes.steer.decide(&view, now) else { return };
        let rates = routes.steer.rates_bit_s();
        if self.move_to(to, now) {
            let (path, from) = (self.path_name(to), self.path_name(here));
            let rate_bit_s = rates.into_iter().map(|(p, r)| (self.path_name(p), r)).collect();
            self.event(now, || Event::Move { path, from, reason, rate_bit_s, left_bytes: left });
        }
    }

    /// Moves running downloads.
    fn move_to(&mut self, to: PathId, now: Instant) -> bool {
        let Some(routes) = &mut self.routes else { return false };
        routes.by_steer = Some(to);
        let moved = routes.paths.switch(&mut self.conn.quic, to, now) == Ok(Switch::Done);
        if !moved {
            routes.by_steer = None;
            routes.steer.refused(to, now);
        }
        self.take_path_events(now);
        moved
    }

    /// Downloads stand still since a move that was made to gain by it: back, where the server sends what it left there.
    fn go_back(&mut self, now: Instant) -> bool {
        let Some(back) = self.routes.as_mut().and_then(|r| r.steer.stuck()) else { return false };
        let from = self.active_path();
        let moved = self.move_to(back, now);
        if moved {
            let (path, reason) = (self.path_name(back), "the server sends nothing again");
            self.event(now, || Event::Move { path, from, reason, rate_bit_s: BTreeMap::new(), left_bytes: None });
        }
        moved
    }

    /// Payload that running tasks and those that follow at once are still to bring, where it is known.
    fn left_bytes(&self) -> Option<u64> {
        let left: u64 = self.running.values().map(|t| t.request.left_bytes()).sum::<Option<u64>>()?;
        let follow = if self.plan.interval.is_zero() { self.plan.tasks - self.next_task } else { 0 };
        let each = self.task_bytes().or_else(|| self.tally.bytes.checked_div(self.tally.done)).unwrap_or(0);
        Some(left.saturating_add(follow.saturating_mul(each)))
    }

    /// When [`Session::ask_anew`] has something to look at.
    fn patience_ends(&self) -> Option<Instant> {
        let routes = self.routes.as_ref()?;
        let pto = routes.paths.pto_since_move(&self.conn.quic);
        self.running.values().filter_map(|t| t.standstill).map(|s| s.patience_ends(pto)).min()
    }

    fn read_h3(
        &mut self,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
        body: &mut dyn Body,
    ) -> Result<(), quiche::h3::Error> {
        use quiche::h3::{Error, Event};
        loop {
            match h3.poll(&mut self.conn.quic) {
                Ok((id, Event::Headers { list, .. })) => {
                    let asked = self.plan.asked();
                    let outcome = self.running.get_mut(&id).and_then(|t| t.request.headers(&list, &asked));
                    if let Some(outcome) = outcome {
                        self.task_over(id, outcome, now);
                    }
                }
                Ok((id, Event::Data)) => loop {
                    match h3.recv_body(&mut self.conn.quic, id, scratch) {
                        Ok(n) => self.took_in(id, &scratch[..n], body, now),
                        Err(Error::Done) => break,
                        Err(Error::TransportError(quiche::Error::StreamReset(code))) => {
                            self.was_reset(id, code, now);
                            break;
                        }
                        Err(e) => return Err(e),
                    }
                },
                Ok((id, Event::Finished)) => self.finished(id, body, now),
                Ok((id, Event::Reset(code))) => self.was_reset(id, code, now),
                Ok((_, Event::GoAway)) => self.going_away = true,
                Ok(_) => {}
                Err(Error::Done) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    fn read_hq(&mut self, now: Instant, scratch: &mut [u8], body: &mut dyn Body) -> Result<(), quiche::h3::Error> {
        use quiche::Error;
        while let Some(id) = self.conn.quic.stream_readable_next() {
            loop {
                match self.conn.quic.stream_recv(id, scratch) {
                    Ok((n, fin)) => {
                        self.took_in(id, &scratch[..n], body, now);
                        if fin {
                            self.finished(id, body, now);
                        }
                    }
                    // `InvalidStreamState`: it is over and done.
                    Err(Error::Done | Error::InvalidStreamState(_)) => break,
                    Err(Error::StreamReset(code)) => {
                        self.was_reset(id, code, now);
                        break;
                    }
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    fn took_in(&mut self, id: u64, part: &[u8], body: &mut dyn Body, now: Instant) {
        let Some(task) = self.running.get_mut(&id) else { return };
        self.first_byte.get_or_insert(now);
        let before = task.request.bytes;
        let failed = task.request.took_in(part, body);
        let bytes = task.request.bytes - before;
        self.bytes += bytes;
        if let Some(routes) = &mut self.routes {
            let active = routes.paths.active();
            for (path, n) in routes.carried.read(bytes, active) {
                match task.answered.iter_mut().find(|(p, _)| *p == path) {
                    Some((_, sum)) => *sum += n,
                    None => task.answered.push((path, n)),
                }
                if let Some(tally) = routes.tally_of(path) {
                    tally.bytes += n;
                }
            }
        }
        // A server may send one answer after the other.
        self.running.values_mut().filter_map(|t| t.standstill.as_mut()).for_each(|s| s.progress(now));
        if let Some(outcome) = failed {
            self.task_over(id, outcome, now);
        }
    }

    fn count_sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(routes) = &mut self.routes
            && let Some(tally) = routes.tally_of(routes.paths.active())
        {
            tally.bytes += bytes;
        }
    }

    fn finished(&mut self, id: u64, body: &mut dyn Body, now: Instant) {
        if let Some(task) = self.running.get(&id) {
            let outcome = task.request.finished(body);
            self.task_over(id, outcome, now);
        }
    }

    fn was_reset(&mut self, id: u64, code: u64, now: Instant) {
        if let Some(task) = self.running.get(&id) {
            let outcome = task.request.was_reset(code, &self.plan.asked());
            self.task_over(id, outcome, now);
        }
    }

    fn write_uploads(&mut self, mut h3: Option<&mut quiche::h3::Connection>) -> Result<(), quiche::h3::Error> {
        let mut bytes = 0;
        for (&stream, task) in &mut self.running {
            send_line(&mut self.conn, stream, &mut task.request, self.plan.action)?;
            bytes += match h3.as_deref_mut() {
                Some(h3) => {
                    task.request.upload(&mut self.conn, stream, |quic, part, fin| h3.send_body(quic, stream, part, fin))
                }
                None => task.request.upload(&mut self.conn, stream, |quic, part, fin| {
                    quic.stream_send(stream, part, fin).map_err(Into::into)
                }),
            }?;
        }
        self.count_sent(bytes);
        Ok(())
    }

    fn task_over(&mut self, id: u64, outcome: Outcome, now: Instant) {
        let Some(task) = self.running.remove(&id) else { return };
        if outcome != Outcome::Complete {
            // Whatever else is on this stream concerns nobody; it may be shut already, which is as good.
            let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Read, CANCELLED);
            let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Write, CANCELLED);
        }
        // What carried most of the answer.
        let answered = task.answered.iter().max_by_key(|(_, n)| *n).map(|(path, _)| *path);
        self.note_end(&task.chosen, answered, task.request.bytes, &outcome, now);
        if let Some(routes) = self.routes.as_mut().filter(|_| self.running.is_empty()) {
            routes.steer.end();
            routes.carried.clear();
        }
    }

    /// A task was answered on `on` though the connection was on another path from its beginning to its end.
    fn was_answered_elsewhere(&mut self, on: PathId, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let active = routes.paths.active();
        if routes.stay.elsewhere(on, now) && routes.paths.switch(&mut self.conn.quic, on, now) == Ok(Switch::Done) {
            let (path, on) = (self.path_name(active), self.path_name(on));
            self.event(now, || Event::Elsewhere { path, on });
            self.take_path_events(now);
        }
    }

    fn note_end(&mut self, chosen: &Chosen, answered: Option<PathId>, bytes: u64, outcome: &Outcome, now: Instant) {
        let tct = now.saturating_duration_since(chosen.start);
        let tct_us = tct.as_micros() as u64;
        let complete = *outcome == Outcome::Complete;
        let failed = outcome.exit_code() != 0;
        self.tally.bytes += bytes;
        let answered = answered.filter(|on| *on != chosen.path && chosen.moved_to.is_none() && !chosen.steered);
        let credited = answered.unwrap_or(chosen.path);
        let path = self.routes.as_mut().and_then(|r| r.tally_of(credited));
        for tally in [Some(&mut self.tally), path].into_iter().flatten() {
            tally.done += u64::from(complete);
            tally.failed += u64::from(failed);
            tally.tct_us.extend(complete.then_some(tct_us));
        }
        if failed {
            self.failure.get_or_insert_with(|| outcome.clone());
        }
        if let Some(routes) = &mut self.routes {
            let Chosen { task, switched, cold, .. } = *chosen;
            let path = credited;
            let sample = TaskSample { path, task, tct, bytes, switched, cold };
            if complete && chosen.steered {
                // It says of each path it was on what it would have taken there.
                let at_once = self.running.len() as u64 + 1;
                for (path, took) in routes.steer.estimates(bytes.saturating_mul(at_once)) {
                    let tct = took + routes.paths.rtt(path).unwrap_or_default();
                    let sample = TaskSample { path, task, tct, bytes, switched: false, cold: false };
                    routes.chooser.finished(&sample, now);
                }
            } else if complete && (chosen.moved_to.is_none() || chosen.was_late) {
                routes.chooser.finished(&sample, now);
            } else if complete && let Some(silent) = routes.silent.iter_mut().find(|s| s.path == path) {
                // It moved. Whether it says something of the path it left is not known yet.
                silent.ended.push(sample);
            }
            // The best known first, should the one in use die.
            let mut order: Vec<_> =
                routes.chooser.standings().iter().filter_map(|s| Some((s.path, s.mean_ms?))).collect();
            order.sort_by(|a, b| a.1.total_cmp(&b.1));
            routes.paths.prefer(order.into_iter().map(|(path, _)| path).collect());
            match answered {
                None if complete && bytes > 0 => routes.stay.here(credited),
                _ => {}
            }
        }
        if complete && let Some(on) = answered {
            self.was_answered_elsewhere(on, now);
        }
        if self.events.is_none() {
            return;
        }
        let start_us = self.timebase.us(chosen.start);
        let path = self.path_name(chosen.path);
        let moved_to = chosen.moved_to.map(|p| self.path_name(p));
        let answered_on = answered.map(|p| self.path_name(p));
        self.event(now, || Event::Task {
            task: chosen.task,
            path,
            start_us,
            tct_us,
            bytes,
            outcome: outcome.name(),
            switched: chosen.switched,
            cold: chosen.cold,
            moved_to,
            answered_on,
        });
    }

    fn event(&mut self, now: Instant, make: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.push((now, make()));
        }
    }
}

/// Sends what is left of hq-interop's request line.
fn send_line(conn: &mut Conn, stream: u64, request: &mut Request, action: Action) -> Result<(), quiche::h3::Error> {
    use quiche::Error;
    while !request.line_left.is_empty() {
        match conn.quic.stream_send(stream, &request.line_left, action == Action::Download) {
            Ok(n) => drop(request.line_left.drain(..n)),
            // `StreamStopped`: the answer tells why.
            Err(Error::Done | Error::StreamStopped(_)) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_of_known_times() {
        let mut tally = Tally::default();
        assert_eq!((tally.mean_us(), tally.variance_ms2(), tally.p95_us()), (None, None, None));
        tally.tct_us = vec![4_000, 2_000];
        assert_eq!((tally.mean_us(), tally.variance_ms2(), tally.p95_us()), (Some(3_000.0), Some(2.0), Some(4_000)));
        tally.tct_us = (1..=100).rev().collect();
        assert_eq!(tally.p95_us(), Some(95));
    }
}
