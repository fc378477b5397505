// SPDX-License-Identifier: Apache-2.0
//! A real client and a real server in one process, over a wire with a rate and a delay, in virtual time: this file
//! stands before the C library's `clock_gettime`, so that `Instant::now`, which quiche calls, gives the time of the
//! wire. Each thread has its own.

// Not every test that includes this file needs all of it.
#![allow(dead_code)]

use quiche::hooks::Codepoint;
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;

thread_local! {
    static NOW_NS: Cell<i64> = const { Cell::new(1_000_000_000_000) };
}

/// Stands before the C library's function.
///
/// # Safety
/// `t` must be null or point at room for a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: libc::clockid_t, t: *mut libc::timespec) -> libc::c_int {
    match NOW_NS.try_with(Cell::get) {
        Ok(ns) if id == libc::CLOCK_MONOTONIC && !t.is_null() => {
            // SAFETY: not null, and the caller's promise.
            unsafe { t.write(libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }) };
            0
        }
        // SAFETY: same arguments, same meaning.
        _ => unsafe { libc::syscall(libc::SYS_clock_gettime, id, t) as libc::c_int },
    }
}

/// Moves this thread's clock on.
pub fn advance_to(time: Instant) {
    let by = time.saturating_duration_since(Instant::now());
    NOW_NS.set(NOW_NS.get() + by.as_nanos() as i64);
}

pub fn client_addr() -> SocketAddr {
    "192.0.2.1:1000".parse().unwrap()
}

pub fn server_addr() -> SocketAddr {
    "192.0.2.2:4433".parse().unwrap()
}

/// A config of either side, with a certificate made for the occasion.
pub fn config() -> quiche::Config {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut name = boring::x509::X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "weir").unwrap();
    let name = name.build();
    let mut cert = X509::builder().unwrap();
    cert.set_version(2).unwrap();
    cert.set_subject_name(&name).unwrap();
    cert.set_issuer_name(&name).unwrap();
    cert.set_pubkey(&key).unwrap();
    cert.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    cert.set_not_after(&Asn1Time::days_from_now(10).unwrap()).unwrap();
    cert.sign(&key, MessageDigest::sha256()).unwrap();
    let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    tls.set_private_key(&key).unwrap();
    tls.set_certificate(&cert.build()).unwrap();
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
    config.set_application_protos(&[b"weir"]).unwrap();
    config.verify_peer(false);
    config.set_max_idle_timeout(120_000);
    config.set_initial_max_data(64 * 1024);
    config.set_initial_max_stream_data_bidi_local(64 * 1024);
    config.set_initial_max_stream_data_bidi_remote(64 * 1024);
    config.set_initial_max_streams_bidi(100);
    config.set_max_recv_udp_payload_size(1350);
    config.set_max_send_udp_payload_size(1350);
    config
}

/// Sending function of a client: [`quiche::Connection::send`], or with a rule.
pub type Send<'a> = dyn FnMut(&mut quiche::Connection, &mut [u8]) -> quiche::Result<(usize, quiche::SendInfo)> + 'a;

/// The two ends and the wire between them. The server answers a request of `n` (text, then the end of the stream) with
/// `n` bytes.
pub struct Pair {
    pub client: quiche::Connection,
    pub server: quiche::Connection,
    pub delay: Duration,
    /// The client's packets take so much longer.
    pub more_delay_up: Duration,
    pub rate_bit_s: u64,
    /// Payload that the client has read.
    pub read_bytes: u64,
    pub finished_streams: u64,
    /// The round-trip time that the server measured last.
    pub server_sample: Option<quiche::hooks::RttSample>,
    /// Each packet of this number from the client after the handshake is lost; none by default.
    pub lose_up_every: Option<u64>,
    /// Passage of a datagram of the server, by number and codepoint: its codepoint on arrival, or none if it is lost.
    pub down_by: fn(u64, Codepoint) -> Option<Codepoint>,
    /// Datagrams that the server sent with each codepoint.
    pub sent_down_with: [u64; 4],
    sent_up: u64,
    down: VecDeque<(Instant, Vec<u8>, Codepoint)>,
    up: VecDeque<(Instant, Vec<u8>, Codepoint)>,
    free: Instant,
    answers: Vec<(u64, u64)>,
}

impl Pair {
    pub fn new(client: &mut quiche::Config, server: &mut quiche::Config, rate_bit_s: u64, delay: Duration) -> Self {
        let cid = |n: u8| quiche::ConnectionId::from_vec(vec![n; 16]);
        let (c, s) = (client_addr(), server_addr());
        Pair {
            client: quiche::connect(Some("weir"), &cid(1), c, s, client).unwrap(),
            server: quiche::accept(&cid(2), None, s, c, server).unwrap(),
            delay,
            more_delay_up: Duration::ZERO,
            rate_bit_s,
            read_bytes: 0,
            finished_streams: 0,
            server_sample: None,
            lose_up_every: None,
            down_by: |_, codepoint| Some(codepoint),
            sent_down_with: [0; 4],
            sent_up: 0,
            down: VecDeque::new(),
            up: VecDeque::new(),
            free: Instant::now(),
            answers: vec![],
        }
    }

    /// Asks for `bytes` on each of `streams`.
    pub fn request(&mut self, streams: impl IntoIterator<Item = u64>, bytes: u64) {
        for id in streams {
            let text = bytes.to_string();
            assert_eq!(self.client.stream_send(id, text.as_bytes(), true), Ok(text.len()));
        }
    }

    /// One step of both ends; the client sends by `send`.
    pub fn turn(&mut self, send: &mut Send) {
        let now = Instant::now();
        let mut buf = [0; 65536];
        while self.down.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, mut packet, codepoint) = self.down.pop_front().unwrap();
            quiche::hooks::received_with(&mut self.client, codepoint);
            let info = quiche::RecvInfo { from: server_addr(), to: client_addr() };
            self.client.recv(&mut packet, info).unwrap();
        }
        while self.up.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, mut packet, codepoint) = self.up.pop_front().unwrap();
            quiche::hooks::received_with(&mut self.server, codepoint);
            let info = quiche::RecvInfo { from: client_addr(), to: server_addr() };
            let (received, sample) = quiche::hooks::with_rtt_sample(|| self.server.recv(&mut packet, info));
            received.unwrap();
            self.server_sample = sample.or(self.server_sample);
        }
        for end in [&mut self.client, &mut self.server] {
            if end.timeout_instant().is_some_and(|t| t <= now) {
                end.on_timeout();
            }
        }
        for id in self.client.readable() {
            while let Ok((n, fin)) = self.client.stream_recv(id, &mut buf) {
                self.read_bytes += n as u64;
                self.finished_streams += u64::from(fin);
            }
        }
        for id in self.server.readable() {
            if let Ok((n, true)) = self.server.stream_recv(id, &mut buf) {
                self.answers.push((id, std::str::from_utf8(&buf[..n]).unwrap().parse().unwrap()));
            }
        }
        for (id, left) in &mut self.answers {
            // Only bytes that fit: quiche reports to the peer each time that it lacks some.
            while *left > 0 && self.server.stream_capacity(*id).is_ok_and(|room| room > 0) {
                let part = (*left).min(16 * 1024) as usize;
                *left -= self.server.stream_send(*id, &buf[..part], part as u64 == *left).unwrap() as u64;
            }
        }
        while let Ok((n, info)) = send(&mut self.client, &mut buf) {
            self.sent_up += 1;
            let lost =
                self.client.is_established() && self.lose_up_every.is_some_and(|k| self.sent_up.is_multiple_of(k));
            if !lost {
                self.up.push_back((now + self.delay + self.more_delay_up, buf[..n].to_vec(), info.ecn));
            }
            assert!(self.up.len() < 100_000, "the client sends without end");
        }
        while let Ok((n, info)) = self.server.send(&mut buf) {
            let number = self.sent_down_with.iter().sum();
            self.sent_down_with[info.ecn as usize] += 1;
            let Some(codepoint) = (self.down_by)(number, info.ecn) else { continue };
            self.free = self.free.max(now) + Duration::from_nanos(n as u64 * 8_000_000_000 / self.rate_bit_s);
            self.down.push_back((self.free + self.delay, buf[..n].to_vec(), codepoint));
            assert!(self.down.len() < 100_000, "the server sends without end");
        }
        for end in [&self.client, &self.server] {
            assert_eq!((end.local_error(), end.peer_error()), (None, None));
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        let arrivals = [&self.up, &self.down].map(|wire| wire.front().map(|(at, ..)| *at));
        let timers = [self.client.timeout_instant(), self.server.timeout_instant()];
        arrivals.into_iter().chain(timers).flatten().min()
    }

    /// Turns until `done`.
    pub fn run(&mut self, send: &mut Send, mut done: impl FnMut(&Pair) -> bool) {
        for _ in 0..100_000 {
            self.turn(send);
            if done(self) {
                return;
            }
            advance_to(self.next().expect("a standstill"));
            assert!(!self.client.is_closed() && !self.server.is_closed());
        }
        panic!(
            "no end: {} bytes read, client {:?}, server {:?}",
            self.read_bytes,
            self.client.stats(),
            self.server.stats()
        );
    }

    /// The handshake, and the client's last word of it.
    pub fn establish(&mut self, send: &mut Send) {
        self.run(send, |p| p.client.is_established() && p.server.is_established());
    }
}

/// [`Send`] without a rule.
pub fn plain(quic: &mut quiche::Connection, out: &mut [u8]) -> quiche::Result<(usize, quiche::SendInfo)> {
    quic.send(out)
}
