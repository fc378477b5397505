// SPDX-License-Identifier: Apache-2.0
//! simple_switch's order of things around the program: parser to deparser, and what becomes of the packet in
//! between. Pure: the caller owns time, ports and queues. [`Switch::ingress`] gives packets to queue,
//! [`Switch::egress`] takes one from the queue; [`Switch::process`] joins them by queues that never wait.
use crate::interp::{DigestData, Effects, Machine};
use crate::ir::{Program, Slot};
use crate::runtime::State;
use crate::value::Val;
use std::collections::VecDeque;
use std::sync::Arc;

/// The egress_spec that drops, as simple_switch's default.
pub const DROP_PORT: u32 = 511;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstanceType {
    Normal = 0,
    IngressClone = 1,
    EgressClone = 2,
    Recirculated = 4,
    Replicated = 5,
    Resubmitted = 6,
}

/// A packet on its way into the parser.
#[derive(Clone, Debug)]
pub struct Arriving {
    pub bytes: Vec<u8>,
    pub port: u32,
    pub kind: InstanceType,
    /// User metadata kept from the last round.
    pub kept: Vec<(Slot, Val)>,
}

/// A packet between ingress and egress. The caller sets the four queue members when it queues and unqueues.
#[derive(Clone, Debug)]
pub struct Queued {
    pub port: u32,
    /// 0 lowest, as standard_metadata.priority says.
    pub priority: u8,
    /// Slots of headers, user metadata and standard metadata.
    frame: Vec<Val>,
    /// What the parser left unread.
    payload: Vec<u8>,
    /// Length to cut to, asked for in ingress.
    truncate: Option<usize>,
    /// Length of the packet that came in, in bytes.
    pub length: u32,
    pub enq_us: u64,
    pub enq_qdepth: u32,
    pub deq_us: u64,
    pub deq_qdepth: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub port: u32,
    pub bytes: Vec<u8>,
}

/// What happened besides packets.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub digests: Vec<DigestData>,
    pub log: Vec<String>,
    /// Packets thrown away because the program failed on them.
    pub faults: Vec<String>,
    pub ingress_drops: u32,
    pub egress_drops: u32,
}

impl Notes {
    fn take(&mut self, fx: &mut Effects) {
        self.digests.append(&mut fx.digests);
        self.log.append(&mut fx.log);
        self.faults.extend(fx.fault.take());
    }
}

/// After ingress: packets to queue, packets to parse again.
#[derive(Clone, Debug, Default)]
pub struct IngressOut {
    pub queued: Vec<Queued>,
    pub again: Option<Arriving>,
}

/// After egress.
#[derive(Clone, Debug, Default)]
pub struct EgressOut {
    pub sent: Option<Sent>,
    pub clones: Vec<Queued>,
    pub again: Option<Arriving>,
}

pub struct Switch {
    pub program: Arc<Program>,
    pub state: State,
    frame: Vec<Val>,
}

/// Rounds of resubmitting, recirculating and cloning that [`Switch::process`] follows for one packet.
const MAX_ROUNDS: u32 = 1000;

impl Switch {
    pub fn new(program: Arc<Program>, seed: u64) -> Switch {
        let state = State::new(&program, seed);
        let frame = vec![Val::S(0); program.slots];
        Switch { program, state, frame }
    }

    /// First slot and count of what a packet carries between blocks: the three structs lie next to each other.
    fn packet_slots(p: &Program) -> (Slot, usize) {
        (p.headers.0, p.std.0 + p.std.1 - p.headers.0)
    }

    fn kept(p: &Program, frame: &[Val], base: Slot, list: Option<u64>) -> Vec<(Slot, Val)> {
        let slots = list.and_then(|id| p.field_lists.iter().find(|(i, _)| *i == id));
        slots.map_or(Vec::new(), |(_, s)| s.iter().map(|s| (*s, frame[*s - base].clone())).collect())
    }

    /// Clears user and standard metadata.
    fn reset_metadata(p: &Program, frame: &mut [Val], base: Slot) {
        frame[p.meta.0 - base..p.meta.0 - base + p.meta.1].fill(Val::S(0));
        frame[p.std.0 - base..p.std.0 - base + p.std.1].fill(Val::S(0));
    }

    /// Parser, checksum verification and ingress.
    pub fn ingress(&mut self, a: Arriving, now_us: u64, notes: &mut Notes) -> IngressOut {
        let p = self.program.clone();
        let (base, n) = Self::packet_slots(&p);
        let length = a.bytes.len() as u32;
        let mut out = IngressOut::default();
        self.frame[base..base + n].fill(Val::S(0));
        for (slot, v) in &a.kept {
            self.frame[*slot] = v.clone();
        }
        let s = &p.std_fields;
        // As in simple_switch, only a packet from outside knows its port and time.
        if a.kind == InstanceType::Normal {
            self.frame[s.ingress_port] = Val::S(a.port as u128 & 0x1ff);
            self.frame[s.ingress_global_timestamp] = Val::S(now_us as u128 & 0xffff_ffff_ffff);
        }
        self.frame[s.instance_type] = Val::S(a.kind as u128);
        self.frame[s.packet_length] = Val::S(length as u128);
        let mut m = Machine::new(&p, &mut self.state, &mut self.frame, &a.bytes, length, now_us);
        let Some(error) = m.parse() else {
            notes.take(&mut m.fx);
            return out;
        };
        let read = m.at / 8;
        m.payload = &a.bytes[read..];
        m.f[s.parser_error] = Val::S(error as u128);
        let mut fine = m.control(p.verify);
        m.f[s.checksum_error] = Val::S(m.checksum_error as u128);
        fine = fine && m.control(p.ingress);
        let mut fx = std::mem::take(&mut m.fx);
        drop(m);
        notes.take(&mut fx);
        if !fine {
            notes.ingress_drops += 1;
            return out;
        }
        let frame = self.frame[base..base + n].to_vec();
        let priority = frame[s.priority - base].low() as u8;
        let make = |frame: Vec<Val>, port: u32| Queued {
            port,
            priority,
            frame,
            payload: a.bytes[read..].to_vec(),
            truncate: None,
            length,
            enq_us: now_us,
            enq_qdepth: 0,
            deq_us: now_us,
            deq_qdepth: 0,
        };
        if let Some((session, list)) = fx.clone {
            if let Some(mirror) = self.state.mirrors.get(&session).cloned() {
                let kept = Self::kept(&p, &frame, base, list);
                // The clone is the packet as it came, parsed again.
                self.frame[base..base + n].fill(Val::S(0));
                self.frame[s.ingress_port] = Val::S(a.port as u128 & 0x1ff);
                let mut m = Machine::new(&p, &mut self.state, &mut self.frame, &a.bytes, length, now_us);
                let parsed = m.parse();
                let at = m.at / 8;
                drop(m);
                if parsed.is_some() {
                    let mut copy = self.frame[base..base + n].to_vec();
                    Self::reset_metadata(&p, &mut copy, base);
                    kept.into_iter().for_each(|(slot, v)| copy[slot - base] = v);
                    copy[s.instance_type - base] = Val::S(InstanceType::IngressClone as u128);
                    let mut q = make(copy, 0);
                    q.priority = 0;
                    q.payload = a.bytes[at..].to_vec();
                    self.mirror(&p, q, &mirror.port, mirror.group, &mut out.queued);
                }
            }
        }
        if let Some(list) = fx.resubmit {
            let kept = Self::kept(&p, &frame, base, list);
            out.again = Some(Arriving { bytes: a.bytes, port: a.port, kind: InstanceType::Resubmitted, kept });
            return out;
        }
        let group = frame[s.mcast_grp - base].low() as u32;
        let port = frame[s.egress_spec - base].low() as u32;
        let mut frame = frame;
        if group != 0 {
            frame[s.instance_type - base] = Val::S(InstanceType::Replicated as u128);
            let mut q = make(frame, 0);
            q.truncate = fx.truncate;
            self.mirror(&p, q, &None, Some(group), &mut out.queued);
            return out;
        }
        if port == DROP_PORT {
            notes.ingress_drops += 1;
            return out;
        }
        frame[s.instance_type - base] = Val::S(InstanceType::Normal as u128);
        let mut q = make(frame, port);
        q.truncate = fx.truncate;
        out.queued.push(q);
        out
    }

    /// Copies a packet to a group's ports and to a port.
    fn mirror(&self, p: &Program, q: Queued, port: &Option<u32>, group: Option<u32>, out: &mut Vec<Queued>) {
        let (base, _) = Self::packet_slots(p);
        let rid_at = p.std_fields.egress_rid - base;
        for (rid, ports) in group.and_then(|g| self.state.groups.get(&g)).into_iter().flatten() {
            for port in ports {
                let mut copy = q.clone();
                copy.frame[rid_at] = Val::S(*rid as u128 & 0xffff);
                copy.port = *port;
                out.push(copy);
            }
        }
        if let Some(port) = port {
            out.push(Queued { port: *port, ..q });
        }
    }

    /// Egress, checksum update and deparser for a packet that left its queue.
    pub fn egress(&mut self, q: Queued, now_us: u64, notes: &mut Notes) -> EgressOut {
        let p = self.program.clone();
        let (base, n) = Self::packet_slots(&p);
        let s = &p.std_fields;
        let mut out = EgressOut::default();
        self.frame[base..base + n].clone_from_slice(&q.frame);
        let waited = q.deq_us.saturating_sub(q.enq_us);
        let set = |f: &mut [Val], slot: Slot, v: u64, w: u32| f[slot] = Val::S(v as u128).mask(w);
        let f = &mut self.frame;
        set(f, s.egress_global_timestamp, now_us, 48);
        set(f, s.enq_timestamp, q.enq_us, 32);
        set(f, s.enq_qdepth, q.enq_qdepth as u64, 19);
        set(f, s.deq_timedelta, waited, 32);
        set(f, s.deq_qdepth, q.deq_qdepth as u64, 19);
        set(f, s.egress_port, q.port as u64, 9);
        // simple_switch sets drop port + 1, which in nine bits is 0.
        set(f, s.egress_spec, DROP_PORT as u64 + 1, 9);
        set(f, s.packet_length, q.length as u64, 32);
        let mut m = Machine::new(&p, &mut self.state, &mut self.frame, &[], q.length, now_us);
        m.payload = &q.payload;
        let mut fine = m.control(p.egress);
        let clone = m.fx.clone.take();
        let snapshot = clone.map(|c| (c, m.f[base..base + n].to_vec()));
        let dropped = m.f[s.egress_spec].low() as u32 == DROP_PORT;
        let mut bytes = None;
        if fine && !dropped {
            fine = m.control(p.compute) && m.control(p.deparser);
            let mut all = std::mem::take(&mut m.out).bytes;
            all.extend_from_slice(&q.payload);
            if let Some(n) = m.fx.truncate.into_iter().chain(q.truncate).min() {
                all.truncate(n);
            }
            bytes = Some(all);
        }
        let mut fx = std::mem::take(&mut m.fx);
        drop(m);
        notes.take(&mut fx);
        if let Some(((session, list), frame)) = snapshot {
            if let Some(mirror) = self.state.mirrors.get(&session).cloned() {
                let kept = Self::kept(&p, &frame, base, list);
                let mut copy = frame;
                Self::reset_metadata(&p, &mut copy, base);
                kept.into_iter().for_each(|(slot, v)| copy[slot - base] = v);
                copy[s.instance_type - base] = Val::S(InstanceType::EgressClone as u128);
                let clone = Queued {
                    port: 0,
                    priority: 0,
                    frame: copy,
                    payload: q.payload.clone(),
                    truncate: None,
                    length: q.length,
                    enq_us: now_us,
                    enq_qdepth: 0,
                    deq_us: now_us,
                    deq_qdepth: 0,
                };
                self.mirror(&p, clone, &mirror.port, mirror.group, &mut out.clones);
            }
        }
        let Some(bytes) = bytes.filter(|_| fine) else {
            notes.egress_drops += 1;
            return out;
        };
        if let Some(list) = fx.recirculate {
            let kept = Self::kept(&p, &self.frame[base..base + n], base, list);
            out.again = Some(Arriving { bytes, port: 0, kind: InstanceType::Recirculated, kept });
            return out;
        }
        out.sent = Some(Sent { port: q.port, bytes });
        out
    }

    /// One packet through the switch and everything that comes of it, with queues that never wait.
    pub fn process(&mut self, bytes: Vec<u8>, port: u32, now_us: u64, notes: &mut Notes) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut arriving = VecDeque::from([Arriving { bytes, port, kind: InstanceType::Normal, kept: Vec::new() }]);
        let mut queue: VecDeque<Queued> = VecDeque::new();
        for _ in 0..MAX_ROUNDS {
            if let Some(q) = queue.pop_front() {
                let out = self.egress(q, now_us, notes);
                sent.extend(out.sent);
                queue.extend(out.clones);
                arriving.extend(out.again);
            } else if let Some(a) = arriving.pop_front() {
                let out = self.ingress(a, now_us, notes);
                queue.extend(out.queued);
                arriving.extend(out.again);
            } else {
                return sent;
            }
        }
        notes.faults.push(format!("a packet was cloned, resubmitted or recirculated more than {MAX_ROUNDS} times"));
        sent
    }
}
