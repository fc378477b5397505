// SPDX-License-Identifier: Apache-2.0
//! The bytes of running tasks: answers read, uploads written.

use super::Session;
use super::task::Running;
use crate::client::body::Body;
use crate::client::outcome::Outcome;
use std::time::Instant;

impl Session {
    pub(super) fn read_h3(
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
                    self.note_progress(id, now);
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

    pub(super) fn read_hq(
        &mut self,
        now: Instant,
        scratch: &mut [u8],
        body: &mut dyn Body,
    ) -> Result<(), quiche::h3::Error> {
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

    pub(super) fn took_in(&mut self, id: u64, part: &[u8], body: &mut dyn Body, now: Instant) {
        self.note_progress(id, now);
        let Some(task) = self.running.get_mut(&id) else { return };
        self.first_byte.get_or_insert(now);
        let before = task.request.bytes;
        let failed = task.request.took_in(part, body);
        let bytes = task.request.bytes - before;
        self.bytes += bytes;
        if let Some(routes) = &mut self.routes {
            let active = routes.paths.active();
            for (path, n) in routes.goodput.read(bytes, active) {
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

    pub(super) fn count_sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(routes) = &mut self.routes
            && let Some(tally) = routes.tally_of(routes.paths.active())
        {
            tally.bytes += bytes;
        }
    }

    pub(super) fn finished(&mut self, id: u64, body: &mut dyn Body, now: Instant) {
        if let Some(task) = self.running.get(&id) {
            let outcome = task.request.finished(body);
            self.task_over(id, outcome, now);
        }
    }

    pub(super) fn was_reset(&mut self, id: u64, code: u64, now: Instant) {
        if let Some(task) = self.running.get(&id) {
            let outcome = task.request.was_reset(code, &self.plan.asked());
            self.task_over(id, outcome, now);
        }
    }

    /// The request on this stream is not stuck.
    fn note_progress(&mut self, id: u64, now: Instant) {
        if let Some(task) = self.running.get_mut(&id) {
            task.progress = now;
            self.progress = now;
        }
    }

    /// When a request next reaches the limit of its time without progress.
    pub(super) fn read_timeout_at(&self) -> Option<Instant> {
        let limit = self.plan.read_timeout;
        self.running.values().filter_map(|task| task.gives_up_at(limit)).chain(self.unsent_until()).min()
    }

    /// When a task fails that the server allows no stream. Those before it may take their time.
    fn unsent_until(&self) -> Option<Instant> {
        let chosen = self.chosen.as_ref().filter(|c| !c.waiting)?;
        chosen.start.max(self.progress).checked_add(self.plan.read_timeout?)
    }

    /// Fails the requests that made no progress for too long: a server may acknowledge them and never answer.
    pub(super) fn end_stuck(&mut self, now: Instant) {
        let Some(limit) = self.plan.read_timeout else { return };
        let limit_s = limit.as_secs_f64();
        let stuck = |task: &Running| task.gives_up_at(Some(limit)).is_some_and(|t| t <= now);
        let streams: Vec<u64> = self.running.iter().filter(|(_, task)| stuck(task)).map(|(&id, _)| id).collect();
        for id in streams {
            let bytes = self.running.get(&id).map_or(0, |task| task.request.bytes);
            let asked = self.plan.asked();
            let text = format!("{asked}: no progress for {limit_s} s (--read-timeout) after {bytes} bytes");
            self.task_over(id, Outcome::Timeout(text), now);
        }
        if self.unsent_until().is_some_and(|t| t <= now)
            && let Some(chosen) = self.chosen.take()
        {
            let text = format!("{}: the server allowed no request for {limit_s} s (--read-timeout)", self.plan.asked());
            self.note_end(&chosen, None, 0, &Outcome::Timeout(text), now);
        }
    }

    pub(super) fn write_uploads(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        let mut bytes = 0;
        for (&stream, task) in &mut self.running {
            task.request.send_line(&mut self.conn, stream)?;
            let written = match h3.as_deref_mut() {
                Some(h3) => {
                    task.request.upload(&mut self.conn, stream, |quic, part, fin| h3.send_body(quic, stream, part, fin))
                }
                None => task.request.upload(&mut self.conn, stream, |quic, part, fin| {
                    quic.stream_send(stream, part, fin).map_err(Into::into)
                }),
            }?;
            if written > 0 {
                task.progress = now;
                self.progress = now;
            }
            bytes += written;
        }
        self.count_sent(bytes);
        Ok(())
    }
}
