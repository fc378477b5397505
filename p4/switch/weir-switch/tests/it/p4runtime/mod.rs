// SPDX-License-Identifier: Apache-2.0
//! The P4Runtime server as controllers meet it: a real client over loopback, a real device on a thread of its own.
// controller_metadata is deprecated, yet controllers send it.
#![allow(deprecated)]
#![allow(clippy::too_many_lines, reason = "a test is one story")]

mod batches;
mod certificates;
mod entities;
mod idle;
mod net;
mod pipelines;
mod rights;
mod robust;
mod streams;
