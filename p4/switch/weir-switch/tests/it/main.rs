// SPDX-License-Identifier: Apache-2.0
//! The switch from outside: its queues, and its P4Runtime server. One program for all of them: each would link the whole crate again.

mod bands;
#[path = "../../../weir-p4/tests/it/common/mod.rs"]
mod common;
mod flows;
mod p4runtime;
