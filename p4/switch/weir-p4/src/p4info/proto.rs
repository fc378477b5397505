// SPDX-License-Identifier: Apache-2.0
//! P4Info's messages (P4Runtime 1.4, package p4.config.v1), generated from the descriptors by build.rs.
#![allow(clippy::all, clippy::pedantic, missing_docs)]

include!(concat!(env!("OUT_DIR"), "/p4.config.v1.rs"));
