// SPDX-License-Identifier: Apache-2.0
//! PBQ: the weights file, the network's golden vectors, the control fed with intervals, and real connections in virtual
//! time.

#[path = "../paths/clock.rs"]
mod clock;
mod connections;
mod control;
mod golden;
mod intervals;
mod weights;
#[path = "../world/mod.rs"]
#[expect(dead_code, reason = "the other tests look at paths and events too")]
mod world;
