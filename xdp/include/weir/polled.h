/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signal poll: what a packet meets where a process observes the queue and takes the law's steps. */
#ifndef WEIR_POLLED_H
#define WEIR_POLLED_H

#include "arrival.h"
#include "flows.h"

/* The longest delay that no bound in time counts as beyond it. */
WEIR_INLINE __u32 weir_tau_within_us(const struct weir_params *p)
{
	__u32 bound_us = p->delay_bound_us && p->delay_bound_slope_q40_per_us ? p->delay_bound_us : WEIR_TAU_MAX_US;

	return p->delay_limit_us && p->delay_limit_us <= bound_us ? p->delay_limit_us - 1 : bound_us;
}

/* Halvings of a probability that nobody updates any more; 0 while the process writes. */
WEIR_INLINE __u64 weir_poll_halvings(const struct weir_queue *q, const struct weir_config *c, __u64 now_ns)
{
	__u64 stretch_ns = c->law.interval_us * 1000ULL * WEIR_POLL_SILENT_INTERVALS;

	return !c->frozen && stretch_ns && weir_ago(now_ns, q->poll_ns, stretch_ns) ? (now_ns - q->poll_ns) / stretch_ns
										    : 0;
}

/* The process has stepped; all there is to do here is to doubt a probability that nobody updates any more. */
WEIR_INLINE enum weir_fate weir_poll_verdict(const struct weir_arrival *a, struct __sk_buff *skb, enum weir_size size)
{
	const struct weir_config *c = a->config;
	struct weir_queue *q = a->queue;
	__u64 now_ns, halvings;
	struct weir_state s = {.u_q40 = q->law.u_q40, .u_ecn_q40 = q->law.u_ecn_q40};
	struct weir_rate rate = {.dq_time_q8_us = q->poll_dq_time_q8_us};
	struct weir_chance chance;
	__u64 over_q32;
	__u32 tau_us;

	if (!weir_may_hit(&s, &q->spacing, c))
		return WEIR_FATE_PASS;
	if (q->poll_unusable) {
		a->counters->unusable++;
		return WEIR_FATE_PASS;
	}
	tau_us = weir_tau_us(&rate, &c->law, q->backlog_bytes);
	over_q32 = weir_excess_q32(&c->law, q->backlog_bytes, tau_us, size);
	now_ns = s.u_q40 || over_q32 ? bpf_ktime_get_coarse_ns() : q->poll_ns;
	halvings = weir_poll_halvings(q, c, now_ns);
	if (halvings) {
		s.u_q40 = halvings < 64 ? s.u_q40 >> halvings : 0;
		s.u_ecn_q40 = halvings < 64 ? s.u_ecn_q40 >> halvings : 0;
		if (over_q32) /* nor is this delay known to stand any more */
			tau_us = weir_tau_within_us(&c->law);
		a->counters->stale++;
	}
	if (!weir_may_be_hit(&s, &q->spacing, &c->law, q->backlog_bytes, tau_us, size, &chance))
		return WEIR_FATE_PASS;
	return weir_draw_fate(&s, &q->spacing, c, tau_us, weir_skb_counts_as_ect(skb, a->header, c), &chance);
}

WEIR_INLINE enum weir_fate weir_poll_arrival(const struct weir_arrival *a, struct __sk_buff *skb, const __u32 *slot)
{
	/* the process's last step is time enough for half-lives; reading a clock costs more than counting */
	return weir_poll_verdict(
		a, skb,
		weir_skb_flow_size_at(slot, a->queue, skb, a->config, a->header, a->queue->poll_ns, a->len_bytes));
}

#endif /* WEIR_POLLED_H */
