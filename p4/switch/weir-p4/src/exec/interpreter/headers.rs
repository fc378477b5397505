// SPDX-License-Identifier: Apache-2.0
//! Headers in and out of packets, validity, stacks.
use super::*;

impl<'a> Machine<'a> {
    pub(super) fn header(&self, n: &[u64], h: &HeaderCode) -> Option<usize> {
        match h.at {
            None => Some(h.base as usize),
            Some(at) => self.slot(n, at),
        }
    }

    /// As BMv2 does it: a header that becomes valid is all zero, and either way the packet's length follows.
    pub(super) fn set_valid(&mut self, n: &mut [u64], h: &HeaderCode, at: usize, valid: bool) {
        let was = n[at] != 0;
        if valid && !was {
            for (i, (offset, _)) in h.fields.iter().enumerate() {
                self.set(n, at + *offset as usize, Val::S(0));
                if h.varbit == Some(i) {
                    n[at + *offset as usize + 1] = 0;
                }
            }
            self.grown_bytes += h.fixed_bits as i64 / 8;
        } else if was && !valid {
            let varbit = h.varbit.map_or(0, |v| n[at + h.fields[v].0 as usize + 1]);
            self.grown_bytes -= (h.fixed_bits as i64 + varbit as i64) / 8;
        }
        n[at] = u64::from(valid);
        if valid {
            self.clear_siblings(n, h);
        }
    }

    pub(super) fn clear_siblings(&self, n: &mut [u64], h: &HeaderCode) {
        for s in &h.siblings {
            if let Some(at) = self.slot(n, *s) {
                n[at] = 0;
            }
        }
    }

    pub(super) fn extract(&mut self, n: &mut [u64], header: u32, var_bits: u64) -> Flow {
        let h = &self.code.headers[header as usize];
        let Some(base) = self.header(n, h) else {
            return self.fail(self.code.errors.stack);
        };
        let bits = self.packet.len() * 8;
        // BMv2 reads varbits of whole bytes only, and checks for errors in this order.
        if !var_bits.is_multiple_of(8) {
            return self.fail(self.code.errors.invalid_argument);
        }
        if var_bits > bits as u64 || self.at + h.fixed_bits + var_bits as usize > bits {
            return self.fail(self.code.errors.too_short);
        }
        let var_bits = var_bits as u32;
        if h.varbit.is_some_and(|v| var_bits > h.fields[v].1) {
            return self.fail(self.code.errors.header_too_short);
        }
        self.read(n, h, base, var_bits);
        self.at += h.fixed_bits + if h.varbit.is_some() { var_bits as usize } else { 0 };
        n[base] = 1;
        if !h.siblings.is_empty() {
            self.clear_siblings(n, h);
        }
        if let Some(s) = h.next.and_then(|next| self.slot(n, next)) {
            n[s] += 1;
        }
        Flow::Next
    }

    /// Fields from where the parser is; that they are there has been checked.
    fn read(&mut self, n: &mut [u64], h: &HeaderCode, base: usize, var_bits: u32) {
        if self.at.is_multiple_of(8) && !h.reads.is_empty() {
            let bytes = &self.packet[self.at / 8..self.at / 8 + h.fixed_bits.div_ceil(8)];
            let mut short = [0; 8];
            let bytes = if bytes.len() < 8 {
                short[..bytes.len()].copy_from_slice(bytes);
                &short
            } else {
                bytes
            };
            for f in &h.reads {
                match f {
                    FieldIn::Fast { offset, at, right, sh } => {
                        let at = *at as usize;
                        let v = bytes[at..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
                        n[base + *offset as usize] = (v >> right) & (u64::MAX >> sh);
                    }
                    FieldIn::Slow { offset, at, width } => {
                        let v = read_bits(self.packet, self.at + *at as usize, *width);
                        self.set(n, base + *offset as usize, v);
                    }
                }
            }
            if let Some(v) = h.varbit {
                let slot = base + h.fields[v].0 as usize;
                let v = read_bits(self.packet, self.at + h.fixed_bits, var_bits);
                self.set(n, slot, v);
                n[slot + 1] = u64::from(var_bits);
            }
            return;
        }
        let mut at = self.at;
        for (i, (offset, w)) in h.fields.iter().enumerate() {
            let (slot, is_var) = (base + *offset as usize, h.varbit == Some(i));
            let w = if is_var { var_bits } else { *w };
            let v = read_bits(self.packet, at, w);
            self.set(n, slot, v);
            if is_var {
                n[slot + 1] = u64::from(var_bits);
            }
            at += w as usize;
        }
    }

    pub(crate) fn lookahead(&mut self, n: &mut [u64], header: u32) -> Flow {
        let h = &self.code.headers[header as usize];
        if self.at + h.fixed_bits > self.packet.len() * 8 {
            return self.fail(self.code.errors.too_short);
        }
        self.read(n, h, h.base as usize, 0);
        h.valid.iter().for_each(|v| n[*v as usize] = 1);
        Flow::Next
    }

    pub(super) fn emit(&mut self, n: &[u64], header: u32) {
        let h = &self.code.headers[header as usize];
        let Some(base) = self.header(n, h).filter(|at| n[*at] != 0) else {
            return;
        };
        if self.scratch.head.bits.is_multiple_of(8) && !h.writes.is_empty() {
            let mut bytes = 0;
            for f in &h.writes {
                match f {
                    FieldOut::Or { offset, left } => bytes |= n[base + *offset as usize] << left,
                    FieldOut::Bytes(count) => {
                        self.scratch.head.push_bytes(bytes, *count);
                        bytes = 0;
                    }
                    FieldOut::Wide { offset, width } => {
                        let v = self.get(n, base + *offset as usize);
                        self.scratch.head.push(&v, *width);
                    }
                }
            }
            if let Some(v) = h.varbit {
                let slot = base + h.fields[v].0 as usize;
                let w = n[slot + 1] as u32;
                if w > 0 {
                    self.scratch.head.push(&self.get(n, slot), w);
                }
            }
            return;
        }
        for (i, (offset, w)) in h.fields.iter().enumerate() {
            let slot = base + *offset as usize;
            let w = if h.varbit == Some(i) { n[slot + 1] as u32 } else { *w };
            if w > 0 {
                let v = self.get(n, slot);
                self.scratch.head.push(&v, w);
            }
        }
    }

    pub(super) fn shift(&mut self, n: &mut [u64], stack: u32) {
        let x = &self.code.stacks[stack as usize];
        let Some(next) = self.slot(n, x.at) else { return };
        let (first, by) = (next + 1, x.by);
        let cells = &mut n[first..first + x.each * x.len];
        if x.push {
            cells.rotate_right(by * x.each);
            cells[..by * x.each].fill(0);
        } else {
            cells.rotate_left(by * x.each);
            cells[(x.len - by) * x.each..].fill(0);
        }
        for offset in &x.wide {
            // Each element takes the one that lay `by` before or behind it.
            for k in 0..x.len {
                let to = if x.push { x.len - 1 - k } else { k };
                let from = if x.push { to.checked_sub(by) } else { Some(to + by).filter(|f| *f < x.len) };
                let v = from.map_or(Val::S(0), |f| self.get(n, first + f * x.each + offset));
                self.set(n, first + to * x.each + offset, v);
            }
        }
        let by = by as u64;
        n[next] = if x.push { n[next].saturating_add(by).min(x.len as u64) } else { n[next].saturating_sub(by) };
    }
}
