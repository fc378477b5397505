// SPDX-License-Identifier: Apache-2.0
//! Sends frames over and over, as fast as an interface takes them or at a rate: the offered load of the benchmarks. The
//! frames that leave the far end are counted by that interface. Or one frame at a time, and the time until it comes out.
use clap::Parser;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
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

    /// Send each frame when the one before has come out of this interface, and print the nanoseconds that each took, one
    /// a line (-: lost). The last four bytes of a frame are its number
    #[arg(long, value_name = "NAME", conflicts_with = "per_second", conflicts_with = "seconds")]
    until_out_of: Option<String>,

    /// Number of frames with --until-out-of
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "until_out_of")]
    count: u32,
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

/// Time after which a frame is taken for lost.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// A packet socket of an interface, which receives frames of `protocol`, or none (0).
fn open(interface: &str, protocol: u16) -> Result<OwnedFd, String> {
    let made = system::packet_socket().and_then(|socket| {
        let link = system::link(&socket, interface)?;
        system::bind(&socket, link.index, protocol)?;
        system::set_packet_option(&socket, libc::PACKET_QDISC_BYPASS, &1i32)?;
        Ok(socket)
    });
    made.map_err(|e| format!("interface {interface}: {e}"))
}

/// Sends one frame at a time; gives the lines of the result.
fn one_at_a_time(options: &Options, far: &str) -> Result<String, String> {
    let Frames { mut bytes, places, count } = Frames::read(options)?;
    let near = open(&options.interface, 0)?;
    let mut far_end = File::from(open(far, libc::ETH_P_ALL as u16)?);
    let (mut lines, mut received) = (String::new(), [0; 1 << 16]);
    for number in 0..options.count {
        let place = &places[number as usize % count];
        let tail = number.to_be_bytes();
        bytes[place.end - tail.len()..place.end].copy_from_slice(&tail);
        let start = Instant::now();
        system::send_batch(&near, &bytes, std::slice::from_ref(place))
            .map_err(|e| format!("interface {}: {e}", options.interface))?;
        // Without sleep: the wake-up of this process would be part of the result.
        let took = loop {
            match far_end.read(&mut received) {
                Ok(n) if received[..n].ends_with(&tail) => break Some(start.elapsed()),
                Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Err(format!("interface {far}: {e}"));
                }
                _ if start.elapsed() > LOST_AFTER => break None,
                _ => std::hint::spin_loop(),
            }
        };
        lines += &took.map_or("-".to_string(), |t| t.as_nanos().to_string());
        lines.push('\n');
    }
    Ok(lines)
}

fn run(options: &Options) -> Result<u64, String> {
    let told = |e: std::io::Error| format!("interface {}: {e}", options.interface);
    let frames = Frames::read(options)?;
    let seconds = Duration::try_from_secs_f64(options.seconds).map_err(|e| format!("--seconds: {e}"))?;
    let socket = open(&options.interface, 0)?;
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
    let options = Options::parse();
    let text = match &options.until_out_of {
        Some(far) => one_at_a_time(&options, far),
        None => run(&options).map(|sent| format!("{sent}\n")),
    };
    let printed =
        |text: String| std::io::stdout().write_all(text.as_bytes()).map_err(|e| format!("standard output: {e}"));
    match text.and_then(printed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
