// SPDX-License-Identifier: Apache-2.0
// The PID-Delay law in integers: the steps of docs/design/law.md and verdict.md, the bits of tests/vectors.
// Sources: Cao et al. Eq. 1, 2, 5 and Algorithm 1; RFC 8033 for what they leave open.
//
// Pure: registers, clocks and random numbers belong to the callers (aqm_ingress.p4, aqm_egress.p4, law_probe.p4).
#ifndef WEIR_LAW_P4
#define WEIR_LAW_P4

#include "fixed_point.p4"
#include "law_types.p4"
#include "signed.p4"

const bit<64> TAU_MAX_US = 0xffffff;
const bit<64> P_ONE_Q32 = 0x100000000;
const int<64> U_ONE_Q40 = 64s0x10000000000;
// 4.0: times a Z below 2^20 it stays within 63 bits.
const int<64> DU_MAX_Q40 = 64s0x40000000000;
const int<64> Z_ONE_Q16 = 64s0x10000;

// The departure rate (RFC 8033 4.3, averaging the reciprocal of the rate). A packet that leaves `backlog_bytes` behind it
// begins a measurement if none is on.
bool law_departure_begins(in bit<64> backlog_bytes, in bit<5> dq_shift) {
    return backlog_bytes >= 64w1 << dq_shift; // 1
}

// A measurement of `dq_count_bytes`, this packet's included, ends; the next one begins.
bool law_departure_ends(in bit<32> dq_count_bytes, in bit<5> dq_shift) {
    return dq_count_bytes >= 32w1 << dq_shift; // 3
}

// `dq_time_q8_us` after such a measurement.
bit<32> law_departure_time(
    in bit<32> dq_time_q8_us,
    in bit<64> dq_start_us,
    in bit<4> dq_weight_shift,
    in bit<64> now_us)
{
    bit<64> elapsed_us = now_us - dq_start_us; // a clock gone back is a huge difference and saturates as well
    if (elapsed_us > TAU_MAX_US) {
        elapsed_us = TAU_MAX_US;
    }
    bit<32> time_q8_us = (bit<32>)elapsed_us << 8;
    if (dq_time_q8_us != 0) {
        time_q8_us = dq_time_q8_us - (dq_time_q8_us >> dq_weight_shift) + (time_q8_us >> dq_weight_shift);
    }
    if (time_q8_us == 0) {
        time_q8_us = 1;
    }
    return time_q8_us;
}

// `dq_count_bytes` of the next measurement.
bit<32> law_departure_rest(in bit<32> dq_count_bytes, in bit<5> dq_shift) {
    bit<32> rest_bytes = dq_count_bytes - (32w1 << dq_shift);
    if (rest_bytes >= 32w1 << dq_shift) {
        rest_bytes = 0;
    }
    return rest_bytes;
}

// Cao Eq. 1: the delay in us that a packet arriving now will see; 0 while the rate is unknown.
bit<32> law_tau(in bit<32> dq_time_q8_us, in bit<5> dq_shift, in bit<64> backlog_bytes) {
    // Expressions, since a conditional costs more in an action on BMv2.
    bit<64> delay_us = (backlog_bytes > BYTES_MAX ? BYTES_MAX : backlog_bytes) * (bit<64>)dq_time_q8_us
        >> ((bit<8>)dq_shift + 8);
    return (bit<32>)(delay_us > TAU_MAX_US ? TAU_MAX_US : delay_us);
}

// Step 5 for one power of two: halves U and its mean `1 << k` times if a stretch of `H << k` fits into what was missed.
#define LAW_DECAY(k) \
    if (missed_us >= (halflife_us << (k))) { \
        missed_us = missed_us - (halflife_us << (k)); \
        s.u_q40 = s.u_q40 >> (1 << (k)); \
        s.u_ecn_q40 = s.u_ecn_q40 >> (1 << (k)); \
    }

// One call per packet; `stepped` is 1 if a control step was taken (Cao Eq. 2, Eq. 5, Algorithm 1).
control LawUpdate(
    inout law_state_t s,
    in law_params_t p,
    in bit<64> now_us,
    in bit<32> delay_us,
    out bit<1> stepped)
{
    apply {
        int<64> target_us = (int<64>)(bit<64>)p.target_us;
        bit<64> interval_us = (bit<64>)p.interval_us;
        bit<64> elapsed_us = now_us - s.last_us;
        stepped = 0;
        if (s.started == 0) { // 1
            s.started = 1;
            s.last_us = now_us;
            s.o1_us = -target_us;
            s.o2_us = -target_us;
            s.u_q40 = 0;
        } else if (elapsed_us[63:63] == 1) { // 2: the clock went back
            s.last_us = now_us;
        } else if (elapsed_us >= interval_us) {
            stepped = 1;
            bit<64> tau_us = (bit<64>)delay_us; // 3, Cao Eq. 2
            if (tau_us > TAU_MAX_US) {
                tau_us = TAU_MAX_US;
            }
            int<64> o_us = (int<64>)tau_us - target_us;

            if (elapsed_us < (interval_us << 1)) { // 4
                s.last_us = s.last_us + interval_us;
            } else {
                s.last_us = now_us;
                if (o_us < 0) { // 5
                    s.o1_us = -target_us;
                    s.o2_us = -target_us;
                    if (p.idle_halflife_us != 0) {
                        bit<64> halflife_us = (bit<64>)p.idle_halflife_us;
                        bit<64> missed_us = elapsed_us - interval_us;
                        LAW_DECAY(5)
                        LAW_DECAY(4)
                        LAW_DECAY(3)
                        LAW_DECAY(2)
                        LAW_DECAY(1)
                        LAW_DECAY(0)
                    }
                }
            }

            int<64> d_us = o_us - s.o1_us; // 6, Cao Alg. 1
            int<64> d1_us = s.o1_us - s.o2_us;
            int<64> abs_us = o_us;
            if (o_us < 0) {
                abs_us = -o_us;
            }
            int<64> m1_us = (int<64>)(bit<64>)p.m1_us;
            int<64> m2_us = (int<64>)(bit<64>)p.m2_us;
            bool grows = same_sign(o_us, d_us);
            bool shrinks = opposite_sign(o_us, d_us);
            bool grew = same_sign(o_us, d1_us);
            bool shrank = opposite_sign(o_us, d1_us);
            bit<20> z_q16 = (bit<20>)(bit<64>)Z_ONE_Q16;
            bool integral = true;
            s.row = 5;
            if (abs_us > m1_us) {
                s.row = 1;
                z_q16 = p.z1_q16;
                integral = false;
            } else if (abs_us > m2_us) {
                if (grows) {
                    s.row = 2;
                    z_q16 = p.z2_q16;
                } else if (shrinks && grew) {
                    s.row = 3;
                    z_q16 = p.z2_q16;
                    integral = false;
                }
            } else if (shrinks && shrank) {
                s.row = 4;
                z_q16 = p.z3_q16;
                integral = false;
            }
            if (integral) {
                s.no_i_run = 0;
            } else if (s.no_i_run < p.integral_drop_max) {
                s.no_i_run = s.no_i_run + 1; // below a 32-bit maximum, so it can't wrap
            } else {
                integral = true;
            }

            int<64> du_q40 = (int<64>)(bit<64>)p.kp_q40_per_us * d_us
                + (int<64>)(bit<64>)p.kd_q40_per_us * (d_us - d1_us); // 7, Cao Eq. 5
            if (integral) {
                du_q40 = du_q40 + (int<64>)(bit<64>)p.ki_q40_per_us * o_us;
            }
            du_q40 = clamp_s64(du_q40, -DU_MAX_Q40, DU_MAX_Q40);

            du_q40 = (du_q40 * (int<64>)(bit<64>)z_q16) >> 16; // 8

            s.u_q40 = (bit<64>)clamp_s64((int<64>)s.u_q40 + du_q40, 0, U_ONE_Q40); // 9
            if (p.ecn_weight_shift != 0) {
                s.u_ecn_q40 = s.u_ecn_q40 - (s.u_ecn_q40 >> p.ecn_weight_shift) + (s.u_q40 >> p.ecn_weight_shift);
            }

            s.o2_us = s.o1_us; // 10
            s.o1_us = o_us;
        }
    }
}

// Halves the bytes of a flow for the time since `flow_last_us`: half-lives have passed, or the clock went back.
void law_flow_halve(
    inout bit<32> flow_bytes,
    inout bit<64> flow_last_us,
    in bit<5> share_shift,
    in bit<64> now_us)
{
    bit<64> elapsed_us = now_us - flow_last_us; // 2
    bit<64> halvings = elapsed_us >> share_shift;
    if (elapsed_us[63:63] == 1) {
        flow_last_us = now_us;
    } else if (halvings > 31) {
        flow_bytes = 0;
        flow_last_us = now_us;
    } else {
        flow_bytes = flow_bytes >> (bit<8>)halvings;
        flow_last_us = flow_last_us + (halvings << share_shift);
    }
}

// `share_mean_q6`, of the counters over the packets that have arrived, with a packet of a flow of `flow_bytes`.
bit<64> law_share_mean(in bit<64> share_mean_q6, in bit<32> flow_bytes) {
    return share_mean_q6 - (share_mean_q6 >> 6) + (bit<64>)flow_bytes; // 4
}

// Recent bytes of a flow beside the others': `bytes_before` this packet and `flow_bytes` with it.
law_size_t law_flow_size(
    in bit<32> bytes_before,
    in bit<32> flow_bytes,
    in bit<64> share_mean_q6,
    in bit<20> share_least_q16)
{
    law_size_t size = law_size_t.SMALL; // 5
    if (bytes_before == 0) {
        size = law_size_t.NEW;
    } else if ((bit<64>)flow_bytes << 22 >= (bit<64>)share_least_q16 * share_mean_q6) {
        size = law_size_t.LARGE;
    }
    return size;
}

// Verdict for one packet that finds `backlog_bytes` and a delay of `tau_us` before it. `ect`: it is ECT(0), ECT(1) or
// CE; `size`: by law_flow_size; the random numbers are uniform and independent, and have no effect if neither `space_most`
// nor `share_least` is 0. `sum_q32`: of the probabilities of the packets since the last drop or mark.
void law_decide(
    in bit<64> u_q40,
    in bit<64> u_ecn_q40,
    inout bit<64> sum_q32,
    in law_params_t p,
    in bit<64> backlog_bytes,
    in bit<32> tau_us,
    in bit<1> ect,
    in law_size_t size,
    in bit<32> rand_a,
    in bit<32> rand_b,
    out law_verdict_t verdict)
{
    bit<64> over_q32 = 0;
    verdict = law_verdict_t.PASS;
    // The first packet of its flow, on a queue that is not so long that this does not count.
    bool spared = size == law_size_t.NEW && p.share_least_q16 != 0 && tau_us < (bit<32>)p.ecn_drop_us;
    if (((p.delay_limit_us != 0 && tau_us >= (bit<32>)p.delay_limit_us) // 1
            || (p.delay_bound_us != 0 && tau_us > (bit<32>)p.delay_bound_us))
        && !spared && (p.delay_guard_bytes == 0
            || backlog_bytes >= (64w1 << p.dq_shift) + (bit<64>)p.delay_guard_bytes))
    {
        if (p.delay_limit_us != 0 && tau_us >= (bit<32>)p.delay_limit_us) {
            over_q32 = P_ONE_Q32;
        } else if (p.share_least_q16 == 0 || size == law_size_t.LARGE) {
            over_q32 = (bit<64>)(tau_us - (bit<32>)p.delay_bound_us) * (bit<64>)p.delay_bound_slope_q40_per_us >> 8;
            if (over_q32 > P_ONE_Q32) {
                over_q32 = P_ONE_Q32;
            }
        }
    }
    if (u_q40 == 0 && over_q32 == 0) { // 2
        sum_q32 = 0;
    } else if (backlog_bytes >= (bit<64>)p.min_backlog_bytes) { // 3
        law_verdict_t act = law_verdict_t.DROP;
        bit<64> p_q32 = u_q40 >> 8;
        bit<64> marks_q32 = (p.ecn_weight_shift != 0 ? u_ecn_q40 : u_q40) >> 8; // 4, RFC 8033 5.1
        if (ect == 1 && p.ecn_bound_q32 != 0 && marks_q32 <= (bit<64>)p.ecn_bound_q32
            && (p.ecn_drop_us == 0 || tau_us < (bit<32>)p.ecn_drop_us))
        {
            act = law_verdict_t.MARK;
            over_q32 = 0;
            p_q32 = marks_q32;
        }
        bool held = act == law_verdict_t.DROP && tau_us < (bit<32>)p.min_delay_us;
        if (!held || over_q32 != 0) {
            // Without spacing two random numbers stand for the square.
            bool by_two = p.squared == 1 && p.space_most_q16 == 0 && over_q32 == 0; // 5
            if (p.squared == 1 && !by_two) {
                p_q32 = ((p_q32 >> 1) * (p_q32 >> 1)) >> 30;
            }
            if (held) {
                p_q32 = 0;
            }
            p_q32 = p_q32 + over_q32;
            if (p_q32 > P_ONE_Q32) {
                p_q32 = P_ONE_Q32;
            }
            if (p.space_most_q16 == 0) { // 6
                if ((bit<64>)rand_a < p_q32 && (!by_two || (bit<64>)rand_b < p_q32)) {
                    verdict = act; // 8
                }
            } else {
                bool drawn = (p.share_least_q16 != 0 && size == law_size_t.LARGE)
                    || (p.share_least_q16 == 0 && (bit<64>)rand_a < p_q32);
                sum_q32 = sum_q32 + p_q32; // 7, RFC 8033 5.4
                if ((p_q32 == P_ONE_Q32 && !spared) || sum_q32 >= (bit<64>)p.space_most_q16 << 16
                    || (drawn && sum_q32 >= (bit<64>)p.space_least_q16 << 16))
                {
                    verdict = act; // 8
                    sum_q32 = 0;
                }
            }
        }
    }
}

#endif
