// SPDX-License-Identifier: Apache-2.0
//! `--events` of the proxy: ends of tunnels, and the connection's events, from two threads into one file.

use super::Ended;
use crate::client::complain;
use crate::shared::fault::Fault;
use crate::shared::json::{event_line, to_json};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_io::lines::LineLog;
use weir_io::wait::moment;
use weir_quic::Observer;

/// Lines that wait for the file at most; others are lost.
const MOST_WAITING: usize = 10_000;

/// End of a tunnel.
#[derive(Serialize)]
struct TunnelLine<'a> {
    k: &'static str,
    t_us: u64,
    tunnel: u64,
    kind: &'static str,
    duration_us: u64,
    path: &'a str,
    up_bytes: u64,
    down_bytes: u64,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
}

/// The writers' end.
#[derive(Clone)]
pub struct Events {
    lines: Option<Sender<String>>,
    timebase: Timebase,
}

/// The file.
pub struct Log {
    lines: Receiver<String>,
    out: Option<LineLog>,
}

impl Log {
    /// Makes the file, if one is wanted.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(path: Option<&Path>) -> Result<(Events, Log), Fault> {
        let (start, start_us) = moment();
        let (sender, lines) = channel(MOST_WAITING);
        let out = path.map(|path| LineLog::create("--events", path, complain)).transpose()?;
        let events = Events { lines: out.is_some().then_some(sender), timebase: Timebase::new(start, start_us) };
        Ok((events, Log { lines, out }))
    }

    /// Writes lines as they come.
    pub async fn write(&mut self) {
        while let Some(line) = self.lines.recv().await {
            self.add(&line);
            while let Ok(line) = self.lines.try_recv() {
                self.add(&line);
            }
            if let Some(out) = &mut self.out {
                out.flush();
            }
        }
        std::future::pending().await
    }

    fn add(&mut self, line: &str) {
        if let Some(out) = &mut self.out {
            out.line(line);
        }
    }

    /// Writes the last lines. True if none is missing.
    pub fn finish(&mut self) -> bool {
        while let Ok(line) = self.lines.try_recv() {
            self.add(&line);
        }
        self.out.as_mut().is_none_or(LineLog::finish)
    }
}

impl Events {
    /// Adds the end of a tunnel. `to`: its destination, with `--verbose`.
    pub fn tunnel(&self, tunnel: u64, kind: &'static str, begun: Instant, path: &str, ended: &Ended, to: Option<&str>) {
        let Some(lines) = &self.lines else { return };
        let Ended { outcome, up_bytes, down_bytes } = *ended;
        let t_us = self.timebase.us(Instant::now());
        let duration_us = begun.elapsed().as_micros() as u64;
        let line = TunnelLine { k: "tunnel", t_us, tunnel, kind, duration_us, path, up_bytes, down_bytes, outcome, to };
        if let Ok(line) = to_json(&line) {
            let _ = lines.try_send(line);
        }
    }

    /// Observer of the connections, if there is a file. The ends of tunnels as requests are no events here: they have lines
    /// of their own.
    pub fn observer(&self) -> Option<impl Observer + use<>> {
        let (lines, timebase) = (self.lines.clone()?, self.timebase);
        Some(move |connection: u64, at: Instant, event: &Event| {
            if matches!(event, Event::Task { .. }) {
                return;
            }
            if let Ok(line) = event_line(event, timebase.us(at), Some(connection)) {
                let _ = lines.try_send(line);
            }
        })
    }
}
