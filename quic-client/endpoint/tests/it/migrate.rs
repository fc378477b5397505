// SPDX-License-Identifier: Apache-2.0
//! weir-server with a client that changes its address: quiche and the path manager of `weir-core` over real sockets on
//! loopback, where all of 127.0.0.0/8 is ours.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_core::choice::PathId;
use weir_core::paths::{PathError, PathEvent, PathSpec, PathState, Paths, Standby, Switch};

/// Ends a test that hangs; no test's result depends on it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// On the wildcard address, so that it must answer from the address it was asked at.
fn server(extra: &[&str]) -> (Server, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir-server"))
        .args(["--listen", "0.0.0.0:0", "--ephemeral"])
        .args(extra)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().parse().unwrap();
    (Server(child), SocketAddr::from(([127, 0, 0, 9], port)))
}

struct Client {
    quic: quiche::Connection,
    paths: Paths,
    sockets: Vec<UdpSocket>,
    /// Datagrams that arrived, by socket.
    arrived: Vec<u64>,
    events: Vec<PathEvent>,
    cids: u64,
}

impl Client {
    fn new(server: SocketAddr, paths: u32) -> Client {
        let sockets: Vec<UdpSocket> = (0..paths)
            .map(|i| {
                let socket = UdpSocket::bind((format!("127.0.0.{}", i + 1), 0)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            })
            .collect();
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(&[b"hq-interop"]).unwrap();
        config.verify_peer(false);
        config.set_max_recv_udp_payload_size(1500);
        config.set_initial_max_data(1 << 24);
        config.set_initial_max_stream_data_bidi_local(1 << 24);
        config.set_initial_max_streams_bidi(10);
        config.set_active_connection_id_limit(8);
        let mut specs = sockets.iter().zip(0..).map(|(socket, i)| PathSpec {
            id: PathId(i),
            name: format!("127.0.0.{}", i + 1),
            local: socket.local_addr().unwrap(),
            peer: server,
        });
        let first = specs.next().unwrap();
        let scid = quiche::ConnectionId::from_ref(&[7; 16]).into_owned();
        let quic = quiche::connect(None, &scid, first.local, server, &mut config).unwrap();
        let mut paths = Paths::new(first, Standby::Validated);
        specs.for_each(|spec| paths.add(spec));
        let arrived = vec![0; sockets.len()];
        Client { quic, paths, sockets, arrived, events: Vec::new(), cids: 0 }
    }

    /// Runs until `done` gives something.
    fn until<T>(&mut self, mut done: impl FnMut(&mut Client) -> Option<T>) -> T {
        let start = Instant::now();
        let mut room = [0; 1 << 16];
        loop {
            for (i, socket) in self.sockets.iter().enumerate() {
                while let Ok((n, from)) = socket.recv_from(&mut room) {
                    self.arrived[i] += 1;
                    let to = socket.local_addr().unwrap();
                    self.quic.recv(&mut room[..n], quiche::RecvInfo { from, to }).unwrap();
                }
            }
            let now = Instant::now();
            if self.quic.timeout_instant().is_some_and(|t| t <= now) {
                self.quic.on_timeout();
            }
            let cids = &mut self.cids;
            self.paths.poll(&mut self.quic, now, &mut || {
                *cids += 1;
                (quiche::ConnectionId::from_vec([[9; 8], cids.to_be_bytes()].concat()), u128::from(*cids))
            });
            self.events.extend(self.paths.events());
            let result = done(self);
            while let Ok((n, info)) = self.quic.send(&mut room[..1350]) {
                let socket = self.sockets.iter().find(|s| s.local_addr().unwrap() == info.from).unwrap();
                socket.send_to(&room[..n], info.to).unwrap();
            }
            self.paths.sent(&self.quic, now);
            if let Some(result) = result {
                return result;
            }
            assert!(start.elapsed() < PATIENCE, "{:?} {:?}", self.events, self.quic.local_error());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn download(&mut self, stream: u64, bytes: u64) {
        let line = format!("GET /bytes/{bytes}\r\n");
        self.quic.stream_send(stream, line.as_bytes(), true).unwrap();
        let mut got = 0;
        let mut room = [0; 1 << 16];
        self.until(|c| {
            while let Ok((n, fin)) = c.quic.stream_recv(stream, &mut room) {
                got += n as u64;
                if fin {
                    return Some(());
                }
            }
            None
        });
        assert_eq!(got, bytes);
    }
}

#[test]
fn a_client_downloads_over_each_of_its_four_addresses() {
    let (_server, addr) = server(&[]);
    let mut c = Client::new(addr, 4);
    c.until(|c| (0..4).all(|p| c.paths.state(PathId(p)) == PathState::Validated).then_some(()));
    for (stream, path) in [(0, 0), (4, 1), (8, 2), (12, 3), (16, 1), (20, 0)] {
        let expected = if c.paths.active() == PathId(path) { Switch::Already } else { Switch::Done };
        assert_eq!(c.paths.switch(&mut c.quic, PathId(path), Instant::now()), Ok(expected));
        let before = c.arrived.clone();
        c.download(stream, 300_000);
        // 300 kB are more than 200 datagrams.
        let over: Vec<u32> = (0..4).filter(|p| c.arrived[*p as usize] - before[*p as usize] > 200).collect();
        assert_eq!(over, [path], "{before:?} -> {:?}", c.arrived);
    }
}

#[test]
fn a_retired_connection_id_is_replaced() {
    let (_server, addr) = server(&[]);
    let mut c = Client::new(addr, 3);
    c.until(|c| (0..3).all(|p| c.paths.state(PathId(p)) == PathState::Validated).then_some(()));
    let spare = c.quic.available_dcids();
    c.paths.remove(PathId(2));
    c.until(|c| c.events.contains(&PathEvent::Removed(PathId(2))).then_some(()));
    assert_eq!(c.quic.available_dcids(), spare, "a path that is gone takes no other one");
    c.until(|c| (c.quic.available_dcids() == spare + 1).then_some(()));
    assert_eq!(c.paths.switch(&mut c.quic, PathId(1), Instant::now()), Ok(Switch::Done));
    c.download(0, 10_000);
}

#[test]
fn a_server_that_grants_two_connection_ids_gets_one_more_path() {
    let (_server, addr) = server(&["--max-cids", "2"]);
    let mut c = Client::new(addr, 4);
    c.until(|c| (c.paths.state(PathId(1)) == PathState::Validated).then_some(()));
    c.download(0, 10_000);
    let budget = c.paths.budget(&c.quic);
    assert_eq!((budget.wanted, budget.peer_limit, budget.issued, budget.usable), (4, 2, 2, 2));
    assert_eq!(c.paths.out_of_budget().collect::<Vec<_>>(), [PathId(2), PathId(3)]);
    let refused = c.paths.switch(&mut c.quic, PathId(2), Instant::now());
    assert_eq!(refused, Err(PathError::NoConnectionId("127.0.0.3".to_owned())));
}

#[test]
fn a_server_that_forbids_migration_is_obeyed() {
    let (_server, addr) = server(&["--forbid-migration"]);
    let mut c = Client::new(addr, 2);
    c.until(|c| c.quic.is_established().then_some(()));
    c.download(0, 10_000);
    let budget = c.paths.budget(&c.quic);
    assert_eq!((budget.wanted, budget.usable, budget.migration_allowed), (2, 1, false));
    assert_eq!(c.paths.switch(&mut c.quic, PathId(1), Instant::now()), Err(PathError::Forbidden));
    assert_eq!(c.paths.state(PathId(1)), PathState::Waiting);
    assert_eq!(c.arrived[1], 0);
}
