// SPDX-License-Identifier: Apache-2.0
// Saturation of 64 bits without sign.
#ifndef WEIR_FIXED_POINT_P4
#define WEIR_FIXED_POINT_P4

const bit<64> BYTES_MAX = 0xffffffff;

#endif
