// SPDX-License-Identifier: Apache-2.0
//! The command line of `weir-client`. The options of path choice are in [`path_choice`], and URLs are read in [`target`].
//!
//! A new option is a field of [`Options`], or of [`CommonOptions`] if the server has it too. If it contradicts another
//! option in a way that clap can't express, add that to [`Options::check`].

pub mod connection;
pub mod http;
pub mod path_choice;
pub mod target;

use crate::shared::fault::{Fault, USAGE};
use crate::shared::options::CommonOptions;
use clap::Parser;
use connection::ConnectionOptions;
use http::HttpOptions;
use path_choice::PathChoiceOptions;
use quiche::h3::NameValue;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_core::request::{Alpn, parse_size};
use weir_io::outputs::same_file;

/// Use of several connections for one download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AggregateUse {
    /// If the server serves ranges
    Auto,
    /// Always, or fail
    Always,
    /// Never
    Never,
}

/// Sends requests over QUIC and reports their results. Each flow is a connection of its own with one request or many.
/// `weir-client proxy` is a local proxy for other programs: see `weir-client proxy --help`.
///
/// Exit codes: 0 all flows complete (or stopped by --duration-s); 2 usage; 3 name not resolved, connection refused or
/// lost before it was up; 4 no agreement on TLS, protocol or version; 5 timeout, also of --max-time and --read-timeout; 6
/// transfer incomplete; 7 the server does not serve the request; 8 file or socket error; 9 --path names something that
/// can't be used; 10 an answer larger than --max-size; 130 interrupted. If several flows fail, the code is that of the first.
#[derive(Debug, Parser)]
#[command(version, name = "weir-client", after_help = EXAMPLES)]
pub struct Options {
    /// https://HOST[:PORT][/PATH]. Without a path the request is for /bytes/N with --bytes, for /bytes/unlimited with
    /// --duration-s, and for /upload with --upload. Flows take several URLs in turn
    #[arg(required_unless_present = "list_cc", value_name = "URL")]
    pub urls: Vec<String>,
    /// Number of flows [default: one per URL]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Transfers")]
    pub flows: Option<u32>,
    /// Number of requests on each flow's connection, all for the URL's path
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000_000), value_name = "N",
          help_heading = "Transfers")]
    pub requests: u64,
    /// Number of requests that may be under way at once on a connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "P",
          help_heading = "Transfers")]
    pub parallel: u32,
    /// Time between the starts of two requests: request n starts no sooner than n times this after the connection is up
    /// (or after --start-at-us)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400_000), value_name = "MS",
          help_heading = "Transfers")]
    pub interval_ms: u64,
    /// Start the first request at this time of CLOCK_MONOTONIC, in microseconds. The connection is set up before
    #[arg(long, value_name = "T", help_heading = "Transfers")]
    pub start_at_us: Option<u64>,
    /// Stop this many seconds after the start
    #[arg(long, value_parser = seconds, value_name = "SECONDS", help_heading = "Transfers")]
    pub duration_s: Option<Duration>,
    /// Size of each transfer; of downloads also several sizes with commas between them, taken in turn
    #[arg(long, value_parser = |t: &str| parse_size(t).map_err(|e| e.to_string()), value_delimiter = ',',
          help_heading = "Transfers")]
    pub bytes: Vec<u64>,
    /// Send instead of receive
    #[arg(long, help_heading = "Transfers")]
    pub upload: bool,
    /// Write the answer to this file, which appears when it is complete. With - the answer goes to standard output as it
    /// arrives, and the table to standard error
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["upload", "duration_s"], help_heading = "Transfers")]
    pub output: Option<PathBuf>,
    /// Download one large object over all networks at once, by ranges on a connection for each --path: auto, if the server
    /// serves ranges; always, or fail; never. Without a value: auto. It needs GET over h3 and --output to a file, or none
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "never",
          default_missing_value = "auto", value_name = "WHEN", help_heading = "Paths")]
    pub aggregate: AggregateUse,
    /// Give up, with exit code 5, this many seconds after the start of the program
    #[arg(long, short, value_parser = seconds, value_name = "SECONDS", help_heading = "Transfers")]
    pub max_time: Option<Duration>,
    /// Fail a request, with exit code 5, after this many seconds in which nothing of its body was sent and nothing of its
    /// answer arrived; 0 for no limit. Other requests go on
    #[arg(long, value_parser = seconds_or_none, default_value = "300", value_name = "SECONDS", help_heading = "Transfers")]
    pub read_timeout: Duration,
    /// Refuse an answer with more bytes than this (units: kB, MB, KiB, MiB): before its first byte if the server announces
    /// the length, else when it has become too large. The file of --output is then removed
    #[arg(long, value_parser = |t: &str| parse_size(t).map_err(|e| e.to_string()), value_name = "BYTES",
          conflicts_with = "upload", help_heading = "Transfers")]
    pub max_size: Option<u64>,
    /// Start each flow at a random time within this period
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400_000), value_name = "MS",
          help_heading = "Transfers")]
    pub start_spread_ms: u64,
    /// Open the connection of each flow at this time of CLOCK_MONOTONIC, in microseconds: one for each flow, with commas
    /// between them
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "T,...",
        conflicts_with = "start_spread_ms",
        help_heading = "Transfers"
    )]
    pub open_at_us: Vec<u64>,
    /// Application protocol: h3, hq-interop, or perf (draft-banks-quic-performance) for paths /bytes/N
    #[arg(long, default_value = "h3", help_heading = "Connection")]
    pub alpn: Alpn,
    /// Label the flows, counting up from this number, and send the server the labels (adds ?flow=L to the path)
    #[arg(long, value_name = "L", help_heading = "Results")]
    pub flow_label: Option<u64>,
    /// Keep the labels out of the requests, for servers that do not know them
    #[arg(long, requires = "flow_label", help_heading = "Results")]
    pub local_labels: bool,
    /// Write decisions and the end of each request to this file, one JSON object a line (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub events: Option<PathBuf>,
    /// Print the report as one JSON document instead of a table
    #[arg(long, help_heading = "Results")]
    pub json: bool,
    /// List the congestion controls of --cc, as a table or with --json as one JSON document, and exit
    #[arg(long, conflicts_with = "urls", help_heading = "Results")]
    pub list_cc: bool,
    /// Show no progress bar
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,
    /// Options of requests.
    #[command(flatten)]
    pub http: HttpOptions,
    /// Options of connections.
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Options of path choice.
    #[command(flatten)]
    pub choice: PathChoiceOptions,
    /// Options that the server has too.
    #[command(flatten)]
    pub common: CommonOptions,
}

const EXAMPLES: &str = "\
Examples:
  weir-client https://localhost:4433/bytes/10MB --insecure
      one download; the answer is counted and discarded
  weir-client https://example.org/file -o file
      one download into a file
  weir-client https://example.org/form -d name=value -L --compressed -o -
      one POST; redirects are followed, and the answer goes to standard output
  weir-client https://localhost:4433 --insecure --bytes 5kB --requests 1000 --interval-ms 100 --events tasks.jsonl
      a thousand requests on one connection, ten a second, with the completion time of each
  weir-client https://example.org/small --requests 100 --interval-ms 200 --path eth0 --path wlan0
      a request every 200 ms, each over the interface that is expected to answer first
  weir-client https://example.org/big --path eth0 --path wlan0 --aggregate -o big
      one download over both interfaces at once
  weir-client https://localhost:4433 --insecure --flows 10 --duration-s 5 --json
      ten connections that download for five seconds";

fn seconds(text: &str) -> Result<Duration, String> {
    duration(text).filter(|d| !d.is_zero()).ok_or_else(|| not_a_duration(text, "above 0"))
}

/// Zero means no limit.
fn seconds_or_none(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| not_a_duration(text, "from 0"))
}

fn duration(text: &str) -> Option<Duration> {
    text.parse::<f64>().ok().filter(|s| (0.0..=86_400.0).contains(s)).map(Duration::from_secs_f64)
}

fn not_a_duration(text: &str, least: &str) -> String {
    format!("'{text}' is not a duration: expected seconds {least}, at most 86400")
}

impl Options {
    /// Refuses options that contradict each other in their outputs, or that have no effect.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Fault> {
        if self.upload && self.bytes.is_empty() && self.duration_s.is_none() {
            return Err(Fault::new(USAGE, "--upload needs --bytes or --duration-s to know its end"));
        }
        if self.upload && self.bytes.len() > 1 {
            let text = format!("--upload with {} sizes in --bytes: expected one size", self.bytes.len());
            return Err(Fault::new(USAGE, text));
        }
        self.connection.check()?;
        if let (AggregateUse::Always, Some(why)) = (self.aggregate, self.not_aggregated()) {
            return Err(Fault::new(USAGE, format!("--aggregate=always: {why}")));
        }
        let outputs = [("--output", &self.output), ("--events", &self.events), ("--stats", &self.common.stats)];
        let outputs: Vec<_> = outputs.iter().filter_map(|(o, p)| p.as_deref().map(|p| (*o, p))).collect();
        for (i, (option, path)) in outputs.iter().enumerate() {
            if let Some((other, _)) = outputs[..i].iter().find(|(_, p)| same_file(p, path)) {
                let text = format!("{other} and {option} are both {}: expected a file for each", path.display());
                return Err(Fault::new(USAGE, text));
            }
        }
        if self.json && self.to_standard_output() {
            return Err(Fault::new(
                USAGE,
                "--json and --output - would both write to standard output: expected one of them",
            ));
        }
        Ok(())
    }

    /// The number of flows: each URL is requested at least once.
    ///
    /// # Errors
    /// Too few flows for the URLs or for `--open-at-us`, or too many requests for `--output`.
    pub fn flow_count(&self) -> Result<usize, Fault> {
        let urls = self.urls.len();
        let flows = self.flows.map_or(urls, |n| n as usize);
        if flows < urls {
            let text = format!("--flows {flows} is less than the {urls} URLs given: some would never be asked");
            return Err(Fault::new(USAGE, text));
        }
        if !self.open_at_us.is_empty() && self.open_at_us.len() != flows {
            let text = format!("--open-at-us has {} times for {flows} flows: expected as many", self.open_at_us.len());
            return Err(Fault::new(USAGE, text));
        }
        if self.output.is_some() && (flows > 1 || self.requests > 1) {
            let text = format!("--output takes one answer, but {flows} flows of {} tasks are asked for", self.requests);
            return Err(Fault::new(USAGE, text));
        }
        Ok(flows)
    }

    /// Why the download can't be aggregated, if it can't.
    pub fn not_aggregated(&self) -> Option<&'static str> {
        let has_range = self.http.headers.iter().any(|h| h.name() == b"range");
        let is_get = self.http.method.as_deref().is_none_or(|method| method == "GET");
        match () {
            () if self.choice.paths.is_empty() => Some("expected --path, for each network or auto"),
            () if self.upload || self.http.data.is_some() || !is_get => Some("expected GET without a body"),
            () if self.requests > 1 || self.urls.len() > 1 || self.flows.is_some_and(|n| n > 1) => {
                Some("expected one request")
            }
            () if self.alpn != Alpn::H3 => Some("only HTTP/3 has ranges: expected --alpn h3"),
            () if self.duration_s.is_some() => Some("expected no --duration-s"),
            () if self.http.compressed || self.http.include => Some("expected neither --compressed nor --include"),
            () if self.to_standard_output() => Some("parts arrive in any order: expected a file for --output"),
            () if has_range => Some("expected no field Range"),
            () => None,
        }
    }

    /// Whether the answer goes to standard output.
    pub fn to_standard_output(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_flow_has_a_time_to_open_its_connection_or_none_has() {
        let count = |words: &[&str]| {
            let all = ["weir-client", "https://a", "--flows", "2"].iter().chain(words);
            Options::try_parse_from(all).unwrap().flow_count()
        };
        assert_eq!(count(&[]).ok(), Some(2));
        assert_eq!(count(&["--open-at-us", "5,7"]).ok(), Some(2));
        let refused = count(&["--open-at-us", "5"]).unwrap_err().to_string();
        assert!(refused.contains("1 times for 2 flows"), "{refused}");
    }

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }
}
