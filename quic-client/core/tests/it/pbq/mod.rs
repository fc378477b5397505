// SPDX-License-Identifier: Apache-2.0
//! PBQ: the weights file, the network's golden vectors, the control fed with intervals, and real connections in virtual
//! time.

mod connections;
mod control;
mod golden;
mod intervals;
mod shared_queue;
mod weights;
