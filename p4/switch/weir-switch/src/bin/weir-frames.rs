// SPDX-License-Identifier: Apache-2.0
//! Sends one frame over and over, as fast as an interface takes it: the offered load of the benchmarks. What came out
//! at the far end is read from that interface's own counters.
use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_switch::system;

/// Sends one frame over and over, as fast as an interface takes it, and prints how many it took.
#[derive(Parser)]
#[command(name = "weir-frames", version)]
struct Options {
    /// Interface to send on
    #[arg(short, long, value_name = "NAME")]
    interface: String,

    /// The frame, in hexadecimal, without its checksum
    #[arg(long, value_name = "HEX", value_parser = hex)]
    frame: std::sync::Arc<[u8]>,

    /// How long to send
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
}

fn hex(text: &str) -> Result<std::sync::Arc<[u8]>, String> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|p| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?)).collect::<Option<Vec<_>>>();
    bytes.filter(|b| b.len() >= 14).map(Into::into).ok_or_else(|| "not 14 or more bytes in hexadecimal".into())
}

/// Frames a call.
const BATCH: usize = 64;

fn run(options: &Options) -> Result<u64, String> {
    let told = |e: std::io::Error| format!("interface {}: {e}", options.interface);
    let socket = system::packet_socket().map_err(told)?;
    let link = system::link(&socket, &options.interface).map_err(told)?;
    system::bind(&socket, link.index, 0).map_err(told)?;
    system::set_packet_option(&socket, libc::PACKET_QDISC_BYPASS, &1i32).map_err(told)?;
    let seconds = Duration::try_from_secs_f64(options.seconds).map_err(|e| format!("--seconds: {e}"))?;
    let frames = vec![0..options.frame.len(); BATCH];
    let (mut sent, start) = (0, Instant::now());
    while start.elapsed() < seconds {
        match system::send_batch(&socket, &options.frame, &frames) {
            Ok(n) => sent += n as u64,
            // The far end's queue is full, which is what an overload is.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => std::thread::yield_now(),
            Err(e) => return Err(told(e)),
        }
    }
    Ok(sent)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(sent) => {
            println!("{sent}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
