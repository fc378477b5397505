// SPDX-License-Identifier: Apache-2.0
// Generated from law/params.toml by law/generate.py (`./run generate`); don't edit.
#ifndef WEIR_LAW_PARAMS_P4
#define WEIR_LAW_PARAMS_P4

struct law_params_t {
    // queue delay to hold
    bit<24> target_us;
    // time between two steps of the law
    bit<24> interval_us;
    // proportional gain: probability per second of delay
    bit<32> kp_q40_per_us;
    // integral gain
    bit<32> ki_q40_per_us;
    // derivative gain
    bit<32> kd_q40_per_us;
    // factor of row 1 of Algorithm 1, above z2
    bit<20> z1_q16;
    // factor of rows 2 and 3, above 1
    bit<20> z2_q16;
    // factor of row 4, below 1
    bit<20> z3_q16;
    // error (delay less target) above which row 1 holds
    bit<24> m1_us;
    // error above which rows 2 and 3 hold, below m1_us
    bit<24> m2_us;
    // consecutive steps for which Algorithm 1 may leave the integral out
    bit<32> integral_drop_max;
    // packets are dropped with probability U, or U squared
    bit<1> squared;
    // time in which U halves while the queue is idle, 0 off
    bit<32> idle_halflife_us;
    // no drop while the backlog is below this
    bit<32> min_backlog_bytes;
    // no drop while the delay is below this share of the target
    bit<24> min_delay_us;
    // the departure rate is measured over 2^this bytes
    bit<5> dq_shift;
    // a new rate has weight 2^-this
    bit<4> dq_weight_shift;
    // no drop or mark while the sum of probabilities since the last one is below this
    bit<20> space_least_q16;
    // a drop or mark at this sum, 0: independent draws
    bit<20> space_most_q16;
    // delay above which delay_bound_slope counts, 0 off
    bit<24> delay_bound_us;
    // rise of the probability per second of delay above that bound, 0 off
    bit<32> delay_bound_slope_q40_per_us;
    // delay from which every packet that is not marked is dropped, in band A all, 0 off
    bit<24> delay_limit_us;
    // bound and limit need a backlog of this and 2^dq_shift bytes, 0: any backlog
    bit<32> delay_guard_bytes;
    // drops and marks wait for flows that have sent this many times the mean, 0 off
    bit<20> share_least_q16;
    // bytes counted for a flow halve every 2^this us
    bit<5> share_shift;
    // marks follow a mean of U in which a step has weight 2^-this, 0: U itself
    bit<4> ecn_weight_shift;
    // delay from which ECT packets are dropped and new flows not spared, 0 off
    bit<24> ecn_drop_us;
    // probability of drop up to which ECT packets are marked, 0: never
    bit<33> ecn_bound_q32;
}

// Parameters of an action that has the law's.
#define LAW_ACTION_PARAMS \
    bit<24> target_us, \
    bit<24> interval_us, \
    bit<32> kp_q40_per_us, \
    bit<32> ki_q40_per_us, \
    bit<32> kd_q40_per_us, \
    bit<20> z1_q16, \
    bit<20> z2_q16, \
    bit<20> z3_q16, \
    bit<24> m1_us, \
    bit<24> m2_us, \
    bit<32> integral_drop_max, \
    bit<1> squared, \
    bit<32> idle_halflife_us, \
    bit<32> min_backlog_bytes, \
    bit<24> min_delay_us, \
    bit<5> dq_shift, \
    bit<4> dq_weight_shift, \
    bit<20> space_least_q16, \
    bit<20> space_most_q16, \
    bit<24> delay_bound_us, \
    bit<32> delay_bound_slope_q40_per_us, \
    bit<24> delay_limit_us, \
    bit<32> delay_guard_bytes, \
    bit<20> share_least_q16, \
    bit<5> share_shift, \
    bit<4> ecn_weight_shift, \
    bit<24> ecn_drop_us, \
    bit<33> ecn_bound_q32

// In such an action: sets `to`, a law_params_t.
#define LAW_SET_PARAMS(to) \
    to.target_us = target_us; \
    to.interval_us = interval_us; \
    to.kp_q40_per_us = kp_q40_per_us; \
    to.ki_q40_per_us = ki_q40_per_us; \
    to.kd_q40_per_us = kd_q40_per_us; \
    to.z1_q16 = z1_q16; \
    to.z2_q16 = z2_q16; \
    to.z3_q16 = z3_q16; \
    to.m1_us = m1_us; \
    to.m2_us = m2_us; \
    to.integral_drop_max = integral_drop_max; \
    to.squared = squared; \
    to.idle_halflife_us = idle_halflife_us; \
    to.min_backlog_bytes = min_backlog_bytes; \
    to.min_delay_us = min_delay_us; \
    to.dq_shift = dq_shift; \
    to.dq_weight_shift = dq_weight_shift; \
    to.space_least_q16 = space_least_q16; \
    to.space_most_q16 = space_most_q16; \
    to.delay_bound_us = delay_bound_us; \
    to.delay_bound_slope_q40_per_us = delay_bound_slope_q40_per_us; \
    to.delay_limit_us = delay_limit_us; \
    to.delay_guard_bytes = delay_guard_bytes; \
    to.share_least_q16 = share_least_q16; \
    to.share_shift = share_shift; \
    to.ecn_weight_shift = ecn_weight_shift; \
    to.ecn_drop_us = ecn_drop_us; \
    to.ecn_bound_q32 = ecn_bound_q32;

// Sets all of `to`, a law_params_t, to 0.
#define LAW_CLEAR_PARAMS(to) \
    to.target_us = 0; \
    to.interval_us = 0; \
    to.kp_q40_per_us = 0; \
    to.ki_q40_per_us = 0; \
    to.kd_q40_per_us = 0; \
    to.z1_q16 = 0; \
    to.z2_q16 = 0; \
    to.z3_q16 = 0; \
    to.m1_us = 0; \
    to.m2_us = 0; \
    to.integral_drop_max = 0; \
    to.squared = 0; \
    to.idle_halflife_us = 0; \
    to.min_backlog_bytes = 0; \
    to.min_delay_us = 0; \
    to.dq_shift = 0; \
    to.dq_weight_shift = 0; \
    to.space_least_q16 = 0; \
    to.space_most_q16 = 0; \
    to.delay_bound_us = 0; \
    to.delay_bound_slope_q40_per_us = 0; \
    to.delay_limit_us = 0; \
    to.delay_guard_bytes = 0; \
    to.share_least_q16 = 0; \
    to.share_shift = 0; \
    to.ecn_weight_shift = 0; \
    to.ecn_drop_us = 0; \
    to.ecn_bound_q32 = 0;

// Fields of the probe's header.
#define LAW_PROBE_FIELDS \
    bit<32> target_us; \
    bit<32> interval_us; \
    bit<32> kp_q40_per_us; \
    bit<32> ki_q40_per_us; \
    bit<32> kd_q40_per_us; \
    bit<32> z1_q16; \
    bit<32> z2_q16; \
    bit<32> z3_q16; \
    bit<32> m1_us; \
    bit<32> m2_us; \
    bit<32> integral_drop_max; \
    bit<8> squared; \
    bit<32> idle_halflife_us; \
    bit<32> min_backlog_bytes; \
    bit<32> min_delay_us; \
    bit<8> dq_shift; \
    bit<8> dq_weight_shift; \
    bit<32> space_least_q16; \
    bit<32> space_most_q16; \
    bit<32> delay_bound_us; \
    bit<32> delay_bound_slope_q40_per_us; \
    bit<32> delay_limit_us; \
    bit<32> delay_guard_bytes; \
    bit<32> share_least_q16; \
    bit<8> share_shift; \
    bit<8> ecn_weight_shift; \
    bit<32> ecn_drop_us; \
    bit<64> ecn_bound_q32;

// Sets `to`, a law_params_t, from such a header.
#define LAW_PROBE_PARAMS(to, from) \
    to.target_us = (bit<24>)from.target_us; \
    to.interval_us = (bit<24>)from.interval_us; \
    to.kp_q40_per_us = from.kp_q40_per_us; \
    to.ki_q40_per_us = from.ki_q40_per_us; \
    to.kd_q40_per_us = from.kd_q40_per_us; \
    to.z1_q16 = (bit<20>)from.z1_q16; \
    to.z2_q16 = (bit<20>)from.z2_q16; \
    to.z3_q16 = (bit<20>)from.z3_q16; \
    to.m1_us = (bit<24>)from.m1_us; \
    to.m2_us = (bit<24>)from.m2_us; \
    to.integral_drop_max = from.integral_drop_max; \
    to.squared = (bit<1>)from.squared; \
    to.idle_halflife_us = from.idle_halflife_us; \
    to.min_backlog_bytes = from.min_backlog_bytes; \
    to.min_delay_us = (bit<24>)from.min_delay_us; \
    to.dq_shift = (bit<5>)from.dq_shift; \
    to.dq_weight_shift = (bit<4>)from.dq_weight_shift; \
    to.space_least_q16 = (bit<20>)from.space_least_q16; \
    to.space_most_q16 = (bit<20>)from.space_most_q16; \
    to.delay_bound_us = (bit<24>)from.delay_bound_us; \
    to.delay_bound_slope_q40_per_us = from.delay_bound_slope_q40_per_us; \
    to.delay_limit_us = (bit<24>)from.delay_limit_us; \
    to.delay_guard_bytes = from.delay_guard_bytes; \
    to.share_least_q16 = (bit<20>)from.share_least_q16; \
    to.share_shift = (bit<5>)from.share_shift; \
    to.ecn_weight_shift = (bit<4>)from.ecn_weight_shift; \
    to.ecn_drop_us = (bit<24>)from.ecn_drop_us; \
    to.ecn_bound_q32 = (bit<33>)from.ecn_bound_q32;

#endif
