// SPDX-License-Identifier: Apache-2.0
// Saturation and signs of signed 64 bits. Shifts of signed numbers are by constants, and arithmetic.
#ifndef WEIR_SIGNED_P4
#define WEIR_SIGNED_P4

int<64> clamp_s64(in int<64> value, in int<64> least, in int<64> most) {
    int<64> within = value;
    if (value < least) {
        within = least;
    }
    if (value > most) {
        within = most;
    }
    return within;
}

// Whether the product of two numbers is above 0, without making it.
bool same_sign(in int<64> a, in int<64> b) {
    return (a > 0 && b > 0) || (a < 0 && b < 0);
}

// Whether the product of two numbers is below 0.
bool opposite_sign(in int<64> a, in int<64> b) {
    return (a > 0 && b < 0) || (a < 0 && b > 0);
}

#endif
