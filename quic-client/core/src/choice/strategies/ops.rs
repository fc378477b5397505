// SPDX-License-Identifier: Apache-2.0
//! Optimistic path selection (Tan Eq. 19): uncertainty counts in a path's favour.

use super::confidence::Confidence;
use crate::choice::config::ChoiceConfig;

/// Tan Eq. 19.
pub fn optimistic(config: &ChoiceConfig) -> Confidence {
    Confidence::new(config, -1.0)
}
