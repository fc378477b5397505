// SPDX-License-Identifier: Apache-2.0
//! [`Fairness`]: large windows move up more gently than small ones, so that flows of one policy come to like windows.

/// Addition to each action: little for a large window, more for a small one.
///
/// A policy that all flows of a queue share multiplies their windows by about the same number, and then their ratio stays
/// as it is (Chiu and Jain 1989, multiplicative increase). With a term that falls with the window there is one window at
/// which the policy's action and the term cancel out, and each flow goes there. A window that grows by its root while it
/// shrinks in proportion is fair in the same way as the binomial controls of Bansal and Balakrishnan (INFOCOM 2001, k + l
/// above 0).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Added to the action for a window of nothing, in Eq. 4's exponent.
    pub most: f64,
    /// The window for which it is the root of a half of that, in packets.
    pub window_packets: f64,
}

impl Fairness {
    /// The action (Eq. 4's exponent) for a window of so many packets, at most `bound`.
    pub fn step(&self, action: f64, window_packets: f64, bound: f64) -> f64 {
        // Only operations that give the same bits on each machine; the root is one of them (IEEE 754 5.4.1).
        let more = self.most / (1.0 + window_packets / self.window_packets).sqrt();
        // A NaN stays one.
        let action = action + more;
        if action > bound { bound } else { action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: Fairness = Fairness { most: 0.1, window_packets: 10.0 };
    const BOUND: f64 = 0.25;

    #[test]
    fn it_falls_with_the_window_and_keeps_the_bound() {
        let more = |window| STEP.step(0.0, window, BOUND);
        assert_eq!((more(0.0), more(10.0)), (0.1, 0.1 / 2f64.sqrt()));
        assert!(more(10.0) > more(100.0) && more(1000.0) > 0.0);
        assert_eq!(STEP.step(0.2, 0.0, BOUND), BOUND);
        assert!(STEP.step(f64::NAN, 10.0, BOUND).is_nan());
    }

    /// Flows with these windows in packets, each of 50 ms without a queue, at a bottleneck of this many packets per second
    /// and no end to its queue, in which all of the windows is. Gives Jain's index of the windows after so many decisions.
    fn jain_after(decisions: u32, windows: &mut [f64], packets_s: f64, policy: impl Fn(f64) -> f64, step: bool) -> f64 {
        const BASE_S: f64 = 0.05;
        for _ in 0..decisions {
            let rtt_ratio = (windows.iter().sum::<f64>() / (packets_s * BASE_S)).max(1.0);
            let action = policy(rtt_ratio).clamp(-BOUND, BOUND);
            for window in &mut *windows {
                let action = if step { STEP.step(action, *window, BOUND) } else { action };
                *window = (*window * action.exp2()).max(2.0);
            }
        }
        let sum: f64 = windows.iter().sum();
        sum * sum / (windows.len() as f64 * windows.iter().map(|w| w * w).sum::<f64>())
    }

    proptest! {
        // Two flows of one policy: any that sees the queue alone and shrinks the window when that is long.
        #[test]
        fn flows_of_one_policy_come_to_like_windows(
            packets_s in 400.0f64..4000.0,
            share in 0.05f64..0.4,
            gain in 0.3f64..1.5,
            target in 1.05f64..1.5,
        ) {
            let room = packets_s * 0.05;
            let start = || [(share * room).max(2.0), (1.0 - share) * room];
            let policy = |ratio: f64| gain * (target - ratio);
            let before = jain_after(0, &mut start(), packets_s, policy, true);
            prop_assume!(before < 0.95);
            let with = jain_after(1500, &mut start(), packets_s, policy, true);
            let without = jain_after(1500, &mut start(), packets_s, policy, false);
            prop_assert!(with > 0.999, "{before} became {with}");
            prop_assert!((without - before).abs() < 0.01, "{before} became {without}");
        }
    }
}
