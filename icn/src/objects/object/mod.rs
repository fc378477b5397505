// SPDX-License-Identifier: Apache-2.0
//! Common part of both sides: the form of an object.

pub mod keys;
pub mod layout;
pub mod lines;
pub mod live;
pub mod manifest;
pub mod names;
pub mod repair;
pub mod seal;
pub mod sign;
pub mod tree;
