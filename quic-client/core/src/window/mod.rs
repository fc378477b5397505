// SPDX-License-Identifier: Apache-2.0
//! Receive windows: how much a peer may send before it gets a new limit.
//!
//! | rule | at an update (less than half of the window is available) |
//! |---|---|
//! | `static` | the window stays |
//! | `double` | quiche's: twice the window, if less than 2 RTT after the last update; the connection's at least 1.5
//! times each stream's |
//! | `fast` | Lee & An, Algorithm 1: times 2 to 16, the more of the bound is unused (Eq. 1, Eq. 2), on the same
//! condition |
//! | `weir` | ours, below |
//!
//! All of them are bounded by [`Transport`]'s largest windows (Lee & An's `S_upper` and `C_upper`).
//!
//! # `weir`
//!
//! A limit must reach the sender before it has used up the old one, so at each moment the available window should cover
//! the sender's next round trip. Its demand is measured ([`demand::Demand`]): the bytes of the last round trip, times
//! their growth over the one before, which is 2 for a sender in slow start and 1 for one whose pipe is full:
//!
//! `window = bytes waiting for a missing one + bytes expected in the next round trip`
//!
//! and some slack, but of a connection never more than a sender can use that doubles what it has sent so far. A rule
//! that is asked only when half of the window is used up is always behind such a sender, by whatever factor it
//! multiplies: hence [`Windows::turn`], which asks in each event-loop iteration, from the first packet on. A stream
//! that starts on a connection whose rate is known gets its equal part of that at once, in the flight that carries the
//! request. If a sender is found to have waited for a limit (an RTT estimated too short), the window is doubled for a
//! while; a demand that is no longer there is forgotten by half each second. Windows only shrink as far as they are
//! used up: a limit once advertised stays (RFC 9000 4.1).
//!
//! Memory comes out of one [`Budget`] for all connections of the process, which is never exceeded: see [`budget`].
//! While a connection gets less than it wants, its streams' windows are equal parts of its own.

pub mod budget;
pub mod demand;
pub mod pace;
pub mod rules;

pub use budget::{Budget, BudgetExhausted, Promised, SharedBudget};

use crate::scone::SconeUse;
use crate::transport::Transport;
use demand::Demand;
use pace::Pace;
use quiche::hooks::{self, WindowRule};
pub use quiche::hooks::{Scope, WindowUpdate};
use rules::Occupancy;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// The window that `weir` starts a connection with, at most: a sender's first flight and the one after it.
const START_CONN_BYTES: u64 = 64 * 1024;
/// Least windows of `weir`, for a stream and a connection.
const FLOOR_STREAM_BYTES: u64 = 32 * 1024;
const FLOOR_CONN_BYTES: u64 = 48 * 1024;
/// The least window of a stream while the connection gets less than it wants: less would be a packet or two.
const SHORT_STREAM_BYTES: u64 = 4 * 1024;

// Initial window of a sender: ten packets (RFC 9002 7.2).
const FIRST_FLIGHT_BYTES: u64 = 16 * 1024;

// A window is larger than needed by this part, and an update is sent when the part was used: so not every packet
// carries one. The connection's part takes memory of the budget, a stream's does not.
fn slack_part(scope: Scope) -> u64 {
    match scope {
        Scope::Connection => 32,
        Scope::Stream(_) => 8,
    }
}

fn with_slack(scope: Scope, needed_bytes: u64) -> u64 {
    needed_bytes + needed_bytes / slack_part(scope)
}

fn without_slack(scope: Scope, window_bytes: u64) -> u64 {
    let part = slack_part(scope);
    window_bytes / (part + 1) * part
}

/// A rule for receive windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// The window never changes.
    Static,
    /// quiche's.
    Double,
    /// Lee & An's fast autotuning.
    Fast,
    /// By measured demand, within a memory budget.
    Weir,
    /// A rule of the program.
    Custom(CustomWindow),
}

/// A rule of the program, in place of quiche's.
pub trait WindowPolicy: fmt::Debug {
    /// The window from now on, in bytes: at an update, when less than half of the old one is available. A limit that was
    /// advertised stays (RFC 9000 4.1), and [`WindowUpdate::max_window_bytes`] is never exceeded.
    fn window_bytes(&mut self, update: &WindowUpdate) -> u64;
}

/// A [`WindowPolicy`] by its name.
#[derive(Clone, Copy)]
pub struct CustomWindow {
    /// Name, by which two are compared.
    pub name: &'static str,
    /// Makes one for a connection.
    pub make: fn() -> Box<dyn WindowPolicy>,
}

impl PartialEq for CustomWindow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CustomWindow {}

impl fmt::Debug for CustomWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl WindowKind {
    const NAMES: [(WindowKind, &'static str); 4] = [
        (WindowKind::Static, "static"),
        (WindowKind::Double, "double"),
        (WindowKind::Fast, "fast"),
        (WindowKind::Weir, "weir"),
    ];
}

impl fmt::Display for WindowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let WindowKind::Custom(custom) = self {
            return f.write_str(custom.name);
        }
        let name = WindowKind::NAMES.iter().find(|(kind, _)| kind == self).map_or("", |(_, n)| n);
        f.write_str(name)
    }
}

impl FromStr for WindowKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        WindowKind::NAMES
            .iter()
            .find(|(_, n)| *n == s)
            .map(|(kind, _)| *kind)
            .ok_or_else(|| format!("'{s}' is not a window rule: expected static, double, fast or weir"))
    }
}

/// The windows a connection starts with and their bounds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initial {
    /// The connection's.
    pub conn_bytes: u64,
    /// Its bound.
    pub max_conn_bytes: u64,
    /// Each stream's.
    pub stream_bytes: u64,
    /// Its bound.
    pub max_stream_bytes: u64,
}

impl Initial {
    /// Writes them into a config, from which the connection is then made. After [`Transport::apply`].
    pub fn apply(&self, config: &mut quiche::Config) {
        config.set_initial_max_data(self.conn_bytes);
        config.set_max_connection_window(self.max_conn_bytes);
        config.set_initial_max_stream_data_bidi_local(self.stream_bytes);
        config.set_initial_max_stream_data_bidi_remote(self.stream_bytes);
        config.set_initial_max_stream_data_uni(self.stream_bytes);
        config.set_max_stream_window(self.max_stream_bytes);
    }
}

/// A window update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowStep {
    /// When.
    pub at: Instant,
    /// Scope of the window: one stream, or the connection.
    pub scope: Scope,
    /// The window from then on.
    pub window_bytes: u64,
    /// The new limit less the received bytes: the bytes that may still come.
    pub promised_bytes: u64,
    /// Received bytes, to the highest offset.
    pub received_bytes: u64,
}

/// One connection's windows: the rule and its state. The connection has its part of the budget until this is dropped.
#[derive(Debug)]
pub struct Windows {
    kind: WindowKind,
    custom: Option<Box<dyn WindowPolicy>>,
    initial: Initial,
    budget: SharedBudget,
    share: u64,
    conn: Demand,
    conn_demand_bytes: u64,
    conn_window_bytes: u64,
    // Got less than it wanted.
    short: bool,
    streams: BTreeMap<u64, StreamWindow>,
    next_stream: Option<u64>,
    turned: Option<Turned>,
    steps: Vec<WindowStep>,
    updates: BTreeMap<Scope, Update>,
    follows: bool,
    pace: Option<Pace>,
    // The window, and not the pace, bounds the connection's limit: received data raises it, not time.
    window_bounds: bool,
    // The connection's window without the pace, since there is one.
    unpaced_bytes: Option<u64>,
    limit_bytes: u64,
}

#[derive(Debug)]
struct StreamWindow {
    window_bytes: u64,
    demand: Demand,
}

#[derive(Debug, PartialEq, Eq)]
struct Turned {
    received_bytes: u64,
    streams: usize,
}

// An update that quiche was about to send: it may ask again before it was able to.
#[derive(Debug, Clone, Copy)]
struct Update {
    max_data_bytes: u64,
    window_bytes: u64,
}

impl Windows {
    /// Windows for a connection that is about to be opened. With `weir` its first window is taken from the budget; with
    /// the other rules it is only counted. `transport` has the configured windows and their bounds.
    pub fn new(
        kind: WindowKind,
        transport: &Transport,
        budget: &SharedBudget,
        now: Instant,
    ) -> Result<Self, BudgetExhausted> {
        let t = transport;
        let mut initial = Initial {
            conn_bytes: t.conn_window_bytes.min(t.max_conn_window_bytes),
            max_conn_bytes: t.max_conn_window_bytes,
            stream_bytes: t.stream_window_bytes.min(t.max_stream_window_bytes),
            max_stream_bytes: t.max_stream_window_bytes,
        };
        let share = match kind {
            WindowKind::Weir => {
                let want = initial.conn_bytes.min(START_CONN_BYTES);
                let (share, granted) = budget.borrow_mut().open(want)?;
                initial.conn_bytes = granted;
                initial.stream_bytes = initial.stream_bytes.min(granted);
                share
            }
            _ => budget.borrow_mut().track(initial.conn_bytes),
        };
        Ok(Windows {
            kind,
            custom: if let WindowKind::Custom(custom) = kind { Some((custom.make)()) } else { None },
            initial,
            budget: budget.clone(),
            share,
            conn: Demand::new(now, 0),
            conn_demand_bytes: 0,
            conn_window_bytes: initial.conn_bytes,
            short: false,
            streams: BTreeMap::new(),
            next_stream: Some(0),
            turned: None,
            steps: Vec::new(),
            updates: BTreeMap::new(),
            follows: t.scone == SconeUse::Follow,
            pace: None,
            window_bounds: false,
            unpaced_bytes: None,
            limit_bytes: initial.conn_bytes,
        })
    }

    /// Initial windows of the connection.
    pub fn initial(&self) -> Initial {
        self.initial
    }

    /// Throughput advice in effect. A client that follows it paces its peer from then on.
    pub fn advise(&mut self, quic: &quiche::Connection, rate_bit_s: Option<u64>, now: Instant) {
        let (received, limit) = hooks::received_and_limit_bytes(quic);
        self.limit_bytes = limit;
        let rate = rate_bit_s.filter(|_| self.follows);
        if rate.is_none() && self.pace.is_some() {
            self.turned = None;
        }
        self.window_bounds &= rate == self.pace.map(|pace| pace.rate_bit_s());
        self.pace = rate.map(|rate| {
            let pace = self.pace.map_or_else(|| Pace::new(rate, received, now), |pace| pace.at_rate(rate, now));
            pace.after_pause(received, now)
        });
    }

    /// When the pace next raises the connection's limit.
    pub fn deadline(&self) -> Option<Instant> {
        self.pace
            .filter(|_| !self.streams.is_empty() && !self.window_bounds)
            .and_then(|pace| pace.due(self.limit_bytes))
    }

    /// Stream `id` was opened; nothing has been received on it.
    pub fn stream_opened(&mut self, id: u64, now: Instant) {
        let window_bytes = self.initial.stream_bytes;
        self.streams.entry(id).or_insert_with(|| StreamWindow { window_bytes, demand: Demand::new(now, 0) });
    }

    /// Stream `id` is over.
    pub fn stream_closed(&mut self, id: u64) {
        self.streams.remove(&id);
        self.updates.remove(&Scope::Stream(id));
        if self.streams.is_empty() {
            self.budget.borrow_mut().rest(self.share);
        }
    }

    /// To be called in each event-loop iteration, after reading and before [`Windows::send`]: sees which streams there
    /// are and lets the rule open windows before half of them is used.
    pub fn turn(&mut self, quic: &mut quiche::Connection, now: Instant) {
        // Requests are streams 0, 4, 8 and so on, opened in this order (RFC 9000 2.1); a server sees a later one first
        // if packets change places, and then learns of the others by their updates.
        while let Some(id) = self.next_stream.filter(|id| hooks::is_open(quic, *id)) {
            self.stream_opened(id, now);
            self.next_stream = id.checked_add(4);
        }
        let over: Vec<u64> = self.streams.keys().copied().filter(|id| !hooks::is_open(quic, *id)).collect();
        for id in over {
            self.stream_closed(id);
        }
        let (received_bytes, _) = hooks::received_and_limit_bytes(quic);
        let turned = Turned { received_bytes, streams: self.streams.len() };
        let paced = self.pace.is_some_and(|pace| pace.is_due(self.limit_bytes, now));
        let asks = self.kind == WindowKind::Weir || self.unpaced_bytes.is_some();
        if (paced || asks && self.turned.as_ref() != Some(&turned)) && quic.is_established() {
            let streams: Vec<u64> = self.streams.keys().copied().collect();
            hooks::retune(quic, self, streams, now);
            self.turned = Some(turned);
        }
    }

    /// [`quiche::Connection::send`] with this rule. Every call of it must be made here.
    pub fn send(
        &mut self,
        quic: &mut quiche::Connection,
        out: &mut [u8],
    ) -> Result<(usize, quiche::SendInfo), quiche::Error> {
        let result = hooks::send(quic, self, out);
        let (received, limit) = hooks::received_and_limit_bytes(quic);
        self.limit_bytes = limit;
        self.promised(limit.saturating_sub(received));
        result
    }

    /// Reports the present promise to the budget: the connection's limit less the received bytes.
    pub fn promised(&mut self, promised_bytes: u64) {
        self.budget.borrow_mut().promise(self.share, promised_bytes);
    }

    /// Returns the updates made since the last call.
    pub fn steps(&mut self) -> impl Iterator<Item = WindowStep> {
        std::mem::take(&mut self.steps).into_iter()
    }

    fn decide(&mut self, u: &WindowUpdate) -> u64 {
        match self.kind {
            WindowKind::Weir => self.weir(u),
            WindowKind::Static => u.window_bytes,
            WindowKind::Custom(_) => self.custom.as_mut().map_or(u.window_bytes, |custom| custom.window_bytes(u)),
            WindowKind::Double => rules::double(u.window_bytes, u.max_window_bytes, u.since_last, u.rtt),
            WindowKind::Fast => {
                let used_bytes = match u.scope {
                    Scope::Stream(_) => u.window_bytes,
                    Scope::Connection => self.streams.values().map(|s| s.window_bytes).sum(),
                };
                let occupancy = Occupancy { used_bytes, bound_bytes: u.max_window_bytes };
                rules::fast(u.window_bytes, u.max_window_bytes, occupancy, u.since_last, u.rtt)
            }
        }
    }

    // The connection's window, and no more than the pace allows. A measured demand is that of a paced sender: it
    // must not hold the sender back too, so twice that is no limit.
    fn decide_paced(&mut self, u: &WindowUpdate, keeps_window: bool) -> u64 {
        let unpaced_bytes = self.unpaced_bytes.take().unwrap_or(u.window_bytes);
        let window_bytes =
            if keeps_window { unpaced_bytes } else { self.decide(&WindowUpdate { window_bytes: unpaced_bytes, ..*u }) };
        let Some(pace) = self.pace else { return window_bytes };
        self.unpaced_bytes = Some(window_bytes);
        let most = if self.kind == WindowKind::Weir { 2 * window_bytes } else { window_bytes };
        let paced_bytes = pace.limit_bytes(u.now).saturating_sub(u.consumed_bytes);
        self.window_bounds = most < paced_bytes;
        let outstanding = u.max_data_bytes.saturating_sub(u.consumed_bytes);
        let wanted = paced_bytes.min(most);
        if wanted >= outstanding + pace.step_bytes().min(most / 2) { wanted } else { outstanding }
    }

    fn weir(&mut self, u: &WindowUpdate) -> u64 {
        let Some((want, part)) = self.wanted(u) else { return u.window_bytes };
        if u.scope != Scope::Connection {
            return want.min(part);
        }
        let outstanding = u.max_data_bytes.saturating_sub(u.consumed_bytes);
        let granted = self.budget.borrow_mut().grant(self.share, want, outstanding);
        self.short = granted < want;
        self.conn_window_bytes = granted;
        granted
    }

    // The window that the demand requires, and how much of it is granted while the connection gets less than it wants.
    fn wanted(&mut self, u: &WindowUpdate) -> Option<(u64, u64)> {
        let held = u.received_bytes.saturating_sub(u.consumed_bytes);
        let active = self.streams.len().max(1) as u64;
        let (want, part) = match u.scope {
            Scope::Connection => {
                self.conn_demand_bytes = self.conn.observe(u.now, u.received_bytes, u.rtt);
                // A sender at most doubles its sent bytes, in each round trip, whatever the estimates say.
                let most = (u.received_bytes + FIRST_FLIGHT_BYTES) as f64 * self.conn.gain();
                self.conn_demand_bytes = self.conn_demand_bytes.min(most as u64);
                let want = with_slack(u.scope, held + self.conn_demand_bytes).min(held + most as u64);
                let want = want.max(FLOOR_CONN_BYTES).min(u.max_window_bytes);
                (want, self.conn_window_bytes)
            }
            Scope::Stream(id) => {
                let fair = self.conn_demand_bytes / active;
                let stream = self.streams.get_mut(&id)?;
                let expected = stream.demand.observe(u.now, u.received_bytes, u.rtt).max(fair);
                // Twice, because streams share a flight unevenly. It costs nothing, because memory is counted by the
                // connection.
                let want = with_slack(u.scope, held + 2 * expected).max(FLOOR_STREAM_BYTES).min(u.max_window_bytes);
                (want, (self.conn_window_bytes / active).max(SHORT_STREAM_BYTES))
            }
        };
        Some((want, if self.short { part } else { u64::MAX }))
    }

    fn demand(&mut self, scope: Scope) -> Option<&mut Demand> {
        match scope {
            Scope::Connection => Some(&mut self.conn),
            Scope::Stream(id) => self.streams.get_mut(&id).map(|s| &mut s.demand),
        }
    }
}

impl WindowRule for Windows {
    fn next(&mut self, u: &WindowUpdate) -> u64 {
        if let Scope::Stream(id) = u.scope {
            self.stream_opened(id, u.now);
        }
        // quiche asks with each packet while the window is used up. A sender would answer each limit that rises by less
        // than a step with a small packet (RFC 1122 4.2.3.3).
        if u.scope == Scope::Connection && self.pace.is_some_and(|pace| !pace.is_due(u.max_data_bytes, u.now)) {
            self.unpaced_bytes.get_or_insert(u.window_bytes);
            return u.max_data_bytes.saturating_sub(u.consumed_bytes);
        }
        // quiche asks again if there was no room for the frame. Its own rule then doubles again; Algorithm 1 does not.
        let again = self.updates.get(&u.scope).filter(|last| last.max_data_bytes == u.max_data_bytes).copied();
        let window_bytes = match (self.kind, again) {
            (WindowKind::Fast, Some(last)) if u.scope != Scope::Connection || self.pace.is_none() => last.window_bytes,
            (WindowKind::Fast, Some(_)) => self.decide_paced(u, true),
            _ if u.scope == Scope::Connection => self.decide_paced(u, false),
            _ => self.decide(u),
        };
        if let Scope::Stream(id) = u.scope
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.window_bytes = window_bytes;
        }
        self.updates.insert(u.scope, Update { max_data_bytes: u.max_data_bytes, window_bytes });
        if again.is_some() {
            self.steps.pop_if(|step| step.scope == u.scope);
        }
        let limit = (u.consumed_bytes + window_bytes).max(u.max_data_bytes);
        self.steps.push(WindowStep {
            at: u.now,
            scope: u.scope,
            window_bytes,
            promised_bytes: limit.saturating_sub(u.received_bytes),
            received_bytes: u.received_bytes,
        });
        if limit > u.max_data_bytes
            && let Some(demand) = self.demand(u.scope)
        {
            demand.raise(u.now, u.max_data_bytes);
        }
        window_bytes
    }

    fn due(&mut self, u: &WindowUpdate) -> bool {
        match self.pace {
            Some(pace) if u.scope == Scope::Connection => return pace.is_due(u.max_data_bytes, u.now),
            None if u.scope == Scope::Connection && self.unpaced_bytes.is_some() => return true,
            _ => {}
        }
        if self.kind != WindowKind::Weir {
            return false;
        }
        if let Scope::Stream(id) = u.scope {
            self.stream_opened(id, u.now);
        }
        let available = u.max_data_bytes.saturating_sub(u.consumed_bytes);
        self.wanted(u).is_some_and(|(want, part)| available < without_slack(u.scope, want.min(part)))
    }

    fn lower_bound(&mut self, _window_bytes: u64, _max_window_bytes: u64, wanted_bytes: u64) -> u64 {
        // This precaution belongs to quiche's own rule; `weir` measures the sum of all streams.
        if self.kind == WindowKind::Double && self.pace.is_none() { wanted_bytes } else { 0 }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.budget.borrow_mut().close(self.share);
    }
}
