// SPDX-License-Identifier: Apache-2.0
//! quiche with its seams, on pairs of real connections in virtual time.

mod amplification;
mod hooks;
mod memory;
mod pair;
mod seams;
mod timeouts;
mod timestamps;
