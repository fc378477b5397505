// SPDX-License-Identifier: Apache-2.0
//! Reports of a running connection: [`events`], a client's decisions with their times; [`samples`], the state of a
//! connection at regular times; and [`trajectory`], inputs and actions of a congestion control that learns. All are
//! written as lines of JSON.

pub mod events;
pub mod samples;
pub mod trajectory;
