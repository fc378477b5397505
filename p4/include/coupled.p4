// SPDX-License-Identifier: Apache-2.0
// The coupled law for L4S in integers: the numbered steps are those of docs/design/coupled.md, the bits are those of
// tests/vectors/coupled. Source: RFC 9332 2.1, 2.5, 4.2 and appendix A.
//
// Pure, as law.p4: registers, clocks and random numbers belong to the callers (aqm_ingress.p4, bands.p4, law_probe.p4).
#ifndef WEIR_COUPLED_P4
#define WEIR_COUPLED_P4

#include "coupled_types.p4"
#include "law.p4"

bit<64> min_u64(in bit<64> a, in bit<64> b) {
    bit<64> least = a;
    if (b < a) {
        least = b;
    }
    return least;
}

const bit<8> FOLLOW_SHIFT = 4;
const bit<8> LEAK_SHIFT = 6;

// R, the root mean square of U, after a step of the law. classic_active: C has a backlog, or a packet of C left within
// the last two intervals. missed: the step came two
// intervals late.
control CoupledFollow(inout bit<64> r_q40, in bit<64> u_q40, in bool classic_active, in bool missed) {
    apply {
        if (missed && !classic_active) { // a
            r_q40 = u_q40;
        } else {
            bit<64> u_q20 = u_q40 >> 20;
            bit<64> r_q20 = r_q40 >> 20;
            r_q40 = r_q40 + (u_q20 * u_q20 >> FOLLOW_SHIFT) - (r_q20 * r_q20 >> FOLLOW_SHIFT); // b
            if (!classic_active) { // c
                r_q40 = r_q40 - (r_q40 >> LEAK_SHIFT);
            }
            r_q40 = min_u64(r_q40, (bit<64>)U_ONE_Q40);
        }
    }
}

// Verdict for one packet of band L that has a delay of `tau_us`. `floor_us`: what `floor_bytes` take on the line; the
// random numbers are uniform and independent. `p_q32`: the probability that it is marked.
void coupled_decide(
    in coupling_t c,
    in bit<64> r_q40,
    in bit<32> tau_us,
    in bit<32> floor_us,
    in bit<32> rand_a,
    in bit<32> rand_b,
    out bit<64> p_q32,
    out law_verdict_t verdict)
{
    bit<64> r_q32 = r_q40 >> 8; // 1
    bit<64> coupled_q32 = (r_q32 * (bit<64>)c.coupling_q16) >> 16;

    bit<64> delay_us = min_u64((bit<64>)tau_us, TAU_MAX_US); // 3
    bit<64> threshold_us = (bit<64>)c.ramp_least_us;
    if ((bit<64>)floor_us > threshold_us) {
        threshold_us = (bit<64>)floor_us;
    }
    p_q32 = coupled_q32; // 4
    if (delay_us > threshold_us) {
        bit<64> native_q32 = (delay_us - threshold_us) * (bit<64>)c.ramp_slope_q32_per_us;
        if (native_q32 > coupled_q32) {
            p_q32 = native_q32;
        }
    }
    p_q32 = min_u64(p_q32, P_ONE_Q32);

    verdict = law_verdict_t.PASS;
    if (coupled_q32 >= P_ONE_Q32 && (bit<64>)rand_a < r_q32 && (bit<64>)rand_b < r_q32) { // 2
        verdict = law_verdict_t.DROP;
    } else if ((bit<64>)rand_a < p_q32) {
        verdict = law_verdict_t.MARK;
    }
}

#endif
