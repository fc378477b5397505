// SPDX-License-Identifier: Apache-2.0
//! weir-client and weir-server as programs, over loopback. One program for all of them: each would link the whole crate again.

mod attack;
mod common;
mod early;
mod full_disk;
mod h3_server;
mod learned;
mod library;
mod limits;
mod loopback;
mod migrate;
mod paths;
