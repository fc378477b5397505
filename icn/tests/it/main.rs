// SPDX-License-Identifier: Apache-2.0
//! weir-icn: its commands, its names, and objects through a simulated network. One program for all of them: each would link the whole crate again.

mod commands;
mod names;
mod objects;
