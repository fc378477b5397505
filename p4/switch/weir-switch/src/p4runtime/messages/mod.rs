// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's messages and the interpreter's own forms of the same things. Pure: nothing here knows a device, a controller or
//! a connection.
pub mod actions;
pub mod arrays;
pub mod bytes;
pub mod error;
pub mod ids;
pub mod matches;
pub mod packets;
pub mod replicas;
pub mod strings;
