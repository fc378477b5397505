// SPDX-License-Identifier: Apache-2.0
//! Path selection for the next task (L. Tan et al., "Proactive Connection Migration", section 4).
//!
//! A task is one request on one stream; its completion time (TCT, Eq. 3) is what the strategies learn from. With
//! `per_byte` they learn from TCT per byte (Eq. 4) instead, for tasks of mixed sizes. [`Chooser`] receives events and
//! asked for the next path; it does no I/O, and the same seed and the same calls give the same choices.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use weir_core::choice::{ChoiceConfig, Chooser, PathId, TaskSample};
//!
//! let now = Instant::now();
//! let mut chooser = Chooser::new(ChoiceConfig { seed: 1, ..ChoiceConfig::default() });
//! let (wlan, lte) = (PathId(0), PathId(1));
//! chooser.add(wlan, now);
//! chooser.add(lte, now);
//! chooser.probed(wlan, Duration::from_millis(20), now);
//! chooser.probed(lte, Duration::from_millis(45), now);
//! let choice = chooser.choose(0, None, now, Some(lte)).expect("two usable paths");
//! assert_eq!(choice.path, wlan);
//! let sample =
//!     TaskSample { path: wlan, task: 0, tct: Duration::from_millis(22), bytes: 5000, switched: true, cold: false };
//! chooser.finished(&sample, now + sample.tct);
//! ```
//!
//! - [`Strategy`]: the decision; [`strategies`]: one file for each, and the table of their names;
//! - [`models`]: the sliding window, Gaussian and lognormal estimates;
//! - [`presets`]: weights by application;
//! - [`regret`]: how a run is judged.

mod chooser;
mod config;
mod history;
pub mod models;
mod path_id;
pub mod presets;
pub mod regret;
pub mod strategies;
mod strategy;
mod task;

pub use chooser::{Choice, Chooser, Standing};
pub use config::{ChoiceConfig, ExploreC, StrategyKind, StrategyMaker};
pub use history::History;
pub use models::{Estimate, Model};
pub use path_id::PathId;
pub use presets::{AppPreset, PRESETS, by_name};
pub use strategies::STRATEGIES;
pub use strategy::{Question, Strategy};
pub use task::TaskSample;

#[cfg(test)]
mod tests;
