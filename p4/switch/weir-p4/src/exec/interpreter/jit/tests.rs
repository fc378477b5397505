// SPDX-License-Identifier: Apache-2.0
//! Native code beside the interpreter: operators, and the memory of code.
use super::compile;
use super::memory::Executable;
use crate::bytecode::code::{Code, NARROW};
use crate::bytecode::ir::{Expression, Statement};
use crate::bytecode::lower::lower;
use crate::bytecode::program::Program;
use crate::exec::State;
use crate::exec::interpreter::tests::{OPS, value};
use crate::exec::interpreter::{Input, Machine, Scratch};
use crate::value::Val;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Both frames after the first procedure has run over these values of the first slots.
fn run(code: &Code, p: &Program, inputs: &[Val], is_native: bool) -> (Vec<u64>, Vec<Val>) {
    let (mut state, mut scratch) = (State::new(p, 1), Scratch::new(code.wide_cells));
    scratch.native = is_native.then(|| compile(code).expect("the code is compiled"));
    let mut frame = code.frame.clone();
    for (i, v) in inputs.iter().enumerate() {
        match code.wide_of[i] {
            NARROW => frame[i] = v.low() as u64,
            w => scratch.wide[w as usize] = v.clone(),
        }
    }
    let input = Input { packet: &[], length_bytes: 0, now_us: 0, drop_port: 0 };
    assert!(Machine::new(code, p, &mut state, &mut scratch, input).control(&mut frame, 0));
    (frame, scratch.wide)
}

/// All operators on slots 0 and 1, on 0 and a constant, and as conditions, each into a slot of its own.
fn statements(w: u32, constant: &Val, lo: u32, n: u32) -> Vec<Statement> {
    let load = |slot| Expression::Load(slot);
    let mut all = Vec::new();
    let is_condition = |op| format!("{op:?}").starts_with(['E', 'N', 'L']);
    for op in OPS {
        let bin = |y| Expression::Bin(op, w, Box::new((load(0), y)));
        all.extend([bin(load(1)), bin(Expression::Const(constant.clone()))]);
        if is_condition(op) {
            all.push(Expression::Cond(Box::new((bin(load(1)), load(0), load(1)))));
        }
    }
    let sum = Expression::Bin(OPS[0], 150, Box::new((load(0), load(1))));
    all.extend([
        Expression::Slice(Box::new(load(0)), lo, n),
        Expression::Slice(Box::new(sum), 0, lo % 64 + 1),
        Expression::Neg(w, Box::new(load(0))),
        Expression::BitNot(w, Box::new(load(0))),
        Expression::SignExtend(Box::new(load(0)), w, n),
        Expression::Concat(Box::new((load(0), load(1))), w),
    ]);
    all.into_iter().enumerate().map(|(i, e)| Statement::Set(2 + i, e)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operator_is_that_of_the_interpreter(
        w in prop_oneof![1..=64u32, Just(32), Just(63), Just(64), Just(65), 65..=200u32],
        picks in any::<(u8, u8)>(),
        numbers in any::<([u64; 4], [u64; 4])>(),
        lo in 0..140u32,
        n in 1..=140u32,
    ) {
        let inputs = [value(w, picks.0, numbers.0), value(w, picks.1, numbers.1)];
        let work = statements(w, &inputs[1], lo, n);
        // Code that is never run still gives the slots' widths.
        let widths = (0..2).map(|i| Statement::Set(i, Expression::Const(Val::all_ones(w)))).collect();
        let p = Program { slots: work.len() + 2, procs: vec![work, widths], ..Program::default() };
        let code = lower(&p).expect("the program is lowered");
        prop_assert!(compile(&code).is_ok_and(|native| native.function(code.procs[0]).is_some()));
        prop_assert_eq!(run(&code, &p, &inputs, false), run(&code, &p, &inputs, true));
    }
}

#[test]
fn a_panic_of_the_machine_passes_native_code() {
    // There is no such counter.
    let work = vec![Statement::Count(7, Expression::Const(Val::S(0)))];
    let p = Program { procs: vec![work], ..Program::default() };
    let code = lower(&p).expect("the program is lowered");
    for is_native in [false, true] {
        assert!(catch_unwind(AssertUnwindSafe(|| run(&code, &p, &[], is_native))).is_err());
    }
}

/// Lines of the process's mappings that hold this address.
fn mapping(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings can be read");
    let holds = |line: &&str| {
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        range.and_then(|(from, to)| Some(hex(from)? <= address && address < hex(to)?)) == Some(true)
    };
    maps.lines().find(holds).map(String::from)
}

/// `PR_SET_MDWE` of linux/prctl.h, which systemd's `MemoryDenyWriteExecute` sets too.
#[test]
fn memory_of_code_is_never_writable_and_is_given_back() {
    const PR_SET_MDWE: libc::c_int = 65;
    // SAFETY: it changes the protections that this process may ask for from now on, and no memory. Linux before 6.3
    // rejects it.
    unsafe { libc::prctl(PR_SET_MDWE, 1, 0, 0, 0) };
    let code = Executable::new(1, |_| Ok(vec![0xc3])).expect("there is executable memory");
    let address = code.address(0) as usize;
    let line = mapping(address).expect("the code is mapped");
    assert!(line.contains(" r-xp ") && line.contains("memfd:weir-p4"), "{line}");
    let inode = line.split_whitespace().nth(4).map(String::from);
    drop(code);
    assert_ne!(mapping(address).and_then(|line| line.split_whitespace().nth(4).map(String::from)), inode);
}
