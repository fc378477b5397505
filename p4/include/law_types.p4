// SPDX-License-Identifier: Apache-2.0
// Parameters and state of the law. docs/design/law.md is the contract: names, units and ranges are its own, and every
// value that fits these widths is sound arithmetic.
#ifndef WEIR_LAW_TYPES_P4
#define WEIR_LAW_TYPES_P4

struct law_params_t {
    bit<24> target_us;
    bit<24> interval_us;
    bit<32> kp_q40_per_us;
    bit<32> ki_q40_per_us;
    bit<32> kd_q40_per_us;
    bit<20> z1_q16;
    bit<20> z2_q16;
    bit<20> z3_q16;
    bit<24> m1_us;
    bit<24> m2_us;
    // Consecutive steps; 2^32 - 1: always leave the integral out, 0: never.
    bit<32> integral_drop_max;
    // 1: drop with U^2.
    bit<1> squared;
    bit<32> burst_us;
    bit<32> idle_halflife_us;
    bit<32> min_backlog_bytes;
    bit<24> min_delay_us;
    bit<5> dq_shift;
    bit<4> dq_weight_shift;
    bit<4> schedule_shift;
    bit<4> schedule_weight_shift;
    bit<20> space_least_q16;
    // 0: hits are drawn for each packet on its own.
    bit<20> space_most_q16;
    bit<24> delay_bound_us;
    bit<32> delay_bound_slope_q40_per_us;
    // 0: none.
    bit<24> delay_limit_us;
    // Beside 2^dq_shift; 0: bound and limit in time count at any backlog.
    bit<32> delay_guard_bytes;
    // 0: hits don't wait for large flows.
    bit<20> share_least_q16;
    bit<5> share_shift;
    // 0: the bound for ECN is compared with U, else with a mean of it.
    bit<4> ecn_weight_shift;
    // 0: none.
    bit<24> ecn_drop_us;
    // 0: as 1.0.
    bit<20> mark_gain_q16;
    // In the domain of U.
    bit<33> ecn_bound_q32;
}

// The controller's state of one queue, all zero at the start.
struct law_state_t {
    bit<64> u_q40;
    bit<64> last_us;
    int<64> o1_us;
    int<64> o2_us;
    bit<32> tau_prev_us;
    bit<32> burst_left_us;
    bit<32> no_i_run;
    bit<1> started;
    // Of Algorithm 1 in the last step, 1 to 5; 0 before the first.
    bit<8> row;
    bit<64> u_mean_q40;
    bit<64> u_ecn_q40;
}

// The departure rate of one queue, all zero at the start.
struct law_rate_t {
    // To drain 2^dq_shift bytes; 0 unknown.
    bit<32> dq_time_q8_us;
    bit<32> dq_count_bytes;
    bit<64> dq_start_us;
    bit<1> dq_on;
}

// Counter of the flows that share it, all zero at the start.
struct law_flow_t {
    // Halved each 2^share_shift us.
    bit<32> flow_bytes;
    bit<64> flow_last_us;
}

// Recent rate of a flow against the others'. New: no bytes yet.
enum bit<2> law_size_t {
    SMALL = 0,
    LARGE = 1,
    NEW = 2
}

enum bit<2> law_verdict_t {
    PASS = 0,
    MARK = 1,
    DROP = 2
}

#endif
