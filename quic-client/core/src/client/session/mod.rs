// SPDX-License-Identifier: Apache-2.0
//! [`Session`]: one connection in an event-loop iteration. Its other parts: `starting`, `transfer` and `ending` for
//! tasks, `routes`, `path_events` and `moving` for paths.

mod datagrams;
mod ending;
mod moving;
mod path_events;
mod routes;
mod starting;
mod task;
mod transfer;

pub use routes::Routes;

use super::exchange::{Task, Tasks};
use super::moves::Delivered;
use super::outcome::Outcome;
use super::plan::Means;
use super::tally::Tally;
use crate::choice::PathId;
use crate::connection::{Conn, MAX_ANSWER_HEADERS_BYTES, PacketSink};
use crate::paths::CidBudget;
use crate::report::events::Event;
use crate::report::samples::Timebase;
use crate::request::{Alpn, CANCELLED, NO_ERROR};
use crate::window::WindowStep;
use quiche::hooks::Scope;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use task::{Chosen, Running};

/// Longest silence in a transfer before the server is sent a packet that it has to answer.
const QUIET: Duration = Duration::from_secs(5);

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Label of the connection.
    pub label: u64,
    /// `host:port`, for the `:authority` header and messages.
    pub authority: String,
    /// Silence after which we give the connection up.
    pub idle_timeout: Duration,
    /// A request fails after this time without progress; `None`: it waits as long as the connection lives.
    pub read_timeout: Option<Duration>,
    /// Whether the tallies keep the completion time of each task, for its distribution. They then grow with the tasks.
    pub keeps_times: bool,
}

impl SessionConfig {
    /// Defaults of the programs, for this `host:port`.
    pub fn new(authority: impl Into<String>) -> SessionConfig {
        SessionConfig {
            label: 0,
            authority: authority.into(),
            idle_timeout: Duration::from_secs(30),
            read_timeout: None,
            keeps_times: true,
        }
    }
}

/// One connection of a client and its tasks.
pub struct Session {
    /// Its connection.
    pub conn: Conn,
    /// Its settings.
    pub config: SessionConfig,
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
    /// When the next task may start, as of the last iteration.
    due: Option<Instant>,
    /// Tasks that were due until then have been considered.
    looked: Option<Instant>,
    next_task: u64,
    chosen: Option<Chosen>,
    /// The request of `chosen`.
    pending: Option<Task>,
    // Ordered, because the order of writing decides the order of packets.
    running: BTreeMap<u64, Running>,
    /// Uploads among them.
    uploads: usize,
    next_hq_stream: u64,
    going_away: bool,
    /// `None`: one path, chosen by the routing table.
    routes: Option<Box<Routes>>,
    cid_budget: Option<CidBudget>,
    /// When one of the tasks last made progress.
    progress: Instant,
    /// When a packet last came in, or one was sent that asks for an answer.
    lively: Instant,
    /// Nothing came in since such a packet was sent.
    is_ping_unanswered: bool,
    timebase: Timebase,
    /// `None`: nobody reads them.
    events: Option<Vec<(Instant, Event)>>,
}

/// Name of the path of a session whose path the routing table chooses.
pub const DEFAULT_PATH: &str = "default";

impl Session {
    /// A session whose connection was just opened at `now`. Events are kept only if `record` is set.
    pub fn new(
        conn: Conn,
        config: SessionConfig,
        routes: Option<Routes>,
        timebase: Timebase,
        record: bool,
        now: Instant,
    ) -> Self {
        let mut session = Session {
            conn,
            config,
            bytes: 0,
            first_byte: None,
            ended: None,
            tally: Tally::default(),
            outcome: None,
            failure: None,
            due: None,
            looked: None,
            next_task: 0,
            chosen: None,
            pending: None,
            running: BTreeMap::new(),
            uploads: 0,
            next_hq_stream: 0,
            going_away: false,
            routes: None,
            cid_budget: None,
            progress: now,
            lively: now,
            is_ping_unanswered: false,
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

    /// Name and sums of each path, in the order they were added; none if the routing table chooses.
    pub fn path_tallies(&self) -> &[(String, Tally)] {
        self.routes.as_ref().map_or(&[], |r| &r.tallies)
    }

    /// Whether the server takes no more requests (GOAWAY).
    pub fn is_going_away(&self) -> bool {
        self.going_away
    }

    /// Whether a task runs in which something moved lately, so that an answer is due on the path in use.
    fn is_busy(&self, now: Instant) -> bool {
        /// Pause after which a tunnel is idle: far beyond the silence in which a dead path is left.
        const PAUSE: Duration = Duration::from_secs(1);
        let pto = self.routes.as_ref().map_or(Duration::ZERO, |routes| routes.paths.pto(&self.conn.quic));
        self.running.values().any(|task| !task.is_idle(now, PAUSE.max(pto * 4)))
    }

    /// Name of the path in use.
    pub fn active_path(&self) -> String {
        self.routes.as_ref().map_or(DEFAULT_PATH.to_owned(), |r| r.name_of(r.paths.active()))
    }

    /// Tasks that were answered on another path than the connection was on, and whether it followed the server there.
    pub fn answered_elsewhere(&self) -> (u64, bool) {
        self.routes.as_ref().map_or((0, false), |r| r.stay.told())
    }

    /// Number of paths that the connection IDs allow; `None` if the routing table chooses or the connection was never
    /// up.
    pub fn cid_budget(&self) -> Option<CidBudget> {
        self.cid_budget
    }

    fn path_name(&self, path: PathId) -> String {
        self.routes.as_ref().map_or(DEFAULT_PATH.to_owned(), |r| r.name_of(path))
    }

    /// Outcome, once the session has ended.
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
        self.is_ping_unanswered = false;
        let received = |conn: &Conn| quiche::hooks::received_and_limit_bytes(&conn.quic).0;
        let delivers = self.routes.is_some() && self.uploads > 0;
        let before = (received(&self.conn), delivers.then(|| Delivered::of(&self.conn.quic)));
        self.conn.recv(bytes, tos, info);
        let new = received(&self.conn) - before.0;
        if let Some(routes) = &mut self.routes {
            routes.paths.heard(info.to, now);
            if let Some(path) = routes.paths.at(info.to) {
                routes.goodput.received(path, new);
                if let Some(before) = before.1 {
                    routes.steer.arrived(Delivered::of(&self.conn.quic).since(before));
                } else if path == routes.paths.active() {
                    routes.steer.arrived(new);
                }
            }
        }
    }

    /// Hands every packet that may leave now to `sink`.
    pub fn pump(&mut self, now: Instant, sink: &mut impl PacketSink) {
        self.conn.pump(now, sink);
        if let Some(rate_bit_s) = self.conn.scone.as_mut().and_then(|scone| scone.take_change()) {
            self.event(now, || Event::Advice { rate_bit_s });
        }
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
        if self.outcome.is_some() {
            return self.conn.deadline(); // there are no more tasks, and no path is wanted
        }
        // A task that could not start at its time waits for a packet, so a time in the past is no deadline.
        let steer = self.routes.as_ref().and_then(|r| r.steer.deadline());
        let start = self.routes.as_ref().and_then(|r| r.start_by).filter(|_| self.next_task == 0);
        let due = [self.due, self.patience_ends(), self.read_timeout_at(), steer, start].into_iter().flatten();
        let due = due.filter(|t| self.looked.is_none_or(|l| *t > l)).min();
        let paths = self.routes.as_ref().and_then(|r| r.paths.deadline());
        [self.conn.deadline(), due, self.keep_alive(), paths].into_iter().flatten().min()
    }

    /// Handles deadlines that have passed; [`Session::advance`] must follow.
    pub fn on_deadline(&mut self, now: Instant) {
        if self.conn.deadline().is_some_and(|t| t <= now) {
            self.conn.on_deadline(now);
        }
        if self.keep_alive().is_some_and(|t| t <= now) {
            self.lively = now;
            self.is_ping_unanswered = !self.running.is_empty();
            // It can only fail if the connection has ended, which `advance` finds out.
            let _ = self.conn.quic.send_ack_eliciting();
        }
    }

    /// Ends the session now and closes its connection.
    pub fn end(&mut self, outcome: Outcome, now: Instant) {
        if self.outcome.is_some() {
            return;
        }
        self.tell_budget(true, now);
        for (_, mut task) in std::mem::take(&mut self.running) {
            task.request.exchange.ended(&outcome);
            self.note_end(&task.chosen, None, task.request.bytes, &outcome, now);
        }
        self.uploads = 0;
        self.drop_chosen(&outcome, now);
        let code = if outcome.exit_code() == 0 { NO_ERROR } else { CANCELLED };
        self.conn.close(code, outcome.name());
        self.outcome = Some(outcome);
        self.ended = Some(now);
    }

    /// Does all that can be done after packets arrived or a timer expired.
    pub fn advance(&mut self, now: Instant, means: &mut Means<'_>) {
        if self.outcome.is_some() {
            return;
        }
        means.tasks.observe(now, &self.conn);
        let result = self.step(now, means);
        let done = self.running.is_empty() && self.chosen.is_none();
        if done && means.tasks.left() == Some(0) {
            let outcome = self.failure.take().unwrap_or(Outcome::Complete);
            self.end(outcome, now);
        } else if let Some(failure) = self.conn.failure() {
            let started = self.conn.established.is_some();
            let outcome = Outcome::of_failure(failure, &self.config.authority, started, self.bytes);
            self.end(outcome, now);
        } else if let Err(e) = result {
            let why = match e {
                // Also the section alone may be too large while its frame is not.
                quiche::h3::Error::ExcessiveLoad => format!("headers larger than {MAX_ANSWER_HEADERS_BYTES} bytes"),
                e => format!("HTTP/3: {e}"),
            };
            let text = format!("{}: {why}", self.config.authority);
            self.end(Outcome::Incomplete(text), now);
        } else if done && self.going_away {
            let left = means.tasks.left().map_or(String::new(), |left| format!("; {left} were left"));
            let text = format!("{}: the server takes no more requests{left}", self.config.authority);
            let outcome = self.failure.take().unwrap_or(Outcome::Incomplete(text));
            self.end(outcome, now);
        }
    }

    fn step(&mut self, now: Instant, means: &mut Means<'_>) -> Result<(), quiche::h3::Error> {
        let Some(alpn) = self.conn.establish(now)? else { return Ok(()) };
        if self.conn.established.is_none() {
            // Paths and connection IDs are of no use before the handshake is done.
            return self.step_tasks(alpn, now, means.scratch, means.tasks);
        }
        self.poll_paths(now, means);
        let Means { scratch, tasks, .. } = means;
        let result = self.step_tasks(alpn, now, scratch, *tasks);
        self.steer(*tasks, now);
        self.watch_paths(now, means);
        result
    }

    fn step_tasks(
        &mut self,
        alpn: Alpn,
        now: Instant,
        scratch: &mut [u8],
        tasks: &mut dyn Tasks,
    ) -> Result<(), quiche::h3::Error> {
        // Read first: a task that ends makes room for the next, whose request then leaves in the same iteration.
        match alpn {
            Alpn::H3 => {
                let Some(mut h3) = self.conn.h3.take() else { return Ok(()) };
                let result = self.read_h3(&mut h3, now, scratch).and_then(|()| {
                    self.end_stuck(now);
                    self.ask_anew(now, Some(&mut h3))?;
                    self.read_datagrams(scratch);
                    self.start_tasks(now, Some(&mut h3), tasks)?;
                    self.write_datagrams(&h3);
                    self.write_bodies(now, Some(&mut h3))
                });
                self.conn.h3 = Some(h3);
                result
            }
            Alpn::Hq | Alpn::Perf => {
                self.read_hq(now, scratch)?;
                self.end_stuck(now);
                self.ask_anew(now, None)?;
                self.start_tasks(now, None, tasks)?;
                self.write_bodies(now, None)
            }
        }
    }

    /// When a packet should be sent that the peer has to answer, so that neither a pause between tasks nor a slow answer
    /// ends the connection (RFC 9114 5.1).
    fn keep_alive(&self) -> Option<Instant> {
        if self.conn.established.is_none() || self.outcome.is_some() {
            return None;
        }
        // RFC 9000 10.1: the lesser of both sides' counts; 0 is none.
        let theirs = self.conn.quic.peer_transport_params().map_or(0, |p| p.max_idle_timeout);
        let theirs = if theirs == 0 { Duration::MAX } else { Duration::from_millis(theirs) };
        let half = self.config.idle_timeout.min(theirs) / 2;
        // A server that restarted answers with a stateless reset, once it is sent something (RFC 9000 10.3).
        let after = if self.running.is_empty() { half } else { half.min(QUIET) };
        self.lively.checked_add(after)
    }

    fn event(&mut self, now: Instant, make: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.push((now, make()));
        }
    }
}
