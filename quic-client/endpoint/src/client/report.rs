// SPDX-License-Identifier: Apache-2.0
//! The report of `weir-client` at its end: a table, or one JSON document.

use super::aggregate::AggregateReport;
use super::options::Options;
use crate::shared::fault::Fault;
use crate::shared::json::{rate_bit_s, to_json};
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use weir_core::client::{Outcome, Plan, Session, Tally};
use weir_core::connection::SconeCounts;
use weir_core::paths::CidBudget;
use weir_core::report::samples::{DecisionCounts, EcnReport};
use weir_core::text::printable;
use weir_quic::flow::{Aggregation, Context, Flow};

/// Tasks of a session.
#[derive(Serialize)]
pub struct TaskReport {
    planned: u64,
    done: u64,
    failed: u64,
    switches: u64,
    tct_mean_us: Option<u64>,
    tct_var_ms2: Option<f64>,
    tct_p95_us: Option<u64>,
    /// Tasks done within the completion time that the application of `--app` tolerates; none without it.
    within_limit: Option<u64>,
}

impl TaskReport {
    /// Of `planned` tasks.
    fn new(planned: u64, tally: &Tally, tct_limit: Option<Duration>) -> Self {
        let within = |limit: Duration| tally.tct_us.iter().filter(|us| Duration::from_micros(**us) <= limit).count();
        TaskReport {
            within_limit: tct_limit.map(|limit| within(limit) as u64),
            planned,
            done: tally.done,
            failed: tally.failed,
            switches: tally.switches,
            tct_mean_us: tally.mean_us().map(|us| us.round() as u64),
            tct_var_ms2: tally.variance_ms2(),
            tct_p95_us: tally.p95_us(),
        }
    }
}

/// One path of a session.
#[derive(Serialize)]
pub struct PathReport {
    path: String,
    tasks: u64,
    failed: u64,
    bytes: u64,
    switches: u64,
    tct_mean_us: Option<u64>,
}

impl PathReport {
    /// Of the tasks that began on it, or were answered on it while the connection was on another; its bytes are those
    /// that came over it.
    fn new(path: &str, tally: &Tally) -> Self {
        PathReport {
            path: path.to_owned(),
            tasks: tally.done + tally.failed,
            failed: tally.failed,
            bytes: tally.bytes,
            switches: tally.switches,
            tct_mean_us: tally.mean_us().map(|us| us.round() as u64),
        }
    }
}

/// Where answers arrived.
#[derive(Serialize)]
pub struct AnswerReport {
    /// Tasks that were answered on another path than the one in use.
    pub elsewhere_tasks: u64,
    /// The server answered on one path whichever it was asked on, and the connection moved there.
    pub followed: bool,
}

/// Paths that the connection IDs were enough for.
#[derive(Serialize)]
pub struct CidReport {
    wanted: u64,
    peer_limit: u64,
    own_limit: u64,
    usable: u64,
    migration_allowed: bool,
}

impl From<CidBudget> for CidReport {
    fn from(b: CidBudget) -> Self {
        let CidBudget { wanted, peer_limit, own_limit, usable, migration_allowed, .. } = b;
        CidReport { wanted, peer_limit, own_limit, usable, migration_allowed }
    }
}

/// One flow: a connection and its tasks.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the fields are described in README.md, as the user meets them")]
pub struct FlowReport {
    pub flow: u64,
    pub url: String,
    pub server: String,
    pub start_us: u64,
    pub duration_us: u64,
    pub bytes: u64,
    pub goodput_bit_s: u64,
    pub handshake_us: Option<u64>,
    pub first_byte_us: Option<u64>,
    pub rtt_min_us: Option<u64>,
    pub rtt_mean_us: Option<u64>,
    pub sent_packets: u64,
    pub recv_packets: u64,
    pub lost_packets: u64,
    pub retx_bytes: u64,
    pub payload_bytes: usize,
    pub ce_packets: u64,
    pub ect0_packets: u64,
    pub ect1_packets: u64,
    pub ecn: EcnReport,
    pub tasks: TaskReport,
    pub paths: Vec<PathReport>,
    pub answers: AnswerReport,
    pub cid: Option<CidReport>,
    pub decisions: Option<DecisionCounts>,
    /// With `--scone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scone: Option<SconeCounts>,
    pub exit: &'static str,
    pub detail: String,
}

/// Microseconds of a duration.
fn us(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

impl FlowReport {
    /// Of a flow that has ended. `start` is the start of the program, `outcome` how the flow ended.
    fn new(flow: &Flow, plan: &Plan, start: Instant, outcome: &Outcome, tct_limit: Option<Duration>) -> Self {
        let session = flow.session.as_ref();
        let since_opened =
            |t: Option<Instant>| session.and_then(|s| t.map(|t| us(t.saturating_duration_since(s.conn.opened))));
        let stats = session.map(|s| s.conn.quic.stats());
        let path = session.and_then(|s| s.conn.quic.path_stats().next());
        let duration_us = since_opened(session.and_then(|s| s.ended)).unwrap_or(0);
        let paths = session.map_or(&[][..], Session::path_tallies);
        let ecn = session.map(|s| s.conn.ecn).unwrap_or_default();
        let (elsewhere_tasks, followed) = session.map_or((0, false), Session::answered_elsewhere);
        FlowReport {
            flow: flow.config.label,
            url: format!("https://{}{}", plan.authority, plan.path),
            server: flow.target.addr.to_string(),
            start_us: us(flow.start.duration_since(start)),
            duration_us,
            bytes: flow.bytes(),
            goodput_bit_s: rate_bit_s(flow.bytes(), duration_us),
            handshake_us: since_opened(session.and_then(|s| s.conn.established)),
            first_byte_us: since_opened(session.and_then(|s| s.first_byte)),
            rtt_min_us: path.as_ref().and_then(|p| p.min_rtt).map(us),
            rtt_mean_us: session.and_then(|s| s.conn.rtt.mean_us()),
            sent_packets: stats.as_ref().map_or(0, |s| s.sent as u64),
            recv_packets: stats.as_ref().map_or(0, |s| s.recv as u64),
            lost_packets: stats.as_ref().map_or(0, |s| s.lost as u64),
            retx_bytes: stats.as_ref().map_or(0, |s| s.stream_retrans_bytes),
            payload_bytes: session.map_or(0, |s| s.conn.payload_bytes()),
            ce_packets: ecn.ce,
            ect0_packets: ecn.ect0,
            ect1_packets: ecn.ect1,
            ecn: session.map(|s| s.conn.ecn_report()).unwrap_or_default(),
            paths: paths.iter().map(|(name, tally)| PathReport::new(name, tally)).collect(),
            answers: AnswerReport { elsewhere_tasks, followed },
            cid: session.and_then(Session::cid_budget).map(Into::into),
            decisions: session.map(|s| s.conn.decisions).filter(|d| d.made > 0),
            scone: session.and_then(|s| s.conn.scone.as_ref()).map(|scone| scone.counts),
            tasks: TaskReport::new(plan.tasks, session.map_or(&Tally::default(), |s| &s.tally), tct_limit),
            exit: outcome.name(),
            detail: outcome.detail().to_owned(),
        }
    }

    /// Reports on standard error why it failed, and whether the server stayed on one path.
    fn warn(&self, flow: &Flow, outcome: &Outcome) {
        if outcome.exit_code() != 0 {
            let colon = if self.detail.is_empty() { "" } else { ": " };
            eprintln!("weir-client: flow {}: {}{colon}{}", self.flow, self.exit, printable(&self.detail));
        }
        if let Some(session) = flow.session.as_ref().filter(|_| self.answers.followed) {
            eprintln!(
                "weir-client: flow {}: {} answers on one path whichever it is asked on; the connection stayed on that \
                 ({} in the end)",
                self.flow,
                flow.config.authority,
                session.active_path()
            );
        }
    }
}

/// All flows together.
#[derive(Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct TotalReport {
    pub flows: u64,
    pub failed: u64,
    pub bytes: u64,
    pub duration_us: u64,
    pub goodput_bit_s: u64,
    pub lost_packets: u64,
    pub retx_bytes: u64,
    pub ce_packets: u64,
    pub local_drops: u64,
    pub promised_peak_bytes: u64,
}

/// Receive buffer of each socket.
#[derive(Serialize)]
pub struct RecvBuffer {
    /// `--socket-buffer`.
    pub asked_bytes: u64,
    /// Granted by the system, the least of all sockets; none if no socket could be opened.
    pub granted_bytes: Option<u64>,
}

/// The whole report.
#[derive(Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Report {
    pub k: &'static str,
    pub alpn: String,
    pub cc: String,
    pub upload: bool,
    pub recv_buffer: RecvBuffer,
    pub flows: Vec<FlowReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<AggregateReport>,
    pub total: TotalReport,
}

fn ms(us: Option<u64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.1}", us as f64 / 1000.0))
}

impl Report {
    /// The report as a table for people.
    fn table(&self) -> String {
        let mut text =
            String::from("flow        bytes    Mbit/s  handshake ms  first byte ms  least RTT ms  lost  exit\n");
        for f in &self.flows {
            text += &format!(
                "{:>4} {:>12} {:>9.3} {:>13} {:>14} {:>13} {:>5}  {}\n",
                f.flow,
                f.bytes,
                f.goodput_bit_s as f64 * 1e-6,
                ms(f.handshake_us),
                ms(f.first_byte_us),
                ms(f.rtt_min_us),
                f.lost_packets,
                f.exit
            );
        }
        let t = &self.total;
        text += &format!(
            "all  {:>12} {:>9.3}  in {:.3} s, {} of {} flows failed",
            t.bytes,
            t.goodput_bit_s as f64 * 1e-6,
            t.duration_us as f64 * 1e-6,
            t.failed,
            t.flows
        );
        if let RecvBuffer { asked_bytes, granted_bytes: Some(granted) } = self.recv_buffer
            && granted < asked_bytes
        {
            text += &format!(
                "\nreceive buffer: {granted} bytes granted of {asked_bytes} asked for, bursts may be lost: raise \
                 net.core.rmem_max, or run with CAP_NET_ADMIN"
            );
        }
        text += &self.aggregate.as_ref().map_or(String::new(), AggregateReport::table);
        for f in self.flows.iter().filter(|f| f.tasks.planned > 1) {
            let t = &f.tasks;
            text += &format!(
                "\nflow {}: {} of {} tasks done, {} failed; TCT mean {} ms, 95 % within {} ms, standard deviation {} ms",
                f.flow,
                t.done,
                t.planned,
                t.failed,
                ms(t.tct_mean_us),
                ms(t.tct_p95_us),
                t.tct_var_ms2.map_or("-".to_owned(), |v| format!("{:.1}", v.sqrt())),
            );
        }
        for f in self.flows.iter().filter(|f| !f.paths.is_empty()) {
            text += &format!("\nflow {}: path               tasks         bytes  TCT mean ms  switches to it", f.flow);
            for p in &f.paths {
                text += &format!(
                    "\n        {:<16} {:>7} {:>13} {:>12} {:>15}",
                    p.path,
                    p.tasks,
                    p.bytes,
                    ms(p.tct_mean_us),
                    p.switches
                );
            }
            if f.answers.followed {
                text += &format!(
                    "\n        the server answers on one path whichever it is asked on ({} tasks on another than theirs): \
                     the connection stayed there",
                    f.answers.elsewhere_tasks
                );
            }
            match &f.cid {
                Some(c) if !c.migration_allowed => {
                    text += "\n        the server forbids migration: one path was used";
                }
                Some(c) if c.usable < c.wanted => {
                    text += &format!(
                        "\n        connection IDs for {} of {} paths only (the server's limit is {}, ours {})",
                        c.usable, c.wanted, c.peer_limit, c.own_limit
                    );
                }
                _ => {}
            }
        }
        text
    }
}

/// Times of the program's run.
pub struct Times {
    /// Longest completion time of `--app`.
    pub tct_limit: Option<Duration>,
    /// Its start.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
}

/// Prints the report of all flows, each with its plan, and on standard error the faults. Returns the program's exit code.
///
/// # Errors
/// Standard output can't be written.
pub fn print(
    options: &Options,
    context: &Context,
    flows: &[(Flow, Plan)],
    aggregation: Option<&Aggregation>,
    times: &Times,
) -> Result<u8, Fault> {
    let Times { tct_limit, start, end } = *times;
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    for (flow, plan) in flows {
        let outcome = flow.outcome().cloned().unwrap_or(Outcome::Interrupted);
        let report = FlowReport::new(flow, plan, start, &outcome, tct_limit);
        if aggregation.is_none() {
            report.warn(flow, &outcome);
        }
        failures.extend(Some(outcome.exit_code()).filter(|code| *code != 0));
        reports.push(report);
    }
    if let Some(aggregation) = aggregation {
        // A connection may fail where another does its work.
        let outcome = aggregation.download.summary().outcome;
        failures = Some(outcome.exit_code()).filter(|code| *code != 0).into_iter().collect();
        if !failures.is_empty() {
            eprintln!("weir-client: {}: {}", outcome.name(), printable(outcome.detail()));
        }
    }
    let bytes = reports.iter().map(|f| f.bytes).sum();
    let duration_us = us(end.duration_since(start));
    let total = TotalReport {
        flows: reports.len() as u64,
        failed: failures.len() as u64,
        bytes,
        duration_us,
        goodput_bit_s: rate_bit_s(bytes, duration_us),
        lost_packets: reports.iter().map(|f| f.lost_packets).sum(),
        retx_bytes: reports.iter().map(|f| f.retx_bytes).sum(),
        ce_packets: reports.iter().map(|f| f.ce_packets).sum(),
        local_drops: context.send.dropped,
        promised_peak_bytes: context.budget.borrow().promised().peak_bytes,
    };
    let report = Report {
        k: "weir-client",
        alpn: options.alpn.to_string(),
        cc: options.common.cc.to_string(),
        upload: options.upload,
        recv_buffer: RecvBuffer { asked_bytes: options.common.socket_buffer, granted_bytes: context.recv_buffer_bytes },
        flows: reports,
        aggregate: aggregation.map(|aggregation| AggregateReport::new(aggregation, start)),
        total,
    };
    let text = if options.json { to_json(&report)? } else { report.table() };
    if options.to_standard_output() {
        eprintln!("{text}");
    } else {
        io::stdout().write_all(format!("{text}\n").as_bytes()).map_err(Fault::io("standard output"))?;
    }
    Ok(failures.first().copied().unwrap_or(0))
}
