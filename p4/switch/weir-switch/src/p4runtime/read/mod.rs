// SPDX-License-Identifier: Apache-2.0
//! Reading: a request becomes a list of items (`plan`), and each of these is read piece by piece (`emit`), so that
//! packets are forwarded in between and no answer is ever in memory as a whole. Nothing is written meanwhile: places
//! and ids stay. `answer` is the way of the pieces to the controller.
pub mod answer;
mod emit;
pub mod idle;
mod plan;

use super::controller_state::ControllerState;
use super::pipeline::Config;
use std::ops::{Bound, Range};
use std::sync::Arc;
use weir_p4::bytecode::program::{self as ir, KeyMatch};
use weir_p4::exec::State;
use weir_p4::p4info as info;

/// Parts of an entry that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Entry { counter: bool, meter: bool, idle: bool },
    Counter,
    Meter,
}

/// Filter of a request on the entries of a table.
#[derive(Debug, Default)]
pub struct Filter {
    keys: Option<Vec<KeyMatch>>,
    /// 0: any.
    priority: i32,
    action: Option<usize>,
    controller_metadata: u64,
    metadata: Vec<u8>,
}

/// An item to read; tables, arrays and so on by their index in P4Info. Ranges are the rest to read.
#[derive(Clone, Debug)]
pub enum Item {
    Entries(usize, Range<usize>, Arc<Filter>, Want),
    Default(usize, Want),
    Member(usize, u32),
    Members(usize, Bound<u32>),
    Group(usize, u32),
    Groups(usize, Bound<u32>),
    Counter(usize, Range<usize>),
    Meter(usize, Range<usize>),
    Register(usize, Range<usize>),
    Multicast(u32),
    Multicasts(Bound<u32>),
    Clone(u32),
    Clones(Bound<u32>),
    ValueSet(usize),
    Digest(usize),
}

/// The state of a program, to be read.
pub struct Reader<'a> {
    pub config: &'a Config,
    pub state: &'a State,
    pub controller: &'a ControllerState,
    pub now_us: u64,
}

impl Reader<'_> {
    fn ir(&self, at: usize) -> (&info::Table, &ir::Table) {
        let t = &self.config.program.info.tables[at];
        (t, &self.config.program.tables[t.ir_index])
    }
}
