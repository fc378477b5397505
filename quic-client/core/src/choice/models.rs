// SPDX-License-Identifier: Apache-2.0
//! Task completion times of the recent past and what they say about each path (Tan 4.1).
//!
//! **Unit.** Samples are in milliseconds (with `per_byte`: milliseconds per 1000 bytes). The paper adds a mean and a
//! variance as bare numbers (Eq. 18), so the unit decides what `b` weighs: a path of 37.568 ms with a deviation of
//! 16.756 ms has a variance of 281 ms^2, which outweighs its mean; in seconds it would be 0.00028 s^2, which never
//! matters. The paper's tables are in milliseconds, and only in milliseconds does `b` have an effect in its settings.
//!
//! **Misprints.** Eq. 10 lacks the square and Eq. 15 the sum; 16 and 17 repeat the slip. Here: the textbook sample
//! variance (divisor N-1), of the samples or of their logarithms, and the moments of the lognormal distribution.

use std::collections::VecDeque;

use super::path_id::PathId;

/// Bounds of a sample, in ms: a logarithm needs it positive, and squares must stay finite.
const SAMPLE_MS: (f64, f64) = (1e-3, 1e9);

/// Bound of an estimate, so that sums and products of a few stay finite.
const ESTIMATE_MAX: f64 = 1e30;

/// Share of the samples, largest first, that the Gaussian model leaves out (Tan 4.1.1, g = 10 %).
const GAUSSIAN_TAIL: f64 = 0.1;

/// Distribution that task completion times are taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Normal, fitted to the lowest 90 % (Tan Eq. 9, 10).
    Gaussian,
    /// Lognormal (Tan Eq. 14 to 17).
    Lognormal,
}

/// Statistics of one path's samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Samples in the window, N_k.
    pub samples: usize,
    /// E\[X_k\], ms.
    pub mean_ms: f64,
    /// var(X_k), ms^2; 0 for a single sample.
    pub var_ms2: f64,
}

/// The latest samples.
///
/// S counts samples of *all* paths together: Tan replaces the round T by S in the bonus, which only means something if
/// the N_k sum up to S, and says of S = 50 that each path is used "at least once within 50 rounds", which only a common
/// window brings about (Tan 5.2.3).
#[derive(Debug, Clone)]
pub struct Window {
    samples: VecDeque<(PathId, f64)>,
    limit: usize,
}

impl Window {
    /// An empty window of `limit` samples (at least one).
    pub fn new(limit: usize) -> Self {
        Window { samples: VecDeque::new(), limit: limit.max(1) }
    }

    /// Adds a sample, in ms; the oldest one leaves a full window.
    pub fn push(&mut self, path: PathId, ms: f64) {
        if self.samples.len() == self.limit {
            self.samples.pop_front();
        }
        let ms = if ms.is_nan() { SAMPLE_MS.1 } else { ms.clamp(SAMPLE_MS.0, SAMPLE_MS.1) };
        self.samples.push_back((path, ms));
    }

    /// Forgets a path.
    pub fn remove(&mut self, path: PathId) {
        self.samples.retain(|(p, _)| *p != path);
    }

    /// Samples of a path in the window.
    pub fn count(&self, path: PathId) -> usize {
        self.samples.iter().filter(|(p, _)| *p == path).count()
    }

    /// The path's estimate; `None` without a sample.
    pub fn estimate(&self, path: PathId, model: Model) -> Option<Estimate> {
        let mut of: Vec<f64> = self.samples.iter().filter(|(p, _)| *p == path).map(|(_, ms)| *ms).collect();
        if of.is_empty() {
            return None;
        }
        let (mean, var) = match model {
            Model::Gaussian => gaussian(&mut of),
            Model::Lognormal => lognormal(&of),
        };
        Some(Estimate { samples: of.len(), mean_ms: mean.min(ESTIMATE_MAX), var_ms2: var.clamp(0.0, ESTIMATE_MAX) })
    }
}

/// Mean and sample variance; 0 for one sample.
fn mean_and_variance(of: &[f64]) -> (f64, f64) {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let var = if of.len() < 2 { 0.0 } else { of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) };
    (mean, var)
}

/// Tan Eq. 9 and 10, of the lowest 90 % (rounded up: with fewer than ten samples none is left out).
fn gaussian(of: &mut [f64]) -> (f64, f64) {
    of.sort_unstable_by(f64::total_cmp);
    let left_out = (of.len() as f64 * GAUSSIAN_TAIL) as usize;
    mean_and_variance(&of[..of.len() - left_out])
}

/// Tan Eq. 14 to 17.
fn lognormal(of: &[f64]) -> (f64, f64) {
    let logs: Vec<f64> = of.iter().map(|x| x.ln()).collect();
    let (mu, sigma2) = mean_and_variance(&logs);
    ((mu + sigma2 / 2.0).exp(), (2.0 * mu + sigma2).exp() * sigma2.exp_m1())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const P: PathId = PathId(1);

    fn window(of: &[f64]) -> Window {
        let mut w = Window::new(100);
        of.iter().for_each(|x| w.push(P, *x));
        w
    }

    #[test]
    fn gaussian_leaves_out_the_largest_tenth() {
        let e = window(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1000.0]).estimate(P, Model::Gaussian).unwrap();
        assert_eq!((e.samples, e.mean_ms), (10, 5.0));
        assert!((e.var_ms2 - 7.5).abs() < 1e-12);
        let e = window(&[1.0, 3.0]).estimate(P, Model::Gaussian).unwrap();
        assert_eq!((e.mean_ms, e.var_ms2), (2.0, 2.0));
    }

    #[test]
    fn lognormal_moments() {
        // ln: 1 and 3, so mu 2 and sigma^2 2: mean e^3, variance e^6 (e^2 - 1).
        let e = window(&[1f64.exp(), 3f64.exp()]).estimate(P, Model::Lognormal).unwrap();
        assert!((e.mean_ms / 3f64.exp() - 1.0).abs() < 1e-12);
        assert!((e.var_ms2 / (6f64.exp() * (2f64.exp() - 1.0)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_window_is_common_to_all_paths() {
        let mut w = Window::new(3);
        w.push(P, 1.0);
        (0..3).for_each(|_| w.push(PathId(2), 5.0));
        assert_eq!(w.estimate(P, Model::Lognormal), None);
        assert_eq!(w.count(PathId(2)), 3);
        assert_eq!(w.estimate(PathId(2), Model::Gaussian).unwrap().mean_ms, 5.0);
    }

    proptest! {
        #[test]
        fn finite_for_any_sample(of in prop::collection::vec(any::<f64>(), 1..50), limit in 0usize..60) {
            let mut w = Window::new(limit);
            of.iter().for_each(|x| w.push(P, *x));
            for model in [Model::Gaussian, Model::Lognormal] {
                let e = w.estimate(P, model).unwrap();
                prop_assert!(e.mean_ms.is_finite() && e.mean_ms > 0.0);
                prop_assert!(e.var_ms2.is_finite() && e.var_ms2 >= 0.0);
                prop_assert!(e.samples <= limit.max(1));
            }
        }
    }
}
