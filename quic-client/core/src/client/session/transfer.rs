// SPDX-License-Identifier: Apache-2.0
//! The bytes of running tasks: answers read, uploads written.

use super::Session;
use crate::client::body::Body;
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

    pub(super) fn write_uploads(
        &mut self,
        mut h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<(), quiche::h3::Error> {
        let mut bytes = 0;
        for (&stream, task) in &mut self.running {
            task.request.send_line(&mut self.conn, stream)?;
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
}
