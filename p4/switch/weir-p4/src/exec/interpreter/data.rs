// SPDX-License-Identifier: Apache-2.0
//! Data in order: hashes, checksums, log messages; copies behind run-time indices.
use super::*;

impl<'a> Machine<'a> {
    pub(super) fn log(&mut self, n: &[u64], text: u32) {
        let x = &self.code.logs[text as usize];
        let mut out = String::new();
        let mut rest = x.text.as_str();
        for (v, w, signed) in &x.data {
            let Some((head, tail)) = rest.split_once("{}") else {
                break;
            };
            out.push_str(head);
            out.push_str(&self.src(n, *v).to_int(*w, *signed).to_string());
            rest = tail;
        }
        out.push_str(rest);
        self.effects.log.push(out);
    }

    pub(super) fn copy(&mut self, n: &mut [u64], copy: u32) {
        let x = &self.code.copies[copy as usize];
        let Some(to) = self.slot(n, x.to) else { return };
        let Some(from) = self.slot(n, x.from) else {
            n[to..to + x.n].fill(0);
            x.wide.iter().for_each(|i| self.set(n, to + i, Val::S(0)));
            return;
        };
        for k in 0..x.wide.len() {
            let i = x.wide[if from < to { x.wide.len() - 1 - k } else { k }];
            let v = self.get(n, from + i);
            self.set(n, to + i, v);
        }
        n.copy_within(from..from + x.n, to);
    }

    pub(super) fn hash(&mut self, n: &[u64], hash: u32) -> u64 {
        let x = &self.code.hashes[hash as usize];
        let rest = match x.rest {
            Rest::Nothing => &[],
            Rest::Unread => &self.packet[(self.at / 8).min(self.packet.len())..],
            Rest::Payload => self.payload,
        };
        match x.algo {
            HashAlgorithm::Random => self.state.random(),
            HashAlgorithm::Csum16 => self.checksum(n, x, rest),
            algo => {
                self.gather(n, &x.data);
                self.scratch.data.bytes.extend_from_slice(rest);
                hash_of(algo, &self.scratch.data.bytes)
            }
        }
    }

    pub(super) fn gather(&mut self, n: &[u64], data: &Data) {
        self.scratch.data.clear();
        for (v, width, length) in data {
            let w = length.map_or(*width, |l| n[l as usize] as u32);
            match v {
                Source::N(c) if w <= 64 => self.scratch.data.push_small(n[*c as usize], w),
                v => {
                    let v = self.src(n, *v);
                    self.scratch.data.push(&v, w);
                }
            }
        }
    }

    /// The Internet checksum of fields and bytes, without laying the fields out: RFC 1071's sum does not mind in which
    /// order and in how wide words it is taken, as long as each value stands at its place within 16 bits.
    fn checksum(&self, n: &[u64], x: &HashCode, rest: &[u8]) -> u64 {
        let mut placed = 0u64;
        for (c, left) in &x.placed {
            let (sum, carry) = placed.overflowing_add(n[*c as usize] << left);
            placed = sum + u64::from(carry);
        }
        let (mut sum, mut at) = (placed as u128, x.placed_bits);
        let mut add = |v: u128| sum += (v as u64 as u128) + (v >> 64);
        for (v, width, length) in &x.data {
            let w = length.map_or(*width, |l| n[l as usize] as u32);
            at += w;
            if w == 0 {
                continue;
            }
            let left = (16 - at % 16) % 16;
            match v {
                Source::N(c) => add((n[*c as usize] as u128) << left),
                Source::W(w) => match &self.scratch.wide[*w as usize] {
                    Val::S(v) => {
                        add((*v as u64 as u128) << left);
                        add((v >> 64) << left);
                    }
                    Val::B(v) => v.iter_u64_digits().for_each(|d| add((d as u128) << left)),
                },
            }
        }
        let mut words = rest.chunks_exact(2);
        let mut tail = words.by_ref().map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>();
        tail += words.remainder().first().map_or(0, |b| u64::from(*b) << 8);
        // Bytes behind an odd number of others stand the other way round.
        add(if at.div_ceil(8).is_multiple_of(2) { tail as u128 } else { (tail as u128) << 8 });
        // Halves of a number add up as its words do.
        let sum = (sum as u64 as u128) + (sum >> 64);
        let mut sum = (sum as u32 as u64) + ((sum >> 32) as u32 as u64) + (sum >> 64) as u64;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !sum & 0xffff
    }
}
