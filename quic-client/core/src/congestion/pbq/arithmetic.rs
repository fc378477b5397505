// SPDX-License-Identifier: Apache-2.0
//! Functions that give the same bits on each machine: additions, multiplications and divisions of IEEE doubles in a
//! written order. A system's own `tanh`, `exp2` and `ln` differ from library to library in the last bits, and then two
//! machines with the same weights soon take different windows.

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// (ln 2)^n / n!, the series of 2^x. For |x| <= 1/2 the rest is below 2^-54.
const EXP2_SERIES: [f64; 14] = [
    1.0,
    LN_2,
    0.24022650695910072,
    0.05550410866482158,
    0.009618129107628477,
    0.0013333558146428443,
    0.0001540353039338161,
    1.5252733804059841e-5,
    1.321548679014431e-6,
    1.01780860092397e-7,
    7.054911620801123e-9,
    4.4455382718708116e-10,
    2.5678435993488206e-11,
    1.3691488853904128e-12,
];
/// Terms of the series of ln.
const LN_TERMS: u32 = 12;

/// 2^x to 3e-16 of it. 0 below the least normal double, infinity from 2^1023 on, NaN for NaN.
pub fn exp2(x: f64) -> f64 {
    match x {
        _ if x.is_nan() => x,
        _ if x >= 1023.0 => f64::INFINITY,
        _ if x < -1022.0 => 0.0,
        _ => {
            let whole = (x + 0.5).floor();
            let part = x - whole;
            let series = EXP2_SERIES.iter().rev().fold(0.0, |sum, term| sum * part + term);
            series * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
        }
    }
}

/// e^x, as [`exp2`].
pub fn exp(x: f64) -> f64 {
    exp2(x * LOG2_E)
}

/// The hyperbolic tangent to 3e-16; odd to the bit, within -1 and 1, NaN for NaN.
pub fn tanh(x: f64) -> f64 {
    let small = exp2(x.abs() * (-2.0 * LOG2_E));
    ((1.0 - small) / (1.0 + small)).copysign(x)
}

/// The natural logarithm to 3e-16 of it or of 1, of a positive normal double; NaN of any other number.
pub fn ln(x: f64) -> f64 {
    if !x.is_normal() || x < 0.0 {
        return f64::NAN;
    }
    const FRACTION: u64 = (1 << 52) - 1;
    let (mut power, mut part) =
        ((x.to_bits() >> 52) as i64 - 1023, f64::from_bits(x.to_bits() & FRACTION | 1023 << 52));
    if part > SQRT_2 {
        (power, part) = (power + 1, part * 0.5);
    }
    // ln part = 2 artanh s.
    let s = (part - 1.0) / (part + 1.0);
    let series = (0..LN_TERMS).rev().fold(0.0, |sum, k| sum * (s * s) + 1.0 / f64::from(2 * k + 1));
    power as f64 * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_and_special_numbers() {
        assert_eq!((exp2(0.0), exp2(1.0), exp2(-3.0), exp2(10.0)), (1.0, 2.0, 0.125, 1024.0));
        assert_eq!((exp2(1e9), exp2(-1e9), exp2(f64::INFINITY)), (f64::INFINITY, 0.0, f64::INFINITY));
        assert_eq!((tanh(0.0), tanh(40.0), tanh(f64::INFINITY), tanh(f64::NEG_INFINITY)), (0.0, 1.0, 1.0, -1.0));
        assert!(exp2(f64::NAN).is_nan() && tanh(f64::NAN).is_nan() && ln(f64::NAN).is_nan());
        assert!(ln(0.0).is_nan() && ln(-1.0).is_nan() && ln(f64::INFINITY).is_nan());
        assert_eq!((ln(1.0), ln(2.0)), (0.0, LN_2));
    }

    proptest! {
        #[test]
        fn they_are_what_they_are_called(x in -20.0f64..20.0, share in 1e-12f64..1.0) {
            prop_assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-15, "{x}");
            prop_assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "{x}");
            prop_assert!((tanh(x) - x.tanh()).abs() < 4e-16, "{x}");
            prop_assert!((ln(share) - share.ln()).abs() < 4e-16 * share.ln().abs().max(1.0), "{share}");
        }

        #[test]
        fn tanh_is_odd_and_bounded(bits in any::<u64>()) {
            let x = f64::from_bits(bits);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(tanh(-x).to_bits(), (-tanh(x)).to_bits());
            prop_assert!(tanh(x).abs() <= 1.0);
        }
    }
}
