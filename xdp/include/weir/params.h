/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from law/params.toml by law/generate.py (`./run generate`); don't edit. */
/* clang-format off */
#ifndef WEIR_PARAMS_H
#define WEIR_PARAMS_H

/* Run-time data of one queue. Included by law.h, which has the types. */
struct weir_params {
	/* queue delay to hold */
	__u32 target_us;
	/* time between two steps of the law */
	__u32 interval_us;
	/* proportional gain: probability per second of delay */
	__u32 kp_q40_per_us;
	/* integral gain */
	__u32 ki_q40_per_us;
	/* derivative gain */
	__u32 kd_q40_per_us;
	/* factor of row 1 of Algorithm 1, above z2 */
	__u32 z1_q16;
	/* factor of rows 2 and 3, above 1 */
	__u32 z2_q16;
	/* factor of row 4, below 1 */
	__u32 z3_q16;
	/* error (delay less target) above which row 1 holds */
	__u32 m1_us;
	/* error above which rows 2 and 3 hold, below m1_us */
	__u32 m2_us;
	/* consecutive steps for which Algorithm 1 may leave the integral out */
	__u32 integral_drop_max;
	/* packets are dropped with probability U, or U squared */
	__u32 squared;
	/* time in which U halves while the queue is idle, 0 off */
	__u32 idle_halflife_us;
	/* no drop while the backlog is below this */
	__u32 min_backlog_bytes;
	/* no drop while the delay is below this share of the target */
	__u32 min_delay_us;
	/* the departure rate is measured over 2^this bytes */
	__u32 dq_shift;
	/* a new rate has weight 2^-this */
	__u32 dq_weight_shift;
	/* no drop or mark while the sum of probabilities since the last one is below this */
	__u32 space_least_q16;
	/* a drop or mark at this sum, 0: independent draws */
	__u32 space_most_q16;
	/* delay above which delay_bound_slope counts, 0 off */
	__u32 delay_bound_us;
	/* rise of the probability per second of delay above that bound, 0 off */
	__u32 delay_bound_slope_q40_per_us;
	/* delay from which every packet that is not marked is dropped, in band A all, 0 off */
	__u32 delay_limit_us;
	/* bound and limit need a backlog of this and 2^dq_shift bytes, 0: any backlog */
	__u32 delay_guard_bytes;
	/* drops and marks wait for flows that have sent this many times the mean, 0 off */
	__u32 share_least_q16;
	/* bytes counted for a flow halve every 2^this us */
	__u32 share_shift;
	/* marks follow a mean of U in which a step has weight 2^-this, 0: U itself */
	__u32 ecn_weight_shift;
	/* delay from which ECT packets are dropped and new flows not spared, 0 off */
	__u32 ecn_drop_us;
	/* probability of drop up to which ECT packets are marked, 0: never */
	__u64 ecn_bound_q32;
};

/* each(NAME) for each member. */
#define WEIR_PARAMS(each) \
	each(target_us) \
	each(interval_us) \
	each(kp_q40_per_us) \
	each(ki_q40_per_us) \
	each(kd_q40_per_us) \
	each(z1_q16) \
	each(z2_q16) \
	each(z3_q16) \
	each(m1_us) \
	each(m2_us) \
	each(integral_drop_max) \
	each(squared) \
	each(idle_halflife_us) \
	each(min_backlog_bytes) \
	each(min_delay_us) \
	each(dq_shift) \
	each(dq_weight_shift) \
	each(space_least_q16) \
	each(space_most_q16) \
	each(delay_bound_us) \
	each(delay_bound_slope_q40_per_us) \
	each(delay_limit_us) \
	each(delay_guard_bytes) \
	each(share_least_q16) \
	each(share_shift) \
	each(ecn_weight_shift) \
	each(ecn_drop_us) \
	each(ecn_bound_q32)

#endif /* WEIR_PARAMS_H */
