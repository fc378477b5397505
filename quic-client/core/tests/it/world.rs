// SPDX-License-Identifier: Apache-2.0
//! A client's session to a server's session over several paths with a delay, a rate and a queue each, in virtual time.

use crate::clock;
use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::ConnectionId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::choice::{ChoiceConfig, PathId, StrategyKind};
use weir_core::client::{Action, Means, Nowhere, Outcome, Plan, PlannedTasks, Routes, Session, SessionConfig, Tally};
use weir_core::congestion::{CongestionControl, ControlKind, Decision, QuicheOwn};
use weir_core::connection::{Codepoint, Conn, PacketSink};
use weir_core::paths::{PathSpec, Standby};
use weir_core::report::events::Event;
use weir_core::report::samples::{DecisionCounts, Timebase};
use weir_core::request::Alpn;
use weir_core::server;
use weir_core::transport::Transport;

pub const MS: Duration = Duration::from_millis(1);
/// Each path's queue, each way.
const QUEUE: Duration = Duration::from_millis(150);

/// A path. The connection opens on the first.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// One way.
    pub delay_ms: u64,
    /// Of each way; none: no limit.
    pub mbit_s: Option<f64>,
}

/// Scenario: the request, the links and the server.
#[derive(Clone)]
pub struct World {
    pub links: Vec<Link>,
    pub bytes: u64,
    pub tasks: u64,
    pub parallel: usize,
    pub interval: Duration,
    /// The first task starts no sooner.
    pub start_at: Option<Duration>,
    pub strategy: &'static str,
    /// From one time on the server sends all but what validates a path to this path's address.
    pub stays: Option<(usize, Duration)>,
    /// The server sends again the data in flight on a path that was left.
    pub resend: bool,
    /// The sender's congestion control.
    pub control: Rc<dyn Fn() -> Box<dyn CongestionControl>>,
    /// Algorithm below the control, and at the other end.
    pub algorithm: ControlKind,
    pub action: Action,
    /// From one time on the client's packets take so much longer.
    pub late_up: Option<(Duration, Duration)>,
    /// From then on nothing arrives anywhere.
    pub silent_from: Option<Duration>,
    /// The client's session is ended then.
    pub stop_at: Option<Duration>,
    /// UDP payload that all paths carry at a time.
    pub mtu_bytes: Rc<dyn Fn(Duration) -> usize>,
    /// The kernel refuses larger ones (EMSGSIZE); else they are lost on the way.
    pub refuses: bool,
    /// The session has paths to choose from; else the routing table's.
    pub routed: bool,
    /// Share of packets that is lost, and the seed of the choice.
    pub loss: (f64, u64),
}

/// More turns at one instant than this, and nothing would ever happen.
const MOST_TURNS: u32 = 1000;

impl Default for World {
    fn default() -> Self {
        World {
            links: Vec::new(),
            bytes: 5000,
            tasks: 1,
            parallel: 1,
            interval: Duration::ZERO,
            start_at: None,
            strategy: "weir",
            stays: None,
            resend: true,
            control: Rc::new(|| Box::new(QuicheOwn)),
            algorithm: ControlKind::default(),
            action: Action::Download,
            late_up: None,
            silent_from: None,
            stop_at: None,
            mtu_bytes: Rc::new(|_| usize::MAX),
            refuses: false,
            routed: true,
            loss: (0.0, 0),
        }
    }
}

/// Result of a run.
pub struct Seen {
    pub events: Vec<Event>,
    pub paths: Vec<(String, Tally)>,
    /// From the first packet to the last byte.
    pub took: Duration,
    /// From the first packet until the client's connection needed no more time.
    pub over: Duration,
    pub answered_elsewhere: (u64, bool),
    /// Times at which the client sent.
    pub sent: Vec<Duration>,
    /// Of the server's congestion control.
    pub decisions: Vec<Decision>,
    pub counts: DecisionCounts,
    /// Times at which datagrams were larger than the paths carry, and the largest of them.
    pub oversized: BTreeMap<Duration, usize>,
    /// Size of packets of client and server at the end.
    pub sizes: [usize; 2],
}

impl Seen {
    /// Share of the payload that a path carried.
    pub fn share(&self, path: usize) -> f64 {
        let sum: u64 = self.paths.iter().map(|(_, t)| t.bytes).sum();
        let of = |n: usize| self.paths.iter().find(|(name, _)| *name == format!("wan{n}")).map_or(0, |(_, t)| t.bytes);
        of(path) as f64 / sum as f64
    }

    fn picked<'a, T>(&'a self, pick: impl Fn(&'a Event) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(pick).collect()
    }

    /// The paths to which this happened, in order.
    pub fn happened(&self, what: &str) -> Vec<&str> {
        self.picked(|e| match e {
            Event::Path { path, event, .. } if *event == what => Some(path.as_str()),
            _ => None,
        })
    }

    /// Path and reason of each choice.
    pub fn choices(&self) -> Vec<(&str, &str)> {
        self.picked(|e| match e {
            Event::Choice { path, reason, .. } => Some((path.as_str(), *reason)),
            _ => None,
        })
    }

    /// Path and reason of each move of a running download.
    pub fn moves(&self) -> Vec<(&str, &str)> {
        self.picked(|e| match e {
            Event::Move { path, reason, .. } => Some((path.as_str(), *reason)),
            _ => None,
        })
    }
}

fn transport(cc: ControlKind) -> Transport {
    Transport {
        scone: Default::default(),
        alpn: vec![Alpn::Hq],
        cc,
        hystart: true,
        timestamps: true,
        max_payload_bytes: 1350,
        initial_window_packets: 10,
        stream_window_bytes: 4 << 20,
        max_stream_window_bytes: 16 << 20,
        conn_window_bytes: 6 << 20,
        max_conn_window_bytes: 24 << 20,
        idle_timeout: Duration::from_secs(30),
    }
}

fn config(server: bool, algorithm: ControlKind) -> quiche::Config {
    use boring::{asn1::Asn1Time, ec::EcGroup, ec::EcKey, hash::MessageDigest, nid::Nid, pkey::PKey, x509::X509};
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).unwrap();
    if server {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut cert = X509::builder().unwrap();
        cert.set_version(2).unwrap();
        cert.set_pubkey(&key).unwrap();
        cert.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        cert.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
        cert.sign(&key, MessageDigest::sha256()).unwrap();
        ctx.set_certificate(&cert.build()).unwrap();
        ctx.set_private_key(&key).unwrap();
    }
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).unwrap();
    config.verify_peer(false);
    transport(algorithm).apply(&mut config).unwrap();
    config
}

fn local(path: usize) -> SocketAddr {
    format!("10.0.{path}.1:1000").parse().unwrap()
}

fn place(address: SocketAddr) -> usize {
    (0..9).find(|n| local(*n) == address).unwrap()
}

struct Out {
    room: [u8; 1500],
    sent: Vec<(Vec<u8>, SocketAddr, SocketAddr)>,
}

impl PacketSink for Out {
    fn slot(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr, _: Codepoint) {
        self.sent.push((self.room[..len].to_vec(), from, to));
    }
}

impl World {
    fn plan(&self, start: Instant) -> Plan {
        Plan {
            authority: "10.9.9.9:4433".to_owned(),
            path: match self.action {
                Action::Download => format!("/bytes/{}", self.bytes),
                Action::Upload(_) => "/upload".to_owned(),
            },
            action: self.action,
            tasks: self.tasks,
            parallel: self.parallel,
            interval: self.interval,
            start_at: self.start_at.map(|d| start + d),
            max_bytes: None,
            ..Plan::default()
        }
    }

    fn routes(&self, peer: SocketAddr) -> Option<Routes> {
        let spec = |n: usize| PathSpec { id: PathId(n as u32), name: format!("wan{n}"), local: local(n), peer };
        let strategy = StrategyKind::named(self.strategy).unwrap();
        let choice = ChoiceConfig { strategy, ..ChoiceConfig::default() };
        let others = (1..self.links.len()).map(spec).collect();
        self.routed.then(|| Routes::new(spec(0), others, Standby::Validated, choice))
    }

    /// Runs it until the client's session and connection have ended: as [`World::stop_at`] says, or well.
    pub fn run(&self) -> Seen {
        let start = clock::start();
        let peer: SocketAddr = "10.9.9.9:4433".parse().unwrap();
        let id = |n: u8| ConnectionId::from_vec(vec![n; 16]);
        let client = quiche::connect(None, &id(0xc0), local(0), peer, &mut config(false, self.algorithm)).unwrap();
        let accepted = quiche::accept(&id(0x50), None, peer, local(0), &mut config(true, self.algorithm)).unwrap();
        let mut tasks = PlannedTasks::new(self.plan(start), Box::new(Nowhere));
        let timebase = Timebase::new(start, 0);
        let uploads = matches!(self.action, Action::Upload(_));
        let control = |sends: bool| if sends { (self.control)() } else { Box::new(QuicheOwn) };
        let conn = Conn::new(client, control(uploads), start);
        let mut client =
            Session::new(conn, SessionConfig::new("10.9.9.9:4433"), self.routes(peer), timebase, true, start);
        let mut sent = Vec::new();
        let mut server = server::Session::new(Conn::new(accepted, control(!uploads), start), 0);
        let mut flying: BTreeMap<(Instant, u64), (Vec<u8>, SocketAddr, SocketAddr)> = BTreeMap::new();
        let mut free: BTreeMap<(usize, bool), Instant> = BTreeMap::new();
        let (mut order, mut cids) = (0, 0u64);
        let mut scratch = vec![0; 1 << 16];
        let mut events = Vec::new();
        let mut decisions = Vec::new();
        let mut now = start;
        let mut turns = 0;
        let mut oversized = BTreeMap::new();
        let mut rng = fastrand::Rng::with_seed(self.loss.1);
        loop {
            let mut new_cid = || {
                cids += 1;
                (ConnectionId::from_vec([[0x77; 8], cids.to_be_bytes()].concat()), u128::from(cids))
            };
            while let Some(first) = flying.first_entry().filter(|e| e.key().0 <= now) {
                let (mut bytes, from, to) = first.remove();
                let info = quiche::RecvInfo { from, to };
                if to == peer { server.conn.recv(&mut bytes, 0, info) } else { client.recv(&mut bytes, 0, info, now) }
            }
            client.on_deadline(now);
            if self.stop_at.is_some_and(|at| start + at <= now) {
                client.end(Outcome::Stopped, now);
            }
            client.advance(now, &mut Means { scratch: &mut scratch, tasks: &mut tasks, new_cid: &mut new_cid });
            let mut up = Out { room: [0; 1500], sent: Vec::new() };
            client.pump(now, &mut up);
            sent.extend(up.sent.first().map(|_| now - start));
            let mut down = Out { room: [0; 1500], sent: Vec::new() };
            let mut serve = || {
                server.conn.on_deadline(now);
                server.exchange_cids(|| Ok::<_, ()>(new_cid()), drop).unwrap();
                server.advance(now, &mut scratch);
                server.conn.pump(now, &mut down);
            };
            if self.resend {
                serve()
            } else {
                quiche::hooks::with_left_behind_lost(serve)
            }
            // The packets have left.
            decisions.extend(server.conn.decide(now));
            let answers_to = server.conn.quic.path_stats().find(|p| p.active).map(|p| p.peer_addr);
            for (bytes, from, mut to) in up.sent.into_iter().chain(down.sent) {
                if let Some((path, since)) = self.stays
                    && now >= start + since
                    && Some(to) == answers_to
                {
                    to = local(path);
                }
                let (path, is_up) = if to == peer { (place(from), true) } else { (place(to), false) };
                let link = self.links[path];
                let free = free.entry((path, is_up)).or_insert(now);
                let begin = (*free).max(now);
                if bytes.len() > (self.mtu_bytes)(now - start) {
                    let largest = oversized.entry(now - start).or_insert(0);
                    *largest = bytes.len().max(*largest);
                    if self.refuses {
                        let conn = if is_up { &mut client.conn } else { &mut server.conn };
                        conn.refused(from, to, bytes.len());
                    }
                    continue;
                }
                if rng.f64() < self.loss.0 {
                    continue;
                }
                if begin > now + QUEUE || self.silent_from.is_some_and(|at| start + at <= now) {
                    continue;
                }
                let took = link.mbit_s.map_or(0.0, |rate| bytes.len() as f64 * 8e-6 / rate);
                *free = begin + Duration::from_secs_f64(took);
                order += 1;
                let late = self.late_up.filter(|(since, _)| is_up && now >= start + *since);
                let delay = link.delay_ms as u32 * MS + late.map_or(Duration::ZERO, |(_, more)| more);
                flying.insert((*free + delay, order), (bytes, from, to));
            }
            events.extend(client.take_events().into_iter().map(|(_, e)| e));
            if client.outcome().is_some() && client.conn.is_over() {
                break;
            }
            let arrival = flying.first_key_value().map(|((t, _), _)| *t);
            let stop = self.stop_at.map(|at| start + at).filter(|at| now < *at);
            let next = [arrival, client.deadline(), server.conn.deadline(), stop].into_iter().flatten().min();
            turns = if next.is_some_and(|next| now < next) { 0 } else { turns + 1 };
            assert!(
                turns < MOST_TURNS,
                "stands still: the client's deadline is {:?}",
                client.deadline().map(|t| t - start)
            );
            now = next.unwrap_or(now).max(now);
            clock::set(now);
            assert!(now - start < Duration::from_secs(300), "{events:?}");
        }
        let outcome = if self.stop_at.is_some() { Outcome::Stopped } else { Outcome::Complete };
        assert_eq!(client.outcome(), Some(&outcome), "{events:?}");
        let (took, over) = (client.ended.unwrap() - start, now - start);
        let answered_elsewhere = client.answered_elsewhere();
        let (paths, counts) = (client.path_tallies().to_vec(), server.conn.decisions);
        let sizes = [&client.conn, &server.conn].map(|conn| quiche::hooks::mtu(&conn.quic));
        Seen { events, paths, took, over, answered_elsewhere, sent, decisions, counts, oversized, sizes }
    }
}
