// SPDX-License-Identifier: Apache-2.0
//! Publisher and subscribers through a simulated network: every byte right, and nothing forged given on.

mod attacks;
mod beta;
mod files;
mod live;
mod publisher;
mod rekeying;
mod repair;
mod world;
