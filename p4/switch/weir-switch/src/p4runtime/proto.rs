// SPDX-License-Identifier: Apache-2.0
//! Generated from the descriptors by build.rs.
#![allow(clippy::all, clippy::pedantic, missing_docs)]

include!(concat!(env!("OUT_DIR"), "/p4runtime.rs"));
