// SPDX-License-Identifier: Apache-2.0
//! [`Noise`]: noise on actions for exploration, by seed.

use super::arithmetic::{exp, ln};
use std::f64::consts::TAU;

/// Normal numbers, the same for the same seed and connection on each machine. Each has `correlation` with the one
/// before: a window that strays one way for a second shows its value, and one that trembles shows nothing
/// (autoregressive policies, Korenkevych et al. 2019).
#[derive(Debug, Clone)]
pub struct Noise {
    numbers: fastrand::Rng,
    correlation: f64,
    last: f64,
}

/// Random draw, in standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// The noise: normal, correlated with the one before.
    pub noise: f64,
    /// Its new part, as a standard normal number.
    pub new: f64,
}

impl Noise {
    /// For connection number `connection` of a run with this seed. `correlation` is from 0 to below 1.
    pub fn new(seed: u64, connection: u64, correlation: f64) -> Noise {
        // 2^64 over the golden ratio: seeds that follow each other, and connections, get generators far apart.
        let spread = fastrand::Rng::with_seed(seed).u64(..) ^ connection.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Noise { numbers: fastrand::Rng::with_seed(spread), correlation, last: 0.0 }
    }

    /// The next noise. Before the first one it was 0.
    pub fn draw(&mut self) -> Drawn {
        let new = self.normal();
        self.last = self.correlation * self.last + (1.0 - self.correlation * self.correlation).sqrt() * new;
        Drawn { noise: self.last, new }
    }

    /// A standard normal number (Marsaglia's polar method; its second number is not used).
    fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.numbers.f64() - 1.0, 2.0 * self.numbers.f64() - 1.0);
            let square = u * u + v * v;
            if square < 1.0 && square.is_normal() {
                return u * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

/// A normal distribution of actions around a mean that the network gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// Of the new part of each action.
    log_new: f64,
    /// The standard deviation.
    pub value: f64,
    /// Of an action's noise with that before.
    pub correlation: f64,
}

impl Deviation {
    /// Of the natural logarithm of the standard deviation, and the correlation of successive noise.
    pub fn from_log(log: f64, correlation: f64) -> Deviation {
        let log_new = log + 0.5 * ln(1.0 - correlation * correlation);
        Deviation { log_new, value: exp(log), correlation }
    }

    /// Natural logarithm of the density of an action, given those before, by the new part of its noise.
    pub fn log_density(&self, new: f64) -> f64 {
        -0.5 * (new * new) - self.log_new - 0.5 * ln(TAU)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_normal_and_depends_on_seed_and_connection() {
        let take = |seed, connection| {
            let mut noise = Noise::new(seed, connection, 0.0);
            (0..20_000).map(|_| noise.draw().noise).collect::<Vec<_>>()
        };
        let one = take(1, 0);
        assert_eq!(one, take(1, 0));
        assert!(one != take(1, 1) && one != take(2, 0));
        let mean = one.iter().sum::<f64>() / 20_000.0;
        let square = one.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        let beyond_two = one.iter().filter(|x| x.abs() > 2.0).count();
        // Five standard errors each.
        assert!(mean.abs() < 0.036 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        assert!((760..1060).contains(&beyond_two), "{beyond_two} of 910");
    }

    #[test]
    fn noise_remembers_and_stays_normal() {
        let mut noise = Noise::new(3, 0, 0.9);
        let drawn: Vec<_> = (0..200_000).map(|_| noise.draw()).collect();
        let square = drawn.iter().map(|d| d.noise * d.noise).sum::<f64>() / 200_000.0;
        let next = drawn.windows(2).map(|d| d[0].noise * d[1].noise).sum::<f64>() / 200_000.0;
        let apart = drawn.windows(2).map(|d| d[0].noise * d[1].new).sum::<f64>() / 200_000.0;
        // Five standard errors of 10,000 numbers that show nothing else.
        assert!((square - 1.0).abs() < 0.07 && (next / square - 0.9).abs() < 0.01, "{square} {next}");
        assert!(apart.abs() < 0.012, "{apart}");
        assert_eq!(drawn[0].noise, (1.0f64 - 0.9 * 0.9).sqrt() * drawn[0].new);
    }

    #[test]
    fn the_density_is_the_normal_one() {
        let known = Deviation::from_log(-0.5, 0.8);
        let narrow = Deviation::from_log(-0.5 + 0.6f64.ln(), 0.0);
        assert!((known.log_density(0.7) - narrow.log_density(0.7)).abs() < 1e-14);
        let deviation = Deviation::from_log(-0.5, 0.0);
        assert!((deviation.value - (-0.5f64).exp()).abs() < 1e-15);
        let (x, sd) = (0.7 * deviation.value, deviation.value);
        let density = (-x * x / (2.0 * sd * sd)).exp() / (sd * TAU.sqrt());
        assert!((deviation.log_density(0.7) - density.ln()).abs() < 1e-14);
    }
}
