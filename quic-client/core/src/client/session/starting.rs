// SPDX-License-Identifier: Apache-2.0
//! Tasks that fall due: when one may start, which path it takes, and its request.

use super::Session;
use super::task::{Chosen, Running};
use crate::choice::PathId;
use crate::client::exchange::{Head, Task, Tasks};
use crate::client::outcome::Outcome;
use crate::client::request::Request;
use crate::paths::{PathError, Standby, Switch};
use crate::report::events::Event;
use crate::request::{Alpn, perf_head};
use quiche::h3::NameValue;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Stream of a request, and the unsent rest of hq-interop's line.
type SentHead = (u64, Option<Vec<u8>>);

impl Session {
    /// When the next task may start; `None` if there is none, or if it waits for something else than its time.
    fn next_due(&self, tasks: &mut dyn Tasks) -> Option<Instant> {
        if self.chosen.is_some() || self.going_away || self.outcome.is_some() {
            return None;
        }
        match self.conn.established {
            Some(up) => tasks.next_due(up, self.running.len()),
            None if self.conn.is_early && tasks.is_next_early() => tasks.next_due(self.conn.opened, self.running.len()),
            None => None,
        }
    }

    pub(super) fn start_tasks(
        &mut self,
        now: Instant,
        mut h3: Option<&mut quiche::h3::Connection>,
        tasks: &mut dyn Tasks,
    ) -> Result<(), quiche::h3::Error> {
        loop {
            if self.chosen.is_none() {
                let Some(due) = self.next_due(tasks) else { break };
                if due > now || !self.may_start(tasks.next_bytes(), now) {
                    break;
                }
                let Some(task) = tasks.take() else { break };
                self.choose(task, now);
            }
            if self.pending.as_ref().is_some_and(|task| task.exchange.is_cancelled()) {
                self.drop_chosen(&Outcome::Stopped, now);
                continue;
            }
            if let Some(why) = self.unsupported(h3.as_deref()) {
                self.drop_chosen(&Outcome::NotServed(why), now);
                continue;
            }
            if !self.send_chosen(now, h3.as_deref_mut())? {
                let Some(why) = self.too_large() else { break };
                self.drop_chosen(&Outcome::TooLarge(why), now);
            }
        }
        self.due = self.next_due(tasks);
        self.looked = Some(now);
        Ok(())
    }

    /// Why the server can't be sent the request of the task that is due: an extended CONNECT that it does not support.
    fn unsupported(&self, h3: Option<&quiche::h3::Connection>) -> Option<String> {
        let head = self.pending.as_ref().map(|task| &task.head)?;
        let protocol = head.protocol.as_ref()?;
        match h3 {
            Some(h3) if h3.peer_settings_raw().is_none() || h3.extended_connect_enabled_by_peer() => None,
            _ => {
                let authority = &self.config.authority;
                Some(format!("{authority}: the server does not support extended CONNECT of {protocol} (RFC 9220)"))
            }
        }
    }

    /// Why the head that waits is never sent: quiche sends a head as a whole, within the congestion window, and that does
    /// not grow while nothing is in flight.
    fn too_large(&self) -> Option<String> {
        /// Bytes of other streams and of framing that may be waiting, too.
        const OTHER_BYTES: u64 = 1500;
        let waits = self.conn.established.is_some() && self.chosen.as_ref().is_some_and(|chosen| !chosen.waiting);
        let head = &self.pending.as_ref().filter(|_| waits)?.head;
        let fields: usize = head.headers.iter().map(|field| field.name().len() + field.value().len()).sum();
        let bytes = (head.path.len() + fields) as u64;
        let state = quiche::hooks::congestion_state(&self.conn.quic)?;
        let fits = state.in_flight_bytes > 0 || bytes + OTHER_BYTES <= state.window_bytes;
        let (authority, window) = (&self.config.authority, state.window_bytes);
        (!fits).then(|| format!("{authority}: a request head of {bytes} bytes: the congestion window has {window}"))
    }

    /// Sends the request of the task that is due. False if it has to wait.
    fn send_chosen(
        &mut self,
        now: Instant,
        h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<bool, quiche::h3::Error> {
        let Some(Task { head, exchange }) = self.pending.take_if(|_| self.chosen.as_ref().is_some_and(|c| !c.waiting))
        else {
            return Ok(false);
        };
        let sent = self.send_head(&head, h3);
        let Ok(Some((stream, line))) = sent else {
            self.pending = Some(Task { head, exchange });
            return sent.map(|_| false);
        };
        let Some(chosen) = self.chosen.take() else { return Ok(false) };
        let mut request = Request::new(head, exchange, line);
        // The rest is sent by `write_bodies`.
        request.send_line(&mut self.conn, stream)?;
        if let Some(routes) = self.routes.as_mut().filter(|_| self.running.is_empty()) {
            // Bytes that came before are HTTP/3's settings, not an answer.
            routes.goodput.clear();
        }
        self.uploads += usize::from(request.head.is_upload);
        let head_is_tunnel = request.head.is_tunnel();
        let running = Running { chosen, request, standstill: None, answered: Vec::new(), progress: now };
        self.running.insert(stream, running);
        self.progress = now;
        if let Some(routes) = self.routes.as_mut().filter(|_| !head_is_tunnel) {
            routes.steer.begin(now);
        }
        Ok(true)
    }

    /// Whether the first task may choose its path. A large one waits for a short time, until no path that is still
    /// being validated can turn out to be nearer than the validated ones.
    fn may_start(&mut self, bytes: Option<u64>, now: Instant) -> bool {
        /// A task of so few bytes starts at once.
        const SMALL_BYTES: u64 = 64_000;
        const WAIT_MAX: Duration = Duration::from_secs(1);
        if self.conn.established.is_none() {
            return true;
        }
        let small = bytes.is_some_and(|n| n <= SMALL_BYTES);
        let Some(routes) = self.routes.as_mut().filter(|r| r.steered && self.next_task == 0) else { return true };
        // A round trip until the handshake is confirmed, and one for the challenges; twice that if one is late.
        let rtt = routes.paths.rtt(routes.paths.active()).unwrap_or(WAIT_MAX);
        let wait = (rtt * 4).min(WAIT_MAX);
        let by = *routes.start_by.get_or_insert(now + wait);
        let waits = !small && now < by && routes.paths.undecided(&self.conn.quic, now);
        routes.paths.hurry(waits);
        !waits
    }

    /// Chooses a path for the next task, and moves there.
    fn choose(&mut self, request: Task, now: Instant) {
        let task = self.next_task;
        self.next_task += 1;
        self.pending = Some(request);
        let beside = self.is_busy(now);
        self.chosen = Some(self.choose_path(task, now, beside));
    }

    pub(super) fn choose_path(&mut self, task: u64, start: Instant, beside: bool) -> Chosen {
        let here = self.routes.as_ref().map_or(PathId(0), |r| r.paths.active());
        let mut chosen = Chosen {
            task,
            path: here,
            start,
            switched: false,
            cold: false,
            waiting: false,
            moved_to: None,
            was_late: false,
            steered: false,
            is_tunnel: self.pending.as_ref().is_some_and(|task| task.head.is_tunnel()),
            beside,
        };
        let bytes = self.pending.as_ref().and_then(|task| task.head.bytes);
        let Some(routes) = self.routes.as_mut().filter(|_| !beside) else { return chosen };
        if routes.stay.holds(start) {
            let (path, reason) = (routes.name_of(here), "server-stays");
            self.event(start, || Event::Choice { task, path, reason, index: BTreeMap::new() });
            return chosen;
        }
        let Some(choice) = routes.chooser.choose(task, bytes, start, Some(here)) else { return chosen };
        let mut reason = choice.reason;
        match routes.paths.switch(&mut self.conn.quic, choice.path, start) {
            Ok(Switch::Already) => {}
            Ok(Switch::Done) => (chosen.path, chosen.switched) = (choice.path, true),
            Ok(Switch::Probing) => {
                chosen = Chosen { path: choice.path, switched: true, cold: true, waiting: true, ..chosen };
            }
            Err(error) => {
                // The task stays where the connection is.
                reason = match error {
                    PathError::TooEarly => "handshake-unconfirmed",
                    PathError::Forbidden => "migration-forbidden",
                    PathError::NoConnectionId(_) => "no-connection-id",
                    PathError::Down(_) | PathError::Unknown(_) => "path-down",
                    PathError::Refused(..) => "path-refused",
                };
                match error {
                    // This is over in a moment.
                    PathError::TooEarly => {}
                    PathError::Refused(..) => routes.chooser.failed(choice.path, start),
                    // The server may be replacing its IDs; a cold path is tried again when it is chosen again.
                    PathError::NoConnectionId(_) if routes.standby == Standby::Cold => {
                        routes.chooser.failed(choice.path, start);
                    }
                    _ => routes.chooser.set_usable(choice.path, false, start),
                }
            }
        }
        if self.events.is_some() {
            let index = choice.index_ms.iter().map(|(p, v)| (routes.name_of(*p), *v)).collect();
            let path = routes.name_of(chosen.path);
            self.event(start, || Event::Choice { task, path, reason, index });
        }
        self.take_path_events(start);
        chosen
    }

    /// Puts a request's head on a new stream; `None`: the stream limit is reached.
    pub(super) fn send_head(
        &mut self,
        head: &Head,
        h3: Option<&mut quiche::h3::Connection>,
    ) -> Result<Option<SentHead>, quiche::h3::Error> {
        use quiche::h3::{Error, Header};
        if self.conn.quic.peer_streams_left_bidi() == 0 {
            return Ok(None);
        }
        let Head { method, path, headers, .. } = head;
        // RFC 9220 3: not before the server's settings.
        if head.protocol.is_some() && h3.as_deref().is_some_and(|h3| h3.peer_settings_raw().is_none()) {
            return Ok(None);
        }
        let Some(h3) = h3 else {
            let stream = self.next_hq_stream;
            self.next_hq_stream += 4;
            let line = match self.conn.alpn {
                // A path without a size asks for nothing: clients refuse it before they connect.
                Some(Alpn::Perf) => perf_head(path).unwrap_or_default().to_vec(),
                _ => format!("{method} {path}\r\n").into_bytes(),
            };
            return Ok(Some((stream, Some(line))));
        };
        let authority = head.authority.as_ref().unwrap_or(&self.config.authority);
        let mut list = vec![Header::new(b":method", method.as_bytes())];
        if let Some(protocol) = &head.protocol {
            list.push(Header::new(b":protocol", protocol.as_bytes()));
        }
        if !head.is_plain_connect() {
            list.push(Header::new(b":scheme", b"https"));
        }
        list.push(Header::new(b":authority", authority.as_bytes()));
        if !head.is_plain_connect() {
            list.push(Header::new(b":path", path.as_bytes()));
        }
        list.extend(headers.iter().cloned());
        match h3.send_request(&mut self.conn.quic, &list, !head.has_body) {
            Ok(stream) => Ok(Some((stream, None))),
            // The server's limits allow none yet.
            Err(Error::StreamBlocked | Error::TransportError(quiche::Error::StreamLimit)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
