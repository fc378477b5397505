// SPDX-License-Identifier: Apache-2.0
//! Run-time values: unsigned bit strings. Signed types keep two's complement in their width.
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, ToPrimitive, Zero};
use std::cmp::Ordering;

/// The widest `bit<W>` accepted; BMv2's p4c has the same limit.
pub const MAX_WIDTH: u32 = 2048;

/// A value below 2^128 is always `S`, so that equal values have equal forms.
// Native code works on `S` in place, by this layout.
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Val {
    /// Below 2^128.
    S(u128),
    /// From 2^128 on.
    B(Box<BigUint>),
}

impl Default for Val {
    fn default() -> Val {
        Val::S(0)
    }
}

impl From<u128> for Val {
    fn from(v: u128) -> Val {
        Val::S(v)
    }
}

impl PartialOrd for Val {
    fn partial_cmp(&self, other: &Val) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Val {
    fn cmp(&self, other: &Val) -> Ordering {
        match (self, other) {
            (Val::S(a), Val::S(b)) => a.cmp(b),
            (Val::S(_), Val::B(_)) => Ordering::Less,
            (Val::B(_), Val::S(_)) => Ordering::Greater,
            (Val::B(a), Val::B(b)) => a.cmp(b),
        }
    }
}

/// Copies values, without a call for each where they are below 2^128.
///
/// # Panics
/// The two are not of one length.
pub(crate) fn copy_values(to: &mut [Val], from: &[Val]) {
    assert_eq!(to.len(), from.len(), "values to copy, and places");
    for (to, from) in to.iter_mut().zip(from) {
        match (&mut *to, from) {
            (Val::S(to), Val::S(from)) => *to = *from,
            _ => *to = from.clone(),
        }
    }
}

/// Sets values to 0.
pub(crate) fn clear_values(values: &mut [Val]) {
    for v in values {
        match v {
            Val::S(v) => *v = 0,
            Val::B(_) => *v = Val::S(0),
        }
    }
}

/// The largest value of `w` bits, for `w` up to 128.
pub fn ones(w: u32) -> u128 {
    if w >= 128 { u128::MAX } else { (1u128 << w) - 1 }
}

// The operations take widths, so the standard operator traits don't fit them.
#[allow(clippy::should_implement_trait)]
impl Val {
    /// Where `S` has its number, in bytes; the byte at the value's begin is 0 for `S` alone.
    pub(crate) const SMALL_AT: usize = align_of::<u128>();

    /// The value as a big integer.
    pub fn big(self) -> BigUint {
        match self {
            Val::S(v) => BigUint::from(v),
            Val::B(b) => *b,
        }
    }

    /// The value of a big integer.
    pub fn from_big(b: BigUint) -> Val {
        match b.to_u128() {
            Some(v) => Val::S(v),
            None => Val::B(Box::new(b)),
        }
    }

    /// The low `w` bits of `v` in two's complement.
    pub fn from_int(v: &BigInt, w: u32) -> Val {
        let modulus = BigInt::one() << w;
        let r = ((v % &modulus) + &modulus) % &modulus;
        Val::from_big(r.to_biguint().unwrap_or_default())
    }

    /// The number this stands for in a type of `w` bits.
    pub fn to_int(&self, w: u32, signed: bool) -> BigInt {
        let v = BigInt::from_biguint(Sign::Plus, self.clone().big());
        if signed && w > 0 && self.bit(w - 1) { v - (BigInt::one() << w) } else { v }
    }

    /// The low 128 bits.
    pub fn low(&self) -> u128 {
        match self {
            Val::S(v) => *v,
            Val::B(b) => b.iter_u64_digits().take(2).enumerate().map(|(i, d)| (d as u128) << (64 * i)).sum(),
        }
    }

    /// The value, or `usize::MAX` when it does not fit.
    pub fn index(&self) -> usize {
        match self {
            Val::S(v) => usize::try_from(*v).unwrap_or(usize::MAX),
            Val::B(_) => usize::MAX,
        }
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        matches!(self, Val::S(0))
    }

    /// Bit `n`, counted from the lowest.
    pub fn bit(&self, n: u32) -> bool {
        match self {
            Val::S(v) => n < 128 && (v >> n) & 1 == 1,
            Val::B(b) => b.bit(n as u64),
        }
    }

    /// Number of bits that the value needs.
    pub fn bits(&self) -> u32 {
        match self {
            Val::S(v) => 128 - v.leading_zeros(),
            Val::B(b) => b.bits() as u32,
        }
    }

    /// The low `w` bits.
    pub fn mask(self, w: u32) -> Val {
        match self {
            Val::S(v) => Val::S(v & ones(w)),
            Val::B(b) if (b.bits() as u32) <= w => Val::B(b),
            Val::B(b) if w <= 128 => Val::S(Val::B(b).low() & ones(w)),
            Val::B(b) => Val::from_big(*b & big_ones(w)),
        }
    }

    /// The largest value of `w` bits.
    pub fn all_ones(w: u32) -> Val {
        if w <= 128 { Val::S(ones(w)) } else { Val::from_big(big_ones(w)) }
    }

    /// Left shift in `w` bits.
    pub fn shl(self, n: usize, w: u32) -> Val {
        if n >= w as usize {
            return Val::S(0);
        }
        match self {
            Val::S(v) if w <= 128 => Val::S((v << n) & ones(w)),
            // A big integer would be allocated.
            Val::S(v) if n < 128 && v.leading_zeros() as usize >= n => Val::S(v << n),
            v => Val::from_big(v.big() << n).mask(w),
        }
    }

    /// Logical right shift.
    pub fn shr(self, n: usize) -> Val {
        match self {
            Val::S(_) if n >= 128 => Val::S(0),
            Val::S(v) => Val::S(v >> n),
            Val::B(b) => Val::from_big(*b >> n),
        }
    }

    /// Arithmetic right shift in `w` bits.
    pub fn sar(self, n: usize, w: u32) -> Val {
        if !self.bit(w - 1) {
            return self.shr(n);
        }
        let n = n.min(w as usize);
        let fill = Val::all_ones(w).shl(w as usize - n, w);
        self.shr(n).or(fill)
    }

    /// `self` of width `from` in `to` bits, the sign repeated.
    pub fn sign_extend(self, from: u32, to: u32) -> Val {
        if to <= from {
            self.mask(to)
        } else if self.bit(from - 1) {
            self.or(Val::all_ones(to - from).shl(from as usize, to))
        } else {
            self
        }
    }

    /// Sum modulo 2^`w`.
    pub fn add(self, o: Val, w: u32) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) if w <= 128 => Val::S(a.wrapping_add(b) & ones(w)),
            (a, b) => Val::from_big(a.big() + b.big()).mask(w),
        }
    }

    /// Difference modulo 2^`w`.
    pub fn sub(self, o: Val, w: u32) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) if w <= 128 => Val::S(a.wrapping_sub(b) & ones(w)),
            (a, b) => Val::from_big((BigUint::one() << w) + a.mask(w).big() - b.mask(w).big()).mask(w),
        }
    }

    /// Product modulo 2^`w`.
    pub fn mul(self, o: Val, w: u32) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) if w <= 128 => Val::S(a.wrapping_mul(b) & ones(w)),
            (a, b) => Val::from_big(a.big() * b.big()).mask(w),
        }
    }

    /// Bitwise and.
    pub fn and(self, o: Val) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) => Val::S(a & b),
            (a, b) => Val::from_big(a.big() & b.big()),
        }
    }

    /// Bitwise or.
    pub fn or(self, o: Val) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) => Val::S(a | b),
            (a, b) => Val::from_big(a.big() | b.big()),
        }
    }

    /// Bitwise exclusive or.
    pub fn xor(self, o: Val) -> Val {
        match (self, o) {
            (Val::S(a), Val::S(b)) => Val::S(a ^ b),
            (a, b) => Val::from_big(a.big() ^ b.big()),
        }
    }

    /// All `w` bits inverted.
    pub fn not(self, w: u32) -> Val {
        match self {
            Val::S(a) if w <= 128 => Val::S(!a & ones(w)),
            a => Val::all_ones(w).xor(a),
        }
    }

    /// Adds or subtracts and stays within the type's range (P4_16 8.5).
    pub fn saturate(self, o: Val, w: u32, signed: bool, subtract: bool) -> Val {
        let (a, b) = (self.to_int(w, signed), o.to_int(w, signed));
        let r = if subtract { a - b } else { a + b };
        let (low, high) = range(w, signed);
        Val::from_int(&r.clamp(low, high), w)
    }

    /// Big-endian bytes of a value of `w` bits, `ceil(w / 8)` of them.
    pub fn bytes(&self, w: u32) -> Vec<u8> {
        let n = w.div_ceil(8) as usize;
        let raw = match self {
            Val::S(v) => v.to_be_bytes().to_vec(),
            Val::B(b) => b.to_bytes_be(),
        };
        let mut out = vec![0; n.saturating_sub(raw.len())];
        out.extend_from_slice(&raw[raw.len().saturating_sub(n)..]);
        out
    }
}

/// Smallest and largest number of a type.
pub fn range(w: u32, signed: bool) -> (BigInt, BigInt) {
    if signed {
        let half = BigInt::one() << w.saturating_sub(1);
        (-half.clone(), half - 1)
    } else {
        (BigInt::zero(), (BigInt::one() << w) - 1)
    }
}

fn big_ones(w: u32) -> BigUint {
    (BigUint::one() << w) - 1u32
}

/// Reads `w` bits at bit offset `at`; the caller has checked that they are there.
pub fn read_bits(data: &[u8], at: usize, w: u32) -> Val {
    if w == 0 {
        return Val::S(0);
    }
    let (first, last) = (at / 8, (at + w as usize - 1) / 8);
    let drop = 7 - (at + w as usize - 1) % 8;
    let bytes = &data[first..=last];
    if let (Ok(all), 0) = (<[u8; 16]>::try_from(bytes), drop) {
        Val::S(u128::from_be_bytes(all) & ones(w))
    } else if bytes.len() <= 16 {
        let v = bytes.iter().fold(0u128, |v, b| (v << 8) | *b as u128);
        Val::S((v >> drop) & ones(w))
    } else {
        Val::from_big(BigUint::from_bytes_be(bytes) >> drop).mask(w)
    }
}

/// Bits appended one field after the other, most significant first.
#[derive(Default, Clone, Debug)]
pub struct BitWriter {
    /// Whole bytes; the free bits of the last are 0.
    pub bytes: Vec<u8>,
    /// Bits written so far.
    pub bits: usize,
}

impl BitWriter {
    /// Starts again without bits.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bits = 0;
    }

    /// Appends the low `w` bits of `v`.
    pub fn push(&mut self, v: &Val, w: u32) {
        match v {
            Val::S(v) if w <= 64 => self.push_small(*v as u64, w),
            Val::S(v) if w <= 128 => {
                self.push_small((v >> 64) as u64, w - 64);
                self.push_small(*v as u64, 64);
            }
            v => {
                let bytes = v.bytes(w);
                // The first byte may hold fewer than eight bits of the value.
                let first = (w - 1) % 8 + 1;
                bytes
                    .iter()
                    .enumerate()
                    .for_each(|(i, b)| self.push_small(u64::from(*b), if i == 0 { first } else { 8 }));
            }
        }
    }

    /// The low bytes of `v`, one to eight, from a byte boundary on.
    pub(crate) fn push_bytes(&mut self, v: u64, bytes: u8) {
        let top = v << (64 - 8 * u32::from(bytes));
        self.bits += 8 * usize::from(bytes);
        self.append(top.to_be_bytes(), bytes.into());
    }

    /// Eight bytes are copied and some are taken back: that is faster than a copy of a length that varies.
    fn append(&mut self, top: [u8; 8], bytes: usize) {
        self.bytes.extend_from_slice(&top);
        self.bytes.truncate(self.bytes.len() - 8 + bytes);
    }

    /// The low `w` bits, 64 at most.
    pub fn push_small(&mut self, v: u64, w: u32) {
        let used = self.bits % 8;
        self.bits += w as usize;
        let mut left = w;
        if used > 0 {
            let room = 8 - used as u32;
            let now = room.min(left);
            left -= now;
            if let Some(last) = self.bytes.last_mut() {
                *last |= (((v >> left) & ((1 << now) - 1)) << (room - now)) as u8;
            }
        }
        if left > 0 {
            // The last bits, moved to the top of their bytes.
            let top = (v << (64 - left)).to_be_bytes();
            self.append(top, left.div_ceil(8) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_written_are_bits_read() {
        let fields: [(u128, u32); 6] = [(5, 3), (1, 1), (0x1ff, 9), (0xabcd, 19), (1, 128), (0x3f, 8)];
        let mut w = BitWriter::default();
        fields.iter().for_each(|(v, n)| w.push(&Val::S(*v), *n));
        let mut at = 0;
        for (v, n) in fields {
            assert_eq!(read_bits(&w.bytes, at, n), Val::S(v), "at bit {at}");
            at += n as usize;
        }
        assert_eq!(w.bits, at);
    }

    #[test]
    fn wide_values_wrap_and_shift() {
        let top = Val::all_ones(300);
        assert_eq!(top.clone().add(Val::S(1), 300), Val::S(0));
        assert_eq!(Val::S(0).sub(Val::S(1), 300), top);
        assert_eq!(Val::S(1).shl(299, 300).shr(299), Val::S(1));
        assert_eq!(top.clone().not(300), Val::S(0));
        assert_eq!(top.clone().sar(200, 300), top);
        assert_eq!(Val::S(3).shl(126, 300), Val::S(3 << 126));
        assert_eq!(Val::S(3).shl(127, 300).shr(127), Val::S(3));
        assert_eq!(Val::S(3).shl(127, 128), Val::S(1 << 127));
    }

    #[test]
    fn saturation_stops_at_the_type() {
        assert_eq!(Val::S(250).saturate(Val::S(10), 8, false, false), Val::S(255));
        assert_eq!(Val::S(3).saturate(Val::S(10), 8, false, true), Val::S(0));
        assert_eq!(Val::S(0x80).saturate(Val::S(1), 8, true, true), Val::S(0x80));
        assert_eq!(Val::S(0x7f).saturate(Val::S(1), 8, true, false), Val::S(0x7f));
    }
}
