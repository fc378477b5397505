// SPDX-License-Identifier: Apache-2.0
//! A network of several paths between a real quiche client with its [`Paths`] and a real quiche server, in virtual
//! time. Nothing in it waits or depends on the machine.

use crate::clock;
use boring::ssl::{SslContextBuilder, SslMethod};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_core::choice::PathId;
use weir_core::paths::{PathEvent, PathSpec, PathState, Paths, Standby};

pub const MS: Duration = Duration::from_millis(1);
const SERVER: &str = "10.9.9.9:4433";
/// The stateless reset token of the server's first connection ID. Those of the others are their numbers.
pub const HANDSHAKE_TOKEN: u128 = 1 << 100;

/// One way of one path: its effect on a datagram.
#[derive(Clone)]
pub struct Link {
    /// Each way.
    pub delay: Duration,
    /// Of each way; `None`: no limit.
    pub rate_bit_s: Option<u64>,
    /// Share of datagrams lost, each way.
    pub loss: f64,
    /// Down from one time to another, from the start of the simulation.
    pub down: Vec<(Duration, Duration)>,
}

impl Link {
    pub fn delay(ms: u64) -> Self {
        Link { delay: ms as u32 * MS, rate_bit_s: None, loss: 0.0, down: Vec::new() }
    }

    pub fn rate(self, mbit_s: u64) -> Self {
        Link { rate_bit_s: Some(mbit_s * 1_000_000), ..self }
    }

    pub fn loss(self, loss: f64) -> Self {
        Link { loss, ..self }
    }

    pub fn down(mut self, from_ms: u64, to_ms: u64) -> Self {
        self.down.push((from_ms as u32 * MS, to_ms as u32 * MS));
        self
    }
}

/// Limits of the server.
pub struct Allow {
    pub cids: u64,
    pub migration: bool,
    /// It thinks this long before it answers.
    pub think: Duration,
    pub cc: quiche::CongestionControlAlgorithm,
    /// It sends again the data in flight on a path that was left; quiche by itself does not.
    pub resend: bool,
}

impl Default for Allow {
    fn default() -> Self {
        let cc = quiche::CongestionControlAlgorithm::CUBIC;
        Allow { cids: 8, migration: true, think: Duration::ZERO, cc, resend: true }
    }
}

struct Way {
    link: Link,
    free: [Instant; 2],
}

struct Flying {
    to_server: bool,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// One request and its result.
#[derive(Debug, Default)]
pub struct Task {
    pub bytes: u64,
    pub got: u64,
    pub ended: Option<Instant>,
    /// Longest time without a new byte, between the first and the last.
    pub gap: Duration,
    last: Option<Instant>,
    upload: bool,
}

pub struct Sim {
    pub start: Instant,
    pub now: Instant,
    pub client: quiche::Connection,
    pub server: quiche::Connection,
    pub paths: Paths,
    pub events: Vec<(Duration, PathEvent)>,
    pub tasks: BTreeMap<u64, Task>,
    pub datagrams: BTreeMap<SocketAddr, u64>,
    pub client_cids: HashSet<Vec<u8>>,
    ways: BTreeMap<SocketAddr, Way>,
    flying: BTreeMap<(Instant, u64), Flying>,
    order: u64,
    random: u64,
    cids: u64,
    /// Reset tokens of the connection IDs that the server has given, but for the first.
    pub given: Vec<u128>,
    think: Duration,
    resend: bool,
    /// The server's: stream, and how much of its answer is left.
    answers: BTreeMap<u64, (Instant, u64, u64)>,
    asked: BTreeMap<u64, Vec<u8>>,
    outbox: VecDeque<(u64, Vec<u8>)>,
    taken: BTreeMap<u64, u64>,
    receipts: VecDeque<(u64, String)>,
}

pub fn local(path: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, path as u8, 2], 5000 + path as u16))
}

pub fn server() -> SocketAddr {
    SERVER.parse().unwrap()
}

pub fn spec(path: u32) -> PathSpec {
    PathSpec { id: PathId(path), name: format!("wan{path}"), local: local(path), peer: server() }
}

/// Payload: each byte shows its offset and its stream.
fn byte(stream: u64, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8) ^ stream) as u8
}

fn config(server: bool, allow: &Allow) -> quiche::Config {
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).unwrap();
    if server {
        let (cert, key) = identity();
        ctx.set_certificate(&cert).unwrap();
        ctx.set_private_key(&key).unwrap();
    }
    let mut c = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).unwrap();
    c.set_application_protos(&[b"test"]).unwrap();
    c.verify_peer(false);
    c.set_max_send_udp_payload_size(1350);
    c.set_max_recv_udp_payload_size(1500);
    c.set_initial_max_data(1 << 20);
    c.set_initial_max_stream_data_bidi_local(1 << 20);
    c.set_initial_max_stream_data_bidi_remote(1 << 20);
    c.set_initial_max_streams_bidi(100);
    c.set_max_idle_timeout(60_000);
    c.set_cc_algorithm(allow.cc);
    c.set_active_connection_id_limit(if server { allow.cids } else { 8 });
    c.set_disable_active_migration(server && !allow.migration);
    c.set_stateless_reset_token(server.then_some(HANDSHAKE_TOKEN));
    c
}

fn identity() -> (boring::x509::X509, boring::pkey::PKey<boring::pkey::Private>) {
    use boring::{asn1::Asn1Time, ec::EcGroup, ec::EcKey, hash::MessageDigest, nid::Nid, pkey::PKey, x509::X509};
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut cert = X509::builder().unwrap();
    cert.set_version(2).unwrap();
    cert.set_pubkey(&key).unwrap();
    cert.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    cert.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    cert.sign(&key, MessageDigest::sha256()).unwrap();
    (cert.build(), key)
}

impl Sim {
    /// Paths numbered from 0; the connection opens on path 0. `known`: how many of them the client knows.
    pub fn new(links: &[Link], known: u32, standby: Standby, allow: Allow, seed: u64) -> Sim {
        let now = clock::start();
        let client_scid = quiche::ConnectionId::from_ref(&[0xc0; 16]).into_owned();
        let server_scid = quiche::ConnectionId::from_ref(&[0x50; 16]).into_owned();
        let client = quiche::connect(None, &client_scid, local(0), server(), &mut config(false, &allow)).unwrap();
        let accept = quiche::accept(&server_scid, None, server(), local(0), &mut config(true, &allow)).unwrap();
        let mut paths = Paths::new(spec(0), standby);
        (1..known).for_each(|path| paths.add(spec(path)));
        let ways =
            links.iter().enumerate().map(|(i, link)| (local(i as u32), Way { link: link.clone(), free: [now; 2] }));
        Sim {
            start: now,
            now,
            client,
            server: accept,
            paths,
            events: Vec::new(),
            tasks: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            client_cids: HashSet::new(),
            ways: ways.collect(),
            flying: BTreeMap::new(),
            order: 0,
            random: seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15),
            cids: 0,
            given: Vec::new(),
            think: allow.think,
            resend: allow.resend,
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            outbox: VecDeque::new(),
            taken: BTreeMap::new(),
            receipts: VecDeque::new(),
        }
    }

    pub fn link(&mut self, path: u32) -> &mut Link {
        &mut self.ways.get_mut(&local(path)).unwrap().link
    }

    pub fn at(&self) -> Duration {
        self.now - self.start
    }

    fn chance(&mut self) -> f64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn launch(&mut self, to_server: bool, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let near = if to_server { from } else { to };
        *self.datagrams.entry(near).or_default() += u64::from(to_server);
        let lost = self.chance();
        let (now, since) = (self.now, self.at());
        let Some(way) = self.ways.get_mut(&near) else { return };
        let free = &mut way.free[usize::from(to_server)];
        let begin = (*free).max(now);
        // A queue of 200 ms, then loss.
        if begin > now + 200 * MS {
            return;
        }
        let took = way
            .link
            .rate_bit_s
            .map_or(Duration::ZERO, |r| Duration::from_nanos(bytes.len() as u64 * 8 * 1_000_000_000 / r));
        *free = begin + took;
        let down = way.link.down.iter().any(|(from, to)| (*from..*to).contains(&since));
        if down || lost < way.link.loss {
            return;
        }
        self.order += 1;
        let arrival = begin + took + way.link.delay;
        self.flying.insert((arrival, self.order), Flying { to_server, from, to, bytes });
    }

    /// Asks for `bytes`; the request leaves in this iteration.
    pub fn ask(&mut self, bytes: u64) -> u64 {
        let id = 4 * self.tasks.len() as u64;
        self.tasks.insert(id, Task { bytes, ..Task::default() });
        self.outbox.push_back((id, format!("{bytes}\n").into_bytes()));
        id
    }

    /// Sends `bytes`, which the server answers with their number.
    pub fn give(&mut self, bytes: u64) -> u64 {
        let id = 4 * self.tasks.len() as u64;
        let answer = format!("{bytes}").len() as u64;
        self.tasks.insert(id, Task { bytes: answer, upload: true, ..Task::default() });
        let body = (0..bytes).map(|i| byte(id, i) | 0x80);
        self.outbox.push_back((id, body.collect()));
        id
    }

    pub fn done(&self) -> bool {
        self.tasks.values().all(|t| t.ended.is_some())
    }

    /// The server replaces so many of its connection IDs, the oldest first.
    pub fn replace_ids(&mut self, count: usize) {
        for _ in 0..count {
            // RFC 9000 5.1.2: not before the client has given the old ones back. quiche leaves that to its caller.
            if self.server.source_ids().count() > 8 {
                return;
            }
            self.cids += 1;
            let cid = quiche::ConnectionId::from_vec([&[0x51; 8][..], &self.cids.to_be_bytes()].concat());
            self.given.push(u128::from(self.cids));
            self.server.new_scid(&cid, u128::from(self.cids), true).unwrap();
        }
    }

    /// A datagram with this stateless reset token comes in on a path (RFC 9000 10.3).
    pub fn stateless_reset(&mut self, path: u32, token: u128) {
        let mut datagram = [&[0x5b; 30][..], &token.to_be_bytes()].concat();
        let _ = self.client.recv(&mut datagram, quiche::RecvInfo { from: server(), to: local(path) });
    }

    pub fn state(&self, path: u32) -> PathState {
        self.paths.state(PathId(path))
    }

    /// Whether the server holds a connection ID of the client's for each of so many paths, and can answer there.
    pub fn answers_on(&self, paths: usize) -> bool {
        // Paths that the server knows are given one before any is left over.
        let spare = self.server.available_dcids();
        spare > 0 && self.server.path_stats().count() + spare >= paths
    }

    /// Runs until `until` is true, at most for `limit`; says whether it came true.
    pub fn run(&mut self, limit: Duration, mut until: impl FnMut(&mut Sim) -> bool) -> bool {
        let end = self.now + limit;
        let mut idle_turns = 0;
        loop {
            self.turn();
            if until(self) {
                // Packets decided on just now leave in this iteration.
                self.turn();
                return true;
            }
            let next = [
                self.flying.first_key_value().map(|((t, _), _)| *t),
                self.client.timeout_instant(),
                self.server.timeout_instant(),
                self.paths.deadline(),
                self.answers
                    .values()
                    .filter(|(_, _, left)| *left > 0)
                    .map(|(t, ..)| *t)
                    .filter(|t| *t > self.now)
                    .min(),
            ];
            let next = next.into_iter().flatten().min().map_or(end, |t| t.min(end));
            if next >= end {
                self.advance_to(end);
                return false;
            }
            idle_turns = if next <= self.now { idle_turns + 1 } else { 0 };
            assert!(idle_turns < 100, "a deadline that is past stays: {:?} {:?}", self.paths.deadline(), self.events);
            self.advance_to(next);
        }
    }

    /// No path was used unheard, and each answer belongs to a question.
    pub fn check(&self) {
        for (i, (_, event)) in self.events.iter().enumerate() {
            let before = |wanted: &dyn Fn(&PathEvent) -> bool| self.events[..i].iter().any(|(_, e)| wanted(e));
            match event {
                PathEvent::Switched { to, .. } if *to != PathId(0) => {
                    assert!(before(&|e| matches!(e, PathEvent::Validated { path, .. } if path == to)), "{event:?}");
                }
                PathEvent::Validated { path, .. } => {
                    assert!(before(&|e| *e == PathEvent::Probing(*path)), "{event:?}");
                }
                _ => {}
            }
        }
    }

    pub fn happened(&self, event: &PathEvent) -> Option<Duration> {
        self.events.iter().find(|(_, e)| e == event).map(|(at, _)| *at)
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run(time, |_| false);
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = at.max(self.now);
        clock::set(self.now);
    }

    fn turn(&mut self) {
        match self.resend {
            true => self.one_turn(),
            false => quiche::hooks::with_left_behind_lost(|| self.one_turn()),
        }
    }

    fn one_turn(&mut self) {
        let now = self.now;
        while self.flying.first_key_value().is_some_and(|((t, _), _)| *t <= now) {
            let (_, mut f) = self.flying.pop_first().unwrap();
            let info = quiche::RecvInfo { from: f.from, to: f.to };
            let quic = if f.to_server { &mut self.server } else { &mut self.client };
            // An error closes the connection; tests check that.
            let _ = quic.recv(&mut f.bytes, info);
            if !f.to_server {
                self.paths.heard(f.to, now);
            }
        }
        for quic in [&mut self.client, &mut self.server] {
            if quic.timeout_instant().is_some_and(|t| t <= now) {
                quic.on_timeout();
            }
        }
        self.client_turn();
        self.server_turn();
        let mut out = [0; 1500];
        while let Ok((len, info)) = self.client.send(&mut out) {
            self.launch(true, info.from, info.to, out[..len].to_vec());
        }
        self.paths.sent(&self.client, now);
        while let Ok((len, info)) = self.server.send(&mut out) {
            self.launch(false, info.from, info.to, out[..len].to_vec());
        }
    }

    fn client_turn(&mut self) {
        let (cids, known) = (&mut self.cids, &mut self.client_cids);
        self.paths.poll(&mut self.client, self.now, &mut || {
            *cids += 1;
            let bytes = [&[0xc1; 8][..], &cids.to_be_bytes()].concat();
            known.insert(bytes.clone());
            (quiche::ConnectionId::from_vec(bytes), u128::from(*cids))
        });
        for cid in self.paths.retired() {
            self.client_cids.remove(cid.as_ref());
        }
        let at = self.now - self.start;
        self.events.extend(self.paths.events().map(|e| (at, e)));
        while self.client.is_established()
            && let Some((id, body)) = self.outbox.front_mut()
        {
            match self.client.stream_send(*id, body, true) {
                Ok(n) if n == body.len() => drop(self.outbox.pop_front()),
                Ok(n) => drop(body.drain(..n)),
                Err(quiche::Error::Done) => break,
                Err(e) => panic!("stream {id}: {e}"),
            }
        }
        let mut room = [0; 1 << 16];
        for id in self.client.readable().collect::<Vec<_>>() {
            while let Ok((n, fin)) = self.client.stream_recv(id, &mut room) {
                let task = self.tasks.get_mut(&id).unwrap();
                for (i, b) in room[..n].iter().enumerate().filter(|_| !task.upload) {
                    assert_eq!(*b, byte(id, task.got + i as u64), "stream {id} at {}", task.got);
                }
                if let Some(last) = task.last.replace(self.now) {
                    task.gap = task.gap.max(self.now - last);
                }
                task.got += n as u64;
                if fin {
                    assert_eq!(task.got, task.bytes, "stream {id}");
                    task.ended = Some(self.now);
                }
            }
        }
        let busy = self.tasks.values().any(|t| t.ended.is_none());
        self.paths.expecting(busy, self.now);
    }

    fn server_turn(&mut self) {
        let quic = &mut self.server;
        while quic.path_event_next().is_some() {}
        if quic.is_established() {
            while quic.scids_left() > 0 {
                self.cids += 1;
                let bytes = [&[0x51; 8][..], &self.cids.to_be_bytes()].concat();
                self.given.push(u128::from(self.cids));
                quic.new_scid(&quiche::ConnectionId::from_vec(bytes), u128::from(self.cids), false).unwrap();
            }
        }
        let mut room = [0; 1 << 16];
        for id in quic.readable().collect::<Vec<_>>() {
            while let Ok((n, fin)) = quic.stream_recv(id, &mut room) {
                // A body has its highest bits set, a request for bytes is text.
                if room[..n].iter().any(|b| *b >= 0x80) {
                    let taken = self.taken.entry(id).or_default();
                    for (i, b) in room[..n].iter().enumerate() {
                        assert_eq!(*b, byte(id, *taken + i as u64) | 0x80, "stream {id} at {taken}");
                    }
                    *taken += n as u64;
                } else {
                    self.asked.entry(id).or_default().extend_from_slice(&room[..n]);
                }
                if !fin {
                    continue;
                }
                if let Some(taken) = self.taken.get(&id) {
                    self.receipts.push_back((id, taken.to_string()));
                } else {
                    let bytes = std::str::from_utf8(&self.asked[&id]).unwrap().trim().parse().unwrap();
                    self.answers.insert(id, (self.now + self.think, 0, bytes));
                }
            }
        }
        while let Some((id, text)) = self.receipts.front_mut() {
            match quic.stream_send(*id, text.as_bytes(), true) {
                Ok(n) if n == text.len() => drop(self.receipts.pop_front()),
                // No room in the congestion window, or not for all.
                Ok(n) => drop(text.drain(..n)),
                Err(quiche::Error::Done) => break,
                other => panic!("stream {id}: {other:?}"),
            }
        }
        for (&id, (when, at, left)) in &mut self.answers {
            while *left > 0 && *when <= self.now {
                let part: Vec<u8> = (0..(*left).min(1 << 14)).map(|i| byte(id, *at + i)).collect();
                let fin = part.len() as u64 == *left;
                match quic.stream_send(id, &part, fin) {
                    Ok(n) if n > 0 => {
                        *at += n as u64;
                        *left -= n as u64;
                    }
                    _ => break,
                }
            }
        }
        self.answers.retain(|_, (_, _, left)| *left > 0);
    }
}
