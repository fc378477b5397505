// SPDX-License-Identifier: Apache-2.0
// Parameters of the two bands of flows. docs/design/flows.md is the contract: names, units and ranges are its
// own, and every value that fits these widths is sound arithmetic.
#ifndef WEIR_FLOW_BANDS_TYPES_P4
#define WEIR_FLOW_BANDS_TYPES_P4

struct flow_bands_t {
    // Below 16.
    bit<20> ahead_share_q16;
    bit<32> ahead_most_bytes;
    bit<32> ahead_least_bytes;
}

// Band of a packet: A if it is AHEAD, else B. The others are for the law in B.
enum bit<3> band_kind_t {
    AHEAD = 0,
    SMALL = 1,
    LARGE = 2,
    SPILLED = 3,
    STRANGER = 4
}

#endif
