// SPDX-License-Identifier: Apache-2.0
//! Runs compiled code: the machine, the state that it keeps between packets, tables and their indices.
mod change;
pub(crate) mod hash;
pub(crate) mod interpreter;
pub mod lpm;
mod memory;
mod meter;
pub mod packet;
mod registers;
mod state;
mod table;
pub(crate) mod trace;

pub use change::ChangeError;
pub use interpreter::DigestData;
pub use memory::ArrayBytes;
pub use meter::MeterCell;
pub use state::{Member, Mirror, ProfileState, Replicas, State};
pub use table::{EntryAction, EntryId, EntryState, TableState, place_of};
pub use trace::{Origin, TRACE_VERSION};
