// SPDX-License-Identifier: Apache-2.0
//! What travels on controllers' streams: who is primary, and digests in lists.
pub mod digests;
pub mod hub;
pub mod roles;
