// SPDX-License-Identifier: Apache-2.0
//! quiche from the registry, with the patches that [`hooks`] needs. The source is copied and changed by `build/main.rs`;
//! see this folder's README. Documentation of everything but [`hooks`] is quiche's own.

// Not our code: a newer compiler's warnings in it are not ours to fix. `hooks` turns the lints on again.
#![allow(warnings, clippy::all, unsafe_op_in_unsafe_fn)]
// quiche's unit tests need files that its package lacks, so that there is nothing to test in this file (see tests/).
#![cfg(not(test))]

// quiche's own line, which can't come out of a macro.
#[macro_use]
extern crate log;

pub mod hooks;

include!(concat!(env!("OUT_DIR"), "/quiche/src/lib.rs"));
