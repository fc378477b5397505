// SPDX-License-Identifier: Apache-2.0
//! [`Aggregate`]: one large object over several connections at once, by ranges (RFC 9110 14).
//!
//! The first connection that is up requests the whole object, with `Range: bytes=0-`. If its answer has status 206 and a
//! strong validator, the others request ranges of it from its end on, and the first answer is left where it meets them.
//! Any other answer is an ordinary download. Bytes of two answers are never mixed unless size, validator and content
//! coding are equal.
//!
//! [`planner`](Planner) decides who requests which bytes; it knows neither connections nor HTTP.

mod answer;
mod download;
mod intervals;
mod link;
mod planner;

pub use answer::content_range;
pub use download::{Aggregate, LinkTasks, RangedBody, Summary};
pub use planner::{Claim, Planner};
