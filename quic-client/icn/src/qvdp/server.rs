// SPDX-License-Identifier: Apache-2.0
//! The side of an application that waits for connections. It gets an application's address of its own for each session.

use super::opening::{Opening, session_component};
use super::session::Session;
use super::table::{Outcome, Table};
use super::{Config, Counts, Ecn, MAX_DATAGRAM_BYTES, Sink, refuse};
use crate::names::{Name, NameError};
use crate::packet::{Header, Kind, flags, nack};
use std::time::Instant;

/// The converter beside an application that waits for connections. Applications are told apart by their session.
#[derive(Debug)]
pub struct Server {
    name: Name,
    open_name: Name,
    table: Table<u64>,
}

impl Server {
    /// A converter with this name.
    ///
    /// # Errors
    /// The name is too long for those of sessions below it.
    pub fn new(name: Name, config: Config) -> Result<Server, NameError> {
        name.child(&session_component(0))?;
        let open_name = name.child("open")?;
        Ok(Server { name, open_name, table: Table::new(config) })
    }

    /// What was counted so far.
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
                self.open(header, payload, now, sink);
            }
            return None;
        }
        match self.table.packet(header, payload, now, sink) {
            Outcome::Taken => None,
            Outcome::Gone(id) => self.table.remove(id).map(|session| session.id),
            Outcome::Unknown => {
                if header.kind == Kind::Interest && self.name.covers(header.prefix) {
                    refuse(header, nack::NO_SUCH_NAME, &mut self.table.counts, sink);
                }
                None
            }
        }
    }

    fn open(&mut self, header: &Header, payload: &[u8], now: Instant, sink: &mut impl Sink<u64>) {
        let Some(opening) = Opening::read(payload).filter(|opening| opening.session as u32 == header.segment) else {
            refuse(header, nack::NO_SUCH_SEGMENT, &mut self.table.counts, sink);
            return;
        };
        let id = opening.session;
        if self.table.get(id).is_none() {
            let names = [&opening.client, &self.name].map(|name| name.child(&session_component(id)));
            let (true, [Ok(ask), Ok(give)]) = (self.table.has_room(), names) else {
                self.table.counts.sessions_refused += 1;
                refuse(header, nack::BUSY, &mut self.table.counts, sink);
                return;
            };
            self.table.add(Session::new(id, id, [ask, give], self.table.config, now));
            if !opening.datagram.is_empty() {
                self.table.counts.datagrams_given += 1;
                sink.datagram(id, opening.datagram, Ecn::Off);
            }
        }
        sink.packet(&Header::data(&self.open_name, header.segment, flags::BARE), &[]);
    }

    /// There is no way to the program for this session: it ends.
    pub fn fail(&mut self, session: u64) {
        if self.table.remove(session).is_some() {
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

    /// What the time brings; gives the sessions that have ended. [`Server::turn`] is to be called after it.
    pub fn timeout(&mut self, now: Instant, sink: &mut impl Sink<u64>) -> Vec<u64> {
        self.table.timeout(now, sink).iter().map(|session| session.id).collect()
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session<u64>> {
        self.table.sessions()
    }
}
