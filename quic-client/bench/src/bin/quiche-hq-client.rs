// SPDX-License-Identifier: Apache-2.0
//! An example of quiche, unchanged; `build.rs` finds its source.
#![allow(warnings, clippy::all)] // Not our code.

include!(concat!(env!("OUT_DIR"), "/client.rs"));
