// SPDX-License-Identifier: Apache-2.0
//! `weir-client`: all flows in one process, one thread, one wait per turn.

use crate::args::{Common, QlogFile, new_cid, new_reset_token};
use crate::choice::{ChoiceArgs, ChoicePlan};
use crate::fault::{Fault, IO, PATHS, USAGE};
use crate::output::{OutputFile, StandardOutput, same_file};
use crate::report::{AnswerReport, FlowReport, PathReport, RecvBuffer, Report, TaskReport, TotalReport, rate_bit_s};
use crate::target::{Families, Target, target};
use crate::watch;
use crate::ways::{self, WaySpec};
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509VerifyError;
use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use url::Host;
use weir_core::choice::PathId;
use weir_core::client::{Action, Body, Nowhere, Outcome};
use weir_core::conn::{Conn, PacketSink};
use weir_core::events::Event;
use weir_core::paths::PathSpec;
use weir_core::request::{Alpn, parse_size};
use weir_core::sample::{EndLine, Side, Ticker, Timebase};
use weir_core::session::{DEFAULT_PATH, Means, Plan, Routes, Session, Tally};
use weir_core::text::printable;
use weir_core::transport::{CID_BYTES, Transport};
use weir_core::window::budget::LEAST_BYTES;
use weir_core::window::{Budget, Promised, SharedBudget, WindowKind, Windows};
use weir_io::interfaces::{self, Interface, Monitor};
use weir_io::lines::LineWriter;
use weir_io::udp::{RecvBatch, SendBatch, SocketOptions, UdpSocket};
use weir_io::wait::{Signals, Waiter, moment};

/// Requests over QUIC, measured: every flow is a connection of its own, with one request or many.
///
/// Exit codes: 0 all flows complete (or stopped by --duration-s); 2 usage; 3 name not resolved, connection refused or
/// cut off before it was up; 4 TLS, protocol or version not agreed on; 5 timeout, also --max-time; 6 transfer incomplete; 7 the server
/// does not serve what was asked for; 8 file or socket error; 9 --path asks for what is not there; 10 an answer larger
/// than --max-size; 130 interrupted. With several failures that of the first.
#[derive(Debug, Parser)]
#[command(version, name = "weir-client", after_help = EXAMPLES)]
pub struct Args {
    /// https://HOST[:PORT][/PATH]; without a path /bytes/N with --bytes, /bytes/unlimited with --duration-s, /upload
    /// with --upload. Several URLs are taken in turn by the flows
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Number of flows [default: one per URL]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Transfers")]
    flows: Option<u32>,
    /// Tasks of each flow: so many requests on its connection, each for the URL's path
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000_000), value_name = "N",
          help_heading = "Transfers")]
    requests: u64,
    /// At most so many of them at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "P",
          help_heading = "Transfers")]
    parallel: u32,
    /// Task n starts no sooner than n times this after the connection is up (or after --start-at-us)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400_000), value_name = "MS",
          help_heading = "Transfers")]
    interval_ms: u64,
    /// Tasks count from this time of CLOCK_MONOTONIC, in microseconds; the connection is made before
    #[arg(long, value_name = "T", help_heading = "Transfers")]
    start_at_us: Option<u64>,
    /// Stop after this many seconds from the start
    #[arg(long, value_parser = seconds, value_name = "SECONDS", help_heading = "Transfers")]
    pub(crate) duration_s: Option<Duration>,
    /// Size of each transfer
    #[arg(long, value_parser = |t: &str| parse_size(t).map_err(|e| e.to_string()), help_heading = "Transfers")]
    pub(crate) bytes: Option<u64>,
    /// Send instead of receive
    #[arg(long, help_heading = "Transfers")]
    pub(crate) upload: bool,
    /// Write the answer to this file; it appears when it is whole (- for standard output, as it arrives; the table then
    /// goes to standard error)
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["upload", "duration_s"], help_heading = "Transfers")]
    output: Option<PathBuf>,
    /// Give up, with exit code 5, what is not done so many seconds after the program was started
    #[arg(long, short, value_parser = seconds, value_name = "SECONDS", help_heading = "Transfers")]
    max_time: Option<Duration>,
    /// Refuse an answer that is larger, in bytes (kB, MB, KiB, MiB may follow): before its first byte if the server says
    /// so beforehand, else when it has become too large. Nothing of --output is left then, but for standard output
    #[arg(long, value_parser = |t: &str| parse_size(t).map_err(|e| e.to_string()), value_name = "BYTES",
          conflicts_with = "upload", help_heading = "Transfers")]
    max_size: Option<u64>,
    /// Each flow starts at random within this long
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400_000), value_name = "MS",
          help_heading = "Transfers")]
    start_spread_ms: u64,
    /// Connect here instead of to the URL's host: ADDRESS or ADDRESS:PORT
    #[arg(long, value_name = "ADDR", help_heading = "Connection")]
    pub(crate) connect: Option<String>,
    /// Local address to send from
    #[arg(long, value_name = "ADDR", conflicts_with = "paths", help_heading = "Connection")]
    bind: Option<IpAddr>,
    /// Rule for receive windows: static, double (quiche's), fast (Lee & An) or weir (by measured demand). Upper bounds
    /// are --max-stream-window and --max-conn-window
    #[arg(long, default_value = "double", value_name = "RULE", help_heading = "Transport")]
    window: WindowKind,
    /// What --window weir may promise to peers, over all connections [default: 64MiB]
    #[arg(long, value_parser = budget_bytes, value_name = "BYTES", help_heading = "Transport")]
    memory_budget: Option<u64>,
    /// Application protocol: h3 or hq-interop
    #[arg(long, default_value = "h3", help_heading = "Connection")]
    alpn: Alpn,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "Connection")]
    insecure: bool,
    /// Certificates to trust instead of the system's, PEM
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    ca: Option<PathBuf>,
    /// Tell the server the flows' labels, from this one on (adds ?flow=L to the path)
    #[arg(long, value_name = "L", help_heading = "Results")]
    flow_label: Option<u64>,
    /// Write what was decided and how each task ended to this file, one JSON line each (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    events: Option<PathBuf>,
    /// Print one JSON document at the end instead of a table
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// No progress bar
    #[arg(long, short, help_heading = "Results")]
    quiet: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    common: Common,
}

fn budget_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|e| e.to_string())? {
        n if n < LEAST_BYTES => Err(format!("{n} bytes: expected at least {LEAST_BYTES}, which one connection needs")),
        n => Ok(n),
    }
}

const MEMORY_BUDGET_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  weir-client https://localhost:4433/bytes/10MB --insecure
      one download, counted and thrown away
  weir-client https://example.org/file -o file
      one download into a file
  weir-client https://localhost:4433 --insecure --bytes 5kB --requests 1000 --interval-ms 100 --events tasks.jsonl
      a thousand requests on one connection, ten a second, with the completion time of each
  weir-client https://example.org/small --requests 100 --interval-ms 200 --path eth0 --path wlan0
      a request every 200 ms, each over the interface that will answer soonest
  weir-client https://localhost:4433 --insecure --flows 10 --duration-s 5 --json
      ten connections that download for five seconds";

fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a duration: expected seconds above 0, at most 86400");
    let s: f64 = text.parse().map_err(|_| bad())?;
    if s > 0.0 && s <= 86_400.0 { Ok(Duration::from_secs_f64(s)) } else { Err(bad()) }
}

/// One way out of this machine, with a socket of its own.
struct Way {
    id: PathId,
    name: String,
    address: IpAddr,
    /// The interface's number, if bound to one.
    device: Option<u32>,
    socket: UdpSocket,
    /// Its address is gone; the connection is still to leave it.
    leaving: bool,
}

impl Way {
    /// A socket belongs to an interface by its number: another one of the same name is another way.
    fn is(&self, spec: &WaySpec) -> bool {
        let device = spec.device.as_ref().map(|(index, _)| *index);
        !self.leaving && (&self.name, self.address, self.device) == (&spec.name, spec.address, device)
    }

    fn spec(&self, peer: SocketAddr) -> PathSpec {
        PathSpec { id: self.id, name: self.name.clone(), local: self.socket.local_addr(), peer }
    }
}

/// A flow with its sockets, or still to be started.
struct Slot {
    target: Target,
    plan: Plan,
    start: Instant,
    ways: Vec<Way>,
    next_way: u32,
    /// Ways on which no connection was tried yet, and until when the present try has time if there are any.
    untried: Vec<PathId>,
    patience: Option<Instant>,
    session: Option<Session>,
    body: Box<dyn Body>,
    /// A flow for which not even a connection could be made.
    stillborn: Option<Outcome>,
    timer: Option<Instant>,
    reported: bool,
}

impl Slot {
    fn outcome(&self) -> Option<&Outcome> {
        self.stillborn.as_ref().or_else(|| self.session.as_ref().and_then(Session::outcome))
    }

    fn bytes(&self) -> u64 {
        self.session.as_ref().map_or(0, |s| s.bytes)
    }
}

/// Sends each datagram from the socket that has its source address.
struct Router<'a> {
    batch: &'a mut SendBatch,
    ways: &'a mut [Way],
    /// The way of what is in the batch.
    at: usize,
}

impl PacketSink for Router<'_> {
    fn slot(&mut self) -> &mut [u8] {
        self.batch.slot()
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr) {
        if self.ways[self.at].socket.local_addr() != from {
            // A way that was given up takes nothing any more: the datagram is lost.
            let Some(at) = self.ways.iter().position(|w| w.socket.local_addr() == from) else { return };
            // Rare: a probe, a migration.
            let datagram = self.batch.slot()[..len].to_vec();
            self.batch.flush(&mut self.ways[self.at].socket);
            self.at = at;
            self.batch.slot()[..len].copy_from_slice(&datagram);
        }
        self.batch.to(&mut self.ways[self.at].socket).commit(len, from, to);
    }
}

impl Router<'_> {
    fn flush(self) {
        self.batch.flush(&mut self.ways[self.at].socket);
    }
}

const SIGNAL: u64 = u64::MAX;
const INTERFACES: u64 = u64::MAX - 1;

/// What a handshake has on one of several ways before the next is tried: time for three flights, the first timeout being
/// 1 s (RFC 9002 6.2.2).
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

/// A socket's name in the wait: its flow and which of its ways.
fn token(flow: usize, way: PathId) -> u64 {
    (flow as u64) << 32 | u64::from(way.0)
}

struct Client<'a> {
    args: &'a Args,
    config: quiche::Config,
    slots: Vec<Slot>,
    timers: BTreeSet<(Instant, usize)>,
    waiter: Waiter,
    recv: RecvBatch,
    send: SendBatch,
    scratch: Vec<u8>,
    stats: Option<LineWriter>,
    events: Option<LineWriter>,
    transport: Transport,
    budget: SharedBudget,
    /// As told last.
    promised: Option<Promised>,
    choice: ChoicePlan,
    wanted: ways::Request,
    interfaces: Vec<Interface>,
    monitor: Option<Monitor>,
    seed: u64,
    timebase: Timebase,
    live: usize,
    /// The least that a socket was granted.
    recv_buffer_bytes: Option<u64>,
    qlogs: Vec<QlogFile>,
    /// When --max-time is over.
    give_up: Option<Instant>,
}

/// Options that contradict each other in what they write, or ask for what has no effect.
fn check_usage(args: &Args) -> Result<(), Fault> {
    if args.upload && args.bytes.is_none() && args.duration_s.is_none() {
        return Err(Fault::new(USAGE, "--upload needs --bytes or --duration-s to know its end"));
    }
    if args.memory_budget.is_some() && args.window != WindowKind::Weir {
        let text = format!("--memory-budget is for --window weir: --window {} does not heed it", args.window);
        return Err(Fault::new(USAGE, text));
    }
    let outputs = [("--output", &args.output), ("--events", &args.events), ("--stats", &args.common.stats)];
    let outputs: Vec<_> = outputs.iter().filter_map(|(o, p)| p.as_deref().map(|p| (*o, p))).collect();
    for (i, (option, path)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..i].iter().find(|(_, p)| same_file(p, path)) {
            let text = format!("{other} and {option} are both {}: expected a file for each", path.display());
            return Err(Fault::new(USAGE, text));
        }
    }
    if args.json && args.output.as_deref() == Some(Path::new("-")) {
        return Err(Fault::new(
            USAGE,
            "--json and --output - would both write to standard output: expected one of them",
        ));
    }
    Ok(())
}

fn tls(args: &Args, transport: &Transport) -> Result<quiche::Config, Fault> {
    let inner = |e: boring::error::ErrorStack| Fault::new(1, format!("TLS library: {e}"));
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(inner)?;
    match &args.ca {
        Some(path) => {
            let pem = std::fs::read(path).map_err(Fault::io(format!("--ca {}", path.display())))?;
            let certs = boring::x509::X509::stack_from_pem(&pem).unwrap_or_default();
            if certs.is_empty() {
                let text = format!("--ca {}: expected one or more certificates in PEM form", path.display());
                return Err(Fault::new(crate::fault::IO, text));
            }
            for cert in certs {
                ctx.cert_store_mut().add_cert(&cert).map_err(inner)?;
            }
        }
        None => ctx.set_default_verify_paths().map_err(inner)?,
    }
    let quic = |e: quiche::Error| Fault::new(1, format!("QUIC library: {e}"));
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).map_err(quic)?;
    config.verify_peer(!args.insecure);
    transport.apply(&mut config).map_err(quic)?;
    Ok(config)
}

/// Runs the program; gives its exit code.
pub fn main() -> Result<u8, Fault> {
    run(&Args::parse())
}

fn run(args: &Args) -> Result<u8, Fault> {
    let give_up = args.max_time.map(|t| Instant::now() + t);
    args.max_time.map(watch::end_late).transpose().map_err(Fault::io("--max-time"))?;
    check_usage(args)?;
    let transport = args.common.transport(vec![args.alpn])?;
    let wanted = ways::Request::parse(&args.choice.paths)?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    let netlink = "network interfaces (rtnetlink)";
    // Listening first: what changes between that and the list is told.
    let (monitor, interfaces) = match wanted.is_empty() {
        true => (None, Vec::new()),
        false => {
            let monitor = Monitor::new().map_err(Fault::io(netlink))?;
            waiter.add(monitor.fd(), INTERFACES).map_err(Fault::io("epoll"))?;
            (Some(monitor), interfaces::list().map_err(Fault::io(netlink))?)
        }
    };
    let from = if wanted.is_empty() { families(args) } else { wanted.check(&interfaces)? };
    let choice = args.choice.plan()?;
    let targets = args.urls.iter().map(|u| target(u, args, &from)).collect::<Result<Vec<_>, _>>()?;
    let flows = args.flows.map_or(targets.len(), |n| n as usize);
    if flows < targets.len() {
        let text = format!("--flows {flows} is less than the {} URLs given: some would never be asked", targets.len());
        return Err(Fault::new(USAGE, text));
    }
    if args.output.is_some() && (flows > 1 || args.requests > 1) {
        let text = format!("--output takes one answer, but {flows} flows of {} tasks are asked for", args.requests);
        return Err(Fault::new(USAGE, text));
    }
    let mut config = tls(args, &transport)?;
    if wanted.is_empty() {
        // RFC 9000 18.2: the least there is. More would be for paths.
        config.set_active_connection_id_limit(2);
    }
    let stats = args.common.stats.as_deref().map(LineWriter::create).transpose()?;
    let events = args.events.as_deref().map(LineWriter::create).transpose()?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    waiter.add(signals.fd(), SIGNAL).map_err(Fault::io("epoll"))?;

    let (start, start_us) = moment();
    let spread = Duration::from_millis(args.start_spread_ms);
    let mut client = Client {
        args,
        config,
        slots: Vec::with_capacity(flows),
        timers: BTreeSet::new(),
        waiter,
        recv: RecvBatch::new(args.common.sockets().offload),
        send: SendBatch::default(),
        scratch: vec![0; 1 << 16],
        stats,
        events,
        transport,
        budget: Budget::shared(args.memory_budget.unwrap_or(MEMORY_BUDGET_BYTES)),
        promised: None,
        choice,
        wanted,
        interfaces,
        monitor,
        seed: args.choice.seed.map_or_else(random, Ok)?,
        timebase: Timebase::new(start, start_us),
        live: flows,
        recv_buffer_bytes: None,
        qlogs: Vec::new(),
        give_up,
    };
    let start_at = args.start_at_us.map(|t| client.timebase.at(t));
    for i in 0..flows {
        let target = targets[i % targets.len()].clone();
        let plan = Plan {
            flow: args.flow_label.unwrap_or(0) + i as u64,
            tell_flow: args.flow_label.is_some(),
            authority: target.authority.clone(),
            path: target.path.clone(),
            action: if args.upload { Action::Upload(args.bytes) } else { Action::Download },
            tasks: args.requests,
            parallel: args.parallel as usize,
            interval: Duration::from_millis(args.interval_ms),
            start_at,
            idle_timeout: client.transport.idle_timeout,
            max_bytes: args.max_size,
        };
        let body: Box<dyn Body> = match &args.output {
            Some(path) if path == Path::new("-") => Box::new(StandardOutput::default()),
            Some(path) => Box::new(OutputFile::create(path)?),
            None => Box::new(Nowhere),
        };
        let at = start + spread.mul_f64(random_share()?);
        client.timers.insert((at, i));
        client.slots.push(Slot {
            target,
            plan,
            start: at,
            ways: Vec::new(),
            next_way: 0,
            untried: Vec::new(),
            patience: None,
            session: None,
            body,
            stillborn: None,
            timer: Some(at),
            reported: false,
        });
    }
    let end = client.turn_until_done(&signals, start)?;
    client.sample_all(end)?;
    for lines in [&mut client.stats, &mut client.events].into_iter().flatten() {
        lines.flush()?;
    }
    let code = client.report(start, end)?;
    client.qlogs.iter().try_for_each(QlogFile::finish)?;
    Ok(code)
}

impl Client<'_> {
    fn turn_until_done(&mut self, signals: &Signals, start: Instant) -> Result<Instant, Fault> {
        let stop = self.args.duration_s.map(|d| start + d);
        let mut stopped = false;
        let mut ticker = Ticker::new(start, self.args.common.stats_every());
        let progress = self.progress();
        let mut ready = Vec::new();
        let mut touched = Vec::new();
        let clock = self.args.common.clock();
        let mut now = start;
        while self.live > 0 {
            let stop_at = stop.filter(|_| !stopped);
            let timer = self.timers.first().map(|(t, _)| *t);
            let give_up = self.give_up.filter(|_| !stopped);
            let deadline = [timer, stop_at, give_up, Some(ticker.next())].into_iter().flatten().min();
            self.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
            now = clock.turn().map_err(Fault::io("clock"))?;
            for &token in &ready {
                match token {
                    SIGNAL => {
                        if signals.take().is_some() {
                            stopped = true;
                            self.end_all(&Outcome::Interrupted, now, &mut touched);
                        }
                    }
                    INTERFACES => self.interfaces_changed(now, &mut touched)?,
                    token => {
                        let (i, way) = ((token >> 32) as usize, PathId(token as u32));
                        self.receive(i, way, now);
                        touched.push(i);
                    }
                }
            }
            while let Some(&(t, i)) = self.timers.first()
                && t <= now
            {
                self.timers.pop_first();
                self.slots[i].timer = None;
                match &mut self.slots[i].session {
                    Some(session) => session.on_deadline(now),
                    None => self.start(i, now)?,
                }
                touched.push(i);
            }
            if stop_at.is_some_and(|t| t <= now) {
                stopped = true;
                self.end_all(&Outcome::Stopped, now, &mut touched);
            }
            if give_up.is_some_and(|t| t <= now) {
                stopped = true;
                self.end_all(&Outcome::Timeout("--max-time is over".to_owned()), now, &mut touched);
            }
            for i in touched.drain(..) {
                self.serve(i, now)?;
            }
            if ticker.due(now) {
                self.sample_all(now)?;
                if let Some(bar) = &progress {
                    self.show(bar, now.duration_since(start));
                }
            }
        }
        if let Some(bar) = progress {
            bar.finish_and_clear();
        }
        Ok(now)
    }

    /// The ways there are now for a flow, in the order of `--path`.
    fn way_specs(&self, i: usize) -> Vec<WaySpec> {
        let v6 = self.slots[i].target.addr.is_ipv6();
        if self.wanted.is_empty() {
            let any = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
            let address = self.args.bind.unwrap_or(any);
            return vec![WaySpec { name: DEFAULT_PATH.to_owned(), device: None, address, up: true }];
        }
        self.wanted.find(&self.interfaces, v6)
    }

    /// Opens a socket for a way and waits at it.
    fn open_way(&mut self, i: usize, spec: &WaySpec) -> io::Result<()> {
        let slot = &mut self.slots[i];
        let device = spec.device.as_ref().map(|(_, name)| name.clone());
        let options = SocketOptions { device, ..self.args.common.sockets() };
        let socket = UdpSocket::open(SocketAddr::new(spec.address, 0), Some(slot.target.addr), &options)?;
        let granted = socket.recv_buffer_bytes()? as u64;
        self.recv_buffer_bytes = Some(self.recv_buffer_bytes.map_or(granted, |least| least.min(granted)));
        let id = PathId(slot.next_way);
        self.waiter.add(socket.fd(), token(i, id))?;
        slot.next_way += 1;
        let (name, address) = (spec.name.clone(), spec.address);
        let device = spec.device.as_ref().map(|(index, _)| *index);
        slot.ways.push(Way { id, name, address, device, socket, leaving: false });
        Ok(())
    }

    fn start(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let specs = self.way_specs(i);
        let peer = self.slots[i].target.addr;
        let mut up = Vec::new();
        let mut unreachable = None;
        for spec in &specs {
            match self.open_way(i, spec) {
                Ok(()) if spec.up => up.extend(self.slots[i].ways.last().map(|w| w.id)),
                Ok(()) => {}
                Err(e) if self.args.bind.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
                    let text = format!("--bind {}: no address of this machine: {e}", spec.address);
                    return Err(Fault::new(IO, text));
                }
                Err(e) if self.wanted.is_empty() => {
                    let text = format!("{peer} from {}: {e}", spec.address);
                    self.slots[i].stillborn = Some(Outcome::Connect(text));
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Fault::new(PATHS, format!("--path {} to {peer}: {e}", spec.name)));
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidInput && spec.address.is_loopback() => {
                    let why = "loopback leads to servers on this machine alone";
                    return Err(Fault::new(PATHS, format!("--path {} to {peer}: {why}", spec.name)));
                }
                // It is down, or leads elsewhere: `refresh_ways` tries it again whenever interfaces change.
                Err(e) => {
                    unreachable.get_or_insert((spec.name.clone(), e));
                }
            }
        }
        if up.is_empty() {
            let text = match unreachable {
                Some((name, e)) => format!("no --path leads to {peer} ({name}: {e})"),
                None => format!("no --path to {peer} is up"),
            };
            return Err(Fault::new(PATHS, text));
        }
        let slot = &mut self.slots[i];
        // Tan 4.1: a connection starts on any usable path. Each flow draws for itself.
        fastrand::Rng::with_seed(self.seed.wrapping_add(slot.plan.flow)).shuffle(&mut up);
        slot.untried = up;
        self.connect(i, now)?;
        let Slot { ways, session: Some(session), .. } = &mut self.slots[i] else { return Ok(()) };
        for spec in specs.iter().filter(|s| !s.up) {
            for way in ways.iter().filter(|w| w.is(spec)) {
                session.interface(way.id, false, now);
            }
        }
        Ok(())
    }

    /// Opens a connection on the next way that was not tried.
    fn connect(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let slot = &mut self.slots[i];
        let peer = slot.target.addr;
        let Some(first) = slot.untried.pop() else { return Ok(()) };
        let Some(first) = slot.ways.iter().position(|w| w.id == first) else { return Ok(()) };
        slot.patience = (!slot.untried.is_empty()).then(|| now + FIRST_PATIENCE);
        let seed = self.seed.wrapping_add(slot.plan.flow);
        let scid = new_cid()?;
        let name = match &slot.target.host {
            Host::Domain(name) => Some(name.as_str()),
            _ => None,
        };
        let windows = match Windows::new(self.args.window, &self.transport, &self.budget, now) {
            Ok(windows) => windows,
            Err(e) => {
                slot.stillborn = Some(Outcome::Connect(format!("--memory-budget: {e}")));
                return Ok(());
            }
        };
        windows.initial().apply(&mut self.config);
        let local = slot.ways[first].socket.local_addr();
        let mut quic = quiche::connect(name, &scid, local, peer, &mut self.config)
            .map_err(|e| Fault::new(1, format!("cannot make a connection: {e}")))?;
        // quiche only checks names; without this any trusted certificate would do for an address.
        let ip = match slot.target.host {
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
            Host::Domain(_) => None,
        };
        if let (Some(ip), false) = (ip, self.args.insecure) {
            let ssl: &mut boring::ssl::SslRef = quic.as_mut();
            ssl.verify_param_mut().set_ip(ip).map_err(|e| Fault::new(1, format!("TLS library: {e}")))?;
        }
        self.qlogs.extend(self.args.common.start_qlog(&mut quic, &format!("client-flow-{}", slot.plan.flow))?);
        let routes = match self.wanted.is_empty() {
            true => None,
            false => {
                let names: Vec<_> = slot.ways.iter().map(|w| (w.id, w.name.clone())).collect();
                let config = self.choice.config(seed, &names)?;
                let others = slot.ways.iter().enumerate().filter(|(k, _)| *k != first);
                let others = others.map(|(_, w)| w.spec(peer)).collect();
                Some(Routes::new(slot.ways[first].spec(peer), others, self.choice.standby, config))
            }
        };
        let record = self.events.is_some() || self.args.common.qlog_dir.is_some();
        let mut conn = Conn::new(quic, now);
        conn.windows = Some(windows);
        slot.session = Some(Session::new(conn, slot.plan.clone(), routes, self.timebase, record, now));
        Ok(())
    }

    /// Gives up a connection that did not come up, if another way is left to try.
    fn try_another_way(&mut self, i: usize, now: Instant) -> Result<bool, Fault> {
        let slot = &mut self.slots[i];
        let Some(session) = slot.session.as_mut().filter(|_| !slot.untried.is_empty()) else { return Ok(false) };
        if session.conn.established.is_some() {
            slot.patience = None;
            return Ok(false);
        }
        let failed = match session.outcome() {
            Some(outcome) => matches!(outcome, Outcome::Connect(_) | Outcome::Timeout(_)),
            None => slot.patience.is_some_and(|t| t <= now),
        };
        if failed {
            session.path_failed(now);
            write_events(session, &mut self.events, &self.timebase)?;
            slot.session = None;
            self.connect(i, now)?;
        }
        Ok(failed)
    }

    /// Interfaces, addresses or routes came, went or changed: every session gets to know.
    fn interfaces_changed(&mut self, now: Instant, touched: &mut Vec<usize>) -> Result<(), Fault> {
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        let netlink = "network interfaces (rtnetlink)";
        if !monitor.drain().map_err(Fault::io(netlink))? {
            return Ok(());
        }
        // Also when the list is the same: a route may have come to a server that an interface did not lead to.
        self.interfaces = interfaces::list().map_err(Fault::io(netlink))?;
        for i in 0..self.slots.len() {
            if self.slots[i].session.as_ref().is_some_and(|s| s.outcome().is_none()) {
                self.refresh_ways(i, now);
                touched.push(i);
            }
        }
        Ok(())
    }

    fn refresh_ways(&mut self, i: usize, now: Instant) {
        let specs = self.way_specs(i);
        for spec in &specs {
            match self.slots[i].ways.iter().position(|w| w.is(spec)) {
                Some(at) => {
                    let slot = &mut self.slots[i];
                    if let Some(session) = &mut slot.session {
                        session.interface(slot.ways[at].id, spec.up, now);
                    }
                }
                // A failure means that it is not ready or leads nowhere: the next change is another chance.
                None if spec.up && self.open_way(i, spec).is_ok() => {
                    let slot = &mut self.slots[i];
                    let (peer, last) = (slot.target.addr, slot.ways.len() - 1);
                    let Some(session) = &mut slot.session else { continue };
                    for way in slot.ways[..last].iter_mut().filter(|w| w.name == spec.name) {
                        way.leaving = true;
                        session.remove_path(way.id);
                    }
                    session.add_path(slot.ways[last].spec(peer), now);
                }
                None => {}
            }
        }
        let Slot { ways, session: Some(session), .. } = &mut self.slots[i] else { return };
        for way in ways.iter().filter(|w| !w.leaving) {
            if !specs.iter().any(|s| way.is(s)) {
                session.interface(way.id, false, now);
            }
        }
    }

    fn receive(&mut self, i: usize, way: PathId, now: Instant) {
        let Slot { session: Some(session), ways, .. } = &mut self.slots[i] else { return };
        let Some(Way { socket, .. }) = ways.iter().find(|w| w.id == way) else { return };
        let result = self.recv.receive(socket, |bytes, meta| {
            session.recv(bytes, meta.tos, quiche::RecvInfo { from: meta.from, to: meta.to }, now);
        });
        if let Err(e) = result {
            connection_trouble(session, &e, now);
        }
    }

    /// Lets a flow act and sends what it has to send.
    fn serve(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let slot = &mut self.slots[i];
        if let Some(session) = &mut slot.session
            && !slot.ways.is_empty()
        {
            let mut no_random = None;
            let mut cid = || match (new_cid(), new_reset_token()) {
                (Ok(cid), Ok(token)) => (cid, token),
                (Err(e), _) | (_, Err(e)) => {
                    no_random = Some(e);
                    (quiche::ConnectionId::from_vec(vec![0; CID_BYTES]), 0)
                }
            };
            let mut means = Means { scratch: &mut self.scratch, body: slot.body.as_mut(), new_cid: &mut cid };
            session.advance(now, &mut means);
            if let Some(e) = no_random {
                return Err(e);
            }
        }
        self.try_another_way(i, now)?;
        let slot = &mut self.slots[i];
        if let Some(session) = &mut slot.session
            && !slot.ways.is_empty()
        {
            let mut router = Router { batch: &mut self.send, ways: &mut slot.ways, at: 0 };
            session.pump(now, &mut router);
            router.flush();
            if let Some(e) = self.send.error.take() {
                connection_trouble(session, &e, now);
            }
            write_events(session, &mut self.events, &self.timebase)?;
            if slot.ways.iter().any(|w| w.leaving) {
                // In use until the connection is elsewhere.
                slot.ways.retain(|w| !w.leaving || session.has_path(w.id));
            }
            let timer = [session.deadline(), slot.patience].into_iter().flatten().min();
            if timer != slot.timer {
                slot.timer.map(|t| self.timers.remove(&(t, i)));
                timer.map(|t| self.timers.insert((t, i)));
                slot.timer = timer;
            }
        }
        let over = slot.session.as_ref().is_none_or(|s| s.conn.is_over());
        if slot.outcome().is_some() && over && !slot.reported {
            self.retire(i, now)?;
        }
        Ok(())
    }

    fn retire(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        self.sample(i, now)?;
        let slot = &mut self.slots[i];
        slot.reported = true;
        if let Some(session) = &mut slot.session
            && matches!(session.outcome(), Some(Outcome::Tls(_)))
            && session.conn.quic.local_error().is_some()
        {
            let ssl: &mut boring::ssl::SslRef = session.conn.quic.as_mut();
            if let Err(e) = ssl.verify_result() {
                let another = [X509VerifyError::HOSTNAME_MISMATCH, X509VerifyError::IP_ADDRESS_MISMATCH];
                let why = if another.contains(&e) { "it is for another name" } else { e.error_string() };
                session.explain(&format!(", {why}"));
            }
        }
        self.live -= 1;
        slot.timer.take().map(|t| self.timers.remove(&(t, i)));
        for way in slot.ways.drain(..) {
            self.waiter.remove(way.socket.fd()).map_err(Fault::io("epoll"))?;
        }
        // Its part of the memory budget is free again.
        if let Some(session) = &mut slot.session {
            session.conn.windows = None;
        }
        // What did not become whole goes away.
        slot.body = Box::new(Nowhere);
        if let Some(stats) = &mut self.stats {
            let line = EndLine {
                k: "end",
                t_us: self.timebase.us(now),
                side: Side::Client,
                flow: Some(slot.plan.flow),
                conn: i as u64,
                bytes: slot.bytes(),
                reason: slot.outcome().map_or("", Outcome::name).to_owned(),
            };
            stats.line(&json(&line)?)?;
        }
        Ok(())
    }

    fn end_all(&mut self, outcome: &Outcome, now: Instant, touched: &mut Vec<usize>) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.untried.clear();
            match &mut slot.session {
                Some(session) => session.end(outcome.clone(), now),
                None => slot.stillborn = slot.stillborn.take().or_else(|| Some(outcome.clone())),
            }
            touched.push(i);
        }
    }

    fn sample(&mut self, i: usize, now: Instant) -> Result<(), Fault> {
        let Slot { session: Some(session), reported: false, .. } = &mut self.slots[i] else { return Ok(()) };
        let (label, bytes) = (Some(session.plan.flow), session.bytes);
        let sample = session.conn.sample(now, &self.timebase, Side::Client, label, i as u64, bytes);
        if let Some(stats) = &mut self.stats {
            stats.line(&json(&sample)?)?;
        }
        Ok(())
    }

    fn sample_all(&mut self, now: Instant) -> Result<(), Fault> {
        let promised = self.budget.borrow().promised();
        if let Some(events) = &mut self.events
            && self.promised.replace(promised) != Some(promised)
        {
            let Promised { promised_bytes, peak_bytes, budget_bytes } = promised;
            let event = Event::Promised { promised_bytes, peak_bytes, budget_bytes };
            events.line(&event.line(self.timebase.us(now), None).map_err(|e| Fault::new(1, format!("JSON: {e}")))?)?;
        }
        for i in 0..self.slots.len() {
            self.sample(i, now)?;
        }
        for lines in [&mut self.stats, &mut self.events].into_iter().flatten() {
            lines.flush()?;
        }
        Ok(())
    }

    fn progress(&self) -> Option<ProgressBar> {
        if self.args.quiet || !io::stderr().is_terminal() {
            return None;
        }
        let total = match (self.args.duration_s, self.args.bytes) {
            (Some(d), _) => Some(d.as_millis() as u64),
            (None, _) if self.args.requests > 1 => Some(self.tasks()),
            (None, Some(n)) => Some(n * self.slots.len() as u64),
            (None, None) => None,
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() { "{bar:30} {percent:>3} %  {msg}" } else { "{spinner} {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Some(bar)
    }

    fn tasks(&self) -> u64 {
        self.args.requests * self.slots.len() as u64
    }

    fn show(&self, bar: &ProgressBar, elapsed: Duration) {
        let bytes: u64 = self.slots.iter().map(Slot::bytes).sum();
        let ended: u64 = self.slots.iter().flat_map(|s| &s.session).map(|s| s.tally.done + s.tally.failed).sum();
        let many = self.args.requests > 1;
        let position = match (self.args.duration_s, many) {
            (Some(_), _) => elapsed.as_millis() as u64,
            (None, true) => ended,
            (None, false) => bytes,
        };
        let rate = bytes as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-9);
        let mut text = format!("{:.1} MB  {rate:.2} Mbit/s  {} flows left", bytes as f64 * 1e-6, self.live);
        if many {
            text += &format!("  {ended} of {} tasks", self.tasks());
        }
        if let [Slot { session: Some(session), .. }] = &self.slots[..]
            && !self.wanted.is_empty()
        {
            text += &format!("  on {}", session.active_path());
        }
        bar.set_message(text);
        bar.set_position(position);
    }

    fn report(&mut self, start: Instant, end: Instant) -> Result<u8, Fault> {
        let us = |d: Duration| d.as_micros() as u64;
        let mut flows = Vec::new();
        let mut first_failure = None;
        for slot in &self.slots {
            let outcome = slot.outcome().cloned().unwrap_or(Outcome::Interrupted);
            if outcome.exit_code() != 0 {
                let colon = if outcome.detail().is_empty() { "" } else { ": " };
                let detail = printable(outcome.detail());
                eprintln!("weir-client: flow {}: {}{colon}{detail}", slot.plan.flow, outcome.name());
                first_failure.get_or_insert(outcome.exit_code());
            }
            let (elsewhere_tasks, followed) = slot.session.as_ref().map_or((0, false), Session::answered_elsewhere);
            if let Some(session) = slot.session.as_ref().filter(|_| followed) {
                eprintln!(
                    "weir-client: flow {}: {} answers on one path whichever it is asked on; the connection stayed on \
                     that ({} in the end)",
                    slot.plan.flow,
                    slot.plan.authority,
                    session.active_path()
                );
            }
            let opened = slot.session.as_ref().map(|f| f.conn.opened);
            let since = |t: Option<Instant>| opened.and_then(|o| t.map(|t| us(t.saturating_duration_since(o))));
            let stats = slot.session.as_ref().map(|f| f.conn.quic.stats());
            let path = slot.session.as_ref().and_then(|f| f.conn.quic.path_stats().next());
            let duration_us = since(slot.session.as_ref().and_then(|f| f.ended)).unwrap_or(0);
            let paths = slot.session.as_ref().map_or(&[][..], Session::path_tallies);
            let ecn = slot.session.as_ref().map(|f| f.conn.ecn).unwrap_or_default();
            flows.push(FlowReport {
                flow: slot.plan.flow,
                url: format!("https://{}{}", slot.plan.authority, slot.plan.path),
                server: slot.target.addr.to_string(),
                start_us: us(slot.start.duration_since(start)),
                duration_us,
                bytes: slot.bytes(),
                goodput_bit_s: rate_bit_s(slot.bytes(), duration_us),
                handshake_us: since(slot.session.as_ref().and_then(|f| f.conn.established)),
                first_byte_us: since(slot.session.as_ref().and_then(|f| f.first_byte)),
                rtt_min_us: path.as_ref().and_then(|p| p.min_rtt).map(us),
                rtt_mean_us: slot.session.as_ref().and_then(|f| f.conn.rtt.mean_us()),
                sent_packets: stats.as_ref().map_or(0, |s| s.sent as u64),
                recv_packets: stats.as_ref().map_or(0, |s| s.recv as u64),
                lost_packets: stats.as_ref().map_or(0, |s| s.lost as u64),
                retx_bytes: stats.as_ref().map_or(0, |s| s.stream_retrans_bytes),
                ce_packets: ecn.ce,
                ect0_packets: ecn.ect0,
                paths: paths.iter().map(|(name, tally)| PathReport::new(name, tally)).collect(),
                answers: AnswerReport { elsewhere_tasks, followed },
                cid: slot.session.as_ref().and_then(Session::cid_budget).map(Into::into),
                tasks: TaskReport::new(
                    slot.plan.tasks,
                    slot.session.as_ref().map_or(&Tally::default(), |s| &s.tally),
                    self.choice.tct_limit,
                ),
                exit: outcome.name(),
                detail: outcome.detail().to_owned(),
            });
        }
        let bytes = flows.iter().map(|f| f.bytes).sum();
        let duration_us = us(end.duration_since(start));
        let total = TotalReport {
            flows: flows.len() as u64,
            failed: self.slots.iter().filter(|s| s.outcome().is_none_or(|o| o.exit_code() != 0)).count() as u64,
            bytes,
            duration_us,
            goodput_bit_s: rate_bit_s(bytes, duration_us),
            lost_packets: flows.iter().map(|f| f.lost_packets).sum(),
            retx_bytes: flows.iter().map(|f| f.retx_bytes).sum(),
            ce_packets: flows.iter().map(|f| f.ce_packets).sum(),
            local_drops: self.send.dropped,
            promised_peak_bytes: self.budget.borrow().promised().peak_bytes,
        };
        let (alpn, cc) = (self.args.alpn.to_string(), self.args.common.cc.to_string());
        let recv_buffer =
            RecvBuffer { asked_bytes: self.args.common.socket_buffer, granted_bytes: self.recv_buffer_bytes };
        let report = Report { k: "weir-client", alpn, cc, upload: self.args.upload, recv_buffer, flows, total };
        let text = if self.args.json { json(&report)? } else { report.table() };
        let text = format!("{text}\n");
        if self.args.output.as_deref() == Some(Path::new("-")) {
            eprint!("{text}");
        } else {
            io::Write::write_all(&mut io::stdout(), text.as_bytes()).map_err(Fault::io("standard output"))?;
        }
        Ok(first_failure.unwrap_or(0))
    }
}

/// What a socket's error means to its flow. Once a connection is up nothing: anyone on the way can send an ICMP
/// message, so QUIC does not believe them (RFC 9000 14.2.1) and goes by its own timers.
fn connection_trouble(session: &mut Session, e: &io::Error, now: Instant) {
    if session.conn.established.is_none() {
        let text = format!("{}: {e}", session.plan.authority);
        session.end(Outcome::Connect(text), now);
    }
}

/// Writes down what a session decided.
fn write_events(session: &mut Session, out: &mut Option<LineWriter>, timebase: &Timebase) -> Result<(), Fault> {
    let flow = Some(session.plan.flow);
    for (at, event) in session.take_events() {
        if let Some(out) = out {
            out.line(&event.line(timebase.us(at), flow).map_err(|e| Fault::new(1, format!("JSON: {e}")))?)?;
        }
        session.conn.log(&event);
    }
    Ok(())
}

/// Families that the socket options leave.
fn families(args: &Args) -> Families {
    match args.bind {
        Some(ip) => Families { v4: ip.is_ipv4(), v6: ip.is_ipv6(), option: format!("--bind {ip}"), code: USAGE },
        None => Families { v4: true, v6: true, option: String::new(), code: USAGE },
    }
}

/// A random number.
fn random() -> Result<u64, Fault> {
    let mut bytes = [0; 8];
    boring::rand::rand_bytes(&mut bytes).map_err(|e| Fault::new(1, format!("no random numbers: {e}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A random share of a whole, from 0 to just below 1.
fn random_share() -> Result<f64, Fault> {
    let mut bytes = [0; 4];
    boring::rand::rand_bytes(&mut bytes).map_err(|e| Fault::new(1, format!("no random numbers: {e}")))?;
    Ok(f64::from(u32::from_ne_bytes(bytes)) / 2f64.powi(32))
}

fn json(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|e| Fault::new(1, format!("JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::CONNECT;
    use clap::CommandFactory;
    use proptest::prelude::*;

    fn args(line: &str) -> Args {
        Args::try_parse_from(line.split_whitespace()).unwrap()
    }

    fn to(url: &str, args: &Args) -> Result<Target, Fault> {
        target(url, args, &families(args))
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn paths_follow_from_the_options() {
        let path = |line: &str| to("https://127.0.0.1:4433", &args(line)).map(|t| t.path);
        assert_eq!(path("c u --bytes 10kB").unwrap(), "/bytes/10000");
        assert_eq!(path("c u --duration-s 3").unwrap(), "/bytes/unlimited");
        assert_eq!(path("c u --upload --bytes 1").unwrap(), "/upload");
        assert_eq!(path("c u").unwrap_err().code, USAGE);
        let t = to("https://[::1]/a/b?c=d", &args("c u")).unwrap();
        assert_eq!((t.path.as_str(), t.authority.as_str()), ("/a/b?c=d", "[::1]:443"));
        assert_eq!(t.addr, "[::1]:443".parse().unwrap());
    }

    #[test]
    fn a_url_that_is_none_says_what_would_be() {
        for bad in ["", "x", "http://h/", "https://", "https://u@h/x", "https://h:99999/x", "https://h/x#y"] {
            let e = to(bad, &args("c u")).unwrap_err();
            assert!(e.code == USAGE && e.text.contains("expected https://"), "{bad}: {e}");
        }
        assert_eq!(to("https://no-such-host.invalid/x", &args("c u")).unwrap_err().code, CONNECT);
        assert_eq!(to("https://h/x", &args("c u --connect nowhere")).unwrap_err().code, USAGE);
        assert_eq!(to("https://[::1]/x", &args("c u --bind 127.0.0.1")).unwrap_err().code, USAGE);
    }

    proptest! {
        #[test]
        fn any_text_as_a_url(s in "\\PC{0,60}") {
            let a = args("c u --connect 127.0.0.1:1");
            for text in [s.clone(), format!("https://{s}"), format!("https://h/{s}")] {
                if let Ok(t) = to(&text, &a) {
                    prop_assert!(t.path.starts_with('/') && t.path.is_ascii() && !t.path.contains(char::is_whitespace));
                }
            }
        }
    }
}
