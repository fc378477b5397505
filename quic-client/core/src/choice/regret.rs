// SPDX-License-Identifier: Apache-2.0
//! Regret: a run's loss against the best path.

use std::collections::BTreeMap;

use super::path_id::PathId;

/// Tasks of one run, judged against the true state of the paths. Times in ms.
#[derive(Debug, Clone, Default)]
pub struct Regret {
    tasks: Vec<(PathId, f64)>,
    plain_ms: f64,
    on_best: u64,
}

impl Regret {
    /// Adds a task: its path, its TCT, and the expected TCT of the path that was best at that time, with the paths
    /// whose expectation that was (several when equal).
    pub fn record(&mut self, path: PathId, tct_ms: f64, best_mean_ms: f64, best: &[PathId]) {
        self.tasks.push((path, tct_ms));
        self.plain_ms += tct_ms - best_mean_ms;
        self.on_best += u64::from(best.contains(&path));
    }

    /// Sum over tasks of TCT minus the expected TCT of the best path at that time, ms. Can be negative by luck.
    pub fn plain_ms(&self) -> f64 {
        self.plain_ms
    }

    /// Share of the tasks that took a best path; 0 without tasks.
    pub fn best_path_rate(&self) -> f64 {
        if self.tasks.is_empty() { 0.0 } else { self.on_best as f64 / self.tasks.len() as f64 }
    }

    /// Tan Eq. 22 to the letter: `a (sum R_t - T min R_t) + b (var R_t - min_k var X_k)`, with ms and ms^2 added as
    /// numbers. `min R_t` is the least TCT of the run, so that the first part is positive even for a perfect choice;
    /// `var X_k` is over the run's tasks on path k, for paths with two or more. 0 without tasks.
    pub fn eq22(&self, weight_a: f64) -> f64 {
        if self.tasks.is_empty() {
            return 0.0;
        }
        let all: Vec<f64> = self.tasks.iter().map(|(_, x)| *x).collect();
        let mut of: BTreeMap<PathId, Vec<f64>> = BTreeMap::new();
        self.tasks.iter().for_each(|(p, x)| of.entry(*p).or_default().push(*x));
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let steadiest = of.values().filter(|x| x.len() > 1).map(|x| variance(x)).fold(f64::INFINITY, f64::min);
        let steadiest = if steadiest.is_finite() { steadiest } else { 0.0 };
        weight_a * (all.iter().sum::<f64>() - all.len() as f64 * least)
            + (1.0 - weight_a) * (variance(&all) - steadiest)
    }

    /// Mean (ms) and sample variance (ms^2) of the TCT; zeros without tasks.
    pub fn tct(&self) -> (f64, f64) {
        let all: Vec<f64> = self.tasks.iter().map(|(_, x)| *x).collect();
        if all.is_empty() { (0.0, 0.0) } else { (all.iter().sum::<f64>() / all.len() as f64, variance(&all)) }
    }
}

fn variance(of: &[f64]) -> f64 {
    if of.len() < 2 {
        return 0.0;
    }
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (of.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let (p, q) = (PathId(0), PathId(1));
        let mut r = Regret::default();
        for (path, ms) in [(p, 10.0), (p, 12.0), (q, 20.0), (q, 30.0)] {
            r.record(path, ms, 11.0, &[p]);
        }
        assert_eq!(r.plain_ms(), 72.0 - 44.0);
        assert_eq!(r.best_path_rate(), 0.5);
        assert_eq!(r.tct().0, 18.0);
        // Sum 72 - 4 * 10 = 32; variance of all 82.667, of p 2, of q 50.
        assert!((r.eq22(0.8) - (0.8 * 32.0 + 0.2 * (248.0 / 3.0 - 2.0))).abs() < 1e-9);
        assert_eq!(Regret::default().eq22(0.8), 0.0);
    }
}
