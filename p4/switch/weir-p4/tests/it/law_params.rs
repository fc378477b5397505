// SPDX-License-Identifier: Apache-2.0
//! Generated from law/params.toml by law/generate.py (`./run generate`); don't edit.

/// Name and bytes of each parameter in the probe's header, in order.
pub const PARAMS: &[(&str, usize)] = &[
    ("target_us", 4),
    ("interval_us", 4),
    ("kp_q40_per_us", 4),
    ("ki_q40_per_us", 4),
    ("kd_q40_per_us", 4),
    ("z1_q16", 4),
    ("z2_q16", 4),
    ("z3_q16", 4),
    ("m1_us", 4),
    ("m2_us", 4),
    ("integral_drop_max", 4),
    ("squared", 1),
    ("idle_halflife_us", 4),
    ("min_backlog_bytes", 4),
    ("min_delay_us", 4),
    ("dq_shift", 1),
    ("dq_weight_shift", 1),
    ("space_least_q16", 4),
    ("space_most_q16", 4),
    ("delay_bound_us", 4),
    ("delay_bound_slope_q40_per_us", 4),
    ("delay_limit_us", 4),
    ("delay_guard_bytes", 4),
    ("share_least_q16", 4),
    ("share_shift", 1),
    ("ecn_weight_shift", 1),
    ("ecn_drop_us", 4),
    ("ecn_bound_q32", 8),
];
