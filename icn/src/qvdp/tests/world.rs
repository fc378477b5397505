// SPDX-License-Identifier: Apache-2.0
//! Two converters with a switch between them, in virtual time: links that delay, lose and reorder, and applications that check each
//! datagram.

use super::super::{Client, Config, Counts, Ecn, Server, Sink};
use super::switch::{MS, Sets, Side, Switch, Verdict, name};
use crate::packet::{Header, Kind, flags};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) delay: Duration,
    pub(super) loss: f64,
    pub(super) reorder: f64,
    pub(super) mark: f64,
    pub(super) sets: Sets,
}

/// One set for all: none is ever full by chance.
pub(super) const ROOMY: Sets = Sets { count: 1, ways: 16_384, quota: 2048 };
pub(super) const GOOD: Link = Link { delay: Duration::from_millis(5), loss: 0.0, reorder: 0.0, mark: 0.0, sets: ROOMY };

use Side::{Client as C, Server as S};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    AtSwitch(Side, Vec<u8>),
    AtHost(Side, Vec<u8>),
    Application(Side, u16, u64),
}

/// Output of a core.
#[derive(Default)]
pub(super) struct Out {
    pub(super) packets: Vec<Vec<u8>>,
    pub(super) datagrams: Vec<(u64, Vec<u8>, Ecn)>,
}

impl Sink<SocketAddr> for Out {
    fn packet(&mut self, header: &Header, payload: &[u8]) {
        self.packets.push([&header.bytes(payload.len())[..], payload].concat());
    }
    fn datagram(&mut self, application: SocketAddr, bytes: &[u8], ecn: Ecn) {
        self.datagrams.push((application.port().into(), bytes.to_vec(), ecn));
    }
}

impl Sink<u64> for Out {
    fn packet(&mut self, header: &Header, payload: &[u8]) {
        self.packets.push([&header.bytes(payload.len())[..], payload].concat());
    }
    fn datagram(&mut self, application: u64, bytes: &[u8], ecn: Ecn) {
        self.datagrams.push((application, bytes.to_vec(), ecn));
    }
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) start: Instant,
    pub(super) link: Link,
    /// The server's packets are lost.
    pub(super) lost_from_server: bool,
    random: fastrand::Rng,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    sequence: u64,
    pub(super) client: Client,
    pub(super) server: Server,
    pub(super) switch: Switch,
    /// The last time at which something reaches an end of a link: what is not reordered stays in order.
    arrives: HashMap<(Side, bool), Instant>,
    pub(super) sent: BTreeMap<u64, (Side, Vec<u8>, Ecn)>,
    pub(super) given: BTreeMap<u64, Instant>,
    pub(super) order: Vec<u64>,
    pub(super) packets: u64,
    pub(super) application_of: HashMap<u16, u64>,
}

pub(super) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl World {
    pub(super) fn new(config: Config, link: Link, seed: u64) -> World {
        let now = Instant::now();
        World {
            now,
            start: now,
            link,
            lost_from_server: false,
            random: fastrand::Rng::with_seed(seed),
            events: BinaryHeap::new(),
            sequence: 0,
            client: Client::new(name("/weir/hosts/phone"), name("/weir/web"), config).unwrap(),
            server: Server::new(name("/weir/web"), config).unwrap(),
            switch: Switch::new(link.sets, seed, now),
            arrives: HashMap::new(),
            sent: BTreeMap::new(),
            given: BTreeMap::new(),
            order: Vec::new(),
            packets: 0,
            application_of: HashMap::new(),
        }
    }

    pub(super) fn push(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// An application sends a datagram later. Its first 8 bytes are its number.
    pub(super) fn send(&mut self, after: Duration, side: Side, port: u16, len: usize) -> u64 {
        let id = self.sent.len() as u64 + 1;
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend(std::iter::repeat_with(|| self.random.u8(..)).take(len.saturating_sub(8)));
        let ecn = if self.random.bool() { Ecn::Ect } else { Ecn::Off };
        self.sent.insert(id, (side, bytes, ecn));
        self.push(self.now + after, Event::Application(side, port, id));
        id
    }

    /// One half of the way: from a host to the switch or from it to a host.
    fn carry(&mut self, host: Side, to_host: bool, bytes: Vec<u8>) {
        self.packets += 1;
        let lost = host == S && !to_host && self.lost_from_server;
        if lost || self.random.f64() < self.link.loss {
            return;
        }
        let mut at = self.now + self.link.delay / 2;
        if self.random.f64() < self.link.reorder {
            at += self.link.delay.mul_f64(self.random.f64() * 2.0);
        } else {
            let last = self.arrives.entry((host, to_host)).or_insert(at);
            *last = at.max(*last);
            at = *last;
        }
        self.push(at, if to_host { Event::AtHost(host, bytes) } else { Event::AtSwitch(host, bytes) });
    }

    fn at_switch(&mut self, from: Side, bytes: &[u8]) {
        let (header, payload) = Header::read(bytes).expect("hosts send good packets");
        match header.kind {
            Kind::Interest => {
                for segment in header.segments() {
                    let mut one = Header { segment, holes: 0, ..header };
                    one.hop_limit -= 1;
                    match self.switch.interest(from, &one, self.now) {
                        Verdict::Forwarded(to) => {
                            self.carry(to, true, [&one.bytes(payload.len())[..], payload].concat());
                        }
                        Verdict::Joined => {}
                        Verdict::Refused(code) => {
                            self.carry(from, true, Header::nack(&one, segment, code).bytes(0).to_vec());
                        }
                    }
                }
            }
            Kind::Data | Kind::Nack => {
                let mut header = header;
                for port in self.switch.answer(from, &header, self.now) {
                    if header.has(flags::ECT) && self.random.f64() < self.link.mark {
                        header.flags |= flags::CE;
                    }
                    self.carry(port, true, [&header.bytes(payload.len())[..], payload].concat());
                }
            }
        }
    }

    /// Runs until nothing is left to do before `until` from the start.
    pub(super) fn run(&mut self, until: Duration) {
        let end = self.start + until;
        let mut steps = 0u64;
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let times = [event, self.client.deadline(), self.server.deadline()];
            let Some(next) = times.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            steps += 1;
            assert!(steps < 3_000_000, "it never rests");
            let mut client_out = Out::default();
            let mut server_out = Out::default();
            if event == Some(next) {
                let Reverse((_, _, event)) = self.events.pop().unwrap();
                self.handle(event, &mut client_out, &mut server_out);
            }
            let now = self.now;
            self.client.timeout(now, &mut client_out);
            self.client.turn(now, &mut client_out);
            self.server.timeout(now, &mut server_out);
            self.server.turn(now, &mut server_out);
            assert!(self.client.deadline().is_none_or(|at| at > now), "a deadline of now would come for ever");
            assert!(self.server.deadline().is_none_or(|at| at > now), "a deadline of now would come for ever");
            self.check(C, client_out);
            self.check(S, server_out);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event, client_out: &mut Out, server_out: &mut Out) {
        let (now, random) = (self.now, &mut self.random);
        match event {
            Event::AtSwitch(from, bytes) => self.at_switch(from, &bytes),
            Event::AtHost(side, bytes) => {
                let (header, payload) = Header::read(&bytes).unwrap();
                match side {
                    C => self.client.packet(&header, payload, &mut || random.u64(..), now, client_out),
                    S => drop(self.server.packet(&header, payload, now, server_out)),
                }
            }
            Event::Application(side, port, id) => {
                let (_, bytes, ecn) = self.sent[&id].clone();
                match side {
                    C => {
                        self.client.datagram(address(port), &bytes, ecn, &mut || random.u64(..), now, client_out);
                    }
                    S => {
                        if let Some(session) = self.application_of.get(&port) {
                            self.server.datagram(*session, &bytes, ecn, now, server_out);
                        }
                    }
                }
            }
        }
    }

    fn check(&mut self, side: Side, out: Out) {
        for (application, bytes, ecn) in out.datagrams {
            let id = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            let (from, sent, sent_ecn) = &self.sent[&id];
            assert!(*from == side.other() && *sent == bytes, "datagram {id} is not as it was sent");
            let first = side == S && !self.application_of.values().any(|session| *session == application);
            match (sent_ecn, ecn) {
                (Ecn::Off, Ecn::Off) | (Ecn::Ect, Ecn::Ect) => {}
                (Ecn::Ect, Ecn::Ce) => assert!(self.link.mark > 0.0),
                _ => panic!("{sent_ecn:?} became {ecn:?}"),
            }
            if side == S && first {
                // The client's port is not sent to the server: the tests' applications use one port at a time.
                let port = self.application_of.len() as u16 + 1;
                self.application_of.insert(port, application);
            }
            assert!(self.given.insert(id, self.now).is_none(), "datagram {id} came twice");
            self.order.push(id);
        }
        for packet in out.packets {
            self.carry(side, false, packet);
        }
        if self.sequence.is_multiple_of(64) {
            self.client.sessions().for_each(|s| (s.sender.check_budgets(), s.receiver.check_budgets()).0);
            self.server.sessions().for_each(|s| (s.sender.check_budgets(), s.receiver.check_budgets()).0);
        }
    }

    pub(super) fn counts(&self, side: Side) -> Counts {
        if side == C { *self.client.counts() } else { *self.server.counts() }
    }

    /// Both ways, in bursts, over a second or so.
    pub(super) fn traffic(&mut self, bursts: usize, most_in_a_burst: usize, most_bytes: usize) {
        self.send(Duration::ZERO, C, 1, 1200);
        for burst in 1..=bursts {
            let after = 40 * MS + burst as u32 * 20 * MS;
            let side = if self.random.bool() { C } else { S };
            for _ in 0..self.random.usize(1..=most_in_a_burst) {
                let len = self.random.usize(8..=most_bytes);
                self.send(after, side, 1, len);
            }
        }
    }
}
