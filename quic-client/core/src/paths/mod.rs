// SPDX-License-Identifier: Apache-2.0
//! The client's paths of one connection: which there are, which are validated, which is in use, and whether that one
//! still lives.
//!
//! Sans-IO. Addresses come from the caller, packets are quiche's: it makes them on the right path by itself, and the
//! `from` of its `SendInfo` names the socket. A turn of the caller is: datagrams into quiche, [`Paths::poll`], requests
//! (and with them [`Paths::switch`]), packets out, [`Paths::sent`].
//!
//! No path is used unheard (RFC 9000 8.2 and 9). What makes a switch cost nothing is that the others are validated
//! beforehand and kept so: the request leaves on the new path in the same flight. An unvalidated path costs its
//! validation, one round trip.
//!
//! One validation is begun at a time, but for those that the first choice waits for ([`Paths::hurry`]); another may join
//! it once it is late, so that a dead path does not hold up the rest. A path that failed is tried again, less and less often.
//!
//! What quiche 0.30 does that shaped this:
//! - a path whose validation fails while it is the active one takes the connection with it, if no other is validated.
//!   The active path is therefore never challenged, only pinged;
//! - while a challenge waits for room in its path's congestion window nothing else is sent at all, and what was in
//!   flight on a path that was left is never sent again: seams of our quiche crate mend both;
//! - a path keeps its entry and a connection ID for the life of the connection. After [`Paths::remove`] it does not:
//!   our seams give both up, so that an interface can change its address any number of times.

mod arrivals;
mod probe;
mod table;
mod watch;

pub use table::*;
