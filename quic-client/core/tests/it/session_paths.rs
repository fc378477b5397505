// SPDX-License-Identifier: Apache-2.0
//! A client's session over two paths to a server's session, in virtual time: effect on path choice of a path that falls
//! silent under a task.

use crate::clock;

use boring::ssl::{SslContextBuilder, SslMethod};
use quiche::ConnectionId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_core::choice::{ChoiceConfig, PathId, StrategyKind};
use weir_core::client::{Action, Means, Nowhere, Outcome, Plan, PlannedTasks, Routes, Session, SessionConfig};
use weir_core::congestion::{ControlKind, QuicheOwn};
use weir_core::connection::{Codepoint, Conn, PacketSink};
use weir_core::paths::{PathSpec, Standby};
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::request::Alpn;
use weir_core::server;
use weir_core::transport::Transport;

const MS: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(200);
/// One way, of each path.
const DELAYS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(20)];

fn transport() -> Transport {
    Transport {
        scone: Default::default(),
        alpn: vec![Alpn::Hq],
        cc: ControlKind::default(),
        hystart: true,
        timestamps: true,
        max_payload_bytes: 1350,
        initial_window_packets: 10,
        stream_window_bytes: 1 << 20,
        max_stream_window_bytes: 1 << 20,
        conn_window_bytes: 1 << 20,
        max_conn_window_bytes: 1 << 20,
        idle_timeout: Duration::from_secs(30),
    }
}

fn config(server: bool) -> quiche::Config {
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
    transport().apply(&mut config).unwrap();
    config
}

fn local(path: usize) -> SocketAddr {
    format!("10.0.{path}.1:1000").parse().unwrap()
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

/// Runs tasks of 5 kB, one each [`INTERVAL`] from one second on. `extra` is the first path's additional delay of a
/// datagram sent so long after the start; `None`: it is lost.
fn run(strategy: &str, tasks: u64, extra: impl Fn(Duration) -> Option<Duration>) -> Vec<Event> {
    let start = clock::start();
    let peer: SocketAddr = "10.9.9.9:4433".parse().unwrap();
    let id = |n: u8| ConnectionId::from_vec(vec![n; 16]);
    let client = quiche::connect(None, &id(0xc0), local(0), peer, &mut config(false)).unwrap();
    let accepted = quiche::accept(&id(0x50), None, peer, local(0), &mut config(true)).unwrap();
    let spec = |n: usize| PathSpec { id: PathId(n as u32), name: format!("wan{n}"), local: local(n), peer };
    let strategy = StrategyKind::named(strategy).unwrap();
    // The mean of all samples, so that each one shows.
    let choice = ChoiceConfig { strategy, epsilon: 0.0, ..ChoiceConfig::default() };
    let routes = Routes::new(spec(0), vec![spec(1)], Standby::Validated, choice);
    let plan = Plan {
        authority: "10.9.9.9:4433".to_owned(),
        path: "/bytes/5000".to_owned(),
        action: Action::Download,
        tasks,
        parallel: 1,
        interval: INTERVAL,
        start_at: Some(start + 1000 * MS),
        max_bytes: None,
        ..Plan::default()
    };
    let mut tasks = PlannedTasks::new(plan, Box::new(Nowhere));
    let timebase = Timebase::new(start, 0);
    let mut client = Session::new(
        Conn::new(client, Box::new(QuicheOwn), start),
        SessionConfig::new("10.9.9.9:4433"),
        Some(routes),
        timebase,
        true,
        start,
    );
    let mut server = server::Session::new(Conn::new(accepted, Box::new(QuicheOwn), start), 0);
    let mut flying: BTreeMap<(Instant, u64), (Vec<u8>, SocketAddr, SocketAddr)> = BTreeMap::new();
    let (mut order, mut cids) = (0, 0u64);
    let mut scratch = vec![0; 1 << 16];
    let mut events = Vec::new();
    let mut now = start;
    while client.outcome().is_none() {
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
        server.conn.on_deadline(now);
        client.advance(now, &mut Means { scratch: &mut scratch, tasks: &mut tasks, new_cid: &mut new_cid });
        server.exchange_cids(|| Ok::<_, ()>(new_cid()), drop).unwrap();
        server.advance(now, &mut scratch);
        let mut out = Out { room: [0; 1500], sent: Vec::new() };
        client.pump(now, &mut out);
        server.conn.pump(now, &mut out);
        for (bytes, from, to) in out.sent {
            let path = usize::from(from != local(0) && to != local(0));
            let extra = if path == 0 { extra(now - start) } else { Some(Duration::ZERO) };
            if let Some(extra) = extra {
                order += 1;
                flying.insert((now + DELAYS[path] + extra, order), (bytes, from, to));
            }
        }
        events.extend(client.take_events().into_iter().map(|(_, e)| e));
        let arrival = flying.first_key_value().map(|((t, _), _)| *t);
        let next = [arrival, client.deadline(), server.conn.deadline()].into_iter().flatten().min();
        now = next.unwrap_or(now).max(now);
        clock::set(now);
        assert!(now - start < Duration::from_secs(120), "{events:?}");
    }
    assert_eq!(client.outcome(), Some(&Outcome::Complete), "{events:?}");
    events
}

/// Number, path, completion time in ms and path moved to of each task.
fn tasks(events: &[Event]) -> Vec<(u64, &str, f64, Option<&str>)> {
    let mut tasks = Vec::new();
    for event in events {
        if let Event::Task { task, path, tct_us, moved_to, .. } = event {
            tasks.push((*task, path.as_str(), *tct_us as f64 / 1e3, moved_to.as_deref()));
        }
    }
    tasks
}

fn index_of(events: &[Event], at: u64) -> f64 {
    let of = |e: &Event| match e {
        Event::Choice { task, index, .. } if *task == at => index.get("wan0").copied(),
        _ => None,
    };
    events.iter().find_map(of).unwrap()
}

fn happened(events: &[Event], what: &str) -> bool {
    events.iter().any(|e| matches!(e, Event::Path { path, event, .. } if path == "wan0" && *event == what))
}

const GREEDY: &str = "epsilon-greedy";

#[test]
fn a_path_that_answers_late_has_not_failed_and_what_the_spike_cost_is_a_sample_of_it() {
    // The tenth task begins at 3 s; for a while each way takes 200 ms more.
    let spike = |at: Duration| Some(if (2990..3100).contains(&at.as_millis()) { 200 * MS } else { Duration::ZERO });
    for strategy in [GREEDY, "weir"] {
        let events = run(strategy, 20, spike);
        assert!(happened(&events, "lost") && happened(&events, "recovered"), "{events:?}");
        let tasks = tasks(&events);
        let moved: Vec<_> = tasks.iter().filter(|t| t.3.is_some()).collect();
        assert_eq!(moved.iter().map(|t| (t.0, t.1, t.3)).collect::<Vec<_>>(), [(10, "wan0", Some("wan1"))]);
        // It is taken again long before a failed path's second is over.
        assert!(tasks[11..14].iter().any(|t| t.1 == "wan0"), "{strategy}: {tasks:?}");
        if strategy == GREEDY {
            let before: Vec<f64> = tasks[..10].iter().filter(|t| t.1 == "wan0").map(|t| t.2).collect();
            let n = before.len() as f64;
            let mean = (before.iter().sum::<f64>() + moved[0].2) / (n + 1.0);
            let index = index_of(&events, 11);
            assert!((index - mean).abs() < 0.01, "{index} of {mean}");
        }
    }
}

#[test]
fn a_path_that_was_dead_has_failed_and_the_task_that_left_it_is_no_sample() {
    let dead = |at: Duration| (!(2990..5990).contains(&at.as_millis())).then_some(Duration::ZERO);
    let events = run(GREEDY, 40, dead);
    let tasks = tasks(&events);
    assert!(happened(&events, "lost") && happened(&events, "recovered"), "{events:?}");
    assert_eq!(tasks.iter().filter(|t| t.3.is_some()).map(|t| t.0).collect::<Vec<_>>(), [10]);
    assert!(tasks[11..24].iter().all(|t| t.1 == "wan1"), "{tasks:?}");
    assert_eq!(tasks[39].1, "wan0");
    assert!((index_of(&events, 39) - index_of(&events, 10)).abs() < 1.0, "{events:?}");
}
