// SPDX-License-Identifier: Apache-2.0
//! The event loop of the client: one wait per iteration for sockets, signals, interfaces and timers; then every flow
//! that something happened to is served.

use super::hooks::Files;
use super::options::Options;
use super::progress::Progress;
use crate::shared::fault::Fault;
use crate::shared::json::{event_line, to_json};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use weir_core::client::Outcome;
use weir_core::report::events::Event;
use weir_core::report::samples::{EndLine, Side, Ticker};
use weir_core::window::Promised;
use weir_io::lines::LineWriter;
use weir_io::wait::Signals;
use weir_quic::flow::{Aggregation, INTERFACES, Reactor};

/// Token of the signals in the wait.
pub const SIGNAL: u64 = u64::MAX;

/// All flows, and the outputs while they run.
pub struct EventLoop<'a> {
    options: &'a Options,
    reactor: Reactor,
    files: Rc<RefCell<Files>>,
    stats: Option<LineWriter>,
    /// As written last to `--events`.
    promised: Option<Promised>,
    /// Number of flows.
    flows: usize,
    /// Those that are not retired.
    live: usize,
    /// The end of `--max-time`.
    give_up_at: Option<Instant>,
    aggregation: Option<Aggregation>,
}

impl<'a> EventLoop<'a> {
    /// For flows that each start at their time. Signals are already in the context's wait, under [`SIGNAL`].
    pub fn new(
        options: &'a Options,
        reactor: Reactor,
        files: Rc<RefCell<Files>>,
        stats: Option<LineWriter>,
        give_up_at: Option<Instant>,
        aggregation: Option<Aggregation>,
    ) -> Self {
        let flows = reactor.flows().count();
        EventLoop { options, reactor, files, stats, promised: None, flows, live: flows, give_up_at, aggregation }
    }

    /// Turns until all flows are over, writes the last samples, and returns the time of the end.
    ///
    /// # Errors
    /// The program ends early: a system call fails, a file can't be written, a path can't be used.
    pub fn run(&mut self, signals: &Signals, start: Instant) -> Result<Instant, Fault> {
        let options = self.options;
        let stop = options.duration_s.map(|d| start + d);
        let mut stopped = false;
        let mut ticker = Ticker::new(start, options.common.stats_every());
        let downloads = if self.aggregation.is_some() { 1 } else { self.flows as u64 };
        let progress = Progress::new(options, downloads);
        let mut ready = Vec::new();
        let clock = options.common.clock();
        let mut now = start;
        while self.live > 0 {
            let stop_at = stop.filter(|_| !stopped);
            let give_up_at = self.give_up_at.filter(|_| !stopped);
            let timer = self.reactor.next_timer();
            let deadline = [timer, stop_at, give_up_at, Some(ticker.next())].into_iter().flatten().min();
            self.reactor.context.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
            now = clock.turn().map_err(Fault::io("clock"))?;
            for &token in &ready {
                match token {
                    SIGNAL => {
                        if signals.take().is_some() {
                            stopped = true;
                            self.reactor.end_all(&Outcome::Interrupted, now);
                        }
                    }
                    INTERFACES => self.reactor.interfaces_changed(now)?,
                    token => self.reactor.receive(token, now),
                }
            }
            while let Some((_, fired)) = self.reactor.fire_timer(now) {
                fired?;
            }
            if stop_at.is_some_and(|t| t <= now) {
                stopped = true;
                self.reactor.end_all(&Outcome::Stopped, now);
            }
            if give_up_at.is_some_and(|t| t <= now) {
                stopped = true;
                self.reactor.end_all(&Outcome::Timeout("--max-time is over".to_owned()), now);
            }
            while let Some(i) = self.reactor.next_touched() {
                if self.reactor.serve(i, now)? {
                    self.retire(i, now)?;
                }
                if let Some(aggregation) = &self.aggregation {
                    aggregation.served(&mut self.reactor, i, now);
                }
            }
            if ticker.due(now) {
                self.sample_all(now)?;
                if let Some(progress) = &progress {
                    progress.show(self.reactor.flows(), self.live, now.duration_since(start));
                }
            }
        }
        if let Some(progress) = progress {
            progress.finish();
        }
        self.note_aggregate()?;
        self.sample_all(now)?;
        Ok(now)
    }

    /// Writes the event of an aggregated download: one task, of the path that was answered first.
    fn note_aggregate(&mut self) -> Result<(), Fault> {
        let Some(aggregation) = self.aggregation.as_ref().filter(|a| a.download.has_ranges()) else { return Ok(()) };
        let summary = aggregation.download.summary();
        let (Some(begun), Some(ended)) = (summary.begun, summary.ended) else { return Ok(()) };
        let event = Event::Task {
            task: 0,
            path: summary.first_link.map_or(String::new(), |link| aggregation.paths[link].clone()),
            start_us: self.reactor.context.timebase.us(begun),
            tct_us: ended.duration_since(begun).as_micros() as u64,
            bytes: summary.bytes,
            outcome: summary.outcome.name(),
            switched: false,
            cold: false,
            moved_to: None,
            answered_on: None,
        };
        let label = self.options.flow_label.unwrap_or(0);
        if let Some(events) = &mut self.files.borrow_mut().events {
            events.line(&event_line(&event, self.reactor.context.timebase.us(ended), Some(label))?)?;
        }
        Ok(())
    }

    /// The flows and the aggregated download, for the report.
    pub fn finish(self) -> (Reactor, Option<Aggregation>) {
        (self.reactor, self.aggregation)
    }

    /// A flow is over: its last lines are written and its resources are freed.
    fn retire(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        self.sample(i, now)?;
        self.live -= 1;
        self.reactor.retire(i)?;
        let Some(flow) = self.reactor.flow_mut(i) else { return Ok(()) };
        let line = EndLine {
            k: "end",
            ecn: flow.session.as_ref().map(|s| s.conn.ecn_report()).unwrap_or_default(),
            t_us: 0,
            side: Side::Client,
            flow: Some(flow.config.label),
            conn: i as u64,
            bytes: flow.bytes(),
            reason: flow.outcome().map_or("", Outcome::name).to_owned(),
            decisions: flow.session.as_ref().map(|s| s.conn.decisions).unwrap_or_default(),
        };
        let t_us = self.reactor.context.timebase.us(now);
        if let Some(stats) = &mut self.stats {
            stats.line(&to_json(&EndLine { t_us, ..line })?)?;
        }
        Ok(())
    }

    /// Writes a sample of a flow that is not retired.
    fn sample(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let Some((flow, context)) = self.reactor.live_mut(i) else { return Ok(()) };
        let Some(session) = &mut flow.session else { return Ok(()) };
        let (label, bytes) = (Some(session.config.label), session.bytes);
        let sample = session.conn.sample(now, &context.timebase, Side::Client, label, i as u64, bytes);
        if let Some(stats) = &mut self.stats {
            stats.line(&to_json(&sample)?)?;
        }
        Ok(())
    }

    fn sample_all(&mut self, now: Instant) -> Result<(), Fault> {
        let promised = self.reactor.context.budget.borrow().promised();
        if let Some(events) = &mut self.files.borrow_mut().events
            && self.promised.replace(promised) != Some(promised)
        {
            let Promised { promised_bytes, peak_bytes, budget_bytes } = promised;
            let event = Event::Promised { promised_bytes, peak_bytes, budget_bytes };
            events.line(&event_line(&event, self.reactor.context.timebase.us(now), None)?)?;
        }
        for i in 0..self.flows {
            self.sample(i, now)?;
        }
        for lines in [&mut self.stats, &mut self.files.borrow_mut().events].into_iter().flatten() {
            lines.flush()?;
        }
        Ok(())
    }
}
