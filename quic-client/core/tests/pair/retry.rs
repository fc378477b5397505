// SPDX-License-Identifier: Apache-2.0
//! A session whose path dies under a download, against a server that does not send again the data in flight there.

use crate::pair::{advance_to, config, server_addr};
use quiche::ConnectionId;
use quiche::hooks::with_left_behind_lost;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_core::choice::{ChoiceConfig, PathId, StrategyKind};
use weir_core::client::{Action, Body, Means, Outcome, Plan, PlannedTasks, Routes, Session, SessionConfig};
use weir_core::congestion::QuicheOwn;
use weir_core::connection::{Codepoint, Conn, PacketSink};
use weir_core::paths::{PathSpec, Standby};
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::request::Alpn;
use weir_core::server;

const BYTES: u64 = 1_000_000;
const DELAY: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Taken {
    bytes: u64,
    restarts: u64,
    finished: bool,
}

/// Where a session leaves it.
struct Shared(Rc<RefCell<Taken>>);

impl Body for Shared {
    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.0.borrow_mut().bytes += part.len() as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.0.borrow_mut().bytes = 0;
        self.0.borrow_mut().restarts += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        self.0.borrow_mut().finished = true;
        Ok(())
    }
}

struct Wire {
    room: Vec<u8>,
    flying: Vec<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    dead: Option<SocketAddr>,
}

impl PacketSink for Wire {
    fn slot(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr, _: Codepoint) {
        if self.dead != Some(from) && self.dead != Some(to) {
            self.flying.push((Instant::now() + DELAY, from, to, self.room[..len].to_vec()));
        }
    }
}

fn local(path: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 10 + path as u8], 1000))
}

fn transport(alpn: Alpn) -> quiche::Config {
    let mut c = config();
    c.set_application_protos(&[alpn.wire()]).unwrap();
    c.set_initial_max_stream_data_uni(64 * 1024);
    c.set_initial_max_streams_uni(3);
    c.set_active_connection_id_limit(8);
    c
}

struct Run {
    outcome: Outcome,
    taken: Taken,
    counted: u64,
    retries: Vec<(u64, String, u64)>,
}

fn download(alpn: Alpn, resend: bool) -> Run {
    let start = Instant::now();
    let first = |n: u32| PathSpec { id: PathId(n), name: format!("wan{n}"), local: local(n), peer: server_addr() };
    let cid = |n: u8| ConnectionId::from_vec(vec![n; 16]);
    let quic = quiche::connect(Some("weir"), &cid(1), local(0), server_addr(), &mut transport(alpn)).unwrap();
    let strategy = StrategyKind::named("best-single").unwrap();
    let choice = ChoiceConfig { strategy, ..ChoiceConfig::default() };
    let routes = Routes::new(first(0), vec![first(1)], Standby::Validated, choice);
    let plan = Plan {
        authority: "weir".into(),
        path: format!("/bytes/{BYTES}"),
        action: Action::Download,
        tasks: 1,
        parallel: 1,
        interval: Duration::ZERO,
        start_at: Some(start + 500 * Duration::from_millis(1)),
        max_bytes: None,
        ..Plan::default()
    };
    let mut client = Session::new(
        Conn::new(quic, Box::new(QuicheOwn), start),
        SessionConfig::new("weir"),
        Some(routes),
        Timebase::new(start, 0),
        true,
        start,
    );
    let quic = quiche::accept(&cid(2), None, server_addr(), local(0), &mut transport(alpn)).unwrap();
    let mut server = server::Session::new(Conn::new(quic, Box::new(QuicheOwn), start), 0);
    let mut wire = Wire { room: vec![0; 65536], flying: vec![], dead: None };
    let taken = Rc::new(RefCell::new(Taken::default()));
    let mut tasks = PlannedTasks::new(plan, Box::new(Shared(taken.clone())));
    let mut scratch = vec![0; 65536];
    let mut cids = 0u8;
    let mut retries = vec![];
    for _ in 0..100_000 {
        let now = Instant::now();
        let mut turn = || {
            let mut new_cid = || {
                cids += 1;
                (ConnectionId::from_vec([&[3; 15][..], &[cids]].concat()), u128::from(cids))
            };
            let due: Vec<_> = wire.flying.extract_if(.., |(at, ..)| *at <= now).collect();
            for (_, from, to, mut packet) in due {
                match to == server_addr() {
                    true => server.conn.recv(&mut packet, 0, quiche::RecvInfo { from, to }),
                    false => client.recv(&mut packet, 0, quiche::RecvInfo { from, to }, now),
                }
            }
            server.conn.on_deadline(now);
            server.advance(now, &mut scratch);
            server.exchange_cids(|| Ok::<_, ()>(new_cid()), |_| {}).unwrap();
            server.conn.pump(now, &mut wire);
            client.on_deadline(now);
            client.advance(now, &mut Means { scratch: &mut scratch, tasks: &mut tasks, new_cid: &mut new_cid });
            client.pump(now, &mut wire);
        };
        match resend {
            true => turn(),
            false => with_left_behind_lost(turn),
        }
        for (_, event) in client.take_events() {
            if let Event::Retry { task, path, bytes } = event {
                retries.push((task, path, bytes));
            }
        }
        if let Some(outcome) = client.outcome() {
            return Run {
                outcome: outcome.clone(),
                taken: RefCell::take(&taken),
                counted: client.tally.bytes,
                retries,
            };
        }
        if taken.borrow().bytes > BYTES / 4 {
            wire.dead = Some(local(0));
        }
        let arrival = wire.flying.iter().map(|(at, ..)| *at).min();
        let next = [arrival, client.deadline(), server.conn.deadline()].into_iter().flatten().min();
        advance_to(next.expect("a standstill"));
    }
    panic!("no end after {:?}: {} bytes, {retries:?}", start.elapsed(), taken.borrow().bytes);
}

#[test]
fn a_download_that_the_server_leaves_with_a_hole_is_asked_for_anew() {
    for alpn in [Alpn::H3, Alpn::Hq] {
        let run = download(alpn, false);
        assert_eq!(run.outcome, Outcome::Complete, "{alpn:?}");
        assert_eq!((run.taken.bytes, run.taken.finished, run.counted), (BYTES, true, BYTES), "{alpn:?}");
        let [(0, path, bytes)] = &run.retries[..] else { panic!("{alpn:?}: {:?}", run.retries) };
        assert_eq!((path.as_str(), run.taken.restarts), ("wan1", 1), "{alpn:?}");
        assert!((BYTES / 4..BYTES).contains(bytes), "{alpn:?}: {bytes}");
    }
}

#[test]
fn a_download_that_the_server_goes_on_with_is_not() {
    for alpn in [Alpn::H3, Alpn::Hq] {
        let run = download(alpn, true);
        assert_eq!((run.outcome, run.retries.len(), run.taken.restarts), (Outcome::Complete, 0, 0), "{alpn:?}");
        assert_eq!((run.taken.bytes, run.counted), (BYTES, BYTES), "{alpn:?}");
    }
}
