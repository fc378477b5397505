// SPDX-License-Identifier: Apache-2.0
//! A running mean with a prior.

/// A mean that starts from a prior worth `weight` samples and forgets beyond `memory` samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrunk {
    pub mean: f64,
    pub weight: f64,
    pub memory: f64,
}

impl Shrunk {
    pub fn new(prior: f64, weight: f64, memory: f64) -> Self {
        Shrunk { mean: prior, weight, memory }
    }

    pub fn push(&mut self, x: f64) {
        self.weight = (self.weight + 1.0).min(self.memory);
        self.mean += (x - self.mean) / self.weight;
    }
}
