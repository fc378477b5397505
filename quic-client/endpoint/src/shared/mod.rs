// SPDX-License-Identifier: Apache-2.0
//! What both programs need: errors with exit codes, common options, qlog files, random numbers, JSON.

pub mod fault;
pub mod json;
pub mod options;
pub mod qlog;
pub mod random;
