// SPDX-License-Identifier: Apache-2.0
//! What `weir-client` says at its end: a table, or one JSON document.

use serde::Serialize;
use std::time::Duration;
use weir_core::paths::CidBudget;
use weir_core::session::Tally;

/// Bits per second.
pub fn rate_bit_s(bytes: u64, duration_us: u64) -> u64 {
    (u128::from(bytes) * 8_000_000).checked_div(u128::from(duration_us)).unwrap_or(0) as u64
}

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
    /// Tasks done within the completion time that the application of `--app` can bear; none without it.
    within_limit: Option<u64>,
}

impl TaskReport {
    /// Of so many tasks planned.
    pub fn new(planned: u64, tally: &Tally, tct_limit: Option<Duration>) -> Self {
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
    /// Of the tasks that were begun on it, or answered on it while the connection was elsewhere; its bytes are those that
    /// came over it.
    pub fn new(path: &str, tally: &Tally) -> Self {
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
    /// Tasks that were answered on another path than the connection was on.
    pub elsewhere_tasks: u64,
    /// The server stayed on one path whichever it was asked on, and the connection followed it there.
    pub followed: bool,
}

/// Connection IDs against paths.
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
    pub ce_packets: u64,
    pub ect0_packets: u64,
    pub tasks: TaskReport,
    pub paths: Vec<PathReport>,
    pub answers: AnswerReport,
    pub cid: Option<CidReport>,
    pub exit: &'static str,
    pub detail: String,
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
    /// By `--socket-buffer`.
    pub asked_bytes: u64,
    /// By the system, the least of all sockets; none if none could be opened.
    pub granted_bytes: Option<u64>,
}

/// The document.
#[derive(Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct Report {
    pub k: &'static str,
    pub alpn: String,
    pub cc: String,
    pub upload: bool,
    pub recv_buffer: RecvBuffer,
    pub flows: Vec<FlowReport>,
    pub total: TotalReport,
}

fn ms(us: Option<u64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.1}", us as f64 / 1000.0))
}

impl Report {
    /// For people.
    pub fn table(&self) -> String {
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
