// SPDX-License-Identifier: Apache-2.0
//! simple_switch's order of things around the program: parser to deparser, and the packet's path in between. Pure: the
//! caller owns time, ports and queues. [`Switch::ingress`] gives packets to queue, [`Switch::egress`] takes one from
//! the queue; [`Switch::process`] joins them by queues that never wait.
use crate::bytecode::code::{Code, NARROW};
use crate::bytecode::lower::lower;
use crate::bytecode::operators::Slot;
use crate::bytecode::program::Program;
use crate::exec::interpreter::{Input, Machine, Scratch, jit};
use crate::exec::packet::Packet;
use crate::exec::{Mirror, State};
use crate::v1model::packets::*;
use crate::value::{Val, clear_values, copy_values};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A program and its state.
pub struct Switch {
    /// The program that runs.
    pub program: Arc<Program>,
    /// Tables, registers and so on; controllers change it between two packets.
    pub state: State,
    /// The egress_spec that drops.
    pub drop_port: u32,
    code: Arc<Code>,
    /// The reason why there is no native code.
    interpreted: String,
    frame: Vec<u64>,
    pub(super) scratch: Scratch,
    /// First slot of a packet's state between blocks and how many there are: the three structs lie next to each other.
    /// The same in the wide frame.
    pub(super) slots: Range<usize>,
    wide: Range<usize>,
    /// Buffers to use again.
    packets: Vec<Packet>,
    #[allow(clippy::vec_box, reason = "the boxes are what is used again")]
    carried: Vec<Box<Carried>>,
}

/// Rounds of resubmitting, recirculating and cloning that [`Switch::process`] follows for one packet.
const MAX_ROUNDS: u32 = 1000;

/// Idle buffers kept of each kind.
const MAX_IDLE: usize = 1024;

impl Switch {
    /// A switch with the program's initial state; `seed` starts `random`.
    pub fn new(program: Arc<Program>, seed: u64) -> Switch {
        // A program that was not compiled is a test's own.
        let code = program.code.clone().or_else(|| lower(&program).map(Arc::new));
        Switch::with_code(program, seed, code)
    }

    /// As [`Switch::new`], running native code if the system and the program allow it ([`Switch::native`]). Making it
    /// takes as long as compiling.
    pub fn compiled(program: Arc<Program>, seed: u64) -> Switch {
        let mut switch = Switch::new(program, seed);
        match jit::compile(&switch.code) {
            Ok(native) => switch.scratch.native = Some(native),
            Err(reason) => switch.interpreted = reason,
        }
        switch
    }

    /// Whether this switch runs native code.
    ///
    /// # Errors
    /// The reason why it interprets, as text.
    pub fn native(&self) -> Result<(), &str> {
        if self.scratch.native.is_some() { Ok(()) } else { Err(&self.interpreted) }
    }

    pub(super) fn with_code(program: Arc<Program>, seed: u64, code: Option<Arc<Code>>) -> Switch {
        let (state, code) = (State::new(&program, seed), code.unwrap_or_default());
        let slots = program.headers.0..program.std.0 + program.std.1;
        let wide_before = |end: usize| code.wide_of[..end].iter().filter(|w| **w != NARROW).count();
        let wide = wide_before(slots.start)..wide_before(slots.end);
        let scratch = Scratch::new(code.wide_cells);
        let frame = code.frame.clone();
        let (packets, carried) = (Vec::new(), Vec::new());
        let interpreted = "not requested".into();
        Switch {
            program,
            state,
            drop_port: DROP_PORT,
            code,
            interpreted,
            frame,
            scratch,
            slots,
            wide,
            packets,
            carried,
        }
    }

    /// Steps that packets have taken since the last call.
    pub fn spent(&mut self) -> u64 {
        std::mem::take(&mut self.scratch.spent)
    }

    /// A packet of these bytes in a buffer used before, if there is one.
    pub fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut p = self.packets.pop().unwrap_or_default();
        p.fill(bytes);
        p
    }

    /// Takes back the buffer of a packet that was sent.
    pub fn recycle(&mut self, p: Packet) {
        if self.packets.len() < MAX_IDLE && p.has_buffer() {
            self.packets.push(p);
        }
    }

    /// Takes back a packet that will not be sent.
    pub fn discard(&mut self, q: Queued) {
        self.free(q.carried);
    }

    fn free(&mut self, mut c: Box<Carried>) {
        self.recycle(std::mem::take(&mut c.payload));
        if self.carried.len() < MAX_IDLE {
            self.carried.push(c);
        }
    }

    /// Room for a packet between ingress and egress, with the frame as it stands.
    fn carry(&mut self, payload: Packet, ingress_port: u32) -> Box<Carried> {
        let mut c = self.carried.pop().unwrap_or_default();
        c.frame.clear();
        c.frame.extend_from_slice(&self.frame[self.slots.clone()]);
        c.wide.resize(self.wide.len(), Val::S(0));
        copy_values(&mut c.wide, &self.scratch.wide[self.wide.clone()]);
        c.payload = payload;
        c.truncate = None;
        c.clone_bytes = None;
        c.ingress_port = ingress_port;
        c.grown_bytes = 0;
        c
    }

    fn copy(&mut self, c: &Carried) -> Box<Carried> {
        let payload = self.packet(&c.payload);
        let mut copy = self.carried.pop().unwrap_or_default();
        copy.frame.clone_from(&c.frame);
        copy.wide.clone_from(&c.wide);
        copy.payload = payload;
        copy.truncate = c.truncate;
        copy.clone_bytes = c.clone_bytes;
        copy.ingress_port = c.ingress_port;
        copy.grown_bytes = c.grown_bytes;
        copy
    }

    /// Brings back the frame of a packet that was carried.
    fn restore(&mut self, c: &Carried) {
        self.frame[self.slots.clone()].copy_from_slice(&c.frame);
        copy_values(&mut self.scratch.wide[self.wide.clone()], &c.wide);
    }

    fn get(&self, slot: Slot) -> Val {
        match self.code.wide_of[slot] {
            NARROW => Val::S(self.frame[slot] as u128),
            w => self.scratch.wide[w as usize].clone(),
        }
    }

    fn set(&mut self, slot: Slot, v: Val) {
        match self.code.wide_of[slot] {
            NARROW => self.frame[slot] = v.low() as u64,
            w => self.scratch.wide[w as usize] = v,
        }
    }

    fn kept(&self, list: Option<u64>) -> Vec<(Slot, Val)> {
        let slots = list.and_then(|id| self.program.field_lists.iter().find(|(i, _)| *i == id));
        slots.map_or(Vec::new(), |(_, s)| s.iter().map(|s| (*s, self.get(*s))).collect())
    }

    /// Clears slots of the frame, those among them that are wide too.
    fn clear(&mut self, slots: Range<usize>) {
        self.frame[slots.clone()].fill(0);
        for w in self.code.wide_of[slots].iter().filter(|w| **w != NARROW) {
            self.scratch.wide[*w as usize] = Val::S(0);
        }
    }

    /// Clears user and standard metadata but for the fields of a field list.
    fn reset_metadata(&mut self, kept: Vec<(Slot, Val)>, kind: InstanceType) {
        let (meta, std) = (self.program.meta, self.program.std);
        self.clear(meta.0..meta.0 + meta.1);
        self.clear(std.0..std.0 + std.1);
        kept.into_iter().for_each(|(slot, v)| self.set(slot, v));
        self.frame[self.program.std_fields.instance_type] = kind as u64;
    }

    /// Parser, checksum verification and ingress.
    pub fn ingress(&mut self, a: Arriving, now_us: u64, notes: &mut Notes, out: &mut IngressOut) {
        if !self.scratch.tracer.on {
            return self.run_ingress(a, now_us, notes, out);
        }
        self.begin_ingress(&a, now_us);
        self.run_ingress(a, now_us, notes, out);
        self.scratch.tracer.end();
    }

    fn run_ingress(&mut self, a: Arriving, now_us: u64, notes: &mut Notes, out: &mut IngressOut) {
        let p = self.program.clone();
        let length = a.packet.len() as u32;
        self.frame[self.slots.clone()].fill(0);
        clear_values(&mut self.scratch.wide[self.wide.clone()]);
        a.kept.into_iter().for_each(|(slot, v)| self.set(slot, v));
        let s = &p.std_fields;
        // As in simple_switch, only a packet from outside knows its port and time.
        if a.kind == InstanceType::Normal {
            self.frame[s.ingress_port] = u64::from(a.port & 0x1ff);
            self.frame[s.ingress_global_timestamp] = now_us & 0xffff_ffff_ffff;
        }
        self.frame[s.instance_type] = a.kind as u64;
        self.frame[s.packet_length] = u64::from(length);
        let n = &mut self.frame;
        let input = Input { packet: &a.packet, length_bytes: length, now_us, drop_port: self.drop_port };
        let mut m = Machine::new(&self.code, &p, &mut self.state, &mut self.scratch, input);
        let parsed = m.parse(n);
        let read = m.at / 8;
        let fine = parsed.is_some_and(|error| {
            m.payload = &a.packet[read..];
            n[s.parser_error] = u64::from(error);
            m.trace_parser_error(error);
            let fine = m.control(n, p.verify);
            n[s.checksum_error] = u64::from(m.checksum_error);
            fine && m.control(n, p.ingress)
        });
        let (mut effects, grown_bytes) = (m.effects, m.grown_bytes);
        notes.take(&mut effects);
        if !fine {
            notes.ingress_drops += 1;
            self.trace_drop(|_| notes.faults.last().cloned().unwrap_or_default());
            self.recycle(a.packet);
            return;
        }
        let priority = self.frame[s.priority] as u8;
        let make = |port: u32, priority: u8, carried: Box<Carried>| Queued {
            port,
            priority,
            length,
            enq_us: now_us,
            enq_qdepth: 0,
            deq_us: now_us,
            deq_qdepth: 0,
            carried,
        };
        if let Some((session, list)) = effects.clone
            && let Some(mirror) = self.session(session)
        {
            let kept = self.kept(list);
            let now = self.carry(Packet::default(), a.port);
            // The clone is the packet as it came, parsed again.
            self.clear(self.slots.clone());
            self.frame[s.ingress_port] = u64::from(a.port & 0x1ff);
            let n = &mut self.frame;
            self.scratch.tracer.is_muted = true;
            let mut m = Machine::new(&self.code, &p, &mut self.state, &mut self.scratch, input);
            let parsed = m.parse(n);
            let at = m.at / 8;
            self.scratch.tracer.is_muted = false;
            if parsed.is_some() {
                let payload = self.packet(&a.packet[at..]);
                self.reset_metadata(kept, InstanceType::IngressClone);
                let c = self.carry(payload, a.port);
                self.mirror(make(0, 0, c), &mirror, &mut out.queued);
            }
            self.restore(&now);
            self.free(now);
        }
        if let Some(list) = effects.resubmit {
            let kept = self.kept(list);
            let kind = InstanceType::Resubmitted;
            out.again = Some(Arriving { packet: a.packet, port: a.port, kind, kept, origin: self.again(kind) });
            return;
        }
        let group = self.frame[s.mcast_grp] as u32;
        let port = self.frame[s.egress_spec] as u32;
        if group == 0 && port == self.drop_port {
            notes.ingress_drops += 1;
            self.trace_drop(|s| format!("egress_spec is the drop port {} at the end of ingress", s.drop_port));
            self.recycle(a.packet);
            return;
        }
        let kind = if group != 0 { InstanceType::Replicated } else { InstanceType::Normal };
        self.frame[s.instance_type] = kind as u64;
        let mut payload = a.packet;
        payload.advance(read);
        let mut c = self.carry(payload, a.port);
        c.grown_bytes = grown_bytes;
        match group {
            0 => {
                c.truncate = effects.truncate;
                self.push(make(port, priority, c), &mut out.queued);
            }
            // As in BMv2 the copies are whole.
            g => self.replicate(make(0, priority, c), g, &mut out.queued),
        }
    }

    /// Copies a packet to a group's ports.
    fn replicate(&mut self, q: Queued, group: u32, out: &mut Vec<Queued>) {
        let rid_at = self.program.std_fields.egress_rid - self.slots.start;
        let replicas = self.state.groups.get(&group).cloned().unwrap_or_default();
        if replicas.iter().all(|(_, ports)| ports.is_empty()) {
            self.trace_drop(|_| format!("multicast group {group} has no ports"));
        }
        for (rid, ports) in replicas {
            for port in ports {
                let mut carried = self.copy(&q.carried);
                carried.frame[rid_at] = u64::from(rid & 0xffff);
                self.push(Queued { port, carried, ..q }, out);
            }
        }
        self.free(q.carried);
    }

    /// Sends a clone where its session says.
    fn mirror(&mut self, mut q: Queued, m: &Mirror, out: &mut Vec<Queued>) {
        q.carried.clone_bytes = m.truncate_bytes;
        if let Some(group) = m.group {
            let carried = self.copy(&q.carried);
            self.replicate(Queued { carried, ..q }, group, out);
        }
        match m.port {
            Some(port) => self.push(Queued { port, ..q }, out),
            None => {
                if m.group.is_none() {
                    self.trace_drop(|_| "the clone's session has no port".into());
                }
                self.free(q.carried);
            }
        }
    }

    /// Egress, checksum update and deparser for a packet that left its queue.
    pub fn egress(&mut self, q: Queued, now_us: u64, notes: &mut Notes, out: &mut EgressOut) {
        if !self.scratch.tracer.on {
            return self.run_egress(q, now_us, notes, out);
        }
        self.begin_egress(&q, now_us);
        self.run_egress(q, now_us, notes, out);
        self.scratch.tracer.end();
    }

    fn run_egress(&mut self, mut q: Queued, now_us: u64, notes: &mut Notes, out: &mut EgressOut) {
        let p = self.program.clone();
        let s = &p.std_fields;
        self.restore(&q.carried);
        let waited = q.deq_us.saturating_sub(q.enq_us);
        let n = &mut self.frame;
        let mut set = |slot: Slot, v: u64, w: u32| n[slot] = v & ((1 << w) - 1);
        set(s.egress_global_timestamp, now_us, 48);
        set(s.enq_timestamp, q.enq_us, 32);
        set(s.enq_qdepth, u64::from(q.enq_qdepth), 19);
        set(s.deq_timedelta, waited, 32);
        set(s.deq_qdepth, u64::from(q.deq_qdepth), 19);
        set(s.egress_port, u64::from(q.port), 9);
        // simple_switch sets drop port + 1, which in nine bits is 0 for its default.
        set(s.egress_spec, u64::from(self.drop_port) + 1, 9);
        set(s.packet_length, u64::from(q.length).wrapping_add_signed(q.carried.grown_bytes), 32);
        let input = Input { packet: &[], length_bytes: q.length, now_us, drop_port: self.drop_port };
        let mut m = Machine::new(&self.code, &p, &mut self.state, &mut self.scratch, input);
        m.payload = &q.carried.payload;
        m.grown_bytes = q.carried.grown_bytes;
        let mut fine = m.control(n, p.egress);
        let grown_bytes = m.grown_bytes;
        let mut effects = std::mem::take(&mut m.effects);
        let dropped = n[s.egress_spec] as u32 == self.drop_port;
        if let Some((session, list)) = effects.clone.take()
            && let Some(mirror) = self.session(session)
        {
            let kept = self.kept(list);
            let now = self.carry(Packet::default(), q.carried.ingress_port);
            let payload = self.packet(&q.carried.payload);
            self.reset_metadata(kept, InstanceType::EgressClone);
            let mut carried = self.carry(payload, q.carried.ingress_port);
            carried.grown_bytes = grown_bytes;
            self.restore(&now);
            self.free(now);
            let (enq_us, deq_us, length) = (now_us, now_us, q.length);
            let clone = Queued { port: 0, priority: 0, length, enq_us, enq_qdepth: 0, deq_us, deq_qdepth: 0, carried };
            self.mirror(clone, &mirror, &mut out.clones);
        }
        if fine && !dropped {
            let n = &mut self.frame;
            let mut m = Machine::new(&self.code, &p, &mut self.state, &mut self.scratch, input);
            m.payload = &q.carried.payload;
            m.effects = effects;
            fine = m.control(n, p.compute) && m.control(n, p.deparser);
            effects = m.effects;
        }
        notes.take(&mut effects);
        if !fine || dropped {
            notes.egress_drops += 1;
            self.trace_drop(|s| match fine {
                true => format!("egress_spec is the drop port {} at the end of egress", s.drop_port),
                false => notes.faults.last().cloned().unwrap_or_default(),
            });
            return self.discard(q);
        }
        let mut packet = std::mem::take(&mut q.carried.payload);
        packet.prepend(&self.scratch.head.bytes);
        let (cut, clone_bytes) = (effects.truncate.into_iter().chain(q.carried.truncate).min(), q.carried.clone_bytes);
        if let Some(n) = clone_bytes {
            packet.truncate(n);
        }
        let (port, ingress_port) = (q.port, q.carried.ingress_port);
        self.discard(q);
        if let Some(list) = effects.recirculate {
            // As in BMv2 it is whole again, in spite of `truncate`.
            let kept = self.kept(list);
            let kind = InstanceType::Recirculated;
            out.again = Some(Arriving { packet, port: ingress_port, kind, kept, origin: self.again(kind) });
            return;
        }
        if let Some(n) = cut {
            packet.truncate(n);
        }
        self.scratch.tracer.sent(port, packet.len());
        out.sent = Some(Sent { port, packet });
    }

    /// One packet through the switch and everything that comes of it, with queues that never wait.
    pub fn process(&mut self, bytes: &[u8], port: u32, now_us: u64, notes: &mut Notes) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut arriving = VecDeque::from([Arriving::new(self.packet(bytes), port)]);
        let (mut before, mut after) = (IngressOut::default(), EgressOut::default());
        let mut queue: VecDeque<Queued> = VecDeque::new();
        for _ in 0..MAX_ROUNDS {
            if let Some(q) = queue.pop_front() {
                self.egress(q, now_us, notes, &mut after);
                sent.extend(after.sent.take());
                queue.extend(after.clones.drain(..));
                arriving.extend(after.again.take());
            } else if let Some(a) = arriving.pop_front() {
                self.ingress(a, now_us, notes, &mut before);
                queue.extend(before.queued.drain(..));
                arriving.extend(before.again.take());
            } else {
                return sent;
            }
        }
        notes.faults.push(format!("a packet was cloned, resubmitted or recirculated more than {MAX_ROUNDS} times"));
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn can_move_to_another_thread() {
        fn sends<T: Send>() {}
        sends::<Switch>();
        sends::<Queued>();
    }
}
