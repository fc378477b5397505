// SPDX-License-Identifier: Apache-2.0
//! The bytes of running tasks: answers read, uploads written.

use super::Session;
use super::task::Running;
use crate::client::exchange::Head;
use crate::client::outcome::Outcome;
use std::time::Instant;

impl Session {
    pub(super) fn read_h3(
        &mut self,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<(), quiche::h3::Error> {
        use quiche::h3::{Error, Event};
        let unread = self.running.iter().filter(|(_, task)| task.request.has_unread).map(|(&id, _)| id);
        for id in unread.collect::<Vec<_>>() {
            self.read_body(h3, id, now, scratch)?;
        }
        loop {
            match h3.poll(&mut self.conn.quic) {
                Ok((id, Event::Headers { list, .. })) => {
                    let asked = self.asked(id);
                    self.note_progress(id, now);
                    let was_answered = self.running.get(&id).is_none_or(|t| t.request.is_answered());
                    let outcome = self.running.get_mut(&id).and_then(|t| t.request.headers(&list, &asked));
                    if !was_answered && self.running.get(&id).is_some_and(|t| t.request.is_answered()) {
                        self.tunnel_answered(id, now);
                    }
                    if let Some(outcome) = outcome {
                        self.task_over(id, outcome, now);
                    }
                }
                Ok((id, Event::Data)) => self.read_body(h3, id, now, scratch)?,
                Ok((id, Event::Finished)) => self.finished(id, now),
                Ok((id, Event::Reset(code))) => self.was_reset(id, code, now),
                Ok((_, Event::GoAway)) => self.going_away = true,
                Ok(_) => {}
                Err(Error::Done) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads the data of an answer as far as its exchange can take it.
    fn read_body(
        &mut self,
        h3: &mut quiche::h3::Connection,
        id: u64,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<(), quiche::h3::Error> {
        use quiche::h3::Error;
        while let Some(room) = self.room(id, scratch.len()) {
            match h3.recv_body(&mut self.conn.quic, id, &mut scratch[..room]) {
                Ok(n) => self.took_in(id, &scratch[..n], now),
                // `InvalidStreamState`: it is over and done.
                Err(Error::Done | Error::TransportError(quiche::Error::InvalidStreamState(_))) => {
                    self.set_unread(id, false);
                    break;
                }
                Err(Error::TransportError(quiche::Error::StreamReset(code))) => {
                    self.was_reset(id, code, now);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Bytes to read of an answer, at most `most`; `None`: it has to wait. An answer that nobody takes is read, so that
    /// its end is seen.
    fn room(&mut self, id: u64, most: usize) -> Option<usize> {
        let Some(task) = self.running.get_mut(&id).filter(|task| task.request.is_read()) else { return Some(most) };
        let room = task.request.exchange.room().min(most);
        task.request.has_unread = room == 0;
        (room > 0).then_some(room)
    }

    fn set_unread(&mut self, id: u64, unread: bool) {
        if let Some(task) = self.running.get_mut(&id) {
            task.request.has_unread = unread;
        }
    }

    /// Authority and path of a request, for messages.
    fn asked(&self, id: u64) -> String {
        self.running.get(&id).map_or_else(|| self.config.authority.clone(), |task| self.named(&task.request.head))
    }

    fn named(&self, head: &Head) -> String {
        format!("{}{}", self.config.authority, head.path)
    }

    pub(super) fn read_hq(&mut self, now: Instant, scratch: &mut [u8]) -> Result<(), quiche::h3::Error> {
        use quiche::Error;
        let unread = self.running.iter().filter(|(_, task)| task.request.has_unread).map(|(&id, _)| id);
        let mut unread: Vec<_> = unread.collect();
        while let Some(id) = unread.pop().or_else(|| self.conn.quic.stream_readable_next()) {
            while let Some(room) = self.room(id, scratch.len()) {
                match self.conn.quic.stream_recv(id, &mut scratch[..room]) {
                    Ok((n, fin)) => {
                        self.took_in(id, &scratch[..n], now);
                        if fin {
                            self.finished(id, now);
                        }
                    }
                    // `InvalidStreamState`: it is over and done.
                    Err(Error::Done | Error::InvalidStreamState(_)) => {
                        self.set_unread(id, false);
                        break;
                    }
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

    pub(super) fn took_in(&mut self, id: u64, part: &[u8], now: Instant) {
        self.note_progress(id, now);
        let Some(task) = self.running.get_mut(&id).filter(|task| task.request.is_read()) else { return };
        self.first_byte.get_or_insert(now);
        let before = task.request.bytes;
        let failed = task.request.took_in(part);
        let bytes = if task.request.head.is_upload { 0 } else { task.request.bytes - before };
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

    pub(super) fn finished(&mut self, id: u64, now: Instant) {
        if let Some(task) = self.running.get_mut(&id).filter(|task| task.request.is_read())
            && let Some(outcome) = task.request.finished()
        {
            self.task_over(id, outcome, now);
        }
    }

    pub(super) fn was_reset(&mut self, id: u64, code: u64, now: Instant) {
        let asked = self.asked(id);
        if let Some(task) = self.running.get(&id).filter(|task| task.request.is_read()) {
            let outcome = task.request.was_reset(code, &asked);
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
        let limit = self.config.read_timeout;
        self.running.values().filter_map(|task| task.gives_up_at(limit)).chain(self.unsent_until()).min()
    }

    /// When a task fails that the server allows no stream. Those before it may take their time.
    fn unsent_until(&self) -> Option<Instant> {
        let chosen = self.chosen.as_ref().filter(|c| !c.waiting)?;
        chosen.start.max(self.progress).checked_add(self.config.read_timeout?)
    }

    /// Fails the requests that made no progress for too long: a server may acknowledge them and never answer.
    pub(super) fn end_stuck(&mut self, now: Instant) {
        let Some(limit) = self.config.read_timeout else { return };
        let limit_s = limit.as_secs_f64();
        let stuck = |task: &Running| task.gives_up_at(Some(limit)).is_some_and(|t| t <= now);
        let streams: Vec<u64> = self.running.iter().filter(|(_, task)| stuck(task)).map(|(&id, _)| id).collect();
        for id in streams {
            let bytes = self.running.get(&id).map_or(0, |task| task.request.bytes);
            let asked = self.asked(id);
            let text = format!("{asked}: no progress for {limit_s} s, the read timeout, after {bytes} bytes");
            self.task_over(id, Outcome::Timeout(text), now);
        }
        if self.unsent_until().is_some_and(|t| t <= now)
            && let Some(task) = &self.pending
        {
            let asked = self.named(&task.head);
            let text = format!("{asked}: the server allowed no request for {limit_s} s, the read timeout");
            self.drop_chosen(&Outcome::Timeout(text), now);
        }
    }

    /// Sends what the requests' bodies have, and ends cancelled requests.
    pub(super) fn write_bodies(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        let mut uploaded = 0;
        let mut over = Vec::new();
        for (&stream, Running { request, progress, .. }) in &mut self.running {
            if request.exchange.is_cancelled() {
                over.push((stream, Outcome::Stopped));
                continue;
            }
            request.send_line(&mut self.conn, stream)?;
            let written = match h3.as_deref_mut() {
                Some(h3) => {
                    request.send_body(&mut self.conn, stream, |quic, part, fin| h3.send_body(quic, stream, part, fin))
                }
                None => request.send_body(&mut self.conn, stream, |quic, part, fin| {
                    quic.stream_send(stream, part, fin).map_err(Into::into)
                }),
            }?;
            if written > 0 {
                *progress = now;
                self.progress = now;
            }
            uploaded += if request.head.is_upload { written } else { 0 };
            over.extend(request.take_end().map(|outcome| (stream, outcome)));
        }
        self.count_sent(uploaded);
        for (stream, outcome) in over {
            self.task_over(stream, outcome, now);
        }
        Ok(())
    }
}
