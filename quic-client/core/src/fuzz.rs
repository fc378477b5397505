// SPDX-License-Identifier: Apache-2.0
//! Entry points of fuzzers: the targets of `quic-client/fuzz`, and a bounded run in the tests. Each takes any bytes,
//! and panics where the code under test panics or breaks one of its promises.

use crate::choice::{ChoiceConfig, Chooser, ExploreC, Model, PathId, STRATEGIES, TaskSample};
use crate::client::{Action, Means, Nowhere, Plan, PlannedTasks, Session, SessionConfig};
use crate::congestion::pbq::{Measured, Profile, QUANTITIES, Weights};
use crate::congestion::{ControlKind, QuicheOwn};
use crate::connection::{Codepoint, Conn, EcnMode, PacketSink};
use crate::report::samples::Timebase;
use crate::request::{
    Alpn, MAX_LINE_BYTES, Method, Resource, parse_hq_line, parse_request, parse_size, promised_bytes, with_flow,
};
use crate::server::admission::Invariants;
use crate::server::capsules::{CapsuleReader, datagram_capsule, udp_payload};
use crate::server::file_request::{FilePath, Selection, Validators};
use crate::server::{Head, TunnelRequest};
use crate::transport::Transport;
use crate::window::{Budget, WindowKind, Windows};
use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use quiche::ConnectionId;
use quiche::hooks::{self, Scope, WindowRule, WindowUpdate};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Component;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// Numbers out of bytes; zeros when those are used up.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn more(&self) -> bool {
        !self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    /// Any magnitude, small ones as likely as large ones.
    fn number(&mut self) -> u64 {
        let shift = self.below(64);
        u64::from_le_bytes(self.bytes()) >> shift
    }

    /// Any number, infinities and NaN too.
    fn float(&mut self) -> f64 {
        match self.below(4) {
            0 => f64::from_le_bytes(self.bytes()),
            _ => f64::from(self.byte()) / 100.0,
        }
    }
}

/// Any bytes as a size, as a path asked for and as a request line of hq-interop.
pub fn request(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(n) = parse_size(&text) {
        assert_eq!(parse_size(&n.to_string()), Ok(n));
    }
    for path in [text.to_string(), format!("/bytes/{text}"), format!("/bytes/1?{text}")] {
        for method in [Method::Get, Method::Post] {
            let Ok(request) = parse_request(method, &path) else { continue };
            let promised = match request.resource {
                Resource::Bytes(n) => n,
                Resource::Bursts { .. } | Resource::Upload => None,
            };
            assert_eq!(promised_bytes(&path), promised, "{path}");
            if request.flow.is_none() && !path.contains('?') {
                let labelled = parse_request(method, &with_flow(&path, 7)).expect("a label may follow");
                assert_eq!((labelled.resource, labelled.flow), (request.resource, Some(7)));
            }
        }
    }
    for line in [data.to_vec(), [data, b"\r\n"].concat(), [b"GET /", data, b"\r\nbody"].concat()] {
        if let Ok(Some((method, path, body))) = parse_hq_line(&line) {
            assert!(body <= line.len() && path.starts_with('/'), "{path}");
            assert_eq!(line[..body], *format!("{} {path}\r\n", method.as_str()).as_bytes());
            assert!((0..body).all(|n| parse_hq_line(&line[..n]) == Ok(None)), "known before its end");
        } else if line.len() >= MAX_LINE_BYTES {
            assert_ne!(parse_hq_line(&line), Ok(None), "a line without an end is waited for");
        }
    }
}

/// Any bytes as requests for files and tunnels, and as capsules of a tunnel: no path leads out of a folder, no range out of
/// a file, and a capsule is read the same however the stream is cut.
pub fn tunnel(data: &[u8]) {
    let field = |name: &str, value: &[u8]| quiche::h3::Header::new(name.as_bytes(), value);
    let text = String::from_utf8_lossy(data);
    for path in [text.to_string(), format!("/{text}"), format!("/.well-known/masque/udp/{text}")] {
        if let Ok(file) = FilePath::read(&path) {
            assert!(file.below.components().all(|part| matches!(part, Component::Normal(_))), "{path}");
        }
        let udp = [
            field(":authority", b"relay"),
            field(":protocol", b"connect-udp"),
            field(":scheme", b"https"),
            field(":path", path.as_bytes()),
        ];
        let tcp = [field(":authority", path.as_bytes())];
        for fields in [&udp[..], &tcp] {
            if let Ok(request) = TunnelRequest::read(&Head { method: "CONNECT", path: &path, fields }) {
                assert_ne!(request.port, 0, "{path}");
            }
        }
    }
    let file = Validators { etag: "\"x\"".to_owned(), modified: SystemTime::UNIX_EPOCH, bytes: 1000 };
    let names = ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    for name in names {
        let fields = [field(name, data), field("range", b"bytes=1-2")];
        if let Selection::Part { first, last } = file.select(&Head { method: "GET", path: "/", fields: &fields }) {
            assert!(first <= last && last < file.bytes);
        }
    }
    let stream = [data, &datagram_capsule(data)].concat();
    let read = |size: usize| {
        let (mut reader, mut came) = (CapsuleReader::default(), Vec::new());
        let mut take = |datagram: &[u8]| came.extend(udp_payload(datagram).map(<[u8]>::to_vec));
        let whole = stream.chunks(size).try_for_each(|part| reader.read(part, &mut take));
        (whole.is_ok(), came)
    };
    assert_eq!(read(stream.len()), read(1), "read otherwise in pieces");
}

/// Any bytes as a datagram of a client that has no connection: the header is read once it is whole, and no list of
/// versions is answered.
pub fn first_packet(data: &[u8]) {
    let Some(read) = Invariants::read(data) else { return };
    let end = 7 + read.dcid.len() + read.scid.len();
    assert_eq!(Invariants::read(&data[..end]), Some(read));
    assert!((0..end).all(|n| Invariants::read(&data[..n]).is_none()), "known before its end");
    assert!(read.version != 0 || !read.wants_negotiation(data.len(), |_| false), "a list of versions is answered");
}

fn config(from: &mut Source) -> ChoiceConfig {
    ChoiceConfig {
        strategy: STRATEGIES[usize::from(from.below(STRATEGIES.len() as u8))],
        maker: None,
        model: [Model::Gaussian, Model::Lognormal][usize::from(from.below(2))],
        memory_tasks: from.below(20).into(),
        weight_a: from.float(),
        explore_c: [ExploreC::Adaptive, ExploreC::Fixed(from.float())][usize::from(from.below(2))],
        epsilon: from.float(),
        plan: (0..from.below(4)).map(|n| (u64::from(n), PathId(from.below(5).into()))).collect(),
        per_byte: from.below(2) == 1,
        seed: from.byte().into(),
    }
}

/// Any bytes as events of a [`Chooser`]: it takes a usable path whenever there is one, and no other.
pub fn choice(data: &[u8]) {
    let mut from = Source(data);
    let mut chooser = Chooser::new(config(&mut from));
    let mut now = Instant::now();
    let mut usable: BTreeMap<PathId, bool> = BTreeMap::new();
    let mut current = None;
    let mut task = 0;
    while from.more() {
        let (what, path) = (from.below(9), PathId(from.below(5).into()));
        now += Duration::from_micros(from.number() >> 24);
        match what {
            0 => {
                chooser.add(path, now);
                usable.entry(path).or_insert(true);
            }
            1 => {
                chooser.remove(path);
                usable.remove(&path);
            }
            2 => {
                let so = from.below(2) == 1;
                chooser.set_usable(path, so, now);
                usable.entry(path).and_modify(|u| *u = so);
            }
            3 => chooser.probed(path, Duration::from_nanos(from.number()), now),
            4 => chooser.failed(path, now),
            5 => {
                let tct = Duration::from_nanos(from.number());
                let (switched, cold) = (from.below(2) == 1, from.below(2) == 1);
                chooser.finished(&TaskSample { path, task, tct, bytes: from.number(), switched, cold }, now);
            }
            6 => {
                if let Some((when, asked)) = chooser.next_probe() {
                    assert!(usable.get(&asked) == Some(&true) && when <= now, "probe of {asked:?}");
                    chooser.probing(asked, now);
                }
            }
            _ => {
                let hint = (from.below(2) == 1).then(|| from.number());
                let chosen = chooser.choose(task, hint, now, current);
                task = task.saturating_add(1 + (from.number() >> 32));
                assert_eq!(chosen.is_some(), usable.values().any(|u| *u), "a choice where there is one");
                if let Some(choice) = chosen {
                    assert_eq!(usable.get(&choice.path), Some(&true), "a usable path");
                    assert!(!choice.reason.is_empty());
                    assert!(choice.index_ms.iter().all(|(p, i)| usable.contains_key(p) && !i.is_nan()), "{choice:?}");
                    current = Some(choice.path);
                }
            }
        }
        let standings = chooser.standings();
        assert!(standings.iter().map(|s| s.path).eq(usable.keys().copied()), "every path has its standing");
        let numbers =
            |s: &crate::choice::Standing| [s.mean_ms, s.var_ms2, s.index_ms].into_iter().flatten().all(|x| !x.is_nan());
        assert!(standings.iter().all(numbers), "{standings:?}");
    }
}

/// quiche's state of a window, as far as a rule sees it.
#[derive(Debug, Clone, Copy)]
struct Side {
    window: u64,
    max_window: u64,
    consumed: u64,
    received: u64,
    limit: u64,
    told: bool,
}

impl Side {
    fn new(window: u64, max_window: u64) -> Side {
        Side { window, max_window, consumed: 0, received: 0, limit: window, told: false }
    }

    fn receive(&mut self, bytes: u64) {
        self.received += bytes.min(self.limit - self.received);
    }

    fn read(&mut self, bytes: u64) {
        self.consumed += bytes.min(self.received - self.consumed);
    }

    /// Asks the rule as quiche does: when less than half of the window is available, or the rule calls for it.
    fn ask(&mut self, rule: &mut Windows, scope: Scope, now: Instant, rtt: Duration, since_last: Option<Duration>) {
        let update = WindowUpdate {
            scope,
            now,
            rtt,
            since_last,
            window_bytes: self.window,
            max_window_bytes: self.max_window,
            consumed_bytes: self.consumed,
            received_bytes: self.received,
            max_data_bytes: self.limit,
        };
        if self.limit - self.consumed < self.window / 2 || rule.due(&update) {
            self.window = rule.next(&update).min(self.max_window);
            self.told = true;
            self.tell();
        }
    }

    /// An update that was lost is repeated as quiche does, at the present window, without asking.
    fn again(&mut self) {
        if self.told {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.limit = self.limit.max(self.consumed + self.window);
    }
}

/// Any bytes as arrivals and reads of connections: the windows that `weir` promises on all of them never exceeds their
/// budget, and the counted promises are the real ones.
pub fn windows(data: &[u8]) {
    let mut from = Source(data);
    let budget_bytes = 16 * 1024 * (1 + u64::from(from.byte()));
    let budget = Budget::shared(budget_bytes);
    let kind = [WindowKind::Weir, WindowKind::Fast, WindowKind::Double, WindowKind::Static][usize::from(from.below(4))];
    let mut now = Instant::now();
    let mut all: BTreeMap<u8, (Windows, Side, BTreeMap<u64, Side>)> = BTreeMap::new();
    while from.more() {
        let (what, key) = (from.below(8), from.below(6));
        now += Duration::from_micros(from.number() >> 34);
        let (rtt, bytes) = (Duration::from_nanos(from.number() >> 24), from.number() >> 30);
        let since_last = (from.below(4) > 0).then(|| Duration::from_nanos(from.number() >> 24));
        if what == 0 {
            all.remove(&key);
        }
        if let Entry::Vacant(place) = all.entry(key) {
            let (max_stream, max_conn) = (1 + (from.number() >> 32), 1 + (from.number() >> 32));
            let transport = Transport {
                alpn: Vec::new(),
                cc: ControlKind::default(),
                hystart: true,
                timestamps: true,
                scone: Default::default(),
                max_payload_bytes: 1350,
                initial_window_packets: 10,
                stream_window_bytes: 1 + (from.number() >> 32) % max_stream,
                max_stream_window_bytes: max_stream,
                conn_window_bytes: 1 + (from.number() >> 32) % max_conn,
                max_conn_window_bytes: max_conn,
                idle_timeout: Duration::from_secs(30),
            };
            match Windows::new(kind, &transport, &budget, now) {
                Ok(rule) => {
                    let side = Side::new(rule.initial().conn_bytes, max_conn);
                    place.insert((rule, side, BTreeMap::new()));
                }
                Err(_) => assert_eq!(kind, WindowKind::Weir, "the other rules know no budget"),
            }
        }
        let Some((rule, conn, streams)) = all.get_mut(&key) else { continue };
        let id = u64::from(from.below(5)) * 4;
        match what {
            1 => {
                rule.stream_closed(id);
                streams.remove(&id);
            }
            2 => {
                rule.stream_opened(id, now);
                let initial = rule.initial();
                streams.entry(id).or_insert(Side::new(initial.stream_bytes, initial.max_stream_bytes));
            }
            3 => conn.receive(bytes),
            4 => {
                conn.read(bytes);
                if bytes % 2 == 0 {
                    conn.again();
                }
            }
            5 => conn.ask(rule, Scope::Connection, now, rtt, since_last),
            _ => {
                if let Some(stream) = streams.get_mut(&id) {
                    stream.receive(bytes);
                    stream.read(bytes / 2);
                    stream.ask(rule, Scope::Stream(id), now, rtt, since_last);
                }
            }
        }
        rule.promised(conn.limit - conn.received);
        assert!(rule.steps().all(|step| step.window_bytes > 0 || kind == WindowKind::Weir), "a window is closed");
        let promised: u64 = all.values().map(|(_, conn, _)| conn.limit - conn.received).sum();
        assert_eq!(budget.borrow().promised().promised_bytes, promised);
        let held: u64 = all.values().map(|(_, conn, _)| conn.limit - conn.consumed).sum();
        assert!(kind != WindowKind::Weir || held <= budget_bytes, "{held} of {budget_bytes} bytes");
    }
    drop(all);
    assert_eq!(budget.borrow().promised().promised_bytes, 0, "nothing is promised to nobody");
}

/// A weights file with this content: its first line is right.
pub fn sealed_weights(content: &[u8]) -> Vec<u8> {
    let sum: String = boring::sha::sha256(content).iter().map(|byte| format!("{byte:02x}")).collect();
    [format!("weir-pbq-weights 1 sha256:{sum}\n").as_bytes(), content].concat()
}

/// One value of JSON of any kind.
fn json(from: &mut Source) -> serde_json::Value {
    match from.below(8) {
        0 => serde_json::Value::Null,
        1 => from.float().into(),
        2 => from.number().into(),
        3 => QUANTITIES[usize::from(from.below(QUANTITIES.len() as u8))].name.into(),
        4 => (0..from.below(20)).map(|_| format!("{:08x}", from.number() as u32)).collect::<String>().into(),
        5 => ["tanh", "linear", "bbr", "none", "when-used", "unless-dry"][usize::from(from.below(6))].into(),
        _ => (0..from.below(4)).map(|_| json(from)).collect(),
    }
}

/// The place in a document of the `n`th of its values that are no objects.
fn nth<'a>(value: &'a mut serde_json::Value, n: &mut usize) -> Option<&'a mut serde_json::Value> {
    if let serde_json::Value::Object(members) = value {
        return members.values_mut().find_map(|member| nth(member, n));
    }
    match n.checked_sub(1) {
        Some(less) => {
            *n = less;
            None
        }
        None => Some(value),
    }
}

/// Any bytes as a weights file, as the content of one, and as changes to one that is right. Accepted weights must
/// decide: inputs within their bounds, and a mean that is a number.
pub fn weights(data: &[u8]) {
    let mut from = Source(data);
    let profile = [Profile::Own, Profile::Paper][usize::from(from.below(2))];
    let mut files = vec![data.to_vec(), sealed_weights(data)];
    let unit = |inputs: usize| "3f000000".repeat(inputs);
    let fairness = (profile == Profile::Own).then(|| serde_json::json!({"most": 0.1, "window_packets": 10}));
    let mut document = serde_json::json!({
        "profile": profile.name(), "interval_ms": 100, "interval_least_rtts": 0, "inputs": ["rate_ratio", "loss_share"],
        "history": 2, "memory_intervals": 0, "normalisation": {"shift": [0, 0], "scale": [1, 1], "clip": 5},
        "layers": [{"weights": [unit(4), unit(4)], "bias": unit(2)}, {"weights": [unit(2)], "bias": unit(1)}],
        "output": "linear", "log_deviation": -1, "action_bound": 1, "window_packets": [2, 100], "pacing": "bbr", "start": "initial-window",
        "growth": "always", "fairness": fairness, "guard": null, "ranges": {"rtt_least_s": [0, 1]},
        "provenance": {"commit": "", "seed": 1, "command": "", "steps": 0},
    });
    files.push(sealed_weights(document.to_string().as_bytes()));
    for _ in 0..1 + from.below(3) {
        let (mut n, new) = (usize::from(from.below(48)), json(&mut from));
        if let Some(place) = nth(&mut document, &mut n) {
            *place = new;
        }
        files.push(sealed_weights(document.to_string().as_bytes()));
    }
    for file in files {
        let Ok(weights) = Weights::read(&file, profile) else { continue };
        let [rate_bytes_s, rtt_least_s, loss_share] = std::array::from_fn(|_| from.number() as f64 / 1e3);
        let measured = Measured {
            packet_bytes: 1350.0,
            window_bytes: 13_500.0,
            interval_s: 0.1,
            nominal_s: weights.interval.as_secs_f64(),
            rate_bytes_s,
            rate_greatest_bytes_s: rate_bytes_s * 2.0,
            rtt_mean_s: rtt_least_s * 3.0,
            rtt_last_s: rtt_least_s * 2.0,
            rtt_least_s,
            path_s: rtt_least_s,
            probed_s: None,
            loss_share,
            ce_share: 0.0,
            pacing_bytes_s: rate_bytes_s,
            in_flight_bytes: 5000.0,
        };
        let inputs = weights.normalised(&measured);
        let state = inputs.repeat(weights.history);
        assert!(state.len() == weights.network.inputs() && inputs.iter().all(|x| x.is_finite()), "{inputs:?}");
        let mean = weights.network.mean(&state);
        assert!(mean.is_finite());
        if let Some(fairness) = weights.fairness {
            let action = mean.clamp(-1.0, 1.0) * weights.action_bound;
            let fair = fairness.step(action, 1.0 + rtt_least_s.abs(), weights.action_bound);
            assert!(action <= fair && fair <= weights.action_bound, "{fairness:?}: {fair}");
        }
        weights.outside(&measured, 1.0);
    }
}

/// Transport of both ends of [`answer`].
fn transport(alpn: Alpn) -> Transport {
    Transport {
        alpn: vec![alpn],
        cc: ControlKind::default(),
        hystart: true,
        timestamps: false,
        scone: Default::default(),
        max_payload_bytes: 1350,
        initial_window_packets: 100,
        stream_window_bytes: 1 << 20,
        max_stream_window_bytes: 1 << 20,
        conn_window_bytes: 1 << 20,
        max_conn_window_bytes: 1 << 20,
        idle_timeout: Duration::from_secs(30),
    }
}

/// A client's session and a server that sends whatever it likes.
struct Exchange {
    client: Session,
    tasks: PlannedTasks,
    server: quiche::Connection,
    /// The server's HTTP/3 layer, if it keeps to the protocol.
    h3: Option<quiche::h3::Connection>,
    /// ECN codepoints that datagrams arrive with, two bits each, again and again.
    codepoints: u32,
}

/// Packets of an iteration.
struct Packets(Box<[u8; 1500]>, Vec<Vec<u8>>);

impl PacketSink for Packets {
    fn slot(&mut self) -> &mut [u8] {
        &mut self.0[..]
    }

    fn commit(&mut self, len: usize, _: SocketAddr, _: SocketAddr, _: Codepoint) {
        self.1.push(self.0[..len].to_vec());
    }
}

impl Exchange {
    const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1000);
    const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 4433);

    fn open(alpn: Alpn, action: Action, max_bytes: Option<u64>, codepoints: u32) -> Exchange {
        /// Key and certificate of the server.
        static IDENTITY: LazyLock<(PKey<Private>, X509)> = LazyLock::new(|| {
            let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
            let key = PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key");
            let mut certificate = X509::builder().expect("memory");
            certificate.set_pubkey(&key).expect("memory");
            certificate.set_not_before(&Asn1Time::days_from_now(0).expect("a date")).expect("memory");
            certificate.set_not_after(&Asn1Time::days_from_now(2).expect("a date")).expect("memory");
            certificate.sign(&key, MessageDigest::sha256()).expect("a signature");
            (key, certificate.build())
        });
        let config = |server: bool| {
            let mut ctx = SslContextBuilder::new(SslMethod::tls()).expect("memory");
            if server {
                ctx.set_private_key(&IDENTITY.0).expect("its key");
                ctx.set_certificate(&IDENTITY.1).expect("its certificate");
            }
            let made = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx);
            let mut config = made.expect("a context");
            config.verify_peer(false);
            transport(alpn).apply(&mut config).expect("options of ours");
            config
        };
        let (id, now) = (|n: u8| ConnectionId::from_vec(vec![n; 16]), Instant::now());
        let client = quiche::connect(None, &id(1), Self::CLIENT, Self::SERVER, &mut config(false)).expect("a config");
        let mut server = quiche::accept(&id(2), None, Self::SERVER, Self::CLIENT, &mut config(true)).expect("a config");
        let plan = Plan {
            authority: "localhost:4433".to_owned(),
            path: "/bytes/100".to_owned(),
            action,
            tasks: 3,
            parallel: 2,
            interval: Duration::ZERO,
            start_at: None,
            max_bytes,
            ..Plan::default()
        };
        let mut conn = Conn::new(client, Box::new(QuicheOwn), now);
        conn.set_ecn(EcnMode::Classic);
        hooks::set_ecn(&mut server, EcnMode::Classic);
        let config = SessionConfig::new("localhost:4433");
        let client = Session::new(conn, config, None, Timebase::new(now, 0), true, now);
        let tasks = PlannedTasks::new(plan, Box::new(Nowhere));
        let mut exchange = Exchange { client, tasks, server, h3: None, codepoints };
        exchange.run();
        assert!(exchange.server.is_established());
        exchange
    }

    /// Packets go to and fro until neither side has one.
    fn run(&mut self) {
        let mut scratch = vec![0; 4096];
        for turns in 0.. {
            assert!(turns < 1000, "they never come to rest");
            let now = Instant::now();
            let mut new_cid = || (ConnectionId::from_vec(vec![7; 16]), 7);
            self.client.on_deadline(now);
            self.client
                .advance(now, &mut Means { scratch: &mut scratch, tasks: &mut self.tasks, new_cid: &mut new_cid });
            let mut up = Packets(Box::new([0; 1500]), Vec::new());
            self.client.pump(now, &mut up);
            let mut down = Vec::new();
            for mut packet in up.1.iter().cloned() {
                let info = quiche::RecvInfo { from: Self::CLIENT, to: Self::SERVER };
                // The server reports its fault by closing.
                self.codepoints = self.codepoints.rotate_left(2);
                hooks::received_with(&mut self.server, Codepoint::of_tos(self.codepoints as u8));
                let _ = self.server.recv(&mut packet, info);
            }
            while let Ok((len, _)) = self.server.send(&mut up.0[..]) {
                down.push(up.0[..len].to_vec());
            }
            for packet in &mut down {
                let info = quiche::RecvInfo { from: Self::SERVER, to: Self::CLIENT };
                self.codepoints = self.codepoints.rotate_left(2);
                self.client.recv(packet, self.codepoints as u8, info, now);
            }
            if up.1.is_empty() && down.is_empty() {
                break;
            }
        }
    }

    /// One act of the server. Gives the bytes of a body that it sent at most: none where quiche refused.
    fn act(&mut self, from: &mut Source<'_>) -> usize {
        let (kind, stream) = (from.below(8), u64::from(from.below(4)));
        let length = usize::from(from.byte());
        let data: Vec<u8> = (0..length.min(from.0.len())).map(|_| from.byte()).collect();
        let fin = kind & 1 == 1;
        let server = &mut self.server;
        if let Some(h3) = &mut self.h3 {
            while h3.poll(server).is_ok() {}
        }
        let sent = match (kind, &mut self.h3) {
            (0 | 1, _) => server.stream_send(stream * 4, &data, fin).is_ok(),
            (2 | 3, None) => server.stream_send(stream * 4 + 3, &data, fin).is_ok(),
            (4, None) if server.application_proto() == Alpn::H3.wire() => {
                let config = quiche::h3::Config::new().expect("memory");
                self.h3 = quiche::h3::Connection::with_transport(server, &config).ok();
                false
            }
            (5, _) => server.stream_shutdown(stream * 4, quiche::Shutdown::Write, length as u64).is_ok(),
            (2 | 3, Some(h3)) => {
                let field = |part: &[u8]| {
                    let (name, value) = part.split_at(part.len().min(usize::from(part[0] % 16)));
                    quiche::h3::Header::new(name, value)
                };
                let status = quiche::h3::Header::new(b":status", b"200");
                let rest = data.split(|b| *b == 0).filter(|p| !p.is_empty()).map(field);
                let list: Vec<_> = Some(status).filter(|_| length % 4 > 0).into_iter().chain(rest).collect();
                h3.send_response(server, stream * 4, &list, fin).is_ok()
            }
            (4 | 6, Some(h3)) => h3.send_body(server, stream * 4, &data, length % 2 == 1).is_ok(),
            (_, Some(h3)) => h3.send_goaway(server, stream * 4).is_ok(),
            (_, None) => server.close(true, length as u64, &data).is_ok(),
        };
        if sent { data.len() } else { 0 }
    }
}

/// Any bytes as the answers of a server: on its streams as they are, or as fields and bodies of HTTP/3, in datagrams with any
/// ECN codepoints. A client's session
/// comes to rest after each, counts no byte that was not sent, and ends when the connection does.
pub fn answer(data: &[u8]) {
    let mut from = Source(data);
    let alpn = [Alpn::H3, Alpn::H3, Alpn::H3, Alpn::Hq][usize::from(from.below(4))];
    let action = [Action::Download, Action::Upload(Some(100))][usize::from(from.below(2))];
    let max_bytes = [None, Some(50)][usize::from(from.below(2))];
    let codepoints = u32::from_be_bytes(std::array::from_fn(|_| from.byte()));
    let mut exchange = Exchange::open(alpn, action, max_bytes, codepoints);
    let mut sent = 0;
    for _ in 0..24 {
        if !from.more() || exchange.server.is_closed() {
            break;
        }
        sent += exchange.act(&mut from);
        exchange.run();
        if action == Action::Download {
            assert!(exchange.client.bytes <= sent as u64);
        }
    }
    let _ = exchange.server.close(true, 0, b"");
    exchange.run();
    assert!(exchange.client.outcome().is_some(), "the connection has ended, and the session has not");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    proptest! {
        #[test]
        fn requests(data in prop::collection::vec(any::<u8>(), 0..300), text in "[ -~\\r\\n]{0,60}") {
            super::request(&data);
            super::request(text.as_bytes());
        }

        #[test]
        fn tunnels(data in prop::collection::vec(any::<u8>(), 0..300), text in "[0-9a-f:.%/,=\\[\\]-]{0,60}") {
            super::tunnel(&data);
            super::tunnel(text.as_bytes());
        }

        #[test]
        fn first_packets(data in prop::collection::vec(any::<u8>(), 0..600), (dcid, scid) in (0u8..30, 0u8..30)) {
            let mut data = data;
            super::first_packet(&data);
            if let Some(head) = data.first_chunk_mut::<6>() {
                (head[0], head[5]) = (head[0] | 0x80, dcid);
            }
            if let Some(length) = data.get_mut(6 + usize::from(dcid)) {
                *length = scid;
            }
            super::first_packet(&data);
        }

        #[test]
        fn answers(data in prop::collection::vec(any::<u8>(), 0..400)) {
            super::answer(&data);
        }

        #[test]
        fn choices(data in prop::collection::vec(any::<u8>(), 0..600)) {
            super::choice(&data);
        }

        #[test]
        fn weights_files(data in prop::collection::vec(any::<u8>(), 0..200)) {
            super::weights(&data);
        }

        #[test]
        fn window_rules(data in prop::collection::vec(any::<u8>(), 0..1500)) {
            super::windows(&data);
        }
    }
}
