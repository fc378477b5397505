// SPDX-License-Identifier: Apache-2.0
//! The side of an application that waits for connections. It gets an application's address of its own for each session.

use super::opening::{OPENINGS, Opening, session_component};
use super::refusals::Why;
use super::session::Session;
use super::table::{Outcome, Table};
use super::{Config, Counts, Ecn, MAX_DATAGRAM_BYTES, SESSIONS_A_CLIENT, Sink};
use crate::names::{Name, NameError};
use crate::packet::{Header, Kind, flags};
use std::collections::HashMap;
use std::time::Instant;

/// The converter beside an application that waits for connections. Applications are distinguished by their session.
#[derive(Debug)]
pub struct Server {
    name: Name,
    open_name: Name,
    table: Table<u64>,
    /// The client of each session, and how many sessions a client has.
    client_of: HashMap<u64, u64>,
    of_client: HashMap<u64, usize>,
}

impl Server {
    /// A converter with this name.
    ///
    /// # Errors
    /// The name is too long for those of sessions below it.
    pub fn new(name: Name, config: Config) -> Result<Server, NameError> {
        name.child(&session_component(0))?;
        let open_name = name.child("open")?;
        let (client_of, of_client) = (HashMap::new(), HashMap::new());
        Ok(Server { name, open_name, table: Table::new(config), client_of, of_client })
    }

    /// Counters so far.
    pub fn counts(&self) -> &Counts {
        &self.table.counts
    }

    /// A datagram of the application for this session.
    pub fn datagram(&mut self, session: u64, bytes: &[u8], ecn: Ecn, now: Instant, sink: &mut impl Sink<u64>) {
        self.table.counts.datagrams_taken += 1;
        if bytes.len() > MAX_DATAGRAM_BYTES {
            self.table.counts.datagrams_dropped += 1;
        } else {
            self.table.datagram(session, bytes, ecn, now, sink);
        }
    }

    /// A packet that arrived. Gives the session that has ended by it, if any.
    pub fn packet(&mut self, header: &Header, payload: &[u8], now: Instant, sink: &mut impl Sink<u64>) -> Option<u64> {
        if header.name == self.open_name.hash() {
            if header.kind == Kind::Interest {
                return self.open(header, payload, now, sink);
            }
            return None;
        }
        match self.table.packet(header, payload, now, sink) {
            Outcome::Taken => None,
            Outcome::Gone(id) => self.remove(id),
            Outcome::Unknown => {
                if header.kind == Kind::Interest && self.name.covers(header.prefix) {
                    self.table.refuse(header, Why::Unknown, now, sink);
                }
                None
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<u64> {
        self.table.remove(id)?;
        self.forget(id);
        Some(id)
    }

    fn forget(&mut self, id: u64) {
        if let Some(client) = self.client_of.remove(&id)
            && let Some(sessions) = self.of_client.get_mut(&client)
        {
            *sessions -= 1;
            if *sessions == 0 {
                self.of_client.remove(&client);
            }
        }
    }

    /// Makes a session, if there is room; gives the one that gave way to it, if any.
    fn open(&mut self, header: &Header, payload: &[u8], now: Instant, sink: &mut impl Sink<u64>) -> Option<u64> {
        let place = |opening: &Opening| header.segment.wrapping_sub(opening.session as u32);
        let Some(opening) = Opening::read(payload).filter(|opening| place(opening) < OPENINGS) else {
            self.table.refuse(header, Why::Malformed, now, sink);
            return None;
        };
        let (id, client, mut gone) = (opening.session, opening.client.hash(), None);
        if self.table.get(id).is_none() {
            let names = [&opening.client, &self.name].map(|name| name.child(&session_component(id)));
            let fair = |server: &Server| server.of_client.get(&client).is_none_or(|count| *count < SESSIONS_A_CLIENT);
            let victim = if !fair(self) {
                self.table.oldest_unproven(|id| self.client_of.get(&id) == Some(&client))
            } else if !self.table.has_room() {
                self.table.victim(opening.client.prefix(), now)
            } else {
                None
            };
            gone = victim.and_then(|id| self.remove(id));
            let (true, [Ok(ask), Ok(give)]) = (fair(self) && self.table.has_room(), names) else {
                self.table.counts.sessions_refused += 1;
                self.table.refuse(header, Why::Full, now, sink);
                return gone;
            };
            self.client_of.insert(id, client);
            *self.of_client.entry(client).or_insert(0) += 1;
            self.table.add(Session::new(id, id, [ask, give], self.table.config, now));
        }
        let new = self.table.get(id).is_some_and(|session| {
            session.received(payload);
            session.opened_with(place(&opening))
        });
        self.table.touch(id);
        if new && !opening.datagram.is_empty() {
            let ecn = Ecn::of(header.flags);
            self.table.counts.datagrams_given += 1;
            self.table.counts.marks += u64::from(ecn == Ecn::Ce);
            sink.datagram(id, opening.datagram, ecn);
        }
        sink.packet(&Header::data(&self.open_name, header.segment, flags::BARE), &[]);
        gone
    }

    /// There is no way to the program for this session: it ends.
    pub fn fail(&mut self, session: u64) {
        if self.remove(session).is_some() {
            self.table.counts.sessions_failed += 1;
        }
    }

    /// To be called when all that arrived was handed in: asks for more.
    pub fn turn(&mut self, now: Instant, sink: &mut impl Sink<u64>) {
        self.table.turn(now, sink);
    }

    /// When [`Server::timeout`] is next of use.
    pub fn deadline(&self) -> Option<Instant> {
        self.table.deadline()
    }

    /// Handles the timers; returns the sessions that have ended. [`Server::turn`] is to be called after it.
    pub fn timeout(&mut self, now: Instant, sink: &mut impl Sink<u64>) -> Vec<u64> {
        let ended: Vec<u64> = self.table.timeout(now, sink).iter().map(|session| session.id).collect();
        ended.iter().for_each(|id| self.forget(*id));
        ended
    }

    /// For fuzzers and tests: what arrives makes it hold no more than it may.
    ///
    /// # Panics
    /// It does.
    pub fn check_budgets(&self) {
        self.table.check_budgets();
    }

    #[cfg(test)]
    pub(super) fn hold_at_most(&mut self, bytes: usize) {
        self.table.hold_at_most(bytes);
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session<u64>> {
        self.table.sessions()
    }
}
