// SPDX-License-Identifier: Apache-2.0
//! Named objects: one publisher, any number of subscribers. `docs/design/icn.md`, "Objects, multicast".
//!
//! [`object`] is what both sides know of an object: its segments, its tree of hashes, its manifest, how it is sealed, and
//! the lines that go over QUIC. [`publisher`], [`subscriber`] and [`cache`] are cores without I/O, and know nothing of each
//! other.

pub mod cache;
mod lru;
pub mod object;
pub mod publisher;
pub mod subscriber;
