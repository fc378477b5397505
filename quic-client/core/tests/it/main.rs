// SPDX-License-Identifier: Apache-2.0
//! The core in virtual time: paths, windows, congestion controls. One program for all of them: each would link the whole crate again.

mod choice_regret;
mod clock;
mod congestion;
mod ending;
mod moving;
mod path_mtu;
mod paths;
mod pbq;
mod session_paths;
mod window_sim;
mod windows;
mod world;
