// SPDX-License-Identifier: Apache-2.0
//! Whether the path in use still works, and the reaction when it does not.

use super::Paths;
use super::event::PathEvent;
use super::path::{Entry, PathState};
use super::silence::Verdict;
use std::time::{Duration, Instant};

/// The longest time between pings on a dead path when there is no other path.
const STUCK_PING_MAX: Duration = Duration::from_secs(1);

impl Paths {
    /// Reads quiche's counts. Packets sent since the last call left in the last event-loop iteration.
    pub(super) fn observe(&mut self, quic: &quiche::Connection, now: Instant) {
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
                // A server that answers over another path is alive, and so is the path to it.
                self.arrivals.heard(e.spec.id, new, e.spec.id == active, at);
                self.watch.heard(at);
                self.answered = Some(at);
            }
            match &mut e.probe {
                Some(probe) => {
                    let challenge = quiche::hooks::answered_challenge(quic, e.spec.local, e.spec.peer);
                    probe.packet_heard(at, challenge);
                }
                // No other path is left, and a server whose congestion window is full of packets lost there may have no
                // room to answer a challenge.
                None if homeless
                    && e.up
                    && e.rtt.is_some()
                    && matches!(e.state, PathState::Failed | PathState::Lost) =>
                {
                    e.state = PathState::Validated;
                    self.events.push_back(PathEvent::Recovered(e.spec.id));
                }
                // It works after all: validate it now.
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

    /// When a packet last came in over the active path, or an answer over another one.
    pub fn last_heard(&self) -> Option<Instant> {
        self.answered.max(self.entry(self.active)?.heard)
    }

    /// Probe timeout of the active path, with the delay that the peer may acknowledge with (RFC 9002 6.2.1).
    pub fn pto(&self, quic: &quiche::Connection) -> Duration {
        // Until a path has carried some packets, quiche measures its RTT by acknowledgements that came back over
        // another path. The RTT of its validation is right.
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

    /// The same, but at least that of the path that the latest move left, because packets lost there are sent again by
    /// the timers of that path.
    pub fn pto_since_move(&self, quic: &quiche::Connection) -> Duration {
        let left = self.left.and_then(|path| self.entry(path));
        let left = left.and_then(|e| quic.path_stats().find(|p| e.is(p))).map(|p| p.rtt + p.rttvar * 4);
        self.pto(quic).max(left.unwrap_or_default())
    }

    pub(super) fn judge_active(&mut self, quic: &mut quiche::Connection, now: Instant) {
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
            // With one path there is no other to go to, and quiche sends probes itself.
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

    pub(super) fn lose_active(&mut self) {
        let active = self.active;
        let Some(e) = self.entry_mut(active) else { return };
        if e.state != PathState::Lost {
            e.state = PathState::Lost;
            e.failures = 0;
            self.events.push_back(PathEvent::Lost(active));
        }
    }

    /// Moves from the active path to the best validated one of the others, if there is any.
    pub(super) fn flee(&mut self, quic: &mut quiche::Connection, now: Instant) {
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

    /// Sends a packet that must be acknowledged on the active path at once. After a move it also informs the server of
    /// the move (RFC 9000 9.2: any packet that is not a probe).
    pub(super) fn wake(&self, quic: &mut quiche::Connection) {
        // An error means that the connection has no active path, which is the end of it.
        let _ = quic.send_ack_eliciting();
    }
}
