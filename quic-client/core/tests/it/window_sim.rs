// SPDX-License-Identifier: Apache-2.0
//! A sender in slow start over one link, and a receiver whose windows obey a rule. Flow control is quiche's
//! (flowcontrol.rs and its callers), written down again in a few lines so that rules can be compared without one.
//!
//! The link has a rate and half the RTT each way, the way back has no queue. The sender starts with ten packets and
//! doubles each round trip, while its window is what holds it back, until it fills the pipe and the buffer; it then
//! keeps that window (no packet is lost). It serves its streams in turn.

use quiche::hooks::{Scope, WindowRule, WindowUpdate};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};
use weir_core::window::Windows;

pub const PACKET_BYTES: u64 = 1350;

#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub rate_bit_s: u64,
    pub rtt: Duration,
    pub buffer_bytes: u64,
}

impl Link {
    pub fn bdp_bytes(&self) -> u64 {
        (self.rate_bit_s as f64 / 8.0 * self.rtt.as_secs_f64()) as u64
    }
}

// One window, as quiche keeps it.
#[derive(Debug, Clone)]
pub struct Flow {
    pub scope: Scope,
    pub consumed: u64,
    pub received: u64,
    pub max_data: u64,
    pub window: u64,
    pub max_window: u64,
    pub last_update: Option<Instant>,
    pub due: bool,
}

impl Flow {
    pub fn new(scope: Scope, window: u64, max_window: u64) -> Self {
        Flow { scope, consumed: 0, received: 0, max_data: window, window, max_window, last_update: None, due: false }
    }

    pub fn should_update(&self) -> bool {
        self.due || self.max_data - self.consumed < self.window / 2
    }

    fn at(&self, now: Instant, rtt: Duration) -> WindowUpdate {
        WindowUpdate {
            scope: self.scope,
            now,
            rtt,
            since_last: self.last_update.map(|last| now - last),
            window_bytes: self.window,
            max_window_bytes: self.max_window,
            consumed_bytes: self.consumed,
            received_bytes: self.received,
            max_data_bytes: self.max_data,
        }
    }

    /// Same as `hooks::retune`.
    pub fn retune(&mut self, rule: &mut Windows, now: Instant, rtt: Duration) {
        self.due |= rule.due(&self.at(now, rtt));
    }

    fn ask(&mut self, rule: &mut Windows, now: Instant, rtt: Duration) {
        self.window = rule.next(&self.at(now, rtt)).min(self.max_window);
    }

    pub fn commit(&mut self, now: Instant) {
        self.max_data = self.max_data.max(self.consumed + self.window);
        self.last_update = Some(now);
        self.due = false;
    }
}

// Same as quiche's writing of a packet. True if a limit was raised.
pub fn update(conn: &mut Flow, streams: &mut [Flow], rule: &mut Windows, now: Instant, rtt: Duration) -> bool {
    let mut raised = false;
    for stream in streams {
        if stream.should_update() {
            stream.ask(rule, now, rtt);
            stream.commit(now);
            raised = true;
            let wanted = (stream.window as f64 * 1.5) as u64;
            let floor = rule.lower_bound(conn.window, conn.max_window, wanted);
            conn.window = conn.window.max(floor).min(conn.max_window);
        }
    }
    if conn.should_update() && (conn.due || conn.max_data < conn.consumed + conn.window) {
        conn.ask(rule, now, rtt);
        if conn.max_data < conn.consumed + conn.window {
            conn.commit(now);
            raised = true;
        }
        conn.due = false;
    }
    raised
}

#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub time: Duration,
    /// Until the link was busy for one whole RTT.
    pub full: Option<Duration>,
    pub peak_promised_bytes: u64,
    /// Time in which flow control alone held the sender back.
    pub held_back: Duration,
    pub updates: u32,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// At the receiver: stream, bytes, delay in the queue in ns.
    Arrival(usize, u64, u64),
    /// At the sender: bytes acknowledged and the limits that came with it.
    Ack(u64, u64, Vec<u64>),
}

/// A transfer of `bytes` over `streams` streams; `weir`: the rule is asked in each iteration.
pub fn transfer(link: Link, rule: Windows, weir: bool, streams: usize, bytes: u64, start: Instant) -> Outcome {
    transfer_believing(link, 1.0, rule, weir, streams, bytes, start)
}

/// The same with a receiver that believes the RTT to be `belief` times what it is.
pub fn transfer_believing(
    link: Link,
    belief: f64,
    mut rule: Windows,
    weir: bool,
    streams: usize,
    bytes: u64,
    start: Instant,
) -> Outcome {
    let initial = rule.initial();
    let mut conn = Flow::new(Scope::Connection, initial.conn_bytes, initial.max_conn_bytes);
    let mut flows: Vec<Flow> = (0..streams as u64)
        .map(|n| Flow::new(Scope::Stream(4 * n), initial.stream_bytes, initial.max_stream_bytes))
        .collect();
    let half = link.rtt / 2;
    let wire = |n: u64| Duration::from_nanos(n * 8 * 1_000_000_000 / link.rate_bit_s);
    // The requests leave at `start`, with any updates made for them.
    for flow in &flows {
        let Scope::Stream(id) = flow.scope else { unreachable!() };
        rule.stream_opened(id, start);
    }
    if weir {
        conn.retune(&mut rule, start, link.rtt);
        flows.iter_mut().for_each(|flow| flow.retune(&mut rule, start, link.rtt));
    }
    let mut updates = u32::from(update(&mut conn, &mut flows, &mut rule, start, link.rtt));
    let mut now = start + half;
    let (mut limit, mut limits) = (conn.max_data, flows.iter().map(|f| f.max_data).collect::<Vec<_>>());

    let most = link.bdp_bytes() + link.buffer_bytes;
    let mut cwnd = 10 * PACKET_BYTES;
    let (mut in_flight, mut sent_total) = (0, 0);
    let mut sent = vec![0; streams];
    let mut left: Vec<u64> =
        (0..streams as u64).map(|n| bytes / streams as u64 + u64::from(n < bytes % streams as u64)).collect();
    let mut turn = 0;
    let mut link_free = start;
    let mut busy_since: Option<Instant> = None;
    let mut out = Outcome {
        time: Duration::ZERO,
        full: None,
        peak_promised_bytes: conn.max_data,
        held_back: Duration::ZERO,
        updates: 0,
    };
    let mut held_since: Option<Instant> = None;
    let mut queue = BinaryHeap::new();
    let mut number = 0u64;
    let mut push = |queue: &mut BinaryHeap<_>, at: Instant, event: Event| {
        number += 1;
        queue.push(Reverse((at, number, event)));
    };
    loop {
        // The sender sends as much as it may.
        let mut starved = false;
        while cwnd >= in_flight + PACKET_BYTES {
            let room = |n: usize| left[n].min(limits[n] - sent[n]).min(limit - sent_total);
            let Some(n) = (0..streams).map(|k| (turn + k) % streams).find(|n| room(*n) > 0) else {
                starved = left.iter().any(|l| *l > 0);
                break;
            };
            let size = room(n).min(PACKET_BYTES);
            turn = n + 1;
            left[n] -= size;
            sent[n] += size;
            sent_total += size;
            in_flight += size;
            if link_free <= now {
                busy_since = Some(now);
            }
            let departs = link_free.max(now) + wire(size);
            let waited = (departs - now - wire(size)).as_nanos() as u64;
            link_free = departs;
            push(&mut queue, departs + half, Event::Arrival(n, size, waited));
        }
        let app_limited = in_flight + PACKET_BYTES <= cwnd;
        match (starved, held_since) {
            (true, None) => held_since = Some(now),
            (false, Some(since)) => {
                out.held_back += now - since;
                held_since = None;
            }
            _ => {}
        }
        if out.full.is_none() && busy_since.is_some_and(|since| link_free.duration_since(since) >= link.rtt) {
            out.full = Some(now - start);
        }
        let Some(Reverse((at, _, event))) = queue.pop() else { break };
        now = at;
        match event {
            Event::Ack(size, new_limit, new_limits) => {
                in_flight -= size;
                limit = limit.max(new_limit);
                limits.iter_mut().zip(new_limits).for_each(|(old, new)| *old = (*old).max(new));
                if !app_limited {
                    cwnd = (cwnd + size).min(most);
                }
            }
            Event::Arrival(n, size, waited_ns) => {
                let rtt = (link.rtt + Duration::from_nanos(waited_ns)).mul_f64(belief);
                for flow in [&mut conn, &mut flows[n]] {
                    flow.received += size;
                    flow.consumed += size;
                }
                out.time = now - start;
                if weir {
                    conn.retune(&mut rule, now, rtt);
                    flows.iter_mut().for_each(|flow| flow.retune(&mut rule, now, rtt));
                }
                updates += u32::from(update(&mut conn, &mut flows, &mut rule, now, rtt));
                out.peak_promised_bytes = out.peak_promised_bytes.max(conn.max_data - conn.received);
                let limits = flows.iter().map(|f| f.max_data).collect();
                push(&mut queue, now + half, Event::Ack(size, conn.max_data, limits));
            }
        }
    }
    assert_eq!(conn.received, bytes, "the transfer came to a standstill");
    out.updates = updates;
    out
}
