// SPDX-License-Identifier: Apache-2.0
// Parameters and state of the law. docs/design/law.md is the contract: names, units and ranges are its own, and every
// value that fits these widths is sound arithmetic.
#ifndef WEIR_LAW_TYPES_P4
#define WEIR_LAW_TYPES_P4

#include "law_params.p4"

// The controller's state of one queue, all zero at the start.
struct law_state_t {
    bit<64> u_q40;
    bit<64> last_us;
    int<64> o1_us;
    int<64> o2_us;
    bit<32> no_i_run;
    bit<1> started;
    // Of Algorithm 1 in the last step, 1 to 5; 0 before the first.
    bit<8> row;
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
