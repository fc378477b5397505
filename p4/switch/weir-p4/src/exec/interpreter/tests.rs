// SPDX-License-Identifier: Apache-2.0
//! The interpreter against integers without end.
use super::*;
use crate::bytecode::ir::{Expression, Statement};
use crate::bytecode::lower::lower;
use crate::bytecode::operators::Operator;
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use proptest::prelude::*;

/// The value of an expression over slots of these widths and values.
fn run(e: Expression, inputs: &[(u32, Val)]) -> Val {
    let to = inputs.len();
    // Code that is never run still gives the slots' widths.
    let widths =
        inputs.iter().enumerate().map(|(i, (w, _))| Statement::Set(i, Expression::Const(Val::all_ones(*w)))).collect();
    let p = Program { slots: to + 1, procs: vec![vec![Statement::Set(to, e)], widths], ..Program::default() };
    let code = lower(&p).unwrap();
    let (mut state, mut scratch) = (State::new(&p, 1), Scratch::new(code.wide_cells));
    let mut frame = code.frame.clone();
    for (i, (_, v)) in inputs.iter().enumerate() {
        match code.wide_of[i] {
            NARROW => frame[i] = v.low() as u64,
            w => scratch.wide[w as usize] = v.clone(),
        }
    }
    assert!(
        Machine::new(
            &code,
            &p,
            &mut state,
            &mut scratch,
            Input { packet: &[], length_bytes: 0, now_us: 0, drop_port: 0 }
        )
        .control(&mut frame, 0)
    );
    match code.wide_of[to] {
        NARROW => Val::S(frame[to] as u128),
        w => scratch.wide[w as usize].clone(),
    }
}

/// P4_16 8.5 to 8.10 in integers without end.
fn expected(op: Operator, w: u32, x: &Val, y: &Val) -> Val {
    let modulus = BigInt::one() << w;
    let (a, b) = (x.to_int(w, false), y.to_int(w, false));
    let (sa, sb) = (x.to_int(w, true), y.to_int(w, true));
    let half: BigInt = &modulus >> 1;
    let shift = usize::try_from(&b).unwrap_or(usize::MAX).min(4096);
    let is = |v: bool| BigInt::from(u8::from(v));
    let v = match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mul => a * b,
        Operator::Div | Operator::Mod if b.is_zero() => BigInt::zero(),
        Operator::Div => a / b,
        Operator::Mod => a % b,
        Operator::AddSat => (a + b).min(modulus - 1),
        Operator::SubSat => (a - b).max(BigInt::zero()),
        Operator::AddSatS => (sa + sb).clamp(-half.clone(), half - 1),
        Operator::SubSatS => (sa - sb).clamp(-half.clone(), half - 1),
        Operator::Shl => a << shift,
        Operator::Shr => a >> shift,
        Operator::Sar if sa.is_negative() => -((-sa - 1u32) >> shift) - 1,
        Operator::Sar => sa >> shift,
        Operator::And => a & b,
        Operator::Or => a | b,
        Operator::Xor => a ^ b,
        Operator::Eq => is(a == b),
        Operator::Ne => is(a != b),
        Operator::Lt => is(a < b),
        Operator::Le => is(a <= b),
        Operator::LtS => is(sa < sb),
        Operator::LeS => is(sa <= sb),
    };
    Val::from_int(&v, w.max(1))
}

pub(crate) const OPS: [Operator; 21] = [
    Operator::Add,
    Operator::Sub,
    Operator::Mul,
    Operator::Div,
    Operator::Mod,
    Operator::AddSat,
    Operator::SubSat,
    Operator::AddSatS,
    Operator::SubSatS,
    Operator::Shl,
    Operator::Shr,
    Operator::Sar,
    Operator::And,
    Operator::Or,
    Operator::Xor,
    Operator::Eq,
    Operator::Ne,
    Operator::Lt,
    Operator::Le,
    Operator::LtS,
    Operator::LeS,
];

/// Values where mistakes hide: the ends, the middle, small ones (shifts), any.
pub(crate) fn value(w: u32, pick: u8, any: [u64; 4]) -> Val {
    let random = any.iter().fold(Val::S(0), |v, d| v.shl(64, 256).or(Val::S(u128::from(*d))));
    let half = Val::S(1).shl(w as usize - 1, w);
    match pick % 8 {
        0 => Val::S(0),
        1 => Val::S(1),
        2 => Val::all_ones(w),
        3 => half,
        4 => half.sub(Val::S(1), w),
        5 => Val::S(u128::from(any[0] % 140)).mask(w),
        _ => random.mask(w),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operator_is_that_of_big_integers(
        w in prop_oneof![1..=64u32, Just(32), Just(63), Just(64), Just(65), 65..=200u32],
        picks in any::<(u8, u8)>(),
        numbers in any::<([u64; 4], [u64; 4])>(),
    ) {
        let (x, y) = (value(w, picks.0, numbers.0), value(w, picks.1, numbers.1));
        let inputs = [(w, x.clone()), (w, y.clone())];
        for op in OPS {
            let want = expected(op, w, &x, &y);
            let e = |a, b| Expression::Bin(op, w, Box::new((a, b)));
            prop_assert_eq!(run(e(Expression::Load(0), Expression::Load(1)), &inputs), want.clone(), "{:?} in {} bits", op, w);
            let constant = e(Expression::Load(0), Expression::Const(y.clone()));
            prop_assert_eq!(run(constant, &inputs), want.clone(), "{:?} by a constant in {} bits", op, w);
            if want.bits() <= 1 {
                let c = Expression::Cond(Box::new((e(Expression::Load(0), Expression::Load(1)), Expression::Load(0), Expression::Load(1))));
                let want = if want.is_zero() { y.clone() } else { x.clone() };
                prop_assert_eq!(run(c, &inputs), want, "condition {:?} in {} bits", op, w);
            }
        }
    }

    #[test]
    fn bits_are_cut_and_joined_where_words_end(
        w in 1..=140u32,
        lo in 0..140u32,
        n in 1..=140u32,
        picks in any::<(u8, u8)>(),
        numbers in any::<([u64; 4], [u64; 4])>(),
    ) {
        let (x, y) = (value(w, picks.0, numbers.0), value(n, picks.1, numbers.1));
        let inputs = [(w, x.clone()), (n, y.clone())];
        let load = || Box::new(Expression::Load(0));
        let (a, b) = (x.to_int(w, false), y.to_int(n, false));
        let int = |v: BigInt, w: u32| Val::from_int(&v, w);
        prop_assert_eq!(run(Expression::Slice(load(), lo, n), &inputs), int(a.clone() >> lo, n));
        prop_assert_eq!(run(Expression::Neg(w, load()), &inputs), int(-a.clone(), w));
        prop_assert_eq!(run(Expression::BitNot(w, load()), &inputs), int(-a.clone() - 1, w));
        prop_assert_eq!(run(Expression::SignExtend(load(), w, n), &inputs), int(x.to_int(w, true), n));
        let joined = Expression::Concat(Box::new((Expression::Load(0), Expression::Load(1))), n);
        prop_assert_eq!(run(joined, &inputs), int((a.clone() << n) | b.clone(), w + n));
        for op in [Operator::Add, Operator::Sub, Operator::Mul, Operator::Xor] {
            // Only the low bits of a wide result are wanted.
            let sum = Expression::Bin(op, 150, Box::new((Expression::Load(0), Expression::Load(1))));
            let cut = lo % 64 + 1;
            let want = expected(op, 150, &x, &y).mask(cut);
            prop_assert_eq!(run(Expression::Slice(Box::new(sum), 0, cut), &inputs), want, "{:?}", op);
        }
    }
}
