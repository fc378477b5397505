// SPDX-License-Identifier: Apache-2.0
// Saturation of 64 bits without sign.
#ifndef WEIR_FIXED_POINT_P4
#define WEIR_FIXED_POINT_P4

const bit<64> BYTES_MAX = 0xffffffff;

bit<64> min_u64(in bit<64> a, in bit<64> b) {
    bit<64> least = a;
    if (b < a) {
        least = b;
    }
    return least;
}

#endif
