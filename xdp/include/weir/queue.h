/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between the law and the programs: whose turn it is to step, random numbers, counting. Every failure to find a map
 * ends in a pass, never in a drop.
 */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

#ifndef WEIR_QUEUES /* of one attachment: a program of several bands says so before it includes this */
#define WEIR_QUEUES 1
#endif

struct weir_config_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32)); /* by size: clang leaves the type out of an inner map's BTF */
	__uint(value_size, sizeof(struct weir_config));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct weir_config_map);
} config SEC(".maps");

/* Nobody maps it: with this flag the values begin with a page, so that they are in the cache lines that they are made
 * for. Without it they begin behind the kernel's own fields, which are no whole number of lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_QUEUES);
	__type(key, __u32);
	__type(value, struct weir_queue);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEIR_QUEUES);
	__type(key, __u32);
	__type(value, struct weir_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_meta);
} meta SEC(".maps");

static const __u32 weir_first = 0;

/* Fate of a packet: the law's verdict or the queue's limit. */
enum weir_fate { WEIR_FATE_PASS, WEIR_FATE_HIT_MARK, WEIR_FATE_HIT_DROP, WEIR_FATE_LIMIT };

WEIR_INLINE const struct weir_config *weir_config_at(const __u32 *slot)
{
	void *inner = bpf_map_lookup_elem(&config, slot);

	return inner ? bpf_map_lookup_elem(inner, &weir_first) : 0;
}

WEIR_INLINE const struct weir_config *weir_config_get(void)
{
	return weir_config_at(&weir_first);
}

/* At least so long ago. A time another CPU wrote may be a little later than this one's: that is not long ago. */
WEIR_INLINE int weir_ago(__u64 now_ns, __u64 then_ns, __u64 span_ns)
{
	__u64 dt_ns = now_ns - then_ns;

	return dt_ns >= span_ns && dt_ns < WEIR_CLOCK_BACK;
}

/* The law's step 2 in nanoseconds, so that most packets need neither the division nor the lock. */
WEIR_INLINE int weir_step_due(const struct weir_queue *q, const struct weir_config *c, __u64 now_ns)
{
	return !c->frozen && weir_ago(now_ns, q->law.last_us * 1000, c->law.interval_us * 1000ULL);
}

/*
 * The time if a step is due, else 0. Reading the clock costs more than all the rest of a packet that passes; the coarse
 * one costs little, and where no step is due even with all its lag added, the true one need not be asked.
 */
WEIR_INLINE __u64 weir_step_time_ns(const struct weir_queue *q, const struct weir_config *c, __u64 coarse_ns)
{
	__u64 now_ns;

	if (!weir_step_due(q, c, coarse_ns + c->coarse_lag_ns))
		return 0;
	now_ns = bpf_ktime_get_ns();
	return weir_step_due(q, c, now_ns) ? now_ns : 0;
}

/*
 * One step of the law if another CPU has not just taken it. A function of numbers alone, not static: the kernel checks
 * it once, by itself, and not with all that can come before and after it in a packet's way, which takes an attach a
 * fifth of the time. It is given no value of a map, so it finds them anew; a step comes once in an interval.
 */
__attribute__((noinline)) int weir_step(__u64 now_ns, __u32 tau_us, __u64 backlog_bytes)
{
	struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	const struct weir_config *c = weir_config_get();
	__u64 now_us = now_ns / 1000, before_us;
	__u32 row;
	int stepped;

	if (!q || !n || !c)
		return 0;
	bpf_spin_lock(&q->lock);
	before_us = q->law.last_us;
	stepped = weir_update(&q->law, &c->law, now_us, tau_us);
	row = q->law.row;
	if (stepped) {
		q->tau_us = tau_us;
		q->backlog_bytes = backlog_bytes;
	}
	bpf_spin_unlock(&q->lock);
	weir_count_step(&n->steps, &c->law, stepped, row, now_us - before_us);
	return stepped;
}

WEIR_INLINE enum weir_fate weir_fate(enum weir_verdict v)
{
	return v == WEIR_PASS ? WEIR_FATE_PASS : v == WEIR_MARK ? WEIR_FATE_HIT_MARK : WEIR_FATE_HIT_DROP;
}

/* Whether the law can hit any packet now. If it can't, the sum of probabilities is set back, as step 2 of the verdict
 * does, and neither a delay nor random numbers are needed. */
WEIR_INLINE int weir_may_hit(const struct weir_state *s, struct weir_spacing *spacing, const struct weir_config *c)
{
	if (s->u_q40 || c->law.delay_bound_us || c->law.delay_limit_us)
		return 1;
	if (spacing->sum_q32)
		spacing->sum_q32 = 0;
	return 0;
}

/* Whether the law asks if a packet that may be hit is ECT. Where nothing is marked it does not matter. */
WEIR_INLINE int weir_asks_ect(const struct weir_config *c)
{
	return c->law.ecn_bound_q32 != 0;
}

/*
 * Whether a packet that can carry a mark is offered to the law for one. Marks follow a mean of U, and U can't be below
 * 0: where the delay swings below the target that mean stays above 0, and would mark packets of a queue that is short.
 */
WEIR_INLINE int weir_offers_mark(const struct weir_config *c, __u32 tau_us)
{
	return tau_us >= c->law.min_delay_us;
}

/* The rest of the verdict on a packet that may be dropped or marked, with random numbers of its own, each drawn only
 * where it decides something. */
WEIR_INLINE enum weir_fate weir_draw_fate(const struct weir_state *s, struct weir_spacing *spacing,
					  const struct weir_config *c, __u32 tau_us, int ect,
					  struct weir_chance *chance)
{
	__u32 rand_a = 0, rand_b = 0;

	weir_weigh(s, &c->law, tau_us, ect && weir_offers_mark(c, tau_us), chance);
	if (!weir_hits_wait(&c->law))
		rand_a = bpf_get_prandom_u32();
	if (rand_a < chance->first_q32 && chance->second_q32 < WEIR_P_ONE_Q32)
		rand_b = bpf_get_prandom_u32();
	return weir_fate(weir_draw(spacing, &c->law, chance, rand_a, rand_b));
}

/* Whether an arrival at the virtual queue may be hit, as it is before it drains; else it matters neither what is drawn
 * nor whether the packet is ECT. */
WEIR_INLINE int weir_virtual_may_hit(const struct weir_queue *q, const struct weir_config *c, __u64 now_ns)
{
	struct weir_rate rate = {.dq_time_q8_us = c->drain_q8_us};
	__u64 backlog_bytes = q->virtual_q16_bytes >> 16;

	return q->law.u_q40 || weir_step_due(q, c, now_ns) ||
	       weir_excess_q32(&c->law, backlog_bytes, weir_tau_us(&rate, &c->law, backlog_bytes), WEIR_LARGE);
}

/* Drains the bytes that the rate allows since the last one. Under the lock. */
WEIR_INLINE void weir_virtual_drain(struct weir_queue *q, const struct weir_config *c, __u64 now_ns)
{
	__u64 dt_ns = now_ns - q->virtual_ns, drained_q16;

	if (dt_ns >= WEIR_CLOCK_BACK) /* another CPU was here with a later time: nothing to drain */
		return;
	q->virtual_ns = now_ns;
	if (dt_ns >= c->drain_full_ns) {
		q->virtual_q16_bytes = 0;
	} else {
		drained_q16 = (dt_ns * c->drain_q32_bytes_per_ns) >> 16;
		q->virtual_q16_bytes -= drained_q16 < q->virtual_q16_bytes ? drained_q16 : q->virtual_q16_bytes;
	}
}

/* The step of the virtual queue's law, by what it has drained to; apart for the same reason as weir_step. */
__attribute__((noinline)) int weir_virtual_step(__u64 now_ns)
{
	struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	const struct weir_config *c = weir_config_get();
	__u64 now_us = now_ns / 1000, before_us, backlog_bytes;
	struct weir_rate rate = {};
	__u32 tau_us, row;
	int stepped;

	if (!q || !n || !c)
		return 0;
	rate.dq_time_q8_us = c->drain_q8_us;
	bpf_spin_lock(&q->lock);
	weir_virtual_drain(q, c, now_ns);
	backlog_bytes = q->virtual_q16_bytes >> 16;
	tau_us = weir_tau_us(&rate, &c->law, backlog_bytes);
	before_us = q->law.last_us;
	stepped = weir_update(&q->law, &c->law, now_us, tau_us);
	row = q->law.row;
	if (stepped) {
		q->tau_us = tau_us;
		q->backlog_bytes = backlog_bytes;
	}
	bpf_spin_unlock(&q->lock);
	weir_count_step(&n->steps, &c->law, stepped, row, now_us - before_us);
	return stepped;
}

/*
 * An arrival at the virtual queue: step if it is time, drain what the rate allows since the last one, decide, join.
 * may_hit: what weir_virtual_may_hit said. Returns the fate; a hit packet has not joined yet (weir_virtual_join),
 * because whether it can be marked is still to be seen.
 */
WEIR_INLINE enum weir_fate weir_virtual_arrival(struct weir_queue *q, const struct weir_config *c, __u64 now_ns,
						__u64 len_bytes, int may_hit, int ect, enum weir_size size)
{
	struct weir_rate rate = {.dq_time_q8_us = c->drain_q8_us};
	__u32 rand_a = 0xffffffff, rand_b = 0xffffffff, tau_us;
	__u64 backlog_bytes;
	enum weir_fate fate;

	/* Not under the lock, and not where they decide nothing. Another CPU's changes meanwhile then come after this
	 * packet: all ones are no drop and no mark. */
	if (may_hit && !weir_hits_wait(&c->law)) {
		rand_a = bpf_get_prandom_u32();
		if (c->law.squared)
			rand_b = bpf_get_prandom_u32();
	}
	if (weir_step_due(q, c, now_ns))
		weir_virtual_step(now_ns);
	bpf_spin_lock(&q->lock);
	weir_virtual_drain(q, c, now_ns);
	backlog_bytes = q->virtual_q16_bytes >> 16;
	tau_us = weir_tau_us(&rate, &c->law, backlog_bytes);
	if (backlog_bytes + len_bytes > (c->limit_bytes ? c->limit_bytes : WEIR_BYTES_MAX >> 1)) {
		fate = WEIR_FATE_LIMIT; /* 2^31 bytes keep the drained amount from overflowing */
	} else {
		fate = weir_fate(weir_decide(&q->law, &q->spacing, &c->law, backlog_bytes, tau_us,
					     ect && weir_offers_mark(c, tau_us), size, rand_a, rand_b));
		if (fate == WEIR_FATE_PASS)
			q->virtual_q16_bytes += len_bytes << 16;
	}
	bpf_spin_unlock(&q->lock);
	return fate;
}

WEIR_INLINE void weir_virtual_join(struct weir_queue *q, __u64 len_bytes)
{
	bpf_spin_lock(&q->lock);
	q->virtual_q16_bytes += len_bytes << 16;
	bpf_spin_unlock(&q->lock);
}

WEIR_INLINE void weir_count_drop(struct weir_counters *n, enum weir_fate fate, __u64 len_bytes)
{
	if (fate == WEIR_FATE_LIMIT) {
		n->dropped_limit_packets++;
		n->dropped_limit_bytes += len_bytes;
	} else {
		n->dropped_aqm_packets++;
		n->dropped_aqm_bytes += len_bytes;
	}
}

WEIR_INLINE void weir_count_mark(struct weir_counters *n, __u64 len_bytes)
{
	n->marked_packets++;
	n->marked_bytes += len_bytes;
}

#endif /* WEIR_QUEUE_H */
