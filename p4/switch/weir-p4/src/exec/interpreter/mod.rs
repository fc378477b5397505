// SPDX-License-Identifier: Apache-2.0
//! Runs one block of a program over one packet.
mod data;
mod headers;
pub(crate) mod jit;
mod native;
#[cfg(test)]
mod operations;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod work;

use crate::bytecode::code::*;
use crate::bytecode::operators::{HashAlgorithm, binary, truth};
use crate::bytecode::program::{MatchKind, Program};
use crate::exec::hash::hash_of;
use crate::exec::registers::View;
use crate::exec::state::State;
use crate::exec::table::EntryAction;
use crate::exec::trace::{Lookup, Tracer};
use crate::value::{BitWriter, Val, read_bits};
use jit::Native;
pub(crate) use native::FIELD_OFFSETS;
use std::any::Any;

/// Result of a piece of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Flow {
    Next,
    Exit,
    /// A parser error is set.
    Reject,
    /// The packet cannot go on (failed assertion, endless loop).
    Fault,
}

/// Requests of a block besides changed fields.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Session and field list.
    pub clone: Option<(u32, Option<u64>)>,
    pub resubmit: Option<Option<u64>>,
    pub recirculate: Option<Option<u64>>,
    pub truncate: Option<usize>,
    /// The last one: BMv2 sends one for a packet.
    pub digest: Option<DigestData>,
    pub log: Vec<String>,
    /// Why the packet is thrown away: a failed assertion or an endless loop.
    pub fault: Option<String>,
}

/// A digest that the program sent.
#[derive(Clone, Debug, PartialEq)]
pub struct DigestData {
    /// Index in the program's digests.
    pub digest: usize,
    /// The `receiver` argument of the call.
    pub receiver: u32,
    /// One value for each field of the digest.
    pub values: Vec<Val>,
}

/// Steps that a packet may take in the parser, and in the controls of ingress or egress: some milliseconds. A step is an
/// instruction; larger ones are several.
pub const PACKET_STEPS: u64 = 4_000_000;

/// Minimum cost of a block, so that packets are never free.
const LEAST_STEPS: u64 = 50;

/// Words of packed keys that need no allocation.
const FEW_WORDS: usize = 16;

/// Buffers kept from packet to packet.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The frame of values above 64 bits.
    pub wide: Vec<Val>,
    /// Output of the deparser.
    pub head: BitWriter,
    data: BitWriter,
    /// Tables whose actions run on a match, and the color that their direct meter gave.
    hits: Vec<(usize, u8)>,
    /// Steps taken since somebody asked.
    pub spent: u64,
    /// Native code of the machine's code: it stays for as long as a machine has the buffers.
    pub native: Option<Native>,
    /// The trace, which only traced code writes.
    pub tracer: Tracer,
}

impl Scratch {
    pub fn new(wide_cells: usize) -> Scratch {
        Scratch { wide: vec![Val::S(0); wide_cells], ..Scratch::default() }
    }
}

/// Input of a run: one packet.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes for the parser.
    pub packet: &'a [u8],
    /// Length that counters, meters and standard_metadata see.
    pub length_bytes: u32,
    /// Time of the packet in microseconds.
    pub now_us: u64,
    /// The egress_spec that drops.
    pub drop_port: u32,
}

/// One packet on its way through the blocks of a program.
pub struct Machine<'a> {
    code: &'a Code,
    program: &'a Program,
    /// Cells of the narrow registers.
    registers: *const View,
    /// The frame of values above 64 bits.
    wide: *const Val,
    state: &'a mut State,
    scratch: &'a mut Scratch,
    packet: &'a [u8],
    /// Position of the parser, in bits.
    pub at: usize,
    pub payload: &'a [u8],
    /// Length that counters, meters and standard_metadata see.
    length: u32,
    now_us: u64,
    drop_port: u32,
    pub effects: Effects,
    pub checksum_error: bool,
    /// By how much headers that became valid or invalid have changed the packet's length.
    pub grown_bytes: i64,
    error: u32,
    steps: u64,
    /// The packet, for native code.
    packet_start: *const u8,
    packet_bits: usize,
    /// Of a function that native code called.
    panic: Option<Box<dyn Any + Send>>,
}

fn cut(v: u64, sh: u8) -> u64 {
    (v << sh) >> sh
}

/// The number that the low 64 - `sh` bits stand for.
fn signed(v: u64, sh: u8) -> i64 {
    ((v << sh) as i64) >> sh
}

fn clamp_signed(v: i128, sh: u8) -> u64 {
    let half = 1i128 << (63 - sh);
    cut(v.clamp(-half, half - 1) as u64, sh)
}

impl<'a> Machine<'a> {
    pub fn new(
        code: &'a Code,
        program: &'a Program,
        state: &'a mut State,
        scratch: &'a mut Scratch,
        input: Input<'a>,
    ) -> Self {
        scratch.head.clear();
        Machine {
            code,
            program,
            registers: state.register_views(),
            wide: scratch.wide.as_mut_ptr(),
            packet_start: input.packet.as_ptr(),
            packet_bits: 8 * input.packet.len(),
            state,
            scratch,
            packet: input.packet,
            at: 0,
            payload: &[],
            length: input.length_bytes,
            now_us: input.now_us,
            drop_port: input.drop_port,
            effects: Effects::default(),
            checksum_error: false,
            grown_bytes: 0,
            error: 0,
            steps: 0,
            panic: None,
        }
    }

    /// Runs a control over the frame. False when the packet must be thrown away.
    pub fn control(&mut self, n: &mut [u64], body: usize) -> bool {
        let before = self.steps;
        let flow = self.run(n, self.code.procs[body]);
        self.scratch.spent += self.steps - before + LEAST_STEPS;
        flow != Flow::Fault
    }

    /// Runs the main parser; the number of the parser error (0: none), or `None` when the packet must go.
    pub fn parse(&mut self, n: &mut [u64]) -> Option<u32> {
        self.error = 0;
        let flow = self.run(n, self.code.parsers[self.program.parser]);
        self.scratch.spent += std::mem::take(&mut self.steps) + LEAST_STEPS;
        match flow {
            Flow::Fault => None,
            _ => Some(self.error),
        }
    }

    /// Counts steps; true when it is one too many.
    fn is_spent(&mut self, cost: u64) -> bool {
        self.steps += cost;
        self.steps > PACKET_STEPS
    }

    pub(crate) fn too_long(&mut self) -> Flow {
        self.effects.fault = Some(format!("the program took more than {PACKET_STEPS} steps on it"));
        Flow::Fault
    }

    fn fail(&mut self, error: u32) -> Flow {
        self.error = error;
        Flow::Reject
    }

    /// The slot an address stands for now; `None` outside a stack.
    fn slot(&self, n: &[u64], at: u32) -> Option<usize> {
        let a = &self.code.addrs[at as usize];
        let mut slot = a.base as usize;
        for d in &a.dyns {
            let i = match self.code.wide_of[d.index] {
                NARROW => n[d.index],
                w => self.scratch.wide[w as usize].index() as u64,
            };
            let i = i.checked_add_signed(i64::from(d.bias))?;
            if i >= d.len as u64 {
                return None;
            }
            slot += i as usize * d.stride;
        }
        Some(slot)
    }

    fn get(&self, n: &[u64], slot: usize) -> Val {
        match self.code.wide_of[slot] {
            NARROW => Val::S(n[slot] as u128),
            w => self.scratch.wide[w as usize].clone(),
        }
    }

    fn set(&mut self, n: &mut [u64], slot: usize, v: Val) {
        match self.code.wide_of[slot] {
            NARROW => n[slot] = v.low() as u64,
            w => self.scratch.wide[w as usize] = v,
        }
    }

    fn src(&self, n: &[u64], s: Source) -> Val {
        match s {
            Source::N(c) => Val::S(n[c as usize] as u128),
            Source::W(w) => self.scratch.wide[w as usize].clone(),
        }
    }

    fn wide(&self, n: &[u64], e: &Wide) -> Val {
        match e {
            Wide::N(c) => Val::S(n[*c as usize] as u128),
            Wide::W(w) => self.scratch.wide[*w as usize].clone(),
            Wide::Const(v) => v.clone(),
            // Outside a stack there is nothing: zero.
            Wide::At(at) => self.slot(n, *at).map(|s| self.get(n, s)).unwrap_or_default(),
            Wide::Bin(op, w, ab) => binary(*op, *w, self.wide(n, &ab.0), self.wide(n, &ab.1)),
            Wide::BitNot(w, x) => self.wide(n, x).not(*w),
            Wide::Neg(w, x) => Val::S(0).sub(self.wide(n, x), *w),
            Wide::Not(x) => truth(self.wide(n, x).is_zero()),
            Wide::LAnd(ab) => truth(!self.wide(n, &ab.0).is_zero() && !self.wide(n, &ab.1).is_zero()),
            Wide::LOr(ab) => truth(!self.wide(n, &ab.0).is_zero() || !self.wide(n, &ab.1).is_zero()),
            Wide::Slice(x, lo, w) => self.wide(n, x).shr(*lo as usize).mask(*w),
            Wide::Concat(ab, w) => {
                self.wide(n, &ab.0).shl(*w as usize, crate::value::MAX_WIDTH + 1).or(self.wide(n, &ab.1))
            }
            Wide::SignExtend(x, from, to) => self.wide(n, x).sign_extend(*from, *to),
            Wide::Cond(c) => self.wide(n, if self.wide(n, &c.0).is_zero() { &c.2 } else { &c.1 }),
        }
    }

    /// Runs code from `start` on until it returns.
    #[allow(clippy::too_many_lines, reason = "one loop with an arm an instruction: cut in two it runs slower")]
    fn interpret(&mut self, n: &mut [u64], start: Pc) -> Flow {
        let code = self.code.ins.as_slice();
        let mut pc = start as usize;
        macro_rules! n {
            ($c:expr) => {
                n[$c as usize]
            };
        }
        loop {
            let i = code[pc];
            pc += 1;
            #[cfg(test)]
            operations::count(self.code, pc - 1);
            match i {
                Instruction::Move { d, a } => n!(d) = n!(a),
                Instruction::Moves { d, a, n: count } => {
                    for k in 0..count {
                        n!(d + k) = n!(a + k);
                    }
                }
                Instruction::IfSet { d, a, b } => n!(d) = if n!(b) != 0 { n!(a) } else { 0 },
                Instruction::Add { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_add(n!(b)), sh),
                Instruction::Sub { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_sub(n!(b)), sh),
                Instruction::Mul { d, a, b, sh } => n!(d) = cut(n!(a).wrapping_mul(n!(b)), sh),
                Instruction::Div { d, a, b } => n!(d) = n!(a).checked_div(n!(b)).unwrap_or(0),
                Instruction::Mod { d, a, b } => n!(d) = n!(a).checked_rem(n!(b)).unwrap_or(0),
                Instruction::AddSat { d, a, b, sh } => n!(d) = n!(a).saturating_add(n!(b)).min(u64::MAX >> sh),
                Instruction::SubSat { d, a, b } => n!(d) = n!(a).saturating_sub(n!(b)),
                Instruction::AddSatS { d, a, b, sh } => {
                    n!(d) = clamp_signed(signed(n!(a), sh) as i128 + signed(n!(b), sh) as i128, sh);
                }
                Instruction::SubSatS { d, a, b, sh } => {
                    n!(d) = clamp_signed(signed(n!(a), sh) as i128 - signed(n!(b), sh) as i128, sh);
                }
                Instruction::Shl { d, a, b, sh } => n!(d) = if n!(b) < 64 { cut(n!(a) << n!(b), sh) } else { 0 },
                Instruction::Shr { d, a, b } => n!(d) = if n!(b) < 64 { n!(a) >> n!(b) } else { 0 },
                Instruction::Sar { d, a, b, sh } => n!(d) = cut((signed(n!(a), sh) >> n!(b).min(63)) as u64, sh),
                Instruction::And { d, a, b } => n!(d) = n!(a) & n!(b),
                Instruction::Or { d, a, b } => n!(d) = n!(a) | n!(b),
                Instruction::Xor { d, a, b } => n!(d) = n!(a) ^ n!(b),
                Instruction::Eq { d, a, b } => n!(d) = (n!(a) == n!(b)) as u64,
                Instruction::Ne { d, a, b } => n!(d) = (n!(a) != n!(b)) as u64,
                Instruction::Lt { d, a, b } => n!(d) = (n!(a) < n!(b)) as u64,
                Instruction::Le { d, a, b } => n!(d) = (n!(a) <= n!(b)) as u64,
                Instruction::LtS { d, a, b, sh } => n!(d) = (signed(n!(a), sh) < signed(n!(b), sh)) as u64,
                Instruction::LeS { d, a, b, sh } => n!(d) = (signed(n!(a), sh) <= signed(n!(b), sh)) as u64,
                Instruction::BitNot { d, a, sh } => n!(d) = cut(!n!(a), sh),
                Instruction::Not { d, a } => n!(d) = (n!(a) == 0) as u64,
                Instruction::Slice { d, a, lo, sh } => n!(d) = cut(n!(a) >> lo, sh),
                Instruction::ShlBy { d, a, by, sh } => n!(d) = cut(n!(a) << by, sh),
                Instruction::Concat { d, a, b, by } => n!(d) = n!(a) << by | n!(b),
                Instruction::SignExtend { d, a, from, sh } => n!(d) = cut(signed(n!(a), from) as u64, sh),
                Instruction::LoadAt { d, at } => n!(d) = self.slot(n, at).map_or(0, |s| n[s]),
                Instruction::StoreAt { at, a } => {
                    // A write outside a stack is no write.
                    if let Some(s) = self.slot(n, at) {
                        n[s] = n!(a);
                    }
                }
                Instruction::Copy { d, a, n: count } => n.copy_within(a as usize..(a + count) as usize, d as usize),
                Instruction::Zero { d, n: count } => n[d as usize..(d + count) as usize].fill(0),
                Instruction::Jump { to } => pc = to as usize,
                Instruction::JumpZero { a, to } => {
                    if n!(a) == 0 {
                        pc = to as usize;
                    }
                }
                Instruction::JumpSet { a, to } => {
                    if n!(a) != 0 {
                        pc = to as usize;
                    }
                }
                Instruction::JumpEq { a, b, to } => {
                    if n!(a) == n!(b) {
                        pc = to as usize;
                    }
                }
                Instruction::JumpNe { a, b, to } => {
                    if n!(a) != n!(b) {
                        pc = to as usize;
                    }
                }
                Instruction::JumpLt { a, b, to } => {
                    if n!(a) < n!(b) {
                        pc = to as usize;
                    }
                }
                Instruction::JumpLe { a, b, to } => {
                    if n!(a) <= n!(b) {
                        pc = to as usize;
                    }
                }
                Instruction::Call { to, after, cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.too_long();
                    }
                    let f = self.run(n, to);
                    if f != Flow::Next {
                        // Results are copied out at `exit` too.
                        let g = if after == 0 { Flow::Next } else { self.run(n, after) };
                        return if g == Flow::Next { f } else { g };
                    }
                }
                Instruction::Return => return Flow::Next,
                Instruction::Exit => return Flow::Exit,
                Instruction::Reject => return Flow::Reject,
                Instruction::Fail { error } => return self.fail(error),
                Instruction::FailWith { a } => return self.fail(n!(a) as u32),
                Instruction::ParserStep { cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.fail(self.code.errors.timeout);
                    }
                }
                Instruction::LoopStep { cost } => {
                    if self.is_spent(u64::from(cost)) {
                        return self.too_long();
                    }
                }
                Instruction::RegisterRead { r, i, d } => {
                    if let Some(v) = self.state.narrow_register(r as usize).get(index(n!(i))) {
                        n!(d) = *v;
                    }
                }
                Instruction::RegisterWrite { r, i, a } => {
                    if let Some(cell) = self.state.narrow_register(r as usize).get_mut(index(n!(i))) {
                        *cell = n!(a);
                    }
                }
                // Larger work is kept out of this loop, so that its state stays in the machine's registers.
                _ => match self.work(n, i) {
                    Flow::Next => {}
                    f => return f,
                },
            }
        }
    }
}

fn index(v: u64) -> usize {
    usize::try_from(v).unwrap_or(usize::MAX)
}

fn field_list(n: &[u64], list: Cell) -> Option<u64> {
    (list != NARROW).then(|| n[list as usize])
}
