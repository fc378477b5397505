// SPDX-License-Identifier: Apache-2.0
//! The side of applications that open connections: a session for each of their addresses.

use super::opening::{Opening, session_component};
use super::refusals::Why;
use super::session::{OPEN_AGAIN, Session};
use super::table::{Outcome, Table};
use super::{Config, Counts, Ecn, MAX_DATAGRAM_BYTES, Sink, lifetime_again};
use crate::names::{Name, NameError};
use crate::packet::{Header, Kind};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

/// The converter beside applications that open connections.
#[derive(Debug)]
pub struct Client {
    name: Name,
    server: Name,
    open_name: Name,
    table: Table<SocketAddr>,
    by_address: HashMap<SocketAddr, u64>,
    /// Sessions that are not open yet, by the segment of their opening.
    opening: HashMap<u32, u64>,
}

impl Client {
    /// A converter with the name `name` for applications that want the one with the name `server`.
    ///
    /// # Errors
    /// A name is too long for those of sessions below it.
    pub fn new(name: Name, server: Name, config: Config) -> Result<Client, NameError> {
        let component = session_component(0);
        name.child(&component)?;
        server.child(&component)?;
        let open_name = server.child("open")?;
        let (by_address, opening) = (HashMap::new(), HashMap::new());
        Ok(Client { name, server, open_name, table: Table::new(config), by_address, opening })
    }

    /// Counters so far.
    pub fn counts(&self) -> &Counts {
        &self.table.counts
    }

    /// A datagram of the application at this address. `random` gives a number for a new session.
    pub fn datagram(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        ecn: Ecn,
        random: &mut dyn FnMut() -> u64,
        now: Instant,
        sink: &mut impl Sink<SocketAddr>,
    ) {
        self.table.counts.datagrams_taken += 1;
        if bytes.len() > MAX_DATAGRAM_BYTES {
            self.table.counts.datagrams_dropped += 1;
        } else if let Some(id) = self.by_address.get(&from).copied() {
            let fits = bytes.len() <= Opening::room_bytes(&self.name);
            let Some(segment) = self.table.get(id).filter(|_| fits).and_then(Session::open_more) else {
                return self.table.datagram(id, bytes, ecn, now, sink);
            };
            let payload = Opening { session: id, client: self.name.clone(), datagram: bytes }.bytes();
            let interest = Header::interest(&self.open_name, segment, lifetime_again(OPEN_AGAIN));
            sink.packet(&Header { flags: ecn.bits(), ..interest }, &payload);
        } else {
            self.open(from, &mut std::iter::once((bytes.to_vec(), ecn)), random, now, sink);
        }
    }

    /// Opens a session for an application with these datagrams.
    fn open(
        &mut self,
        from: SocketAddr,
        datagrams: &mut dyn Iterator<Item = (Vec<u8>, Ecn)>,
        random: &mut dyn FnMut() -> u64,
        now: Instant,
        sink: &mut impl Sink<SocketAddr>,
    ) {
        let id = random();
        // The chance that a number or its half is in use already is one in millions; then the datagrams are lost.
        let names = [&self.server, &self.name].map(|name| name.child(&session_component(id)));
        let (true, [Ok(ask), Ok(give)], None) = (self.table.has_room(), names, self.opening.get(&(id as u32))) else {
            self.table.counts.sessions_refused += 1;
            self.table.counts.datagrams_dropped += datagrams.count() as u64;
            return;
        };
        let mut session = Session::new(id, from, [ask, give], self.table.config, now);
        let mut first = datagrams.next();
        let fits = first.take_if(|(bytes, _)| bytes.len() <= Opening::room_bytes(&self.name));
        let (datagram, ecn) = fits.as_ref().map_or((&[][..], Ecn::Off), |(bytes, ecn)| (bytes, *ecn));
        let payload = Opening { session: id, client: self.name.clone(), datagram }.bytes();
        session.open(&self.open_name, payload, ecn, now, sink);
        self.by_address.insert(from, id);
        self.opening.insert(id as u32, id);
        self.table.add(session);
        for (bytes, ecn) in first.into_iter().chain(datagrams) {
            self.table.datagram(id, &bytes, ecn, now, sink);
        }
    }

    /// A packet that arrived. `random` gives a number for a new session, where the server has lost one.
    pub fn packet(
        &mut self,
        header: &Header,
        payload: &[u8],
        random: &mut dyn FnMut() -> u64,
        now: Instant,
        sink: &mut impl Sink<SocketAddr>,
    ) {
        if header.name == self.open_name.hash() {
            self.opening_answered(header, now);
            return;
        }
        match self.table.packet(header, payload, now, sink) {
            Outcome::Taken => {}
            Outcome::Gone(id) => {
                let Some(session) = self.table.remove(id) else { return };
                self.by_address.remove(&session.application);
                let mut waiting = session.sender.into_waiting().peekable();
                if waiting.peek().is_some() {
                    self.open(session.application, &mut waiting, random, now, sink);
                }
            }
            Outcome::Unknown if header.kind == Kind::Interest && self.name.covers(header.prefix) => {
                self.table.refuse(header, Why::Unknown, now, sink);
            }
            Outcome::Unknown => {}
        }
    }

    fn opening_answered(&mut self, header: &Header, now: Instant) {
        match header.kind {
            Kind::Data => {
                if let Some(id) = self.opening.remove(&header.segment) {
                    self.table.opened(id, now);
                }
            }
            // It goes on asking: the server may accept it later, or a route may come.
            Kind::Nack => self.table.counts.nacks += 1,
            Kind::Interest => {}
        }
    }

    /// To be called when all that arrived was handed in: asks for more.
    pub fn turn(&mut self, now: Instant, sink: &mut impl Sink<SocketAddr>) {
        self.table.turn(now, sink);
    }

    /// When [`Client::timeout`] is next of use.
    pub fn deadline(&self) -> Option<Instant> {
        self.table.deadline()
    }

    /// Handles the timers. [`Client::turn`] is to be called after it.
    pub fn timeout(&mut self, now: Instant, sink: &mut impl Sink<SocketAddr>) {
        for session in self.table.timeout(now, sink) {
            self.by_address.remove(&session.application);
            self.opening.remove(&(session.id as u32));
        }
    }

    /// For fuzzers and tests: what arrives makes it hold no more than it may.
    ///
    /// # Panics
    /// It does.
    pub fn check_budgets(&self) {
        self.table.check_budgets();
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session<SocketAddr>> {
        self.table.sessions()
    }
}
