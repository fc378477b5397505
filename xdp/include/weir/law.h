/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The PID-Delay law in integers; docs/design/law.md and verdict.md are the contract; their steps are cited here. Pure
 * functions of their arguments: no clock, no random numbers, no kernel calls, so the same text runs in tc, XDP and user
 * space. Sources: Cao et al. Eq. 1, 2, 5 and Algorithm 1; RFC 8033 for what they leave open.
 *
 * Parameters are trusted: their writer checks their ranges (controller/weir/gains.py, weir-xdp). All widths hold for
 * any time, byte count, delay and random number.
 */
#ifndef WEIR_LAW_H
#define WEIR_LAW_H

/* A BPF program has included vmlinux.h or linux/types.h before; the two can't be had together. */
#ifndef __bpf__
#include <linux/types.h>
#endif

#define WEIR_INLINE static inline __attribute__((always_inline))

#define WEIR_TAU_MAX_US ((1U << 24) - 1)
#define WEIR_BYTES_MAX 0xffffffffULL
#define WEIR_U_ONE_Q40 (1LL << 40)
#define WEIR_P_ONE_Q32 (1ULL << 32)
#define WEIR_DU_MAX_Q40 (1LL << 42) /* 4.0: times z below 2^20 still fits 63 bits */
#define WEIR_Z_ONE_Q16 (1U << 16)
#define WEIR_CLOCK_BACK (1ULL << 63)

#include "params.h"

/* The controller's state; all zero at the start. The first two are all that a verdict reads of it. */
struct weir_state {
	__u64 u_q40;
	__u64 u_ecn_q40; /* output for marks; 0 while that is U */
	__u64 last_us;
	__s64 o1_us;
	__s64 o2_us;
	__u32 no_i_run;
	__u32 started;
	__u32 row; /* of Algorithm 1 in the last step, 1..5; 0 before the first */
	__u32 reserved;
};

/* The departure rate; apart from the control state because departures may run beside updates. All zero at the start. */
struct weir_rate {
	__u64 dq_time_q8_us; /* to drain 2^dq_shift bytes; 0 unknown */
	__u64 dq_count_bytes;
	__u64 dq_start_us;
	__u32 dq_on;
	__u32 reserved;
};

/*
 * State left by the verdicts; apart from the control state because verdicts may be given beside a step. Zero at the
 * start. Two CPUs that give verdicts at once may lose one of two additions, or drop or mark one packet more for one
 * sum: the sum stays in its range.
 */
struct weir_spacing {
	__u64 sum_q32; /* of the probabilities of the packets since the last drop or mark */
};

#define WEIR_FLOWS_SHIFT 12
#define WEIR_FLOWS (1U << WEIR_FLOWS_SHIFT)

/* One of WEIR_FLOWS counters, for the flows that share it; all zero at the start. */
struct weir_flow {
	__u64 flow_last_us;
	__u32 flow_bytes;      /* halved each 2^share_shift us */
	__u16 flow_until_tick; /* of two bands (bands.h): its last packet of band B has left by then */
	__u16 flow_large_tick; /* when it last was in band B on account of its size or the budget */
};

/* The mean of the counters over the packets that have arrived at one queue; zero at the start. */
struct weir_share {
	__u64 share_mean_q6;
};

/* Recent rate of a flow against the others'. New: no bytes yet. */
enum weir_size { WEIR_SMALL, WEIR_LARGE, WEIR_NEW };

enum weir_verdict { WEIR_PASS, WEIR_MARK, WEIR_DROP };

/* A packet of len_bytes left, backlog_bytes stay behind it. RFC 8033 4.3, averaging the reciprocal of the rate. */
WEIR_INLINE void weir_departure(struct weir_rate *r, const struct weir_params *p, __u64 now_us, __u64 len_bytes,
				__u64 backlog_bytes)
{
	__u64 chunk_bytes = 1ULL << p->dq_shift;
	__u64 count_bytes, dt_us, fresh_q8, mean_q8;

	if (!r->dq_on) { /* 1 */
		if (backlog_bytes >= chunk_bytes) {
			r->dq_on = 1;
			r->dq_start_us = now_us;
			r->dq_count_bytes = 0;
		}
		return;
	}

	if (len_bytes > WEIR_BYTES_MAX) /* 2 */
		len_bytes = WEIR_BYTES_MAX;
	count_bytes = r->dq_count_bytes + len_bytes;
	if (count_bytes > WEIR_BYTES_MAX)
		count_bytes = WEIR_BYTES_MAX;

	if (count_bytes >= chunk_bytes) { /* 3; a clock gone back is a huge difference and saturates as well */
		dt_us = now_us - r->dq_start_us;
		if (dt_us > WEIR_TAU_MAX_US)
			dt_us = WEIR_TAU_MAX_US;
		fresh_q8 = dt_us << 8;
		mean_q8 = r->dq_time_q8_us;
		if (mean_q8 == 0)
			mean_q8 = fresh_q8;
		else
			mean_q8 = mean_q8 - (mean_q8 >> p->dq_weight_shift) + (fresh_q8 >> p->dq_weight_shift);
		r->dq_time_q8_us = mean_q8 ? mean_q8 : 1;
		count_bytes -= chunk_bytes;
		if (count_bytes >= chunk_bytes)
			count_bytes = 0;
		r->dq_start_us = now_us;
	}
	r->dq_count_bytes = count_bytes;

	if (backlog_bytes == 0) /* 4 */
		r->dq_on = 0;
}

/* Cao Eq. 1: the delay a packet arriving now will see, in us; 0 while the rate is unknown. */
WEIR_INLINE __u32 weir_tau_us(const struct weir_rate *r, const struct weir_params *p, __u64 backlog_bytes)
{
	__u64 tau_us;

	if (backlog_bytes > WEIR_BYTES_MAX)
		backlog_bytes = WEIR_BYTES_MAX;
	tau_us = (backlog_bytes * r->dq_time_q8_us) >> (p->dq_shift + 8);
	return tau_us > WEIR_TAU_MAX_US ? WEIR_TAU_MAX_US : (__u32)tau_us;
}

/* Sign of a times b without the product: 1, 0 or -1. */
WEIR_INLINE int weir_sign_of_product(__s64 a, __s64 b)
{
	if (a == 0 || b == 0)
		return 0;
	return (a > 0) == (b > 0) ? 1 : -1;
}

/* One call per packet; returns 1 if a control step was taken. Cao Eq. 2, Eq. 5, Algorithm 1. */
WEIR_INLINE int weir_update(struct weir_state *s, const struct weir_params *p, __u64 now_us, __u32 tau_us)
{
	__s64 target_us = (__s64)p->target_us;
	__u64 elapsed_us, interval_us = p->interval_us;
	__s64 o_us, d_us, d1_us, abs_us, du_q40, u_q40;
	__u32 row, z_q16;
	int od, od1, keep_integral;

	if (!s->started) { /* 1 */
		s->started = 1;
		s->last_us = now_us;
		s->o1_us = -target_us;
		s->o2_us = -target_us;
		s->u_q40 = 0;
		return 0;
	}

	elapsed_us = now_us - s->last_us; /* 2 */
	if (elapsed_us >= WEIR_CLOCK_BACK) {
		s->last_us = now_us;
		return 0;
	}
	if (elapsed_us < interval_us)
		return 0;

	if (tau_us > WEIR_TAU_MAX_US) /* 3, Cao Eq. 2 */
		tau_us = WEIR_TAU_MAX_US;
	o_us = (__s64)tau_us - target_us;

	if (elapsed_us < 2 * interval_us) { /* 4 */
		s->last_us += interval_us;
	} else {
		s->last_us = now_us;
		if (o_us < 0) { /* 5 */
			s->o1_us = -target_us;
			s->o2_us = -target_us;
			if (p->idle_halflife_us) {
				__u64 missed_us = elapsed_us - interval_us;
				__u64 decayed_q40 = s->u_q40, ecn_q40 = s->u_ecn_q40;

				for (int k = 5; k >= 0; k--) {
					__u64 stretch_us = (__u64)p->idle_halflife_us << k;

					if (missed_us >= stretch_us) {
						missed_us -= stretch_us;
						decayed_q40 >>= 1U << k;
						ecn_q40 >>= 1U << k;
					}
				}
				s->u_q40 = decayed_q40;
				s->u_ecn_q40 = ecn_q40;
			}
		}
	}

	d_us = o_us - s->o1_us; /* 6, Cao Alg. 1 */
	d1_us = s->o1_us - s->o2_us;
	abs_us = o_us < 0 ? -o_us : o_us;
	od = weir_sign_of_product(o_us, d_us);
	od1 = weir_sign_of_product(o_us, d1_us);
	keep_integral = 0;
	if (abs_us > (__s64)p->m1_us) {
		row = 1;
		z_q16 = p->z1_q16;
	} else if (abs_us > (__s64)p->m2_us && od > 0) {
		row = 2;
		z_q16 = p->z2_q16;
		keep_integral = 1;
	} else if (abs_us > (__s64)p->m2_us && od < 0 && od1 > 0) {
		row = 3;
		z_q16 = p->z2_q16;
	} else if (abs_us <= (__s64)p->m2_us && od < 0 && od1 < 0) {
		row = 4;
		z_q16 = p->z3_q16;
	} else {
		row = 5;
		z_q16 = WEIR_Z_ONE_Q16;
		keep_integral = 1;
	}
	s->row = row;
	if (keep_integral) {
		s->no_i_run = 0;
	} else if (s->no_i_run < p->integral_drop_max) {
		s->no_i_run++; /* below a 32-bit maximum, so it can't wrap */
	} else {
		keep_integral = 1;
	}

	du_q40 = (__s64)p->kp_q40_per_us * d_us + (__s64)p->kd_q40_per_us * (d_us - d1_us); /* 7, Cao Eq. 5 */
	if (keep_integral)
		du_q40 += (__s64)p->ki_q40_per_us * o_us;
	if (du_q40 > WEIR_DU_MAX_Q40)
		du_q40 = WEIR_DU_MAX_Q40;
	if (du_q40 < -WEIR_DU_MAX_Q40)
		du_q40 = -WEIR_DU_MAX_Q40;

	du_q40 = (du_q40 * (__s64)z_q16) >> 16; /* 8 */

	u_q40 = (__s64)s->u_q40 + du_q40; /* 9 */
	if (u_q40 < 0)
		u_q40 = 0;
	if (u_q40 > WEIR_U_ONE_Q40)
		u_q40 = WEIR_U_ONE_Q40;
	s->u_q40 = (__u64)u_q40;
	if (p->ecn_weight_shift) {
		s->u_ecn_q40 -= s->u_ecn_q40 >> (p->ecn_weight_shift & 63);
		s->u_ecn_q40 += s->u_q40 >> (p->ecn_weight_shift & 63);
	}

	s->o2_us = s->o1_us; /* 10 */
	s->o1_us = o_us;
	return 1;
}

/* Whether the law asks of which flow a packet is. */
WEIR_INLINE int weir_counts_flows(const struct weir_params *p)
{
	return p->share_least_q16 != 0;
}

/*
 * A packet of len_bytes arrives that *flow counts; returns what that flow is. Each value is read once and written once.
 * Two CPUs that do so at once may lose an addition or halve a counter twice: every value stays in its range, and
 * the harm is a hit on another flow.
 */
WEIR_INLINE enum weir_size weir_flow_arrival(struct weir_flow *flow, struct weir_share *share,
					     const struct weir_params *p, __u64 now_us, __u64 len_bytes)
{
	__u64 last_us = *(volatile __u64 *)&flow->flow_last_us, mean_q6 = *(volatile __u64 *)&share->share_mean_q6;
	__u64 bytes = *(volatile __u32 *)&flow->flow_bytes, elapsed_us = now_us - last_us;
	__u64 halvings = elapsed_us >> (p->share_shift & 63);
	int nothing;

	if (!weir_counts_flows(p)) /* 1 */
		return WEIR_SMALL;
	if (elapsed_us >= WEIR_CLOCK_BACK) { /* 2 */
		last_us = now_us;
	} else if (halvings > 31) {
		bytes = 0;
		last_us = now_us;
	} else {
		bytes >>= halvings;
		last_us += halvings << (p->share_shift & 63);
	}
	nothing = !bytes;
	bytes += len_bytes > WEIR_BYTES_MAX ? WEIR_BYTES_MAX : len_bytes; /* 3 */
	if (bytes > WEIR_BYTES_MAX)
		bytes = WEIR_BYTES_MAX;
	mean_q6 = mean_q6 - (mean_q6 >> 6) + bytes; /* 4 */
	flow->flow_last_us = last_us;
	flow->flow_bytes = (__u32)bytes;
	share->share_mean_q6 = mean_q6;
	if (nothing) /* 5 */
		return WEIR_NEW;
	return bytes << 22 >= p->share_least_q16 * mean_q6 ? WEIR_LARGE : WEIR_SMALL;
}

/* The chance that a packet is hit: that of two independent events, the second of which is often certain. */
struct weir_chance {
	__u64 first_q32;
	__u64 second_q32;
	__u64 over_q32; /* of the first, what a delay beyond a bound in time adds */
	int held;	/* nothing but that can hit the packet */
	int mark;	/* the packet is marked if it is hit, else dropped */
	int waits;	/* the packet's flow is large: a hit waits for it */
	int spared;	/* a hit is never certain because of the probability alone */
};

/* Whether the packet is the first of its flow, and the queue not so long that this does not count. */
WEIR_INLINE int weir_is_spared(const struct weir_params *p, __u32 tau_us, enum weir_size size)
{
	return size == WEIR_NEW && weir_counts_flows(p) && tau_us < p->ecn_drop_us;
}

/* Addition to the probability of a drop or mark by a delay beyond the bounds in time; 0 up to them. */
WEIR_INLINE __u64 weir_excess_q32(const struct weir_params *p, __u64 backlog_bytes, __u32 tau_us, enum weir_size size)
{
	__u64 over_q32;

	if (p->delay_guard_bytes && backlog_bytes < (1ULL << p->dq_shift) + p->delay_guard_bytes)
		return 0;
	if (weir_is_spared(p, tau_us, size))
		return 0;
	if (p->delay_limit_us && tau_us >= p->delay_limit_us)
		return WEIR_P_ONE_Q32;
	if (weir_counts_flows(p) && size != WEIR_LARGE)
		return 0;
	if (!p->delay_bound_us || tau_us <= p->delay_bound_us)
		return 0;
	over_q32 = ((__u64)(tau_us - p->delay_bound_us) * p->delay_bound_slope_q40_per_us) >> 8;
	return over_q32 > WEIR_P_ONE_Q32 ? WEIR_P_ONE_Q32 : over_q32;
}

/* Steps 1 to 3 of the verdict, for which it does not matter whether the packet is ECT. Returns 0 if it passes. */
WEIR_INLINE int weir_may_be_hit(const struct weir_state *s, struct weir_spacing *spacing, const struct weir_params *p,
				__u64 backlog_bytes, __u32 tau_us, enum weir_size size, struct weir_chance *chance)
{
	chance->waits = size == WEIR_LARGE;
	chance->spared = weir_is_spared(p, tau_us, size);
	chance->over_q32 = weir_excess_q32(p, backlog_bytes, tau_us, size); /* 1 */
	if (!s->u_q40 && !chance->over_q32) {				    /* 2 */
		if (spacing->sum_q32)
			spacing->sum_q32 = 0;
		return 0;
	}
	return backlog_bytes >= p->min_backlog_bytes; /* 3 */
}

/* Steps 4 and 5. */
WEIR_INLINE void weir_weigh(const struct weir_state *s, const struct weir_params *p, __u32 tau_us, int ect,
			    struct weir_chance *chance)
{
	__u64 u_q32 = s->u_q40 >> 8, marks_q32 = u_q32, p_q32;

	if (p->ecn_weight_shift) /* 4, RFC 8033 5.1 */
		marks_q32 = s->u_ecn_q40 >> 8;
	chance->mark = ect && p->ecn_bound_q32 && marks_q32 <= p->ecn_bound_q32 &&
		       (!p->ecn_drop_us || tau_us < p->ecn_drop_us);
	chance->held = !chance->mark && tau_us < p->min_delay_us;
	if (chance->mark) {
		chance->over_q32 = 0;
		u_q32 = marks_q32;
	}

	p_q32 = u_q32; /* 5 */
	chance->first_q32 = u_q32;
	chance->second_q32 = WEIR_P_ONE_Q32;
	if (p->squared) {
		if (!p->space_most_q16 && !chance->over_q32) {
			chance->second_q32 = u_q32;
			return;
		}
		p_q32 = ((u_q32 >> 1) * (u_q32 >> 1)) >> 30;
	}
	if (chance->held)
		p_q32 = 0;
	p_q32 += chance->over_q32;
	chance->first_q32 = p_q32 > WEIR_P_ONE_Q32 ? WEIR_P_ONE_Q32 : p_q32;
}

/* Whether drops and marks wait for large flows, so that a verdict needs no random number. */
WEIR_INLINE int weir_hits_wait(const struct weir_params *p)
{
	return p->share_least_q16 && p->space_most_q16;
}

/* Steps 6 to 8 of the verdict, RFC 8033 5.4. */
WEIR_INLINE enum weir_verdict weir_draw(struct weir_spacing *spacing, const struct weir_params *p,
					const struct weir_chance *chance, __u32 rand_a, __u32 rand_b)
{
	int hit;

	if (chance->held && !chance->over_q32) /* 6 */
		return WEIR_PASS;
	hit = weir_hits_wait(p) ? chance->waits : rand_a < chance->first_q32 && rand_b < chance->second_q32;
	if (p->space_most_q16) { /* 7 */
		__u64 sum_q32 = spacing->sum_q32 + chance->first_q32;

		if ((chance->first_q32 == WEIR_P_ONE_Q32 && !chance->spared) || sum_q32 >= (__u64)p->space_most_q16
												   << 16)
			hit = 1;
		else if (sum_q32 < (__u64)p->space_least_q16 << 16)
			hit = 0;
		spacing->sum_q32 = hit ? 0 : sum_q32;
	}
	if (!hit) /* 8 */
		return WEIR_PASS;
	return chance->mark ? WEIR_MARK : WEIR_DROP;
}

/*
 * Verdict for one packet that finds backlog_bytes and a delay of tau_us before it. ect: not zero if it is ECT(0),
 * ECT(1) or CE. size: by weir_flow_arrival. rand_a and rand_b: uniform over 32 bits and independent of each other. A
 * packet to be marked that is CE already passes as it is.
 */
WEIR_INLINE enum weir_verdict weir_decide(const struct weir_state *s, struct weir_spacing *spacing,
					  const struct weir_params *p, __u64 backlog_bytes, __u32 tau_us, int ect,
					  enum weir_size size, __u32 rand_a, __u32 rand_b)
{
	struct weir_chance chance;

	if (!weir_may_be_hit(s, spacing, p, backlog_bytes, tau_us, size, &chance))
		return WEIR_PASS;
	weir_weigh(s, p, tau_us, ect, &chance);
	return weir_draw(spacing, p, &chance, rand_a, rand_b);
}

#endif /* WEIR_LAW_H */
