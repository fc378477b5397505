// SPDX-License-Identifier: Apache-2.0
//! Sends frames over and over, as fast as an interface takes them or at a rate: the offered load of the benchmarks. The
//! frames that leave the far end are counted by that interface.
use clap::Parser;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_switch::system;

/// Version, with the commit of the sources where the build names it.
const VERSION: &str = match option_env!("WEIR_BUILD") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Sends frames over and over, as fast as an interface takes them, and prints how many it took.
#[derive(Parser)]
#[command(name = "weir-frames", version = VERSION)]
struct Options {
    /// Interface to send on
    #[arg(short, long, value_name = "NAME")]
    interface: String,

    /// A frame, in hexadecimal, without its checksum
    #[arg(long, value_name = "HEX", required_unless_present = "frames", conflicts_with = "frames")]
    frame: Option<String>,

    /// A file of frames that are sent in turn, one a line
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,

    /// Frames a second, evenly; without it as fast as the interface takes them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    per_second: Option<u64>,

    /// Time to send
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|p| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?)).collect::<Option<Vec<_>>>();
    bytes.filter(|b| b.len() >= 14)
}

/// Frames one after the other in a buffer.
struct Frames {
    bytes: Vec<u8>,
    /// Those of one round, and then the first ones again, so that a batch never ends at the end of a round.
    places: Vec<Range<usize>>,
    count: usize,
}

impl Frames {
    fn read(options: &Options) -> Result<Frames, String> {
        let text = match (&options.frame, &options.frames) {
            (Some(frame), _) => frame.clone(),
            (None, Some(path)) => std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?,
            (None, None) => String::new(),
        };
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let frame =
                hex(line).ok_or_else(|| format!("frame {}: not 14 or more bytes in hexadecimal", number + 1))?;
            places.push(bytes.len()..bytes.len() + frame.len());
            bytes.extend(frame);
        }
        let count = places.len();
        if count == 0 {
            return Err("there is no frame to send".into());
        }
        for at in 0..BATCH {
            places.push(places[at].clone());
        }
        Ok(Frames { bytes, places, count })
    }
}

/// Frames a call.
const BATCH: usize = 64;
/// Delay limit of a frame; later ones are skipped, so that a sender that was stopped for long makes no burst.
const LATE_MOST: Duration = Duration::from_millis(1);
/// Sleep of a sender when no frame is due.
const PAUSE: Duration = Duration::from_micros(50);

/// Schedule of frames.
struct Pace {
    per_second: u64,
    from: Instant,
    sent: u64,
}

impl Pace {
    fn due(&mut self) -> u64 {
        let due = |from: Instant| (from.elapsed().as_secs_f64() * self.per_second as f64) as u64;
        let late = (LATE_MOST.as_secs_f64() * self.per_second as f64) as u64 + 1;
        let waiting = due(self.from).saturating_sub(self.sent);
        if waiting > late {
            self.sent += waiting - late;
        }
        waiting.min(late)
    }
}

fn run(options: &Options) -> Result<u64, String> {
    let told = |e: std::io::Error| format!("interface {}: {e}", options.interface);
    let frames = Frames::read(options)?;
    let seconds = Duration::try_from_secs_f64(options.seconds).map_err(|e| format!("--seconds: {e}"))?;
    let socket = system::packet_socket().map_err(told)?;
    let link = system::link(&socket, &options.interface).map_err(told)?;
    system::bind(&socket, link.index, 0).map_err(told)?;
    system::set_packet_option(&socket, libc::PACKET_QDISC_BYPASS, &1i32).map_err(told)?;
    let (mut sent, mut at, start) = (0, 0, Instant::now());
    let mut pace = options.per_second.map(|per_second| Pace { per_second, from: start, sent: 0 });
    while start.elapsed() < seconds {
        let due = pace.as_mut().map_or(BATCH, |p| usize::try_from(p.due()).map_or(BATCH, |n| n.min(BATCH)));
        if due == 0 {
            std::thread::sleep(PAUSE);
            continue;
        }
        match system::send_batch(&socket, &frames.bytes, &frames.places[at..at + due]) {
            Ok(n) => {
                sent += n as u64;
                at = (at + n) % frames.count;
                pace.iter_mut().for_each(|p| p.sent += n as u64);
            }
            // The far end's queue is full, as in an overload.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => std::thread::yield_now(),
            Err(e) => return Err(told(e)),
        }
    }
    Ok(sent)
}

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    let printed = |sent| writeln!(out, "{sent}").map_err(|e| format!("standard output: {e}"));
    match run(&Options::parse()).and_then(printed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
