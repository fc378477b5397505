// SPDX-License-Identifier: Apache-2.0
//! Tasks that end: their sums, the strategy's samples of them, and their event.

use super::Session;
use super::task::{Chosen, Running};
use crate::choice::{PathId, TaskSample};
use crate::client::outcome::Outcome;
use crate::paths::Switch;
use crate::report::events::Event;
use crate::request::{CANCELLED, NO_ERROR};
use std::time::Instant;

impl Session {
    pub(super) fn task_over(&mut self, id: u64, outcome: Outcome, now: Instant) {
        let Some(mut task) = self.running.remove(&id) else { return };
        self.uploads -= usize::from(task.request.head.is_upload);
        if outcome != Outcome::Complete {
            // Nothing else on this stream is needed. An error means that it is shut already.
            let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Read, CANCELLED);
            let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Write, CANCELLED);
        } else if !task.request.is_body_sent() {
            // RFC 9114 4.1: the server needs no more of the body.
            let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Write, NO_ERROR);
        }
        task.request.exchange.ended(&outcome);
        // The path that carried most of the answer.
        let answered = task.answered.iter().max_by_key(|(_, n)| *n).map(|(path, _)| *path);
        self.note_end(&task.chosen, answered, task.request.bytes, &outcome, now);
        if let Some(routes) = self.routes.as_mut().filter(|_| self.running.is_empty()) {
            routes.steer.end();
            routes.goodput.clear();
        }
    }

    /// A tunnel was opened. The relay's part of that time depends on the destination, so the strategy's sample is the
    /// path's round-trip time; and only if nothing else ran, for else it has the queue of the others in it.
    pub(super) fn tunnel_answered(&mut self, id: u64, now: Instant) {
        let Some(Running { chosen, .. }) = self.running.get(&id) else { return };
        let alone = chosen.is_tunnel && !chosen.beside && chosen.moved_to.is_none();
        let Some(routes) = self.routes.as_mut().filter(|_| alone) else { return };
        let Some(tct) = self.conn.quic.path_stats().find(|path| path.active).map(|path| path.rtt) else { return };
        let Chosen { task, path, switched, .. } = *chosen;
        routes.chooser.finished(&TaskSample { path, task, tct, bytes: 0, switched, cold: false }, now);
    }

    /// Ends the task that is due and was not sent, if there is one.
    pub(super) fn drop_chosen(&mut self, outcome: &Outcome, now: Instant) {
        if let Some(mut task) = self.pending.take() {
            task.exchange.ended(outcome);
        }
        if let Some(chosen) = self.chosen.take() {
            self.note_end(&chosen, None, 0, outcome, now);
        }
    }

    /// A task was answered on the path `on` although the connection was on another path all the time.
    pub(super) fn was_answered_elsewhere(&mut self, on: PathId, now: Instant) {
        let Some(routes) = &mut self.routes else { return };
        let active = routes.paths.active();
        if routes.stay.elsewhere(on, now) && routes.paths.switch(&mut self.conn.quic, on, now) == Ok(Switch::Done) {
            let (path, on) = (self.path_name(active), self.path_name(on));
            self.event(now, || Event::Elsewhere { path, on });
            self.take_path_events(now);
        }
    }

    pub(super) fn note_end(
        &mut self,
        chosen: &Chosen,
        answered: Option<PathId>,
        bytes: u64,
        outcome: &Outcome,
        now: Instant,
    ) {
        let tct = now.saturating_duration_since(chosen.start);
        let tct_us = tct.as_micros() as u64;
        let complete = *outcome == Outcome::Complete;
        let failed = outcome.exit_code() != 0;
        let keeps_times = self.config.keeps_times;
        self.tally.bytes += bytes;
        let answered = answered.filter(|on| *on != chosen.path && chosen.moved_to.is_none() && !chosen.steered);
        let credited = answered.unwrap_or(chosen.path);
        let path = self.routes.as_mut().and_then(|r| r.tally_of(credited));
        for tally in [Some(&mut self.tally), path].into_iter().flatten() {
            tally.done += u64::from(complete);
            tally.failed += u64::from(failed);
            tally.tct_us.extend((complete && keeps_times).then_some(tct_us));
        }
        if failed {
            self.failure.get_or_insert_with(|| outcome.clone());
        }
        if let Some(routes) = &mut self.routes {
            let Chosen { task, switched, cold, .. } = *chosen;
            let path = credited;
            let sample = TaskSample { path, task, tct, bytes, switched, cold };
            if chosen.is_tunnel {
                // Its sample was its answer: see `tunnel_answered`.
            } else if complete && chosen.steered {
                // It was on several paths: each gets a sample with the time that the whole task would have taken there.
                let at_once = self.running.len() as u64 + 1;
                for (path, took) in routes.steer.estimates(bytes.saturating_mul(at_once), now) {
                    let tct = took + routes.paths.rtt(path).unwrap_or_default();
                    let sample = TaskSample { path, task, tct, bytes, switched: false, cold: false };
                    routes.chooser.finished(&sample, now);
                }
            } else if complete && (chosen.moved_to.is_none() || chosen.was_late) {
                routes.chooser.finished(&sample, now);
            } else if complete && let Some(silent) = routes.silent.iter_mut().find(|s| s.path == path) {
                // It moved. Whether it is a sample of the path that it left is not known yet.
                silent.ended.push(sample);
            }
            // The best path first, in case the one in use dies.
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
}
