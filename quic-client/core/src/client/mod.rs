// SPDX-License-Identifier: Apache-2.0
//! The client's side of a connection: [`Session`], one connection and its tasks (requests, each on a stream of its
//! own), measured.
//!
//! A task is a [`Head`] and an [`Exchange`], which has the bodies in both directions. [`Tasks`] supplies them:
//! [`PlannedTasks`] are equal and paced.
//!
//! A task's completion time (TCT, Tan Eq. 3) counts from the moment it was due and its path chosen to its last byte.
//!
//! With [`Routes`] a path is chosen for each task. A migration moves the whole connection, so that is done only while
//! no other task is under way; one that is started beside others takes the path they are on.

pub mod aggregate;
mod body;
mod bulk;
mod exchange;
mod moves;
mod outcome;
mod plan;
pub mod redirect;
mod request;
mod session;
mod tally;

pub use body::{Body, Nowhere};
pub use bulk::{Action, Bulk, Transfer};
pub use exchange::{Answer, Exchange, Head, Task, Tasks, Verdict};
pub use outcome::Outcome;
pub use plan::{Means, Plan, PlannedTasks};
pub use session::{DEFAULT_PATH, Routes, Session, SessionConfig};
pub use tally::Tally;
