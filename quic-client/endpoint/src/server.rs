// SPDX-License-Identifier: Apache-2.0
//! `weir-server`: all connections on one socket, one thread, one wait per turn.

use crate::args::{Common, QlogFile, new_cid, new_reset_token};
use crate::fault::{Fault, IO, USAGE};
use crate::log::{LineLog, Qlogs};
use crate::retry::Tokens;
use boring::ssl::{SslContextBuilder, SslMethod};
use clap::{Parser, ValueEnum};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_core::admission::{
    Admission, Invariants, LEAST_FIRST_DCID_BYTES, LEAST_INITIAL_BYTES, Limits, RetryPolicy, Source, Verdict,
};
use weir_core::conn::{Conn, Failure, PacketSink};
use weir_core::request::{Alpn, NO_ERROR};
use weir_core::sample::{EndLine, Side, Ticker, Timebase};
use weir_core::server::{CidChange, Session};
use weir_core::transport::{CID_BYTES, CID_LIMIT};
use weir_io::cert::{self, Identity};
use weir_io::udp::{Meta, RecvBatch, SendBatch, UdpSocket};
use weir_io::wait::{Signals, Waiter, moment};

/// RFC 9000 20.1.
const PROTOCOL_VIOLATION: u64 = 0xa;

/// Serves bulk transfers over QUIC, HTTP/3 or hq-interop as the client chooses: GET /bytes/N (or /bytes/unlimited)
/// and POST /upload.
///
/// Prints "listening ADDRESS:PORT" on standard output when it is ready. SIGINT and SIGTERM close all connections and
/// end it with exit code 0. Other exit codes: 2 usage; 8 file or socket error, also when it ends and --stats or
/// --qlog-dir could not be written whole (it serves on until then).
#[derive(Debug, Parser)]
#[command(version, name = "weir-server")]
pub struct Args {
    /// Address and port to listen on (port 0: any free one)
    #[arg(long, default_value = "0.0.0.0:4433", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Certificate chain, PEM (together with --key)
    #[arg(long, requires = "key", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key, PEM
    #[arg(long, requires = "cert", value_name = "FILE")]
    key: Option<PathBuf>,
    /// Folder that keeps the certificate made on first use [default: weir in XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "ephemeral"])]
    state_dir: Option<PathBuf>,
    /// Make a certificate for this run only and write it nowhere
    #[arg(long, conflicts_with = "cert")]
    ephemeral: bool,
    /// Host name or address that a certificate made by us is for, repeatable, beside localhost, 127.0.0.1, ::1 and
    /// the address listened on
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Connection IDs in use at most, on either side of a connection: a client needs one for each path (2 to 64)
    #[arg(long, default_value_t = CID_LIMIT, value_parser = clap::value_parser!(u64).range(2..=64), value_name = "N",
          help_heading = "Transport")]
    max_cids: u64,
    /// Tell clients that they must not migrate (disable_active_migration)
    #[arg(long, help_heading = "Transport")]
    forbid_migration: bool,
    /// Ask clients to show that their address is their own before anything is kept for them (Retry): a round trip more.
    /// Auto: under load, see --retry-above
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Limits")]
    retry: Retry,
    /// The load from which --retry auto does so: handshakes from addresses not shown to be their own that are
    /// unfinished, or were begun within a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N",
          help_heading = "Limits")]
    retry_above: u32,
    /// Connections at once; one more is refused (transport code 0x2)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          value_name = "N", help_heading = "Limits")]
    max_connections: u32,
    /// The same for one source: an IPv4 address, or the /64 of an IPv6 one
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          value_name = "N", help_heading = "Limits")]
    max_connections_per_source: u32,
    #[command(flatten)]
    common: Common,
}

/// When to send Retry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Retry {
    /// Under load.
    Auto,
    /// For each connection.
    Always,
    /// Not at all.
    Never,
}

impl Args {
    fn limits(&self) -> Limits {
        Limits {
            retry: match self.retry {
                Retry::Auto => RetryPolicy::Auto,
                Retry::Always => RetryPolicy::Always,
                Retry::Never => RetryPolicy::Never,
            },
            retry_above: self.retry_above,
            connections: self.max_connections,
            connections_per_source: self.max_connections_per_source,
        }
    }
}

fn identity(args: &Args) -> Result<Identity, Fault> {
    let fault = |e: cert::CertError| Fault::new(IO, e.to_string());
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        return cert::load(cert, key).map_err(fault);
    }
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    if !args.listen.ip().is_unspecified() {
        names.push(args.listen.ip().to_string());
    }
    names.extend(args.name.iter().cloned());
    names.dedup();
    if args.ephemeral {
        return cert::make(&names).map_err(fault);
    }
    let dir = match &args.state_dir {
        Some(dir) => dir.clone(),
        None => {
            // XDG Base Directory Specification: relative values are to be ignored.
            let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
            absolute("XDG_STATE_HOME")
                .or_else(|| absolute("HOME").map(|h| h.join(".local/state")))
                .map(|d| d.join("weir"))
                .ok_or_else(|| {
                    let text = "no place for the certificate: set HOME or XDG_STATE_HOME, or give --state-dir, \
                                --ephemeral, or --cert and --key";
                    Fault::new(USAGE, text)
                })?
        }
    };
    cert::load_or_make(&dir, &names).map_err(fault)
}

fn config(args: &Args) -> Result<quiche::Config, Fault> {
    let inner = |e: boring::error::ErrorStack| Fault::new(1, format!("TLS library: {e}"));
    let identity = identity(args)?;
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(inner)?;
    let mut chain = identity.chain.iter();
    if let Some(leaf) = chain.next() {
        ctx.set_certificate(leaf).map_err(inner)?;
    }
    for cert in chain {
        ctx.add_extra_chain_cert(cert.clone()).map_err(inner)?;
    }
    ctx.set_private_key(&identity.key).map_err(inner)?;
    let quic = |e: quiche::Error| Fault::new(1, format!("QUIC library: {e}"));
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).map_err(quic)?;
    args.common.transport(vec![Alpn::H3, Alpn::Hq])?.apply(&mut config).map_err(quic)?;
    config.set_active_connection_id_limit(args.max_cids);
    config.set_disable_active_migration(args.forbid_migration);
    Ok(config)
}

struct Entry {
    session: Session,
    cids: Vec<Vec<u8>>,
    timer: Option<Instant>,
    touched: bool,
    qlog: Option<QlogFile>,
    source: Source,
    /// The client showed that its address is its own.
    validated: bool,
    /// Until when the handshake must be done, if it is not.
    handshake_ends: Option<Instant>,
    /// It was not.
    late: bool,
}

impl Entry {
    fn next_timer(&self) -> Option<Instant> {
        [self.session.conn.deadline(), self.handshake_ends].into_iter().flatten().min()
    }
}

/// RFC 9000 20.1: CONNECTION_REFUSED.
const REFUSED: u64 = 0x2;

/// How long the end of the program waits for connections to tell their clients that they are closed: quiche holds even
/// that back while the congestion window is full.
const CLOSING: Duration = Duration::from_secs(1);

const SOCKET: u64 = 0;
const SIGNAL: u64 = 1;

struct Server<'a> {
    args: &'a Args,
    config: quiche::Config,
    // Ordered: the order of sampling and closing must not depend on hashes.
    // Boxed: keys that only grow leave a tree's leaves half empty, and an entry has 9 KB.
    entries: BTreeMap<u64, Box<Entry>>,
    by_cid: HashMap<Vec<u8>, u64>,
    timers: BTreeSet<(Instant, u64)>,
    touched: Vec<u64>,
    next_id: u64,
    closing: bool,
    admission: Admission,
    tokens: Tokens,
    stats: Option<LineLog>,
    qlogs: Qlogs,
    timebase: Timebase,
    scratch: Vec<u8>,
}

/// Runs the program; gives its exit code.
pub fn main() -> Result<u8, Fault> {
    run(&Args::parse())
}

fn run(args: &Args) -> Result<u8, Fault> {
    let config = config(args)?;
    let stats = args.common.stats.as_deref().map(LineLog::create).transpose()?;
    let qlogs = Qlogs::new(&args.common)?;
    let options = args.common.sockets();
    let mut socket =
        UdpSocket::open(args.listen, None, &options).map_err(Fault::io(format!("--listen {}", args.listen)))?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let mut waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    waiter.add(socket.fd(), SOCKET).map_err(Fault::io("epoll"))?;
    waiter.add(signals.fd(), SIGNAL).map_err(Fault::io("epoll"))?;
    let mut out = std::io::stdout();
    writeln!(out, "listening {}", socket.local_addr())
        .and_then(|()| out.flush())
        .map_err(Fault::io("standard output"))?;

    let (start, start_us) = moment();
    let mut server = Server {
        args,
        config,
        entries: BTreeMap::new(),
        by_cid: HashMap::new(),
        timers: BTreeSet::new(),
        touched: Vec::new(),
        next_id: 0,
        closing: false,
        admission: Admission::new(args.limits(), start),
        tokens: Tokens::new(start)?,
        stats,
        qlogs,
        timebase: Timebase::new(start, start_us),
        scratch: vec![0; 1 << 16],
    };
    let mut ticker = Ticker::new(start, args.common.stats_every());
    let mut recv = RecvBatch::new(options.offload);
    let mut send = SendBatch::default();
    let mut ready = Vec::new();
    let clock = args.common.clock();
    let mut closing = None;
    loop {
        // Without connections there is nothing to sample, and no reason to wake.
        let tick = (server.stats.is_some() && !server.entries.is_empty()).then(|| ticker.next());
        let deadline = [server.timers.first().map(|(t, _)| *t), tick, closing].into_iter().flatten().min();
        waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
        let now = clock.turn().map_err(Fault::io("clock"))?;
        let mut stop = false;
        for &token in &ready {
            match token {
                SIGNAL => stop |= signals.take().is_some(),
                _ => server.receive(&mut socket, &mut recv, &mut send, now)?,
            }
        }
        server.fire_timers(now);
        if stop && closing.is_none() {
            server.close_all();
            closing = Some(now + CLOSING);
        }
        server.serve(&mut socket, &mut send, now)?;
        // What the kernel refuses to send is lost like any packet; the connections' own timers notice.
        send.error = None;
        if ticker.due(now) {
            server.sample_all(now)?;
        }
        if closing.is_some_and(|end| end <= now || server.all_said_so()) {
            server.sample_all(now)?;
            return server.end(now);
        }
    }
}

impl Server<'_> {
    fn receive(
        &mut self,
        socket: &mut UdpSocket,
        recv: &mut RecvBatch,
        send: &mut SendBatch,
        now: Instant,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        let mut strangers = Vec::new();
        let received = recv.receive(socket, |bytes, meta| {
            if result.is_ok() {
                result = self.datagram(bytes, meta, now, &mut strangers);
            }
        });
        result?;
        for (reply, meta) in strangers {
            let mut out = send.to(socket);
            out.slot()[..reply.len()].copy_from_slice(&reply);
            out.commit(reply.len(), meta.to, meta.from);
        }
        // An unconnected socket reports no errors of its peers; what it does report is its own end.
        received.map(drop).map_err(Fault::io(format!("socket {}", socket.local_addr())))
    }

    /// Takes in one datagram; `strangers` gets answers that belong to no connection.
    fn datagram(
        &mut self,
        bytes: &mut [u8],
        meta: Meta,
        now: Instant,
        strangers: &mut Vec<(Vec<u8>, Meta)>,
    ) -> Result<(), Fault> {
        if let Some(long) = Invariants::read(bytes)
            && !quiche::version_is_supported(long.version)
        {
            if !self.closing && long.wants_negotiation(bytes.len(), quiche::version_is_supported) {
                strangers.extend(negotiation(&long).map(|reply| (reply, meta)));
            }
            return Ok(());
        }
        let Ok(header) = quiche::Header::from_slice(bytes, CID_BYTES) else { return Ok(()) };
        let initial = header.ty == quiche::Type::Initial;
        // RFC 9000 14.1: a server discards a client's Initial in a smaller datagram, also on a connection it knows.
        if initial && bytes.len() < LEAST_INITIAL_BYTES {
            return Ok(());
        }
        let info = quiche::RecvInfo { from: meta.from, to: meta.to };
        if let Some(id) = self.by_cid.get(header.dcid.as_ref()) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.session.conn.recv(bytes, meta.tos, info);
                if !entry.touched {
                    entry.touched = true;
                    self.touched.push(*id);
                }
            }
            return Ok(());
        }
        // No stateless resets either (RFC 9000 10.3): their tokens would have to outlive what is known of a connection.
        if !initial || self.closing || header.dcid.len() < LEAST_FIRST_DCID_BYTES {
            return Ok(());
        }
        let original = match &header.token {
            Some(token) => self.tokens.check(token, &header.dcid, meta.from, now)?,
            None => None,
        };
        let (source, validated) = (Source::from(meta.from.ip()), original.is_some());
        let verdict = self.admission.judge(source, validated, now);
        match verdict {
            Verdict::Drop => return Ok(()),
            Verdict::Retry => {
                strangers.extend(self.ask_for_address(&header, meta, now)?.map(|reply| (reply, meta)));
                return Ok(());
            }
            Verdict::Accept | Verdict::Refuse => self.admission.began(verdict, validated),
        }
        let scid = new_cid()?;
        let retried = original.as_ref().map(|original| quiche::RetryConnectionIds {
            original_destination_cid: original,
            retry_source_cid: &header.dcid,
        });
        let accepted = match retried {
            Some(ids) => quiche::accept_with_retry(&scid, ids, meta.to, meta.from, &mut self.config),
            None => quiche::accept(&scid, None, meta.to, meta.from, &mut self.config),
        };
        let Ok(mut quic) = accepted else { return Ok(()) };
        if verdict == Verdict::Refuse {
            strangers.extend(refusal(quic, bytes, info).into_iter().map(|reply| (reply, meta)));
            return Ok(());
        }
        let id = self.next_id;
        let qlog = self.qlogs.start(&self.args.common, &mut quic, &format!("server-conn-{id}"));
        let mut conn = Conn::new(quic, now);
        conn.recv(bytes, meta.tos, info);
        // quiche does not count a packet whose handshake failed, but closes for the reason, which the client is told. What
        // could not be decrypted is closed for a protocol violation, like other packets that were not a client's.
        let told = conn.quic.local_error().is_some_and(|e| e.error_code != PROTOCOL_VIOLATION);
        if conn.quic.stats().recv == 0 && !told {
            // Not one packet in it was a client's: there is nobody to answer.
            drop(conn);
            if let Some(qlog) = qlog {
                qlog.discard();
            }
            return Ok(());
        }
        self.qlogs.opened(qlog.as_ref());
        self.next_id += 1;
        let cids = vec![header.dcid.to_vec(), scid.to_vec()];
        for cid in &cids {
            self.by_cid.insert(cid.clone(), id);
        }
        self.admission.opened(source, validated);
        // However often it is heard of, a handshake has no more time than silence has.
        let handshake_ends = Some(now + Duration::from_millis(self.args.common.idle_timeout_ms));
        let session = Session::new(conn, id);
        let entry =
            Entry { session, cids, timer: None, touched: true, qlog, source, validated, handshake_ends, late: false };
        self.entries.insert(id, Box::new(entry));
        self.touched.push(id);
        Ok(())
    }

    /// A Retry packet for a client's first one.
    fn ask_for_address(&self, header: &quiche::Header<'_>, meta: Meta, now: Instant) -> Result<Option<Vec<u8>>, Fault> {
        let scid = new_cid()?;
        let token = self.tokens.make(&header.dcid, &scid, meta.from, now)?;
        let mut reply = vec![0; 256];
        let made = quiche::retry(&header.scid, &header.dcid, &scid, &token, header.version, &mut reply);
        Ok(made.ok().map(|len| {
            reply.truncate(len);
            reply
        }))
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some(&(t, id)) = self.timers.first()
            && t <= now
        {
            self.timers.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.timer = None;
                entry.session.conn.on_deadline(now);
                entry.late = entry.handshake_ends.is_some_and(|end| end <= now);
                if !entry.touched {
                    entry.touched = true;
                    self.touched.push(id);
                }
            }
        }
    }

    fn serve(&mut self, socket: &mut UdpSocket, send: &mut SendBatch, now: Instant) -> Result<(), Fault> {
        for id in std::mem::take(&mut self.touched) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.touched = false;
            entry.session.advance(now, &mut self.scratch);
            let (by_cid, cids) = (&mut self.by_cid, &mut entry.cids);
            entry.session.exchange_cids(
                || Ok::<_, Fault>((new_cid()?, new_reset_token()?)),
                |change| match change {
                    CidChange::Issued(cid) => {
                        by_cid.insert(cid.to_vec(), id);
                        cids.push(cid.to_vec());
                    }
                    CidChange::Retired(cid) => {
                        by_cid.remove(cid.as_ref());
                        cids.retain(|c| c[..] != *cid.as_ref());
                    }
                },
            )?;
            entry.session.conn.pump(now, &mut send.to(socket));
            if entry.session.conn.quic.is_established() {
                entry.handshake_ends = None;
                entry.late = false;
                if !std::mem::replace(&mut entry.validated, true) {
                    self.admission.validated();
                }
            }
            let timer = entry.next_timer();
            if timer != entry.timer {
                entry.timer.map(|t| self.timers.remove(&(t, id)));
                timer.map(|t| self.timers.insert((t, id)));
                entry.timer = timer;
            }
            entry.qlog = self.qlogs.check(entry.qlog.take());
            if entry.session.conn.quic.is_closed() || entry.late {
                self.forget(id, now)?;
            }
        }
        send.flush(socket);
        Ok(())
    }

    fn forget(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        let Some(entry) = self.entries.remove(&id) else { return Ok(()) };
        entry.timer.map(|t| self.timers.remove(&(t, id)));
        for cid in &entry.cids {
            self.by_cid.remove(cid);
        }
        self.admission.closed(entry.source, entry.validated);
        if let Some(stats) = &mut self.stats {
            end_line(stats, &entry, &self.timebase, now)?;
            stats.flush();
        }
        // With it goes the writer of its qlog, which then is complete.
        drop(entry.session);
        self.qlogs.close(entry.qlog);
        Ok(())
    }

    /// Whether every connection that was closed has told its client.
    fn all_said_so(&self) -> bool {
        self.entries.values().all(|e| e.session.conn.quic.is_draining() || e.session.conn.quic.is_closed())
    }

    fn close_all(&mut self) {
        self.closing = true;
        for (id, entry) in &mut self.entries {
            entry.session.conn.close(NO_ERROR, "server going away");
            if !entry.touched {
                entry.touched = true;
                self.touched.push(*id);
            }
        }
    }

    fn sample_all(&mut self, now: Instant) -> Result<(), Fault> {
        let Some(stats) = &mut self.stats else { return Ok(()) };
        for (id, entry) in &mut self.entries {
            let session = &mut entry.session;
            let quic = &session.conn.quic;
            if session.conn.established.is_some() && !quic.is_draining() && !quic.is_closed() {
                let (flow, bytes) = (session.flow, session.bytes);
                let sample = session.conn.sample(now, &self.timebase, Side::Server, flow, *id, bytes);
                stats.line(&json(&sample)?);
            }
        }
        stats.flush();
        Ok(())
    }

    /// The last lines of all that is still there, and what is missing; gives the exit code.
    fn end(mut self, now: Instant) -> Result<u8, Fault> {
        for entry in std::mem::take(&mut self.entries).into_values() {
            if let Some(stats) = &mut self.stats {
                end_line(stats, &entry, &self.timebase, now)?;
            }
            drop(entry.session);
            self.qlogs.close(entry.qlog);
        }
        let stats_whole = self.stats.is_none_or(|mut stats| stats.finish());
        let qlogs_whole = self.qlogs.finish();
        Ok(if stats_whole && qlogs_whole { 0 } else { IO })
    }
}

/// The answer to a version that nobody here speaks.
fn negotiation(asked: &Invariants<'_>) -> Option<Vec<u8>> {
    // What a header takes that has two connection IDs of the largest length there can be, and our versions.
    let mut reply = vec![0; 1024];
    let (scid, dcid) = (quiche::ConnectionId::from_ref(asked.scid), quiche::ConnectionId::from_ref(asked.dcid));
    let len = quiche::negotiate_version(&scid, &dcid, &mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

/// What tells a client that it can't have a connection.
fn refusal(mut quic: quiche::Connection, bytes: &mut [u8], info: quiche::RecvInfo) -> Option<Vec<u8>> {
    quic.recv(bytes, info).ok()?;
    quic.close(false, REFUSED, b"too many connections").ok()?;
    let mut reply = vec![0; LEAST_INITIAL_BYTES];
    let (len, _) = quic.send(&mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

fn end_line(stats: &mut LineLog, entry: &Entry, timebase: &Timebase, now: Instant) -> Result<(), Fault> {
    let session = &entry.session;
    let reason = match session.conn.failure() {
        None if entry.late => "handshake timeout".to_owned(),
        None => "closed by us".to_owned(),
        Some(Failure::Timeout { established }) => if established { "timeout" } else { "handshake timeout" }.to_owned(),
        Some(Failure::Tls { by_peer, alert }) => {
            format!("tls alert {alert} by {}", if by_peer { "client" } else { "us" })
        }
        Some(Failure::Version) => "no version in common".to_owned(),
        Some(Failure::StatelessReset) => "stateless reset".to_owned(),
        Some(Failure::Closed { by_peer: true, code: NO_ERROR, .. }) => "closed by client".to_owned(),
        Some(Failure::Closed { code, reason, by_peer, .. }) => {
            format!("closed by {} with code {code:#x} {reason}", if by_peer { "client" } else { "us" })
        }
    };
    let line = EndLine {
        k: "end",
        t_us: timebase.us(now),
        side: Side::Server,
        flow: session.flow,
        conn: session.id,
        bytes: session.bytes,
        reason,
    };
    stats.line(&json(&line)?);
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|e| Fault::new(1, format!("JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
