// SPDX-License-Identifier: Apache-2.0
//! Options that both programs have, and their meaning for the transport, the sockets and the clock.

use super::fault::{Fault, USAGE};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, ValueEnum};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use weir_core::congestion::{CONTROLS, ControlKind};
use weir_core::connection::EcnMode;
use weir_core::request::{Alpn, parse_size, size_of_at_least};
use weir_core::scone::SconeUse;
use weir_core::transport::{MAX_PAYLOAD_BYTES, Transport};
use weir_io::clock::Clock;
use weir_io::udp::{Offload, SocketOptions};

/// Options of the command line of a program of this version; none after `--help` and `--version`. Ends the process after a
/// mistake.
///
/// # Errors
/// The help or the version can't be written.
pub fn parsed<O: CommandFactory + FromArgMatches>(version: &'static str) -> Result<Option<O>, Fault> {
    parsed_from(version, std::env::args_os())
}

/// The same of this command line.
///
/// # Errors
/// The help or the version can't be written.
pub fn parsed_from<O: CommandFactory + FromArgMatches>(
    version: &'static str,
    line: impl IntoIterator<Item = OsString>,
) -> Result<Option<O>, Fault> {
    match O::command().version(version).try_get_matches_from(line).and_then(|given| O::from_arg_matches(&given)) {
        Ok(options) => Ok(Some(options)),
        Err(e) if e.use_stderr() => e.exit(),
        Err(e) => e.print().and_then(|()| io::stdout().flush()).map(|()| None).map_err(Fault::io("standard output")),
    }
}

/// Ten datagrams: with less, most bursts would be lost.
const LEAST_SOCKET_BUFFER_BYTES: u64 = 16 << 10;

fn socket_buffer(text: &str) -> Result<u64, String> {
    size_of_at_least(text, LEAST_SOCKET_BUFFER_BYTES).map_err(|e| e.to_string())
}

/// The congestion controls there are, with the help text of each.
fn controls() -> impl TypedValueParser<Value = ControlKind> {
    let values = CONTROLS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.help));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<ControlKind>())
}

fn varint_size(text: &str) -> Result<u64, String> {
    // RFC 9000 16: the range of a transport parameter.
    const MAX: u64 = (1 << 62) - 1;
    match parse_size(text).map_err(|e| e.to_string())? {
        0 => Err("a window of 0 bytes stops every transfer: expected at least 1".to_owned()),
        n if n > MAX => Err(format!("{n} bytes is more than a window can be: expected at most {MAX}")),
        n => Ok(n),
    }
}

/// Segmentation offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gso {
    /// Where the kernel and the route support it.
    Auto,
    /// Required: fail where the kernel lacks it.
    On,
    /// One datagram per packet.
    Off,
}

/// ECN of the packets sent (RFC 9000 13.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ecn {
    /// l4s for a congestion control of L4S, else classic.
    Auto,
    /// Not-ECT; received codepoints are not reported either.
    Off,
    /// ECT(0): CE is a sign of congestion, as a lost packet is.
    Classic,
    /// ECT(1), for queues of L4S (RFC 9331).
    L4s,
}

/// Frequency of clock readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClockReads {
    /// At each call.
    Call,
    /// Once per event-loop iteration.
    Turn,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

/// Transport, socket and statistics options.
#[derive(Debug, Clone, Args)]
pub struct CommonOptions {
    /// Congestion control of this program's packets: the server's counts for downloads, the client's for uploads
    #[arg(long, value_parser = controls(), default_value = CONTROLS[0].name, help_heading = "Transport")]
    pub cc: ControlKind,
    /// Weights of the policy of --cc pbq or pbq-paper, in place of the built-in ones. none: plain BBR
    #[arg(long, value_name = "FILE", help_heading = "Transport")]
    pub cc_weights: Option<PathBuf>,
    /// Add noise to the policy's actions, drawn by this seed: for training
    #[arg(long, value_name = "SEED", help_heading = "Transport")]
    pub cc_explore: Option<u64>,
    /// Let another program decide on the first connection, by files in this folder: for training. If it gives no answer
    /// in half of --idle-timeout-ms, the connection runs plain BBR (with --clock turn it may take as long as it likes)
    #[arg(long, value_name = "DIR", conflicts_with = "cc_explore", help_heading = "Transport")]
    pub cc_agent: Option<PathBuf>,
    /// Write the policy's inputs and actions into this folder, a file for each connection: for training
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub cc_trajectories: Option<PathBuf>,
    /// Use HyStart++ with reno and cubic
    #[arg(long, value_enum, default_value = "on", help_heading = "Transport")]
    pub hystart: Switch,
    /// Say with acknowledgements when they were sent, to a peer that asks (TIMESTAMP frames, draft-huitema-quic-ts), and ask
    /// for it with --cc pbq: it can then tell queues on the way of its packets from queues on the way back
    #[arg(long, value_enum, default_value = "on", help_heading = "Transport")]
    pub timestamps: Switch,
    /// Throughput advice of the network (SCONE, draft-ietf-scone-protocol): report it, or follow it, with which a client
    /// keeps its downloads to the advised rate
    #[arg(long, value_parser = PossibleValuesParser::new(["off", "report", "follow"]).try_map(|name| name.parse::<SconeUse>()),
          default_value = "off", help_heading = "Transport")]
    pub scone: SconeUse,
    /// Largest UDP payload to send, in bytes (1200 to 16383). A path begins at 1200 and is probed for more (RFC 8899)
    #[arg(long, default_value_t = 1350, value_parser = clap::value_parser!(u16).range(1200..=MAX_PAYLOAD_BYTES as i64),
          help_heading = "Transport")]
    pub max_payload: u16,
    /// Initial congestion window, in packets
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000),
          help_heading = "Transport")]
    pub initial_window_packets: u32,
    /// Initial receive window of a stream, in bytes (units: kB, MB, KiB, MiB)
    #[arg(long, visible_alias = "max-stream-data", default_value = "1MiB", value_parser = varint_size,
          value_name = "BYTES", help_heading = "Transport")]
    pub stream_window: u64,
    /// Largest receive window of a stream that the window rule may set
    #[arg(long, default_value = "16MiB", value_parser = varint_size, value_name = "BYTES",
          help_heading = "Transport")]
    pub max_stream_window: u64,
    /// Initial receive window of the connection, in bytes
    #[arg(long, visible_alias = "max-data", default_value = "1536KiB", value_parser = varint_size,
          value_name = "BYTES", help_heading = "Transport")]
    pub conn_window: u64,
    /// Largest receive window of the connection that the window rule may set
    #[arg(long, default_value = "24MiB", value_parser = varint_size, value_name = "BYTES",
          help_heading = "Transport")]
    pub max_conn_window: u64,
    /// Give up a connection after this time without a packet
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000),
          value_name = "MS", help_heading = "Transport")]
    pub idle_timeout_ms: u64,
    /// Segmentation offload (GSO and GRO). Use off to study queues on this machine
    #[arg(long, value_enum, default_value = "auto", help_heading = "Sockets")]
    pub gso: Gso,
    /// ECN of the packets sent, on paths and with peers that support it
    #[arg(long, value_enum, default_value = "auto", help_heading = "Transport")]
    pub ecn: Ecn,
    /// Size of each socket's send buffer and receive buffer, 16KiB at least
    #[arg(long, default_value = "4MiB", value_parser = socket_buffer, value_name = "BYTES", help_heading = "Sockets")]
    pub socket_buffer: u64,
    /// Read the clock at each call, or once per turn of the event loop. turn is faster where each reading is a system
    /// call, as in User-Mode Linux
    #[arg(long, value_enum, default_value = "call", help_heading = "Sockets")]
    pub clock: ClockReads,
    /// Write samples to this file, one JSON object a line for each flow and interval (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub stats: Option<PathBuf>,
    /// Interval between the samples of a flow
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000),
          value_name = "MS", help_heading = "Results")]
    pub stats_every_ms: u64,
    /// Write a qlog file for each connection into this folder
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub qlog_dir: Option<PathBuf>,
}

impl CommonOptions {
    /// The transport's options.
    ///
    /// # Errors
    /// An initial window that is larger than its limit.
    pub fn transport(&self, alpn: Vec<Alpn>) -> Result<Transport, Fault> {
        for (what, start, max) in
            [("stream", self.stream_window, self.max_stream_window), ("conn", self.conn_window, self.max_conn_window)]
        {
            if start > max {
                let text = format!("--{what}-window {start} is above --max-{what}-window {max}: raise the latter too");
                return Err(Fault::new(USAGE, text));
            }
        }
        Ok(Transport {
            alpn,
            cc: self.cc,
            hystart: self.hystart == Switch::On,
            timestamps: self.timestamps == Switch::On,
            scone: self.scone,
            max_payload_bytes: self.max_payload.into(),
            initial_window_packets: self.initial_window_packets as usize,
            stream_window_bytes: self.stream_window,
            max_stream_window_bytes: self.max_stream_window,
            conn_window_bytes: self.conn_window,
            max_conn_window_bytes: self.max_conn_window,
            idle_timeout: Duration::from_millis(self.idle_timeout_ms),
        })
    }

    /// The sockets' options.
    pub fn sockets(&self) -> SocketOptions {
        let offload = match self.gso {
            Gso::Auto => Offload::Auto,
            Gso::On => Offload::On,
            Gso::Off => Offload::Off,
        };
        let buffer_bytes = usize::try_from(self.socket_buffer).unwrap_or(usize::MAX);
        SocketOptions { buffer_bytes, offload, device: None }
    }

    /// Use of ECN.
    pub fn ecn(&self) -> EcnMode {
        match self.ecn {
            Ecn::Off => EcnMode::Off,
            Ecn::L4s => EcnMode::L4s,
            Ecn::Auto if self.cc.l4s => EcnMode::L4s,
            Ecn::Auto | Ecn::Classic => EcnMode::Classic,
        }
    }

    /// The clock's option.
    pub fn clock(&self) -> Clock {
        match self.clock {
            ClockReads::Call => Clock::PerCall,
            ClockReads::Turn => Clock::PerTurn,
        }
    }

    /// Interval of samples.
    pub fn stats_every(&self) -> Duration {
        Duration::from_millis(self.stats_every_ms)
    }
}
