/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fair share of bulk flows in integers; docs/design/flows.md is the contract and its numbered steps are cited here.
 * It decides to which packets of band B the verdict applies. Pure functions of their arguments.
 */
#ifndef WEIR_FAIR_H
#define WEIR_FAIR_H

#include "bands.h"

#define WEIR_FAIR_FLOWS_MOST_Q16 ((1ULL << 40) - 1)
#define WEIR_FAIR_LEAST_BYTES 1514 /* a full Ethernet frame */

/* Recent bytes that passed in band B and the number of its flows, halved each 2^share_shift us; zero at the start. */
struct weir_fair {
	__u64 fair_last_us;
	__u64 flows_q16;
	__u32 passed_bytes;
	__u32 host_share_bytes; /* with hosts.h, where flows_q16 is of hosts: the last share of one */
	__u64 all_q16;
	__u32 all_bytes;
	__u32 reserved;
};

/*
 * A packet of band B arrives, of a flow whose counter is flow_bytes. Returns the recent bytes of a flow that has its
 * fair share. Each value is read once and written once, as in weir_band_arrival.
 */
WEIR_INLINE __u32 weir_fair_arrival(struct weir_fair *fair, const struct weir_params *p, enum weir_kind kind,
				    __u32 flow_bytes, __u64 now_us, __u64 len_bytes)
{
	__u64 last_us = *(volatile __u64 *)&fair->fair_last_us, flows_q16 = *(volatile __u64 *)&fair->flows_q16;
	__u64 passed_bytes = *(volatile __u32 *)&fair->passed_bytes, fair_bytes;
	__u32 halvings = weir_halvings(&last_us, now_us, p->share_shift); /* 11 */

	if (len_bytes > WEIR_BYTES_MAX)
		len_bytes = WEIR_BYTES_MAX;
	passed_bytes >>= halvings;
	flows_q16 >>= halvings;
	if (kind != WEIR_KIND_STRANGER && flow_bytes) { /* 12 */
		flows_q16 += (len_bytes << 16) / flow_bytes;
		if (flows_q16 > WEIR_FAIR_FLOWS_MOST_Q16)
			flows_q16 = WEIR_FAIR_FLOWS_MOST_Q16;
	}
	fair->fair_last_us = last_us;
	fair->flows_q16 = flows_q16;
	if (halvings)
		fair->passed_bytes = (__u32)passed_bytes;
	fair_bytes = flows_q16 < 1 << 16 ? passed_bytes : (passed_bytes << 16) / flows_q16; /* 13 */
	return fair_bytes < WEIR_FAIR_LEAST_BYTES ? WEIR_FAIR_LEAST_BYTES : (__u32)fair_bytes;
}

/* Small or large by the fair share, in the place of the mean. */
WEIR_INLINE enum weir_kind weir_kind_by_share(enum weir_kind kind, __u32 flow_bytes, __u32 fair_bytes)
{
	if (kind != WEIR_KIND_SMALL && kind != WEIR_KIND_LARGE)
		return kind;
	return 4ULL * flow_bytes >= 5ULL * fair_bytes ? WEIR_KIND_LARGE : WEIR_KIND_SMALL; /* 14 */
}

/* Whether a packet of band B may be dropped because its flow has three times its share. */
WEIR_INLINE int weir_may_be_policed(const struct weir_params *p, __u32 flow_bytes, __u32 fair_bytes, __u32 tau_us)
{
	return tau_us >= p->target_us >> 1 && flow_bytes >= 3ULL * fair_bytes; /* 15 */
}

/* Whether such a packet is dropped. rand: uniform over 32 bits. */
WEIR_INLINE int weir_is_policed(__u32 flow_bytes, __u32 fair_bytes, __u32 rand)
{
	return (__u64)rand * flow_bytes < (__u64)(flow_bytes - fair_bytes) << 32;
}

/* Whether a packet passes without the verdict. */
WEIR_INLINE int weir_kind_is_spared(enum weir_kind kind, const struct weir_params *p, __u32 tau_us)
{
	return kind == WEIR_KIND_SMALL && tau_us < p->delay_limit_us; /* 16 */
}

/* A packet of band B was not dropped. */
WEIR_INLINE void weir_fair_passed(struct weir_fair *fair, __u64 len_bytes)
{
	fair->passed_bytes = weir_bytes_sum(*(volatile __u32 *)&fair->passed_bytes,
					    len_bytes > WEIR_BYTES_MAX ? WEIR_BYTES_MAX : len_bytes); /* 17 */
}

#endif /* WEIR_FAIR_H */
