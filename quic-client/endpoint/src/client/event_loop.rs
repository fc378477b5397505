// SPDX-License-Identifier: Apache-2.0
//! The event loop of the client: one wait per iteration for sockets, signals, interfaces and timers; then every flow
//! that something happened to is served.

use super::connection::{Context, Flow, from_token};
use super::progress::Progress;
use crate::shared::fault::Fault;
use crate::shared::json::{event_line, to_json};
use std::collections::BTreeSet;
use std::time::Instant;
use weir_core::client::Outcome;
use weir_core::report::events::Event;
use weir_core::report::samples::{EndLine, Side, Ticker};
use weir_core::window::Promised;
use weir_io::interfaces::{self, Monitor};
use weir_io::lines::LineWriter;
use weir_io::wait::Signals;

/// Token of the signals in the wait.
pub const SIGNAL: u64 = u64::MAX;
/// Token of the interfaces' monitor in the wait.
pub const INTERFACES: u64 = u64::MAX - 1;

/// Subject of errors of the interfaces' list or monitor.
pub const NETLINK: &str = "network interfaces (rtnetlink)";

/// A flow and its state in the loop.
struct Slot {
    flow: Flow,
    /// Its entry in `timers`.
    timer: Option<Instant>,
    /// It is over, and its last line is written.
    retired: bool,
}

/// All flows, their timers, and the outputs while they run.
pub struct EventLoop<'a> {
    context: Context<'a>,
    slots: Vec<Slot>,
    timers: BTreeSet<(Instant, usize)>,
    monitor: Option<Monitor>,
    stats: Option<LineWriter>,
    /// As written last to `--events`.
    promised: Option<Promised>,
    /// Flows that are not retired.
    live: usize,
    /// The end of `--max-time`.
    give_up_at: Option<Instant>,
}

impl<'a> EventLoop<'a> {
    /// For flows that each start at their time. Signals and `monitor` are already in the context's wait, under [`SIGNAL`]
    /// and [`INTERFACES`].
    pub fn new(
        context: Context<'a>,
        flows: Vec<Flow>,
        monitor: Option<Monitor>,
        stats: Option<LineWriter>,
        give_up_at: Option<Instant>,
    ) -> Self {
        let timers = flows.iter().enumerate().map(|(i, f)| (f.start, i)).collect();
        let slots: Vec<_> =
            flows.into_iter().map(|flow| Slot { timer: Some(flow.start), flow, retired: false }).collect();
        let live = slots.len();
        EventLoop { context, slots, timers, monitor, stats, promised: None, live, give_up_at }
    }

    /// Turns until all flows are over, writes the last samples, and returns the time of the end.
    ///
    /// # Errors
    /// The program ends early: a system call fails, a file can't be written, a path can't be used.
    pub fn run(&mut self, signals: &Signals, start: Instant) -> Result<Instant, Fault> {
        let options = self.context.options;
        let stop = options.duration_s.map(|d| start + d);
        let mut stopped = false;
        let mut ticker = Ticker::new(start, options.common.stats_every());
        let progress = Progress::new(options, self.slots.len() as u64);
        let mut ready = Vec::new();
        let mut touched = Vec::new();
        let clock = options.common.clock();
        let mut now = start;
        while self.live > 0 {
            let stop_at = stop.filter(|_| !stopped);
            let give_up_at = self.give_up_at.filter(|_| !stopped);
            let timer = self.timers.first().map(|(t, _)| *t);
            let deadline = [timer, stop_at, give_up_at, Some(ticker.next())].into_iter().flatten().min();
            self.context.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
            now = clock.turn().map_err(Fault::io("clock"))?;
            for &token in &ready {
                match token {
                    SIGNAL => {
                        if signals.take().is_some() {
                            stopped = true;
                            self.end_all(&Outcome::Interrupted, now, &mut touched);
                        }
                    }
                    INTERFACES => self.interfaces_changed(now, &mut touched)?,
                    token => {
                        let (i, path) = from_token(token);
                        self.slots[i].flow.receive(path, &mut self.context, now);
                        touched.push(i);
                    }
                }
            }
            self.fire_timers(now, &mut touched)?;
            if stop_at.is_some_and(|t| t <= now) {
                stopped = true;
                self.end_all(&Outcome::Stopped, now, &mut touched);
            }
            if give_up_at.is_some_and(|t| t <= now) {
                stopped = true;
                self.end_all(&Outcome::Timeout("--max-time is over".to_owned()), now, &mut touched);
            }
            for i in touched.drain(..) {
                self.serve(i, now)?;
            }
            if ticker.due(now) {
                self.sample_all(now)?;
                if let Some(progress) = &progress {
                    progress.show(self.slots.iter().map(|s| &s.flow), self.live, now.duration_since(start));
                }
            }
        }
        if let Some(progress) = progress {
            progress.finish();
        }
        self.sample_all(now)?;
        Ok(now)
    }

    /// Input of the report.
    pub fn finish(self) -> (Context<'a>, Vec<Flow>) {
        (self.context, self.slots.into_iter().map(|s| s.flow).collect())
    }

    fn fire_timers(&mut self, now: Instant, touched: &mut Vec<usize>) -> Result<(), Fault> {
        while let Some(&(t, i)) = self.timers.first()
            && t <= now
        {
            self.timers.pop_first();
            self.slots[i].timer = None;
            self.slots[i].flow.on_timer(&mut self.context, now)?;
            touched.push(i);
        }
        Ok(())
    }

    /// Interfaces, addresses or routes may have changed: every flow is notified.
    fn interfaces_changed(&mut self, now: Instant, touched: &mut Vec<usize>) -> Result<(), Fault> {
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        if !monitor.drain().map_err(Fault::io(NETLINK))? {
            return Ok(());
        }
        // Also when the list is the same: a route may have come to a server that an interface did not lead to.
        self.context.interfaces = interfaces::list().map_err(Fault::io(NETLINK))?;
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.flow.refresh_paths(&mut self.context, now) {
                touched.push(i);
            }
        }
        Ok(())
    }

    /// Lets a flow act, and sets its timer anew.
    fn serve(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let Slot { flow, timer, retired } = &mut self.slots[i];
        flow.serve(&mut self.context, now)?;
        if flow.is_running() {
            let next = flow.next_timer();
            if next != *timer {
                timer.map(|t| self.timers.remove(&(t, i)));
                next.map(|t| self.timers.insert((t, i)));
                *timer = next;
            }
        }
        if flow.is_over() && !*retired {
            self.retire(i, now)?;
        }
        Ok(())
    }

    /// A flow is over: its last lines are written and its resources are freed.
    fn retire(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        self.sample(i, now)?;
        let Slot { flow, timer, retired } = &mut self.slots[i];
        *retired = true;
        self.live -= 1;
        timer.take().map(|t| self.timers.remove(&(t, i)));
        flow.release(&mut self.context)?;
        if let Some(stats) = &mut self.stats {
            let line = EndLine {
                k: "end",
                ecn: flow.session.as_ref().map(|s| s.conn.ecn_report()).unwrap_or_default(),
                t_us: self.context.timebase.us(now),
                side: Side::Client,
                flow: Some(flow.plan.flow),
                conn: i as u64,
                bytes: flow.bytes(),
                reason: flow.outcome().map_or("", Outcome::name).to_owned(),
                decisions: flow.session.as_ref().map(|s| s.conn.decisions).unwrap_or_default(),
            };
            stats.line(&to_json(&line)?)?;
        }
        Ok(())
    }

    fn end_all(&mut self, outcome: &Outcome, now: Instant, touched: &mut Vec<usize>) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.flow.end(outcome, now);
            touched.push(i);
        }
    }

    /// Writes a sample of a flow that is not retired.
    fn sample(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let Slot { flow, retired: false, .. } = &mut self.slots[i] else { return Ok(()) };
        let Some(session) = &mut flow.session else { return Ok(()) };
        let (label, bytes) = (Some(session.plan.flow), session.bytes);
        let sample = session.conn.sample(now, &self.context.timebase, Side::Client, label, i as u64, bytes);
        if let Some(stats) = &mut self.stats {
            stats.line(&to_json(&sample)?)?;
        }
        Ok(())
    }

    fn sample_all(&mut self, now: Instant) -> Result<(), Fault> {
        let promised = self.context.budget.borrow().promised();
        if let Some(events) = &mut self.context.events
            && self.promised.replace(promised) != Some(promised)
        {
            let Promised { promised_bytes, peak_bytes, budget_bytes } = promised;
            let event = Event::Promised { promised_bytes, peak_bytes, budget_bytes };
            events.line(&event_line(&event, self.context.timebase.us(now), None)?)?;
        }
        for i in 0..self.slots.len() {
            self.sample(i, now)?;
        }
        for lines in [&mut self.stats, &mut self.context.events].into_iter().flatten() {
            lines.flush()?;
        }
        Ok(())
    }
}
