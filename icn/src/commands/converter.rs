// SPDX-License-Identifier: Apache-2.0
//! Common parts of the two converters: options, output of a core, the report.

use super::options::{complain, to_json};
use crate::face::{Face, FaceCounts, PacketSocket, Sending};
use crate::names::{Name, NameError};
use crate::packet::Header;
use crate::qvdp::{Config, Counts, DEFAULT_BETA, Ecn, MAX_DATAGRAM_BYTES, Sink};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_io::fault::{Fault, IO, USAGE};
use weir_io::lines::LineLog;
use weir_io::udp::{Offload, SocketOptions};
use weir_io::wait::{Signals, Waiter};

/// Tokens of a wait; larger ones are the command's own.
pub(super) const SIGNALS: u64 = 0;
pub(super) const FACE: u64 = 1;
pub(super) const FIRST_SOCKET: u64 = 2;

/// Size of a UDP socket's buffers.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Bits of the TOS or traffic class byte (RFC 3168 5).
const TOS_ECN: u8 = 3;
const TOS_ECT0: u8 = 2;

#[derive(Debug, Clone, Args)]
pub(super) struct ConverterOptions {
    /// The interface that leads to the switch (or straight to the other side)
    #[arg(long, value_name = "IF")]
    pub(super) interface: String,
    /// Ask again for what is lost, and give datagrams to the program in order. To be given on both sides. Without it QUIC
    /// repairs its own losses
    #[arg(long)]
    reliable: bool,
    /// After how many response times an Interest is asked again (1 to 100)
    #[arg(long, default_value_t = DEFAULT_BETA, value_parser = beta, value_name = "NUMBER")]
    beta: f64,
    /// Notice a loss by the time alone, not by later datagrams that came
    #[arg(long)]
    no_gaps: bool,
    /// Print the report at the end as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a report each second to this file, one JSON object a line (- for standard output)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

fn beta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(beta) if (1.0..=100.0).contains(&beta) => Ok(beta),
        _ => Err(format!("expected a number from 1 to 100, as {DEFAULT_BETA}")),
    }
}

impl ConverterOptions {
    pub(super) fn config(&self) -> Config {
        Config { reliable: self.reliable, beta: self.beta, gaps: !self.no_gaps }
    }
}

/// A name on the command line.
pub(super) fn name(text: &str) -> Result<Name, NameError> {
    Name::new(text)
}

/// A name that is too long for those below it.
pub(super) fn too_long(e: NameError) -> Fault {
    Fault::new(USAGE, format!("a session's name is below the one given, and too long: {e}"))
}

pub(super) fn socket_options() -> SocketOptions {
    SocketOptions { buffer_bytes: SOCKET_BUFFER_BYTES, offload: Offload::Auto, device: None }
}

/// The codepoint in a TOS or traffic class byte. ECT(1) becomes ECT(0): names carry one bit.
pub(super) fn ecn_of(tos: u8) -> Ecn {
    match tos & TOS_ECN {
        0 => Ecn::Off,
        3 => Ecn::Ce,
        _ => Ecn::Ect,
    }
}

fn tos_of(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::Off => 0,
        Ecn::Ect => TOS_ECT0,
        Ecn::Ce => TOS_ECN,
    }
}

/// Datagrams of a core for programs, until they leave at the end of an event-loop iteration: end to end, since they are
/// sent from there.
pub(super) struct Datagrams<A> {
    each: Vec<(A, usize, u8)>,
    bytes: Vec<u8>,
}

impl<A: Copy + PartialEq> Datagrams<A> {
    pub(super) fn new() -> Datagrams<A> {
        Datagrams { each: Vec::new(), bytes: Vec::new() }
    }

    pub(super) fn push(&mut self, application: A, bytes: &[u8], ecn: Ecn) {
        debug_assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
        self.each.push((application, bytes.len(), tos_of(ecn)));
        self.bytes.extend_from_slice(bytes);
    }

    /// Hands them to `give`, those that follow each other to one application together: their bytes, and the length and TOS
    /// byte of each.
    pub(super) fn empty(&mut self, mut give: impl FnMut(A, &[u8], &mut dyn Iterator<Item = (usize, u8)>)) {
        let mut rest = &self.bytes[..];
        for run in self.each.chunk_by(|a, b| a.0 == b.0) {
            let (bytes, behind) = rest.split_at(run.iter().map(|(_, len, _)| len).sum());
            give(run[0].0, bytes, &mut run.iter().map(|(_, len, tos)| (*len, *tos)));
            rest = behind;
        }
        self.each.clear();
        self.bytes.clear();
    }
}

/// Where a core's output goes in an iteration: packets into the interface's next batch, datagrams until its end.
pub(super) struct Out<'a, A> {
    pub(super) packets: &'a mut Sending,
    pub(super) datagrams: &'a mut Datagrams<A>,
}

impl<A: Copy + PartialEq> Sink<A> for Out<'_, A> {
    fn packet(&mut self, header: &Header, payload: &[u8]) {
        self.packets.push(header, payload);
    }

    fn datagram(&mut self, application: A, bytes: &[u8], ecn: Ecn) {
        self.datagrams.push(application, bytes, ecn);
    }
}

#[derive(Serialize)]
struct Report {
    seconds: f64,
    #[serde(flatten)]
    counts: Counts,
    face: FaceCounts,
}

/// The frame of both converters: the face, the wait, signals and reports.
pub(super) struct Converter {
    pub(super) face: PacketSocket,
    pub(super) waiter: Waiter,
    signals: Signals,
    options: ConverterOptions,
    stats: Option<LineLog>,
    started: Instant,
    report_at: Option<Instant>,
}

const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Converter {
    pub(super) fn open(options: &ConverterOptions) -> Result<Converter, Fault> {
        let face = PacketSocket::open(&options.interface).map_err(|e| Fault::new(IO, e.to_string()))?;
        let signals = Signals::catch().map_err(Fault::io("signals"))?;
        let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
        waiter.add(signals.fd(), SIGNALS)?;
        waiter.add(face.fd(), FACE)?;
        let stats = options.stats.as_deref();
        let stats = stats.map(|path| LineLog::create("--stats", path, complain)).transpose()?;
        let started = Instant::now();
        let report_at = stats.is_some().then(|| started + REPORT_EVERY);
        Ok(Converter { face, waiter, signals, options: options.clone(), stats, started, report_at })
    }

    /// Waits until something is to do, at the latest at this time.
    pub(super) fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<u64>) -> Result<Instant, Fault> {
        let deadline = deadline.into_iter().chain(self.report_at).min();
        self.waiter.wait(Instant::now(), deadline, ready)?;
        Ok(Instant::now())
    }

    /// Whether a signal asks for the end.
    pub(super) fn is_asked_to_end(&self) -> bool {
        self.signals.take().is_some()
    }

    fn report(&self, counts: &Counts, now: Instant) -> Report {
        let seconds = now.saturating_duration_since(self.started).as_secs_f64();
        Report { seconds, counts: *counts, face: self.face.counts() }
    }

    /// Writes a line of statistics if it is time. Where that can't be written, what is carried goes on.
    pub(super) fn report_if_due(&mut self, counts: &Counts, now: Instant) -> Result<(), Fault> {
        if self.report_at.is_some_and(|at| at <= now) {
            self.report_at = Some(now + REPORT_EVERY);
            let line = to_json(&self.report(counts, now))?;
            if let Some(stats) = &mut self.stats {
                stats.line(&line);
                stats.flush();
            }
        }
        Ok(())
    }

    /// The report at the end. Returns the exit code.
    pub(super) fn end(mut self, counts: &Counts) -> Result<u8, Fault> {
        let mut line = to_json(&self.report(counts, Instant::now()))?;
        let whole = self.stats.take().is_none_or(|mut stats| {
            stats.line(&line);
            stats.finish()
        });
        if !self.options.json {
            line = format!(
                "{} sessions, {} datagrams from programs ({} waited, {} dropped), {} to programs; {} segments lost",
                counts.sessions_opened,
                counts.datagrams_taken,
                counts.datagrams_waited,
                counts.datagrams_dropped,
                counts.datagrams_given,
                counts.segments_lost,
            );
        }
        writeln!(std::io::stdout(), "{line}").map_err(Fault::io("standard output"))?;
        Ok(if whole { 0 } else { IO })
    }
}
