// SPDX-License-Identifier: Apache-2.0
//! Both directions between native code and the machine: the call of a native function, and the functions that native
//! code calls.
use super::NativeFunction;
use crate::bytecode::code::Pc;
use crate::exec::interpreter::{Flow, Machine};
use std::ffi::c_void;

/// A native function, and a function for native code: machine, first cell of the frame, a number; a [`Flow`].
type Function = unsafe extern "C" fn(*mut c_void, *mut u64, u32) -> u32;

/// Functions for native code, in the order of [`ADDRESSES`]. The number is that of the instruction where no other is
/// named.
#[derive(Clone, Copy)]
pub(super) enum Shim {
    /// An instruction that is larger than its dispatch.
    Work,
    /// Loads, stores and copies of cells that are not made in native code.
    Cells,
    /// A procedure, by its first instruction.
    Call,
    /// The packet has taken too many steps.
    TooLong,
    /// A table, by its number.
    Apply,
    Extract,
    Lookahead,
    /// A header, by its number.
    Emit,
    Hash,
}

const ADDRESSES: [Function; 9] = [work, cells, call, too_long, apply, extract, lookahead, emit, hash];

impl Shim {
    /// Address of a shim by its number.
    pub(super) fn address(number: u32) -> usize {
        ADDRESSES[number as usize] as usize
    }
}

/// Runs a native function over a frame.
///
/// # Panics
/// The frame is shorter than the code's, or one of the machine's own functions panics: none unwinds through native code.
pub(crate) fn run(function: NativeFunction, machine: &mut Machine<'_>, n: &mut [u64]) -> Flow {
    let NativeFunction { address, cells, wide_cells } = function;
    assert!(n.len() >= cells, "a frame of {} cells for code over {cells}", n.len());
    assert!(machine.wide_cells() >= wide_cells, "a wide frame that is too short");
    // SAFETY: a function of this signature in memory of the machine's `Native`, which keeps it mapped.
    let function = unsafe { std::mem::transmute::<*const c_void, Function>(address) };
    // SAFETY: native code reads and writes cells of both frames, as many as have been checked above, the machine's
    // fields by their offsets, the packet within its length, and registers within their bounds. The pointers come from
    // exclusive borrows that last for the call; functions that it calls borrow again from these, one at a time.
    let flow = unsafe { function(std::ptr::from_mut(machine).cast(), n.as_mut_ptr(), 0) };
    machine.resume_panic();
    Flow::from_number(flow)
}

/// Runs a part of the machine for native code.
///
/// # Safety
/// The pointers are those that [`run`] gave to native code.
unsafe fn with(machine: *mut c_void, n: *mut u64, part: impl FnOnce(&mut Machine<'_>, &mut [u64]) -> Flow) -> u32 {
    // SAFETY: `run` has borrowed the machine for native code, which passes the pointer on and waits.
    let machine = unsafe { &mut *machine.cast::<Machine<'_>>() };
    // SAFETY: as above; `run` has checked that the frame has this many cells at least.
    let n = unsafe { std::slice::from_raw_parts_mut(n, machine.cells()) };
    machine.guarded(|m| part(m, n)) as u32
}

macro_rules! shims {
    ($($name:ident = $part:expr;)*) => {
        $(unsafe extern "C" fn $name(machine: *mut c_void, n: *mut u64, number: u32) -> u32 {
            // SAFETY: native code passes the pointers that it was given.
            unsafe { with(machine, n, |m, n| $part(m, n, number)) }
        })*
    };
}

shims! {
    work = |m: &mut Machine<'_>, n: &mut [u64], pc: Pc| m.native_work(n, pc);
    cells = |m: &mut Machine<'_>, n: &mut [u64], pc: Pc| m.native_cells(n, pc);
    call = |m: &mut Machine<'_>, n: &mut [u64], pc: Pc| m.run(n, pc);
    too_long = |m: &mut Machine<'_>, _: &mut [u64], _: Pc| m.too_long();
    apply = |m: &mut Machine<'_>, n: &mut [u64], table: u32| m.apply::<false>(n, table as usize);
    extract = |m: &mut Machine<'_>, n: &mut [u64], pc: Pc| m.native_extract(n, pc);
    lookahead = |m: &mut Machine<'_>, n: &mut [u64], header: u32| m.lookahead(n, header);
    emit = |m: &mut Machine<'_>, n: &mut [u64], header: u32| m.native_emit(n, header);
    hash = |m: &mut Machine<'_>, n: &mut [u64], pc: Pc| m.native_hash(n, pc);
}
