// SPDX-License-Identifier: Apache-2.0
//! Pessimistic path selection (Tan Eq. 20): uncertainty counts against a path.

use super::confidence::Confidence;
use crate::choice::config::ChoiceConfig;

/// Tan Eq. 20.
pub fn pessimistic(config: &ChoiceConfig) -> Confidence {
    Confidence::new(config, 1.0)
}
