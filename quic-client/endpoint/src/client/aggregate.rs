// SPDX-License-Identifier: Apache-2.0
//! `--aggregate`: one download over all paths at once.

use super::options::{AggregateUse, Options};
use super::output::OutputFile;
use crate::shared::fault::{Fault, USAGE};
use crate::shared::json::rate_bit_s;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Instant;
use weir_core::client::aggregate::{Aggregate, RangedBody};
use weir_core::client::{Nowhere, Plan, SessionConfig};
use weir_core::transport::Transport;
use weir_io::interfaces::Interface;
use weir_quic::flow::{Aggregation, Flow};
use weir_quic::local_paths::{Reach, RequestedPaths};
use weir_quic::target::Target;

/// The paths that a download is to use at once; none: it is not aggregated.
///
/// # Errors
/// It must be, and there are not two paths.
pub fn paths(
    options: &Options,
    requested: &RequestedPaths,
    interfaces: &[Interface],
    targets: &[Target],
) -> Result<Vec<String>, Fault> {
    let (AggregateUse::Auto | AggregateUse::Always, None, [target]) =
        (options.aggregate, options.not_aggregated(), targets)
    else {
        return Ok(Vec::new());
    };
    let mut known = BTreeSet::new();
    let peers = [target.addr].into_iter().chain(target.others.iter().copied());
    let paths = peers.flat_map(|peer| requested.find(interfaces, Reach::of(peer)));
    let names: Vec<_> = paths.filter(|path| path.up && known.insert(path.name.clone())).map(|path| path.name).collect();
    match names.len() {
        0 | 1 if options.aggregate == AggregateUse::Always => {
            let text = format!("--aggregate=always: {} path to {} is up, expected two", names.len(), target.authority);
            Err(Fault::new(USAGE, text))
        }
        0 | 1 => Ok(Vec::new()),
        _ => Ok(names),
    }
}

/// The connections' receive windows, whose sum is within the limit of one.
pub fn share_windows(transport: &mut Transport, connections: usize) {
    transport.max_conn_window_bytes = (transport.max_conn_window_bytes / connections.max(1) as u64).max(1);
    transport.conn_window_bytes = transport.conn_window_bytes.min(transport.max_conn_window_bytes);
    transport.max_stream_window_bytes = transport.max_stream_window_bytes.min(transport.max_conn_window_bytes);
    transport.stream_window_bytes = transport.stream_window_bytes.min(transport.max_stream_window_bytes);
}

/// A flow for each path, and their common state.
///
/// # Errors
/// The file of `--output` can't be made.
pub fn flows(
    options: &Options,
    target: &Target,
    paths: Vec<String>,
    (plan, config): (Plan, SessionConfig),
    start: Instant,
) -> Result<(Vec<(Flow, Plan)>, Aggregation), Fault> {
    let body: Box<dyn RangedBody> = match &options.output {
        Some(path) => Box::new(OutputFile::create(path)?),
        None => Box::new(Nowhere),
    };
    let must = options.aggregate == AggregateUse::Always;
    let download = Aggregate::new(plan.clone(), body, paths.len(), must, start);
    let flow = |(k, path): (usize, &String)| {
        let config = SessionConfig { label: config.label + k as u64, ..config.clone() };
        let flow = Flow::new(k, target.clone(), config, Box::new(download.tasks(k)), start).on_path(path);
        (flow, plan.clone())
    };
    Ok((paths.iter().enumerate().map(flow).collect(), Aggregation { download, paths }))
}

/// A path's part of the download.
#[derive(Debug, Serialize)]
pub struct PathPart {
    path: String,
    bytes: u64,
    goodput_bit_s: u64,
}

/// The download in the report.
#[derive(Debug, Serialize)]
pub struct AggregateReport {
    /// `ranges`, or `one-path` if the server served none.
    pub mode: &'static str,
    bytes: u64,
    duration_us: u64,
    goodput_bit_s: u64,
    duplicate_bytes: u64,
    requests: u64,
    paths: Vec<PathPart>,
    exit: &'static str,
    detail: String,
}

impl AggregateReport {
    /// Of a download that has ended; its time counts from `start`.
    pub fn new(aggregation: &Aggregation, start: Instant) -> AggregateReport {
        let summary = aggregation.download.summary();
        let duration = summary.ended.map_or_else(Default::default, |ended| ended.saturating_duration_since(start));
        let duration_us = duration.as_micros() as u64;
        let part = |(path, bytes): (&String, &u64)| PathPart {
            path: path.clone(),
            bytes: *bytes,
            goodput_bit_s: rate_bit_s(*bytes, duration_us),
        };
        AggregateReport {
            mode: if summary.by_ranges { "ranges" } else { "one-path" },
            bytes: summary.bytes,
            duration_us,
            goodput_bit_s: rate_bit_s(summary.bytes, duration_us),
            duplicate_bytes: summary.duplicate_bytes,
            requests: summary.requests,
            paths: aggregation.paths.iter().zip(&summary.by_link).map(part).collect(),
            exit: summary.outcome.name(),
            detail: summary.outcome.detail().to_owned(),
        }
    }

    /// Lines of the table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "\naggregate ({}): {} bytes in {:.3} s, {:.3} Mbit/s, {} bytes twice, {} requests",
            self.mode,
            self.bytes,
            self.duration_us as f64 * 1e-6,
            self.goodput_bit_s as f64 * 1e-6,
            self.duplicate_bytes,
            self.requests
        );
        for part in &self.paths {
            text += &format!(
                "\n        {:<16} {:>13} {:>9.3} Mbit/s",
                part.path,
                part.bytes,
                part.goodput_bit_s as f64 * 1e-6
            );
        }
        text
    }
}
