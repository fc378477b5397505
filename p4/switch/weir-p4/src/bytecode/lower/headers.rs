// SPDX-License-Identifier: Apache-2.0
//! Headers, and how their fields go in and out of packets.
use super::*;

impl<'p> Lower<'p> {
    pub(super) fn header(&mut self, h: &HeaderRef, next: Option<&Address>) -> u32 {
        let l = &h.layout;
        let fields: Vec<(u32, u32)> = l.fields.iter().map(|(o, w)| (*o as u32, *w)).collect();
        let at = if h.addr.dyns.is_empty() { None } else { Some(self.addr(&h.addr)) };
        // Fields behind a varbit have no place of their own.
        let (reads, writes) = match l.varbit {
            None => (plan_in(&fields), plan_out(&fields)),
            Some(v) if v + 1 == fields.len() && l.fixed_bits.is_multiple_of(8) => {
                (plan_in(&fields[..v]), plan_out(&fields[..v]))
            }
            Some(_) => Default::default(),
        };
        let siblings = h.siblings.iter().map(|s| self.addr(s)).collect();
        let next = next.map(|n| self.addr(n));
        let (base, fixed_bits, varbit) = (h.addr.base as Cell, l.fixed_bits, l.varbit);
        let valid = Vec::new();
        self.code.headers.push(HeaderCode {
            at,
            base,
            fixed_bits,
            fields,
            varbit,
            reads,
            writes,
            siblings,
            next,
            valid,
        });
        (self.code.headers.len() - 1) as u32
    }
}

/// Plans for a header that starts at a whole byte: each field from the eight bytes around it, where it fits them.
pub(super) fn plan_in(fields: &[(u32, u32)]) -> Vec<FieldIn> {
    let bits: u32 = fields.iter().map(|f| f.1).sum();
    let bytes = bits.div_ceil(8);
    let mut at = 0;
    let mut plan = Vec::new();
    for (offset, w) in fields {
        let window = (at / 8).min(bytes.saturating_sub(8));
        let end = at + w - 8 * window;
        let fast = (1..=64).contains(w) && end <= 64 && window <= u16::MAX as u32;
        plan.push(match fast {
            true => FieldIn::Fast { offset: *offset, at: window as u16, right: (64 - end) as u8, sh: (64 - w) as u8 },
            false => FieldIn::Slow { offset: *offset, at, width: *w },
        });
        at += w;
    }
    plan
}

/// Groups fields to at most eight whole bytes that are written at once; nothing when they do not fall into such groups.
pub(super) fn plan_out(fields: &[(u32, u32)]) -> Vec<FieldOut> {
    let mut plan = Vec::new();
    let mut group: Vec<(u32, u32)> = Vec::new();
    let close = |group: &mut Vec<(u32, u32)>, plan: &mut Vec<FieldOut>| {
        let mut left: u32 = group.iter().map(|f| f.1).sum();
        let bytes = left / 8;
        if !left.is_multiple_of(8) {
            return false;
        }
        for (offset, w) in group.drain(..) {
            left -= w;
            plan.push(FieldOut::Or { offset, left: left as u8 });
        }
        if bytes > 0 {
            plan.push(FieldOut::Bytes(bytes as u8));
        }
        true
    };
    for (offset, w) in fields {
        let bits: u32 = group.iter().map(|f| f.1).sum();
        if *w == 0 {
            continue;
        }
        if bits + w > 64 && !close(&mut group, &mut plan) {
            return Vec::new();
        }
        if *w <= 64 {
            group.push((*offset, *w));
        } else if w % 8 == 0 {
            plan.push(FieldOut::Wide { offset: *offset, width: *w });
        } else {
            return Vec::new();
        }
    }
    match close(&mut group, &mut plan) {
        true => plan,
        false => Vec::new(),
    }
}
