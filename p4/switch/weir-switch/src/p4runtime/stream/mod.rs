// SPDX-License-Identifier: Apache-2.0
//! Contents of controllers' streams: arbitration, and digests in lists.
pub mod digests;
pub mod hub;
pub mod roles;
