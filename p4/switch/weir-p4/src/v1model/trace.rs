// SPDX-License-Identifier: Apache-2.0
//! Traces of the packet's path between the blocks of a program.
use super::packets::*;
use super::switch::Switch;
use crate::bytecode::lower::lower_traced;
use crate::bytecode::program::Program;
use crate::exec::trace::{PassStart, Tracer};
use crate::exec::{Mirror, Origin};
use std::sync::Arc;

impl Switch {
    /// As [`Switch::new`], with a trace: [`Switch::take_trace`] gives its lines. It runs slower, and making it takes
    /// as long as compiling.
    pub fn traced(program: Arc<Program>, seed: u64) -> Switch {
        let code = lower_traced(&program).map(Arc::new);
        let mut switch = Switch::with_code(program, seed, code);
        switch.scratch.tracer = Tracer::new();
        switch
    }

    /// Whether this switch writes a trace.
    pub fn is_traced(&self) -> bool {
        self.scratch.tracer.on
    }

    /// Lines of the trace since the last call, without their ends.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.scratch.tracer.take()
    }

    /// Packets and passes of the trace so far.
    pub fn trace_numbers(&self) -> (u64, u64) {
        self.scratch.tracer.numbers()
    }

    /// Goes on with the numbers of a trace that this one continues.
    pub fn resume_trace(&mut self, numbers: (u64, u64)) {
        self.scratch.tracer.resume(numbers);
    }

    /// Sets the reason for which the port of the next packets through egress takes none, such as `is down`; None: it takes
    /// them.
    pub fn trace_refusal(&mut self, reason: Option<&'static str>) {
        self.scratch.tracer.refusal = reason;
    }

    /// Adds a line for a packet that was dropped before egress.
    pub fn trace_queue_drop(&mut self, q: &Queued, now_us: u64, reason: &str) {
        self.scratch.tracer.dropped_between(q.carried.origin, now_us, q.port, reason);
    }

    /// Adds a line for a packet that was dropped before it was parsed again.
    pub fn trace_again_drop(&mut self, a: &Arriving, now_us: u64, reason: &str) {
        self.scratch.tracer.dropped_between(a.origin, now_us, a.port, reason);
    }

    pub(super) fn begin_ingress(&mut self, a: &Arriving, now_us: u64) {
        let start = PassStart {
            stage: "ingress",
            kind: InstanceType::name(a.kind as u64),
            time_us: now_us,
            port: a.port,
            length: a.packet.len(),
            queue: None,
        };
        self.scratch.tracer.begin(a.origin, &start);
    }

    pub(super) fn begin_egress(&mut self, q: &Queued, now_us: u64) {
        let kind = InstanceType::name(q.carried.frame[self.program.std_fields.instance_type - self.slots.start]);
        let queue = Some((q.priority, q.enq_qdepth, q.deq_qdepth, q.deq_us.saturating_sub(q.enq_us)));
        let (port, length) = (q.port, q.length as usize);
        let start = PassStart { stage: "egress", kind, time_us: now_us, port, length, queue };
        self.scratch.tracer.begin(q.carried.origin, &start);
    }

    /// Queues a packet.
    pub(super) fn push(&mut self, mut q: Queued, out: &mut Vec<Queued>) {
        if self.scratch.tracer.on {
            let s = &self.program.std_fields;
            let at = |slot: usize| q.carried.frame[slot - self.slots.start];
            let (kind, rid) = (InstanceType::name(at(s.instance_type)), at(s.egress_rid) as u32);
            let origin = self.scratch.tracer.child();
            q.carried.origin = origin;
            self.scratch.tracer.queued(origin.pass, kind, q.port, q.priority, (rid != 0).then_some(rid));
        }
        out.push(q);
    }

    /// A packet for another round through ingress.
    pub(super) fn again(&mut self, kind: InstanceType) -> Origin {
        let origin = self.scratch.tracer.child();
        if self.scratch.tracer.on {
            self.scratch.tracer.again(origin.pass, InstanceType::name(kind as u64));
        }
        origin
    }

    /// A packet or a copy of it that goes no further.
    pub(super) fn trace_drop(&mut self, reason: impl FnOnce(&Switch) -> String) {
        if self.scratch.tracer.on {
            let reason = reason(self);
            self.scratch.tracer.dropped(&reason);
        }
    }

    /// The session of a clone; a clone without one is a result of its own.
    pub(super) fn session(&mut self, id: u32) -> Option<Mirror> {
        let mirror = self.state.mirrors.get(&id).cloned();
        if mirror.is_none() {
            self.trace_drop(|_| format!("the clone's session {id} is not configured"));
        }
        mirror
    }
}
