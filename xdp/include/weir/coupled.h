/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The coupled law for L4S in integers; docs/design/coupled.md is the contract and its numbered steps are cited here.
 * Band C is law.h's; here is band L's law, which follows R, the root mean square of the law's U. Pure functions of
 * their arguments. Source: RFC 9332 2.1, 2.5, 4.2 and appendix A.
 */
#ifndef WEIR_COUPLED_H
#define WEIR_COUPLED_H

#include "law.h"

/* Run-time data, ranges in docs/design/coupled.md. */
struct weir_coupling {
	__u32 coupling_q16;
	__u32 ramp_least_us;
	__u64 ramp_slope_q32_per_us;
	__u32 floor_bytes;
	__u32 reserved;
};

#define WEIR_FOLLOW_SHIFT 4
#define WEIR_LEAK_SHIFT 6

/* R, the root mean square of U, after a step of the law; `missed`: the step came two intervals late. */
WEIR_INLINE __u64 weir_follow_q40(__u64 r_q40, __u64 u_q40, int classic_active, int missed)
{
	__u64 u_q20 = u_q40 >> 20, r_q20 = r_q40 >> 20;

	if (missed && !classic_active) /* a */
		return u_q40;
	r_q40 = r_q40 + (u_q20 * u_q20 >> WEIR_FOLLOW_SHIFT) - (r_q20 * r_q20 >> WEIR_FOLLOW_SHIFT); /* b */
	if (!classic_active)									     /* c */
		r_q40 -= r_q40 >> WEIR_LEAK_SHIFT;
	return r_q40 > (__u64)WEIR_U_ONE_Q40 ? (__u64)WEIR_U_ONE_Q40 : r_q40;
}

/* k R; WEIR_P_ONE_Q32 and more is overload. */
WEIR_INLINE __u64 weir_coupled_q32(const struct weir_coupling *c, __u64 r_q40)
{
	return ((r_q40 >> 8) * c->coupling_q16) >> 16; /* 1 */
}

/* The probability that a packet of L is marked; floor_us: weir_tau_us of floor_bytes. */
WEIR_INLINE __u64 weir_mark_probability_q32(const struct weir_coupling *c, __u64 r_q40, __u32 tau_l_us, __u32 floor_us)
{
	__u32 threshold_us = floor_us > c->ramp_least_us ? floor_us : c->ramp_least_us; /* 3 */
	__u64 p_q32 = weir_coupled_q32(c, r_q40), native_q32 = 0;

	if (tau_l_us > WEIR_TAU_MAX_US)
		tau_l_us = WEIR_TAU_MAX_US;
	if (tau_l_us > threshold_us)
		native_q32 = (__u64)(tau_l_us - threshold_us) * c->ramp_slope_q32_per_us;
	if (native_q32 > p_q32) /* 4 */
		p_q32 = native_q32;
	return p_q32 > WEIR_P_ONE_Q32 ? WEIR_P_ONE_Q32 : p_q32;
}

/* Verdict for one packet of L that finds a delay of tau_l_us before it. */
WEIR_INLINE enum weir_verdict weir_decide_low(const struct weir_coupling *c, __u64 r_q40, __u32 tau_l_us,
					      __u32 floor_us, __u32 rand_a, __u32 rand_b)
{
	__u64 r_q32 = r_q40 >> 8;

	if (weir_coupled_q32(c, r_q40) >= WEIR_P_ONE_Q32) /* 2 */
		return rand_a < r_q32 && rand_b < r_q32 ? WEIR_DROP : WEIR_MARK;
	return rand_a < weir_mark_probability_q32(c, r_q40, tau_l_us, floor_us) ? WEIR_MARK : WEIR_PASS;
}

#endif /* WEIR_COUPLED_H */
