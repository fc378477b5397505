// SPDX-License-Identifier: Apache-2.0
//! quiche with its patches, on pairs of real connections in virtual time.

mod amplification;
mod ecn;
mod hooks;
mod memory;
mod pair;
mod patches;
mod received;
mod timeouts;
mod timestamps;
