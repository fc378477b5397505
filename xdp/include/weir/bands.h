/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two bands of flows in integers; docs/design/flows.md is the contract and its numbered steps are cited here. Band A
 * has young and sparse flows and is served first; the law of law.h has band B. Pure functions of their arguments.
 */
#ifndef WEIR_BANDS_H
#define WEIR_BANDS_H

#include "law.h"

#define WEIR_BANDS_NEW_BYTES 1024
#define WEIR_BANDS_FREE_BYTES 8192
#define WEIR_BANDS_TICK_SHIFT 10
#define WEIR_BANDS_HELD_MOST_TICKS 512

/* Run-time data, ranges in docs/design/flows.md. */
struct weir_bands {
	__u32 ahead_share_q16;
	__u32 ahead_most_bytes;
	__u32 ahead_least_bytes;
	__u32 reserved;
};

/* Recent bytes of one queue, halved each 2^share_shift us; zero at the start. */
struct weir_budget {
	__u64 budget_last_us;
	__u32 ahead_bytes;
	__u32 new_bytes;
	__u32 bulk_bytes;
	__u32 marked_bytes;
};

/* Band of a packet, and what the law makes of it there. */
enum weir_kind { WEIR_KIND_AHEAD, WEIR_KIND_SMALL, WEIR_KIND_LARGE, WEIR_KIND_SPILLED, WEIR_KIND_STRANGER };

/* The flow's size for the verdict on a packet of band B. */
WEIR_INLINE enum weir_size weir_kind_size(enum weir_kind kind)
{
	return kind == WEIR_KIND_SMALL ? WEIR_SMALL : WEIR_LARGE;
}

WEIR_INLINE __u32 weir_bytes_sum(__u64 a_bytes, __u64 b_bytes)
{
	__u64 sum_bytes = a_bytes + b_bytes;

	return sum_bytes > WEIR_BYTES_MAX ? (__u32)WEIR_BYTES_MAX : (__u32)sum_bytes;
}

/* Number of halvings due, at most 32; moves the counter's time. */
WEIR_INLINE __u32 weir_halvings(__u64 *last_us, __u64 now_us, __u32 shift)
{
	__u64 elapsed_us = now_us - *last_us, halvings = elapsed_us >> (shift & 63);

	if (elapsed_us >= WEIR_CLOCK_BACK) {
		*last_us = now_us;
		return 0;
	}
	if (halvings > 31) {
		*last_us = now_us;
		return 32;
	}
	*last_us += halvings << (shift & 63);
	return (__u32)halvings;
}

/* Recent bytes below which a flow is sparse. */
WEIR_INLINE __u32 weir_threshold_bytes(const struct weir_bands *b, __u64 mean_q6)
{
	__u64 most_bytes = b->ahead_most_bytes, share_bytes;

	if (b->ahead_share_q16) {
		share_bytes = (b->ahead_share_q16 * mean_q6) >> 22;
		if (share_bytes < most_bytes)
			most_bytes = share_bytes;
	}
	return most_bytes < b->ahead_least_bytes ? b->ahead_least_bytes : (__u32)most_bytes;
}

/* Ticks after which a packet that enters band B now has left it for sure. */
WEIR_INLINE __u32 weir_hold_ticks(const struct weir_params *p, __u32 tau_us)
{
	__u64 ticks = ((2ULL * tau_us + p->interval_us) >> WEIR_BANDS_TICK_SHIFT) + 1;

	return ticks > WEIR_BANDS_HELD_MOST_TICKS ? WEIR_BANDS_HELD_MOST_TICKS : (__u32)ticks;
}

/*
 * A packet of len_bytes arrives that *flow counts, while band B has a delay of tau_us. Each value is read once and
 * written once. Two CPUs that do so at once may lose an addition: every value stays in its range, and the harm is a
 * packet in the other band. marked: its DSCP asks for band A.
 */
WEIR_INLINE enum weir_kind weir_band_arrival(struct weir_flow *flow, struct weir_share *share,
					     struct weir_budget *budget, const struct weir_params *p,
					     const struct weir_bands *b, __u64 now_us, __u64 len_bytes, __u32 tau_us,
					     int marked)
{
	__u64 flow_us = *(volatile __u64 *)&flow->flow_last_us, budget_us = *(volatile __u64 *)&budget->budget_last_us;
	__u64 mean_q6 = *(volatile __u64 *)&share->share_mean_q6;
	__u64 before_bytes = *(volatile __u32 *)&flow->flow_bytes, ahead_bytes, new_bytes, bulk_bytes, marked_bytes;
	__u64 allowed_bytes;
	__u16 until_tick = *(volatile __u16 *)&flow->flow_until_tick, tick = (__u16)(now_us >> WEIR_BANDS_TICK_SHIFT);
	__u16 large_tick = *(volatile __u16 *)&flow->flow_large_tick, wait_ticks = (__u16)(until_tick - tick);
	int is_new, strange, room, sparse, held, may_go;
	__u32 bytes, halvings;

	if (len_bytes > WEIR_BYTES_MAX)
		len_bytes = WEIR_BYTES_MAX;
	before_bytes >>= weir_halvings(&flow_us, now_us, p->share_shift); /* 1 */
	bytes = weir_bytes_sum(before_bytes, len_bytes);
	flow->flow_last_us = flow_us;
	flow->flow_bytes = bytes;
	halvings = weir_halvings(&budget_us, now_us, p->share_shift); /* 2 */
	ahead_bytes = (__u64) * (volatile __u32 *)&budget->ahead_bytes >> halvings;
	new_bytes = (__u64) * (volatile __u32 *)&budget->new_bytes >> halvings;
	bulk_bytes = (__u64) * (volatile __u32 *)&budget->bulk_bytes >> halvings;
	marked_bytes = (__u64) * (volatile __u32 *)&budget->marked_bytes >> halvings;

	sparse = before_bytes < weir_threshold_bytes(b, mean_q6); /* 3 */

	allowed_bytes = bulk_bytes + WEIR_BANDS_FREE_BYTES; /* 4 */
	is_new = before_bytes < WEIR_BANDS_NEW_BYTES;
	strange = is_new && new_bytes + len_bytes > allowed_bytes >> 1;
	room = !strange && ahead_bytes + len_bytes + (is_new ? 0 : before_bytes) <= allowed_bytes;
	may_go = sparse && room;
	marked = marked && !may_go && marked_bytes + len_bytes <= allowed_bytes >> 2 &&
		 ahead_bytes + len_bytes <= allowed_bytes;
	may_go |= marked;

	held = before_bytes && wait_ticks && wait_ticks < 0x8000 && /* 5 */
	       (__u16)(tick - large_tick) < WEIR_BANDS_HELD_MOST_TICKS;

	if (may_go && !held) { /* 6 */
		ahead_bytes = weir_bytes_sum(ahead_bytes, len_bytes);
		if (marked)
			marked_bytes = weir_bytes_sum(marked_bytes, len_bytes);
		else if (is_new)
			new_bytes = weir_bytes_sum(new_bytes, len_bytes);
	}
	if (halvings)
		budget->bulk_bytes = (__u32)bulk_bytes;
	budget->budget_last_us = budget_us;
	budget->ahead_bytes = (__u32)ahead_bytes;
	budget->new_bytes = (__u32)new_bytes;
	budget->marked_bytes = (__u32)marked_bytes;
	if (may_go && !held) {
		flow->flow_until_tick = tick;
		return WEIR_KIND_AHEAD;
	}

	flow->flow_until_tick = (__u16)(tick + weir_hold_ticks(p, tau_us)); /* 7 */
	if (may_go)
		return WEIR_KIND_SMALL;
	flow->flow_large_tick = tick;
	if (sparse)
		return strange ? WEIR_KIND_STRANGER : WEIR_KIND_SPILLED;
	mean_q6 = mean_q6 - (mean_q6 >> 6) + bytes; /* 8 */
	share->share_mean_q6 = mean_q6;
	return (__u64)bytes << 22 >= p->share_least_q16 * mean_q6 ? WEIR_KIND_LARGE : WEIR_KIND_SMALL;
}

/* Whether a packet of band A is dropped, while A has backlog_bytes and with them a delay of tau_us. */
WEIR_INLINE int weir_ahead_is_late(const struct weir_params *p, __u64 backlog_bytes, __u32 tau_us)
{
	return p->delay_limit_us && tau_us >= p->delay_limit_us && backlog_bytes >= p->min_backlog_bytes; /* 9 */
}

/* Whether a packet is dropped before the law's verdict. */
WEIR_INLINE int weir_kind_is_refused(enum weir_kind kind, const struct weir_params *p, __u32 tau_us)
{
	return kind == WEIR_KIND_STRANGER && tau_us >= p->target_us >> 2; /* 9 */
}

/* A packet of band B was not dropped. */
WEIR_INLINE void weir_bulk_passed(struct weir_budget *budget, __u64 len_bytes)
{
	budget->bulk_bytes = weir_bytes_sum(*(volatile __u32 *)&budget->bulk_bytes,
					    len_bytes > WEIR_BYTES_MAX ? WEIR_BYTES_MAX : len_bytes); /* 10 */
}

#endif /* WEIR_BANDS_H */
