// SPDX-License-Identifier: Apache-2.0
//! Traces: a line of JSON for each pass of a packet through ingress or egress. Only code that was made for traces
//! ([`crate::bytecode::lower::lower_traced`]) reports events; other code has none of the instructions.
mod json;
mod tables;

use crate::bytecode::code::{PointField, Source, TracePoint};
use crate::bytecode::source_map::SourcePlace;
use crate::value::Val;
use json::{Object, hex};

pub(crate) use tables::Lookup;

/// Version of the schema: members are only added within a version.
pub const TRACE_VERSION: u64 = 1;

/// Events of a pass; later ones are left out and the line says so.
const MOST_EVENTS: usize = 1000;

/// Characters of a pass's events.
const MOST_CHARS: usize = 256 << 10;

/// Identity of a pass. Packets and passes are numbered from 1; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The received packet that the pass comes from.
    pub packet: u64,
    /// The pass.
    pub pass: u64,
    /// The pass that made this one.
    pub parent: u64,
}

/// Packet and place of a pass.
pub(crate) struct PassStart {
    pub stage: &'static str,
    pub kind: &'static str,
    pub time_us: u64,
    pub port: u32,
    pub length: usize,
    /// Priority, depth on entry, depth on leaving, wait in microseconds.
    pub queue: Option<(u8, u32, u32, u64)>,
}

/// A trace that is being written.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    pub on: bool,
    /// Events are left out for now.
    pub is_muted: bool,
    /// Reason for which the egress port of the pass takes no packet.
    pub refusal: Option<&'static str>,
    packets: u64,
    passes: u64,
    /// The pass that runs: its head, its events, its results.
    head: String,
    events: String,
    count: usize,
    left_out: u64,
    results: String,
    origin: Origin,
    lines: Vec<String>,
}

impl Tracer {
    pub fn new() -> Tracer {
        Tracer { on: true, ..Tracer::default() }
    }

    /// Packets and passes so far.
    pub fn numbers(&self) -> (u64, u64) {
        (self.packets, self.passes)
    }

    /// Goes on from these numbers, so that none is used twice.
    pub fn resume(&mut self, numbers: (u64, u64)) {
        (self.packets, self.passes) = numbers;
    }

    /// The finished lines, without their ends.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Identity of a pass that the running one makes.
    pub fn child(&mut self) -> Origin {
        if !self.on {
            return Origin::default();
        }
        self.passes += 1;
        Origin { packet: self.origin.packet, pass: self.passes, parent: self.origin.pass }
    }

    /// Begins a pass; one without a number is that of a received packet.
    pub fn begin(&mut self, mut origin: Origin, start: &PassStart) {
        if origin.packet == 0 {
            self.packets += 1;
            self.passes += 1;
            origin = Origin { packet: self.packets, pass: self.passes, parent: 0 };
        }
        self.origin = origin;
        self.events.clear();
        self.results.clear();
        (self.count, self.left_out) = (0, 0);
        self.head = head(origin, start.stage);
        let mut o = Object::more(&mut self.head);
        o.text("kind", start.kind);
        o.number("time_us", start.time_us);
        o.number("port", u64::from(start.port));
        o.number("length", start.length as u64);
        if let Some((priority, enq_depth, deq_depth, waited_us)) = start.queue {
            o.object("queue", |q| {
                q.number("priority", u64::from(priority));
                q.number("enq_depth", u64::from(enq_depth));
                q.number("deq_depth", u64::from(deq_depth));
                q.number("waited_us", waited_us);
            });
        }
    }

    /// Ends the pass: its line is complete.
    pub fn end(&mut self) {
        let mut line = std::mem::take(&mut self.head);
        line.push_str(",\"events\":[");
        line.push_str(&self.events);
        line.push(']');
        if self.left_out > 0 {
            line.push_str(&format!(",\"events_left_out\":{}", self.left_out));
        }
        line.push_str(",\"results\":[");
        line.push_str(&self.results);
        line.push_str("]}");
        self.lines.push(line);
    }

    /// The parser ended with an error.
    pub fn parser_error(&mut self, name: &str) {
        self.event("parser_error", |o| o.text("error", name));
    }

    /// An event of the running pass.
    fn event(&mut self, name: &str, fill: impl FnOnce(&mut Object)) {
        if self.is_muted {
            return;
        }
        if self.count >= MOST_EVENTS || self.events.len() >= MOST_CHARS {
            self.left_out += 1;
            return;
        }
        if self.count > 0 {
            self.events.push(',');
        }
        self.count += 1;
        let mut o = Object::new(&mut self.events);
        o.text("event", name);
        fill(&mut o);
        o.end();
    }

    /// A result of the running pass.
    fn result(&mut self, name: &str, fill: impl FnOnce(&mut Object)) {
        if !self.on {
            return;
        }
        if !self.results.is_empty() {
            self.results.push(',');
        }
        let mut o = Object::new(&mut self.results);
        o.text("result", name);
        fill(&mut o);
        o.end();
    }

    /// A packet for a queue.
    pub fn queued(&mut self, pass: u64, kind: &str, port: u32, priority: u8, rid: Option<u32>) {
        self.result("queue", |o| {
            o.number("pass", pass);
            o.text("kind", kind);
            o.number("port", u64::from(port));
            o.number("priority", u64::from(priority));
            if let Some(rid) = rid {
                o.number("rid", u64::from(rid));
            }
        });
    }

    /// A packet for another pass of ingress.
    pub fn again(&mut self, pass: u64, kind: &str) {
        self.result("ingress", |o| {
            o.number("pass", pass);
            o.text("kind", kind);
        });
    }

    /// A packet that left, unless its port takes none.
    pub fn sent(&mut self, port: u32, length: usize) {
        if let Some(reason) = self.refusal {
            return self.dropped(&format!("port {port} {reason}"));
        }
        self.result("sent", |o| {
            o.number("port", u64::from(port));
            o.number("length", length as u64);
        });
    }

    /// The packet of the pass, or a copy that it asked for, went no further.
    pub fn dropped(&mut self, reason: &str) {
        self.result("drop", |o| o.text("reason", reason));
    }

    /// A line for a packet that was dropped between two passes.
    pub fn dropped_between(&mut self, origin: Origin, time_us: u64, port: u32, reason: &str) {
        if !self.on {
            return;
        }
        let mut line = head(origin, "queue");
        let mut o = Object::more(&mut line);
        o.number("time_us", time_us);
        o.number("port", u64::from(port));
        o.list("results", [reason], |to, reason| {
            let mut r = Object::new(to);
            r.text("result", "drop");
            r.text("reason", reason);
            r.end();
        });
        o.end();
        self.lines.push(line);
    }

    /// An event that code reports; `value` reads the frame.
    pub fn point(&mut self, point: &TracePoint, places: &[SourcePlace], value: impl Fn(Source) -> Val) {
        self.event(point.event, |o| {
            for (key, field) in &point.fields {
                match field {
                    PointField::Text(t) => o.text(key, t),
                    PointField::Flag(f) => o.flag(key, *f),
                    PointField::Number(n) => o.number(key, *n),
                    PointField::Value(s, w) => o.text(key, &hex(&value(*s), *w)),
                    PointField::Values(list) => o.texts(key, list.iter().map(|(s, w)| hex(&value(*s), *w))),
                }
            }
            if let Some(place) = point.place.and_then(|p| places.get(p)) {
                o.text("at", &place.at);
                if !place.text.is_empty() {
                    o.text("source", &place.text);
                }
            }
        });
    }
}

/// The members that all lines have, of an object that goes on.
fn head(origin: Origin, stage: &str) -> String {
    let mut head = String::new();
    let mut o = Object::new(&mut head);
    o.number("v", TRACE_VERSION);
    o.number("packet", origin.packet);
    o.number("pass", origin.pass);
    if origin.parent != 0 {
        o.number("parent", origin.parent);
    }
    o.text("stage", stage);
    head
}
