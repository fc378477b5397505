// SPDX-License-Identifier: Apache-2.0
//! The compiler, the interpreter and its programs from outside. One program for all of them: each would link the whole crate again.

mod aqm;
mod bmv2;
mod budgets;
mod common;
mod corpus;
mod diagnostics;
mod drop_port;
mod floods;
mod fuzz;
mod law_params;
mod law_vectors;
mod macros;
mod native;
mod nesting;
mod once;
mod p4info;
mod package;
mod programs;
mod stf;
mod trace;
mod weir_stf;
