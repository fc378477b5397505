// SPDX-License-Identifier: Apache-2.0
//! Instructions whose work is larger than their dispatch.
use super::*;

impl<'a> Machine<'a> {
    /// Runs one instruction that [`Machine::run`] leaves to it.
    #[inline(never)]
    #[allow(clippy::too_many_lines, reason = "one match with an arm an instruction, so that none is forgotten")]
    pub(super) fn work(&mut self, n: &mut [u64], i: Instruction) -> Flow {
        macro_rules! n {
            ($c:expr) => {
                n[$c as usize]
            };
        }
        match i {
            Instruction::LoadWideAt { d, at } => {
                self.scratch.wide[d as usize] = self.slot(n, at).map(|s| self.get(n, s)).unwrap_or_default();
            }
            Instruction::StoreWideAt { at, a } => {
                if let Some(s) = self.slot(n, at) {
                    let v = self.scratch.wide[a as usize].clone();
                    self.set(n, s, v);
                }
            }
            Instruction::MoveWide { d, a } => self.scratch.wide[d as usize] = self.scratch.wide[a as usize].clone(),
            Instruction::ToWide { d, a } => self.scratch.wide[d as usize] = Val::S(n!(a) as u128),
            Instruction::EvalWide { d, e } => {
                self.scratch.wide[d as usize] = self.wide(n, &self.code.wides[e as usize])
            }
            Instruction::EvalLow { d, e } => {
                n!(d) = match &self.code.wides[e as usize] {
                    Wide::W(w) => self.scratch.wide[*w as usize].low() as u64,
                    e => self.wide(n, e).low() as u64,
                }
            }
            Instruction::EvalIndex { d, e } => n!(d) = self.wide(n, &self.code.wides[e as usize]).index() as u64,
            Instruction::CopyAt { copy } => self.copy(n, copy),
            Instruction::Apply { table } => return self.apply::<false>(n, table as usize),
            Instruction::ApplyTraced { table } => return self.apply::<true>(n, table as usize),
            Instruction::Trace { point } => self.trace(n, point),
            Instruction::Extract { header, size } => return self.extract(n, header, n!(size)),
            Instruction::Lookahead { header } => return self.lookahead(n, header),
            Instruction::Advance { a } => {
                let bits = n!(a);
                // BMv2 moves by bytes only.
                if !bits.is_multiple_of(8) {
                    return self.fail(self.code.errors.invalid_argument);
                }
                if bits > (self.packet.len() * 8 - self.at) as u64 {
                    return self.fail(self.code.errors.too_short);
                }
                self.at += bits as usize;
            }
            Instruction::PacketLength { d } => n!(d) = self.length as u64,
            Instruction::CheckIndex { at } => match self.slot(n, at) {
                Some(_) => {}
                None => return self.fail(self.code.errors.stack),
            },
            Instruction::Emit { header } => self.emit(n, header),
            Instruction::Shift { stack } => self.shift(n, stack),
            Instruction::SetValid { header, valid } => {
                let h = &self.code.headers[header as usize];
                if let Some(at) = self.header(n, h) {
                    self.set_valid(n, h, at, valid);
                }
            }
            Instruction::OnlyMemberAt { header } => {
                let h = &self.code.headers[header as usize];
                if self.header(n, h).is_some_and(|at| n[at] != 0) {
                    self.clear_siblings(n, h);
                }
            }
            Instruction::InValueSet { d, set } => {
                let (id, keys) = &self.code.sets[set as usize];
                let fits = |m: &Vec<(Val, Val)>| {
                    m.iter().zip(keys).all(|((v, mask), k)| self.src(n, *k).and(mask.clone()) == *v)
                };
                n!(d) = self.state.value_sets[*id].iter().any(fits) as u64;
            }
            Instruction::RegisterReadWide { r, i, d } => {
                if let Some(v) = self.state.wide_register(r as usize).get(index(n!(i))) {
                    self.scratch.wide[d as usize] = v.clone();
                }
            }
            Instruction::RegisterWriteWide { r, i, a } => {
                if let Some(cell) = self.state.wide_register(r as usize).get_mut(index(n!(i))) {
                    *cell = self.scratch.wide[a as usize].clone();
                }
            }
            Instruction::Count { c, i } => {
                if let Some(cell) = self.state.counters[c as usize].get_mut(index(n!(i))) {
                    *cell = (cell.0 + 1, cell.1 + u64::from(self.length));
                }
            }
            Instruction::Meter { m, i, d } => {
                let kind = self.program.meters[m as usize].kind;
                if let Some(cell) = self.state.meters[m as usize].get_mut(index(n!(i))) {
                    n!(d) = u64::from(cell.color(kind, u64::from(self.length), self.now_us));
                }
            }
            Instruction::DirectMeter { m, d } => {
                let table = self.code.meter_tables[m as usize];
                if let Some((_, color)) = self.scratch.hits.iter().rev().find(|(t, _)| Some(*t) == table) {
                    n!(d) = u64::from(*color);
                }
            }
            Instruction::Random { d, a, b } => {
                let (low, high) = (n!(a), n!(b));
                let r = [self.state.random(), self.state.random()];
                // With the ends reversed BMv2 leaves the result as it was.
                if low <= high {
                    let last = high - low;
                    n!(d) = low
                        + match last.wrapping_add(1) {
                            0 => r[1],
                            span if span.is_power_of_two() => r[1] & last,
                            span => (((r[0] as u128) << 64 | r[1] as u128) % span as u128) as u64,
                        };
                }
            }
            Instruction::RandomWide { d, random } => {
                let x = &self.code.randoms[random as usize];
                let (low, high) = (self.wide(n, &x.low), self.wide(n, &x.high));
                let r = Val::S((self.state.random() as u128) << 64 | self.state.random() as u128);
                if low <= high {
                    let span = high.big() - low.clone().big() + 1u32;
                    self.scratch.wide[d as usize] = Val::from_big(low.big() + r.big() % span).mask(x.width);
                }
            }
            Instruction::Hash { d, hash } => n!(d) = self.hash(n, hash),
            Instruction::ChecksumError => self.checksum_error = true,
            Instruction::Digest { digest } => {
                let x = &self.code.digests[digest as usize];
                let values = x.values.iter().map(|v| self.src(n, *v)).collect();
                let receiver = n!(x.receiver) as u32;
                self.effects.digest = Some(DigestData { digest: x.digest, receiver, values });
            }
            Instruction::Clone { session, list } => {
                self.effects.clone = Some((n!(session) as u32, field_list(n, list)))
            }
            Instruction::Resubmit { list } => self.effects.resubmit = Some(field_list(n, list)),
            Instruction::Recirculate { list } => self.effects.recirculate = Some(field_list(n, list)),
            Instruction::DropPort { d } => n!(d) = u64::from(self.drop_port),
            Instruction::Truncate { a } => {
                let to = index(n!(a));
                self.effects.truncate = Some(self.effects.truncate.map_or(to, |old| old.min(to)));
            }
            Instruction::AssertFailed { text } => {
                self.effects.fault = Some(self.code.texts[text as usize].clone());
                return Flow::Fault;
            }
            Instruction::Log { text } => self.log(n, text),
            // Done where code runs.
            Instruction::Move { .. }
            | Instruction::Moves { .. }
            | Instruction::IfSet { .. }
            | Instruction::Add { .. }
            | Instruction::Sub { .. }
            | Instruction::Mul { .. }
            | Instruction::Div { .. }
            | Instruction::Mod { .. }
            | Instruction::AddSat { .. }
            | Instruction::SubSat { .. }
            | Instruction::AddSatS { .. }
            | Instruction::SubSatS { .. }
            | Instruction::Shl { .. }
            | Instruction::Shr { .. }
            | Instruction::Sar { .. }
            | Instruction::And { .. }
            | Instruction::Or { .. }
            | Instruction::Xor { .. }
            | Instruction::Eq { .. }
            | Instruction::Ne { .. }
            | Instruction::Lt { .. }
            | Instruction::Le { .. }
            | Instruction::LtS { .. }
            | Instruction::LeS { .. }
            | Instruction::BitNot { .. }
            | Instruction::Not { .. }
            | Instruction::Slice { .. }
            | Instruction::ShlBy { .. }
            | Instruction::Concat { .. }
            | Instruction::SignExtend { .. }
            | Instruction::LoadAt { .. }
            | Instruction::StoreAt { .. }
            | Instruction::Copy { .. }
            | Instruction::Zero { .. }
            | Instruction::Jump { .. }
            | Instruction::JumpZero { .. }
            | Instruction::JumpSet { .. }
            | Instruction::JumpEq { .. }
            | Instruction::JumpNe { .. }
            | Instruction::JumpLt { .. }
            | Instruction::JumpLe { .. }
            | Instruction::Call { .. }
            | Instruction::Return
            | Instruction::Exit
            | Instruction::Reject
            | Instruction::Fail { .. }
            | Instruction::FailWith { .. }
            | Instruction::ParserStep { .. }
            | Instruction::LoopStep { .. }
            | Instruction::RegisterRead { .. }
            | Instruction::RegisterWrite { .. } => {}
        }
        Flow::Next
    }
}
