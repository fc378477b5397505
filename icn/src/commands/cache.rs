// SPDX-License-Identifier: Apache-2.0
//! `weir-icn cache`.

use super::options::{LEAST_MEMORY_BYTES, complain, face, receive, size, to_json};
use crate::face::Face;
use crate::objects::cache::Cache;
use crate::packet::Kind;
use clap::Args;
use std::io::Write;
use std::time::Instant;
use weir_io::fault::Fault;
use weir_io::wait::{Signals, Waiter};

/// Keeps data that passes by name, and answers for it: for those who come late, and for what others lost.
///
/// It stands on a port of a switch whose table sends Interests to it, and what it does not have to the publisher
/// (`via(port of the cache, port to the publisher)`). It keeps what it asked for itself, in bounded memory, the least
/// recently used first out. It has no keys: receivers check what they get, and ask past it for what they find wrong.
///
/// Prints "ready" when it listens. SIGINT and SIGTERM end it with exit code 0 and one line of JSON that says what it did.
/// Exit codes: 2 usage; 8 the interface can't be used.
#[derive(Debug, Args)]
pub struct Options {
    /// Interface to the switch
    #[arg(long, value_name = "IF")]
    interface: String,
    /// Memory for data, 1MB at least (units: kB, MB, KiB, MiB)
    #[arg(long, default_value = "64MB", value_parser = |t: &str| size(t, LEAST_MEMORY_BYTES), value_name = "BYTES")]
    memory: u64,
}

const FACE: u64 = 0;
const SIGNAL: u64 = 1;

/// Runs it until a signal ends it.
///
/// # Errors
/// The interface can't be used, or was removed.
pub fn run(options: &Options) -> Result<u8, Fault> {
    let mut face = face(&options.interface)?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let mut waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    waiter.add(face.fd(), FACE).and_then(|()| waiter.add(signals.fd(), SIGNAL)).map_err(Fault::io("epoll"))?;
    let mut cache = Cache::new(options.memory);
    let mut out = std::io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).map_err(Fault::io("standard output"))?;
    let mut ready = Vec::new();
    loop {
        waiter.wait(Instant::now(), cache.deadline(), &mut ready).map_err(Fault::io("epoll"))?;
        let now = Instant::now();
        let mut arrived = Vec::new();
        receive(&mut face, |header, payload| arrived.push((*header, payload.to_vec())))?;
        for (header, payload) in &arrived {
            match header.kind {
                Kind::Interest => cache.interest(header, now, |h, p| face.push(h, p)),
                Kind::Data => cache.data(header, payload, now),
                Kind::Nack => cache.nack(header),
            }
        }
        cache.turn(now, |h, p| face.push(h, p));
        face.flush();
        if ready.contains(&SIGNAL) && signals.take().is_some() {
            let (bytes, segments) = cache.held();
            let report = serde_json::json!({
                "held_bytes": bytes, "held_segments": segments, "cache": cache.counts, "face": face.counts(),
            });
            if let Err(e) = writeln!(out, "{}", to_json(&report)?) {
                complain(&format!("standard output: {e}"));
            }
            return Ok(0);
        }
    }
}
