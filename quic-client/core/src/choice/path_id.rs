// SPDX-License-Identifier: Apache-2.0
//! The number of a path.

/// A path, numbered by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);
