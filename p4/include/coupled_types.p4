// SPDX-License-Identifier: Apache-2.0
// Parameters of the coupled law for L4S. docs/design/coupled.md is the contract: names, units and ranges are its own, and
// every value that fits these widths is sound arithmetic.
#ifndef WEIR_COUPLED_TYPES_P4
#define WEIR_COUPLED_TYPES_P4

struct coupling_t {
    // k, below 16.
    bit<20> coupling_q16;
    bit<24> ramp_least_us;
    // At most 2^32, which is a step.
    bit<33> ramp_slope_q32_per_us;
    bit<24> floor_bytes;
}

#endif
