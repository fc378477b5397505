// SPDX-License-Identifier: Apache-2.0
//! A program in its two forms: [`ir`], statements and expressions as the checker makes them, and [`code`], flat code
//! that [`lower`] makes of them once. [`program`] holds both, with all that a switch and a controller ask about.
mod accesses;
mod call_depth;
pub(crate) mod code;
mod copies;
pub(crate) mod cost;
pub(crate) mod ir;
pub(crate) mod keys;
pub(crate) mod lower;
#[cfg(test)]
pub(crate) mod marks;
pub(crate) mod operators;
pub mod program;
pub(crate) mod source_map;
mod widths;

pub use call_depth::CALL_DEPTH;
