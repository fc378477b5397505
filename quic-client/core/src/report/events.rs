// SPDX-License-Identifier: Apache-2.0
//! Decisions of a client, with their times: lines of `--events`, and events in the qlog file.

use crate::congestion::Decision;
use serde::Serialize;
use std::collections::BTreeMap;

/// One event. Times are microseconds of `CLOCK_MONOTONIC`; paths carry the names given by the user.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "k", rename_all = "lowercase")]
pub enum Event {
    /// A task ended.
    Task {
        /// Its number, from 0.
        task: u64,
        /// The path it was begun on.
        path: String,
        /// When it was due and its path chosen: before any probing or migration.
        start_us: u64,
        /// From then to the last byte (Tan Eq. 3).
        tct_us: u64,
        /// Payload.
        bytes: u64,
        /// [`crate::client::Outcome::name`].
        outcome: &'static str,
        /// The connection migrated for it.
        switched: bool,
        /// Its path had to be probed first.
        cold: bool,
        /// The path that took over in between, because the first one was lost or the other carried more.
        #[serde(skip_serializing_if = "Option::is_none")]
        moved_to: Option<String>,
        /// The path that carried most of the answer, if the connection was on another all the while.
        #[serde(skip_serializing_if = "Option::is_none")]
        answered_on: Option<String>,
    },
    /// Running downloads moved to another path.
    Move {
        /// The path now.
        path: String,
        /// The path before.
        from: String,
        /// trial, carried more, no better, or the server sends nothing again.
        reason: &'static str,
        /// Rate of each path, as far as it was measured in these downloads.
        rate_bit_s: BTreeMap<String, u64>,
        /// Payload still to come, where it is known.
        left_bytes: Option<u64>,
    },
    /// The server keeps answering on another path than that of the requests; the connection follows it and stays for a
    /// while.
    #[serde(rename = "answers-elsewhere")]
    Elsewhere {
        /// The path in use until now.
        path: String,
        /// Where answers arrive.
        on: String,
    },
    /// A task's request is repeated on another stream: the connection moved, and the server answers but does not repeat
    /// the bytes in flight on the path that was left.
    #[serde(rename = "task-retry")]
    Retry {
        /// The task.
        task: u64,
        /// The path the connection is on.
        path: String,
        /// Payload that had arrived and is thrown away.
        bytes: u64,
    },
    /// A path was chosen for a task.
    Choice {
        /// The task.
        task: u64,
        /// The path.
        path: String,
        /// Why, in the strategy's words.
        reason: &'static str,
        /// Index of each path in the strategy's own unit (`r_k` in ms).
        index: BTreeMap<String, f64>,
    },
    /// Something happened to a path.
    Path {
        /// The path.
        path: String,
        /// Kind: added, removed, probing, validated, failed, lost, recovered, switched, interface-up, interface-down.
        event: &'static str,
        /// PATH_CHALLENGE to PATH_RESPONSE, at `validated`.
        rtt_us: Option<u64>,
    },
    /// Connection IDs: how many paths can be had (RFC 9000 5.1.1), once per connection.
    Cid {
        /// For every path one, and spare ones to migrate again.
        wanted: u64,
        /// The peer's `active_connection_id_limit`.
        peer_limit: u64,
        /// Ours.
        own_limit: u64,
        /// Paths that can be used at once.
        usable: u64,
        /// The peer's transport parameters do not forbid active migration.
        migration_allowed: bool,
    },
    /// A receive window was moved on.
    Window {
        /// The stream; none for the connection.
        stream: Option<u64>,
        /// The window now.
        window_bytes: u64,
        /// The limit advertised, less the bytes received: bytes that the peer may still send.
        promised_bytes: u64,
        /// Received so far.
        received_bytes: u64,
    },
    /// Throughput advice of the network changed.
    Advice {
        /// The lowest rate advised in the last 67 s; none if it expired.
        rate_bit_s: Option<u64>,
    },
    /// A congestion control that learns decided on an interval.
    Decision {
        /// Its number on the connection, from 0.
        n: u64,
        /// Input of the network.
        state: Vec<f64>,
        /// The exponent of the window's factor, to the base 2 (Zhang et al., Eq. 4).
        action: f64,
        /// The window that this makes.
        window_bytes: f64,
        /// The window.
        used_bytes: u64,
        /// Holder that set the window: [`crate::congestion::By::text`].
        by: String,
        /// A quantity out of the range of the training.
        outside: Option<&'static str>,
    },
    /// Memory promised to peers over all connections of the process.
    Promised {
        /// Now.
        promised_bytes: u64,
        /// The most so far.
        peak_bytes: u64,
        /// Limit that is never exceeded.
        budget_bytes: u64,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: &'a Event,
    t_us: u64,
    flow: Option<u64>,
}

impl Event {
    /// Part of a decision for a reader of a connection's log; a trajectory has the rest.
    pub fn decision(decision: &Decision) -> Event {
        let Decision { ref seen, action, window_bytes, used_bytes, .. } = *decision;
        Event::Decision {
            n: seen.n,
            state: seen.state.clone(),
            action,
            window_bytes,
            used_bytes,
            by: decision.by.text(),
            outside: seen.outside,
        }
    }

    /// The event as a line of JSON.
    ///
    /// # Errors
    /// Only errors of `serde_json`, which these types never cause.
    pub fn line(&self, t_us: u64, flow: Option<u64>) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Line { event: self, t_us, flow })
    }

    /// Its name in a qlog file, in a namespace of our own (draft-ietf-quic-qlog-main-schema, custom events).
    pub fn qlog_name(&self) -> &'static str {
        match self {
            Event::Task { .. } => "weir:task_ended",
            Event::Retry { .. } => "weir:task_asked_anew",
            Event::Move { .. } => "weir:download_moved",
            Event::Elsewhere { .. } => "weir:answers_elsewhere",
            Event::Choice { .. } => "weir:path_chosen",
            Event::Path { .. } => "weir:path_updated",
            Event::Cid { .. } => "weir:cid_budget",
            Event::Window { .. } => "weir:window_updated",
            Event::Advice { .. } => "weir:throughput_advised",
            Event::Decision { .. } => "weir:congestion_decision",
            Event::Promised { .. } => "weir:memory_promised",
        }
    }

    /// Its data in a qlog file.
    pub fn qlog_data(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("k");
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_and_qlog_events_say_the_same() {
        let event = Event::Choice {
            task: 3,
            path: "wan1".into(),
            reason: "least index",
            index: [("wan2".to_owned(), 7.5), ("wan1".to_owned(), 6.25)].into(),
        };
        let line: serde_json::Value = serde_json::from_str(&event.line(12, Some(4)).unwrap()).unwrap();
        let mut want = json!({"k": "choice", "t_us": 12, "flow": 4, "task": 3, "path": "wan1", "reason": "least index",
                              "index": {"wan1": 6.25, "wan2": 7.5}});
        assert_eq!(line, want);
        for name in ["k", "t_us", "flow"] {
            want.as_object_mut().unwrap().remove(name);
        }
        assert_eq!((event.qlog_name(), event.qlog_data()), ("weir:path_chosen", want));
    }

    #[test]
    fn a_task_that_stayed_says_nothing_of_moving() {
        let task = |moved_to| Event::Task {
            task: 0,
            path: "default".into(),
            start_us: 5,
            tct_us: 7,
            bytes: 1,
            outcome: "complete",
            switched: false,
            cold: false,
            moved_to,
            answered_on: None,
        };
        assert!(!task(None).line(1, None).unwrap().contains("moved_to"));
        assert!(task(Some("b".into())).line(1, None).unwrap().contains(r#""moved_to":"b""#));
    }
}
