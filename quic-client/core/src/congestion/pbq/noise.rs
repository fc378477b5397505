// SPDX-License-Identifier: Apache-2.0
//! [`Noise`]: what is added to actions to explore, by seed.

use super::arithmetic::{exp, ln};
use std::f64::consts::TAU;

/// Standard normal numbers, the same for the same seed and connection on each machine.
#[derive(Debug, Clone)]
pub struct Noise(fastrand::Rng);

impl Noise {
    /// For connection number `connection` of a run with this seed.
    pub fn new(seed: u64, connection: u64) -> Noise {
        // 2^64 over the golden ratio: seeds that follow each other, and connections, get generators far apart.
        let spread = fastrand::Rng::with_seed(seed).u64(..) ^ connection.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Noise(fastrand::Rng::with_seed(spread))
    }

    /// The next number (Marsaglia's polar method; its second number is not used).
    pub fn draw(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.0.f64() - 1.0, 2.0 * self.0.f64() - 1.0);
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
    log: f64,
    /// The standard deviation.
    pub value: f64,
}

impl Deviation {
    /// Of the natural logarithm of the standard deviation.
    pub fn from_log(log: f64) -> Deviation {
        Deviation { log, value: exp(log) }
    }

    /// Natural logarithm of the density at `noise` standard deviations from the mean.
    pub fn log_density(&self, noise: f64) -> f64 {
        -0.5 * (noise * noise) - self.log - 0.5 * ln(TAU)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_normal_and_depends_on_seed_and_connection() {
        let take = |seed, connection| {
            let mut noise = Noise::new(seed, connection);
            (0..20_000).map(|_| noise.draw()).collect::<Vec<_>>()
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
    fn the_density_is_the_normal_one() {
        let deviation = Deviation::from_log(-0.5);
        assert!((deviation.value - (-0.5f64).exp()).abs() < 1e-15);
        let (x, sd) = (0.7 * deviation.value, deviation.value);
        let density = (-x * x / (2.0 * sd * sd)).exp() / (sd * TAU.sqrt());
        assert!((deviation.log_density(0.7) - density.ln()).abs() < 1e-14);
    }
}
