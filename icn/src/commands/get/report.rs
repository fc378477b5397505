// SPDX-License-Identifier: Apache-2.0
//! Output of `weir-icn get`: progress, the result, events.

use super::Options;
use crate::commands::group::ClientCounts;
use crate::commands::options::{complain, to_json};
use crate::face::FaceCounts;
use crate::objects::subscriber::{Counts, Fetch};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use weir_io::fault::Fault;
use weir_io::lines::LineLog;

/// One object's result.
#[derive(Debug, Clone, Serialize)]
pub struct Fetched {
    /// Its name.
    pub name: String,
    /// `complete`, or what kept it from that.
    pub outcome: String,
    /// Content: all of it, or of a live stream what came.
    pub bytes: Option<u64>,
    /// From the request to the publisher to the last byte.
    pub seconds: f64,
    /// Content a second, in Mbit/s.
    pub goodput_mbit_s: f64,
    /// Segments that are there.
    pub segments: u64,
    /// Smoothed response time at the end.
    pub response_time_us: Option<u64>,
    /// Of all segments asked for, those that were asked for again, in percent.
    pub retransmissions_percent: f64,
    /// Counters.
    pub counts: Counts,
}

/// Outcome of a whole object.
pub const COMPLETE: &str = "complete";

impl Fetched {
    /// The result for people. Standard error has the reason of a failure.
    fn line(&self) -> String {
        let outcome = if self.outcome == COMPLETE { COMPLETE } else { "failed" };
        let size = self.bytes.map_or_else(String::new, |b| format!("{:.2} MB, ", b as f64 * 1e-6));
        format!(
            "{}: {outcome}, {size}{:.2} s, {:.2} Mbit/s, asked again {:.2} %, wrong {}, marked {}\n",
            self.name,
            self.seconds,
            self.goodput_mbit_s,
            self.retransmissions_percent,
            self.counts.wrong,
            self.counts.marked
        )
    }
}

/// Writes events and progress. Where events can't be written, fetching goes on.
pub struct Reporter {
    events: Option<LineLog>,
    before: Counts,
    stalls: Stalls,
    progress: bool,
}

/// Waits for content that are no shorter than this are reported: no timer is below it.
const LEAST_STALL_US: u64 = 10_000;

/// Progress of an object, and the time of the last.
#[derive(Debug, Default)]
struct Stalls {
    since: Option<(u64, u64)>,
}

impl Stalls {
    /// So many segments are there and checked at this time; how long it stood still before, if that is to be reported.
    fn at(&mut self, segments: u64, t_us: u64) -> Option<u64> {
        let (before, since_us) = *self.since.get_or_insert((segments, t_us));
        if segments == before {
            return None;
        }
        self.since = Some((segments, t_us));
        let waited_us = t_us.saturating_sub(since_us);
        // The first one is not waited for between others.
        (before > 0 && waited_us >= LEAST_STALL_US).then_some(waited_us)
    }
}

impl Reporter {
    /// As the options say.
    ///
    /// # Errors
    /// The file for events can't be made.
    pub fn new(options: &Options) -> Result<Reporter, Fault> {
        let events = options.events.as_deref();
        let events = events.map(|path| LineLog::create("--events", path, complain)).transpose()?;
        Ok(Reporter {
            events,
            before: Counts::default(),
            stalls: Stalls::default(),
            progress: !options.quiet && io::stderr().is_terminal(),
        })
    }

    /// Writes an event, with its time.
    pub fn event(&mut self, t_us: u64, name: &str, data: &impl Serialize) {
        if let Some(events) = &mut self.events {
            events.line(&serde_json::json!({ "t_us": t_us, "name": name, "data": data }).to_string());
        }
    }

    /// Another object begins.
    pub fn begin(&mut self) {
        (self.before, self.stalls) = (Counts::default(), Stalls::default());
    }

    /// Writes events for what happened since the last call.
    pub fn changes(&mut self, t_us: u64, fetch: &Fetch) {
        if self.events.is_none() {
            return;
        }
        if let Some(waited_us) = self.stalls.at(fetch.checked(), t_us) {
            self.event(t_us, "icn:stall", &serde_json::json!({ "waited_us": waited_us }));
        }
        let (now, before) = (fetch.counts, self.before);
        self.before = now;
        for (name, now, before) in [
            ("icn:lost_by_gap", now.lost_by_gap, before.lost_by_gap),
            ("icn:lost_by_time", now.lost_by_time, before.lost_by_time),
            ("icn:silence", now.silences, before.silences),
            ("icn:wrong_data", now.wrong, before.wrong),
            ("icn:marked", now.marked, before.marked),
            ("icn:nack", now.nacks, before.nacks),
            ("icn:followed", now.followed, before.followed),
        ] {
            if now > before {
                let (allowed, out) = fetch.window();
                let data = serde_json::json!({ "segments": now - before, "window": allowed, "out": out });
                self.event(t_us, name, &data);
            }
        }
    }

    /// Shows how far it is, and writes it as an event.
    pub fn progress(&mut self, t_us: u64, name: &str, fetch: &Fetch, segments: Option<u32>, since: Duration) {
        let (allowed, out) = fetch.window();
        let response_us = fetch.response_time().map(|t| t.as_micros() as u64);
        let done = fetch.checked();
        let data = serde_json::json!({
            "object": name, "segments": done, "of": segments, "window": allowed, "out": out, "response_time_us": response_us,
        });
        self.event(t_us, "icn:progress", &data);
        if let Some(events) = &mut self.events {
            events.flush();
        }
        if self.progress {
            let rate = done as f64 * 1440.0 * 8e-6 / since.as_secs_f64().max(1e-9);
            let part = segments.map_or_else(String::new, |n| format!("{:3} %  ", done * 100 / u64::from(n.max(1))));
            eprint!("\r{part}{:.1} MB  {rate:.2} Mbit/s  window {allowed} \x1b[K", done as f64 * 1440e-6);
        }
    }

    /// The last words. Whether all events could be written.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub fn finish(
        &mut self,
        options: &Options,
        fetched: &[Fetched],
        face: &FaceCounts,
        group: &ClientCounts,
    ) -> Result<bool, Fault> {
        if self.progress {
            eprint!("\r\x1b[K");
        }
        let whole = self.events.as_mut().is_none_or(LineLog::finish);
        // Standard output may be an object's.
        let to_error = options.output.as_os_str() == "-";
        let mut text = String::new();
        if options.json {
            let found = serde_json::json!({ "objects": fetched, "beta": options.beta, "face": face, "group": group });
            text = to_json(&found)? + "\n";
        } else if !options.quiet {
            for f in fetched {
                text += &f.line();
            }
        }
        let written = match to_error {
            true => io::stderr().write_all(text.as_bytes()),
            false => io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()),
        };
        written.map_err(Fault::io("standard output"))?;
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let fetched = |outcome: &str| Fetched {
            name: "/a".to_owned(),
            outcome: outcome.to_owned(),
            bytes: None,
            seconds: 1.0,
            goodput_mbit_s: 0.0,
            segments: 0,
            response_time_us: None,
            retransmissions_percent: 0.0,
            counts: Counts::default(),
        };
        assert!(fetched(COMPLETE).line().starts_with("/a: complete, "));
        assert!(fetched("/a: gone").line().starts_with("/a: failed, 1.00 s, "));
    }

    #[test]
    fn a_stall_is_told_when_it_is_over() {
        let mut stalls = Stalls::default();
        let steps = [(0, 0), (0, 50_000), (1, 60_000), (3, 69_000), (3, 90_000), (4, 90_001), (5, 100_001)];
        let told: Vec<_> = steps.map(|(segments, t_us)| stalls.at(segments, t_us)).into_iter().flatten().collect();
        assert_eq!(told, [21_001, 10_000]);
    }
}
