// SPDX-License-Identifier: Apache-2.0
//! quiche's own example, to the letter: what it can do and how it does that is not ours.
#![allow(clippy::all)]

include!(concat!(env!("OUT_DIR"), "/server.rs"));
