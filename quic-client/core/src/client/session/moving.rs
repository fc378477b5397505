// SPDX-License-Identifier: Apache-2.0
//! Running tasks that move to another path, and downloads that a move brought to a standstill.

use super::Session;
use super::task::Running;
use crate::choice::PathId;
use crate::client::exchange::Tasks;
use crate::client::moves::{Move, Other, View};
use crate::client::request::Request;
use crate::paths::Switch;
use crate::report::events::Event;
use crate::request::CANCELLED;
use std::collections::BTreeMap;
use std::time::Instant;

impl Session {
    /// Moves to another path if the running tasks gain by that.
    pub(super) fn steer(&mut self, tasks: &dyn Tasks, now: Instant) {
        let left = self.left_bytes(tasks);
        let Some(routes) = self.routes.as_mut().filter(|r| r.steered) else { return };
        let waiting = self.chosen.as_ref().is_some_and(|c| c.waiting);
        // A tunnel's rate is that of its two ends: a trial of another path would compare pauses.
        let tunnels = self.running.values().any(|task| task.chosen.is_tunnel);
        if self.running.is_empty() || tunnels || waiting || routes.stay.holds(now) {
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

    /// Moves running tasks.
    pub(super) fn move_to(&mut self, to: PathId, now: Instant) -> bool {
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

    /// Downloads have stood still since a move that was made to speed them up: move back to the path where the server
    /// sends the missing bytes.
    pub(super) fn go_back(&mut self, now: Instant) -> bool {
        let Some(back) = self.routes.as_mut().and_then(|r| r.steer.stuck()) else { return false };
        let from = self.active_path();
        let moved = self.move_to(back, now);
        if moved {
            let (path, reason) = (self.path_name(back), "the server sends nothing again");
            self.event(now, || Event::Move { path, from, reason, rate_bit_s: BTreeMap::new(), left_bytes: None });
        }
        moved
    }

    /// Payload that is still missing from running tasks and from those that follow at once, if it is known.
    pub(super) fn left_bytes(&self, tasks: &dyn Tasks) -> Option<u64> {
        let left: u64 = self.running.values().map(|t| t.request.left_bytes()).sum::<Option<u64>>()?;
        let follow = tasks.left_at_once();
        let each = tasks.next_bytes().or_else(|| self.tally.bytes.checked_div(self.tally.done)).unwrap_or(0);
        Some(left.saturating_add(follow.saturating_mul(each)))
    }

    /// When [`Session::ask_anew`] has work.
    pub(super) fn patience_ends(&self) -> Option<Instant> {
        let routes = self.routes.as_ref()?;
        let pto = routes.paths.pto_since_move(&self.conn.quic);
        self.running.values().filter_map(|t| t.standstill).map(|s| s.patience_ends(pto)).min()
    }

    /// Repeats the requests of downloads that a move stopped, and sends those of redirects, on new streams.
    pub(super) fn ask_anew(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        self.follow_redirects(now, h3.as_deref_mut())?;
        let Some(routes) = &self.routes else { return Ok(()) };
        let (pto, heard) = (routes.paths.pto_since_move(&self.conn.quic), routes.paths.last_heard());
        let over = |t: &Running| t.standstill.is_some_and(|s| s.is_over(now, pto, heard));
        let streams: Vec<u64> = self.running.iter().filter(|(_, t)| over(t)).map(|(&id, _)| id).collect();
        if !streams.is_empty() && self.go_back(now) {
            return Ok(());
        }
        for old in streams {
            let Some(bytes) = self.running.get(&old).map(|task| task.request.bytes) else { continue };
            // The stream limit is reached: try again in the next iteration.
            let Some(stream) = self.replace_stream(old, h3.as_deref_mut())? else { break };
            let Some(running) = self.running.get_mut(&stream) else { continue };
            let restarted = running.request.exchange.restart();
            let (task, path) = (running.chosen.task, running.chosen.on());
            let path = self.path_name(path);
            // These bytes come once more. Each path's sum keeps its share of them.
            self.bytes = self.bytes.saturating_sub(bytes);
            self.event(now, || Event::Retry { task, path, bytes });
            if let Err(outcome) = restarted {
                self.task_over(stream, outcome, now);
            }
        }
        Ok(())
    }

    fn follow_redirects(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        let redirected = self.running.iter().filter(|(_, task)| task.request.redirect.is_some());
        let streams: Vec<u64> = redirected.map(|(&id, _)| id).collect();
        for old in streams {
            let Some(Running { request, progress, .. }) = self.running.get_mut(&old) else { continue };
            if let Some(path) = request.redirect.clone() {
                request.head.path = path;
                request.head.bytes = None;
            }
            *progress = now;
            if self.replace_stream(old, h3.as_deref_mut())?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Puts the request of stream `old` on a new stream, and gives that up. `None`: the stream limit is reached.
    fn replace_stream(
        &mut self,
        old: u64,
        h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<Option<u64>, quiche::h3::Error> {
        let Some(head) = self.running.get(&old).map(|task| task.request.head.clone()) else { return Ok(None) };
        let Some((stream, line)) = self.send_head(&head, h3)? else { return Ok(None) };
        let Some(Running { chosen, request, progress, .. }) = self.running.remove(&old) else { return Ok(None) };
        // An error means that it is shut already.
        let _ = self.conn.quic.stream_shutdown(old, quiche::Shutdown::Read, CANCELLED);
        let request = Request::new(head, request.exchange, line);
        let running = Running { chosen, request, standstill: None, answered: Vec::new(), progress };
        self.running.insert(stream, running);
        Ok(Some(stream))
    }
}
