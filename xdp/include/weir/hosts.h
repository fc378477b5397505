/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fair share of hosts in integers; docs/design/flows.md is the contract and its numbered steps are cited here. A
 * flow's share is that of its host divided by the host's flows. Pure functions of their arguments.
 */
#ifndef WEIR_HOSTS_H
#define WEIR_HOSTS_H

#include "fair.h"

/* Counter of the hosts that share it, decayed to a half in 16 half-lives of flows; zero at the start. */
struct weir_host {
	__u64 host_last_us;
	__u64 host_flows_q16;
	__u32 host_bytes;
	__u32 host_share_bytes; /* the last share of one of its flows */
};

/* A TCP flow's rate varies over some seconds, and its mean is what is to be fair. */
#define WEIR_HOSTS_LONGER_SHIFT 4
#define WEIR_HOSTS_STEPS_SHIFT 6 /* 64 steps a half-life */
#define WEIR_HOSTS_STEPS_MOST 2048
#define WEIR_HOSTS_ONE_Q16 (1ULL << (16 + WEIR_HOSTS_LONGER_SHIFT)) /* one flow in host_flows_q16 */
#define WEIR_HOSTS_LN2_Q16 45426

/* Number of steps of decay due; moves the counter's time. By halvings alone the counters of two hosts with the same
 * rate differ by up to 2, because they halve at different times. */
WEIR_INLINE __u32 weir_host_steps(__u64 *last_us, __u64 now_us, __u32 half_life_shift)
{
	__u32 shift = (half_life_shift - WEIR_HOSTS_STEPS_SHIFT) & 63;
	__u64 elapsed_us = now_us - *last_us, steps = elapsed_us >> shift;

	if (elapsed_us >= WEIR_CLOCK_BACK || steps >= WEIR_HOSTS_STEPS_MOST) {
		*last_us = now_us;
		return elapsed_us >= WEIR_CLOCK_BACK ? 0 : WEIR_HOSTS_STEPS_MOST;
	}
	*last_us += steps << shift;
	return (__u32)steps;
}

WEIR_INLINE __u64 weir_host_decayed(__u64 value, __u32 steps)
{
	value >>= steps >> WEIR_HOSTS_STEPS_SHIFT;
	return value - (value * (steps & 63) * WEIR_HOSTS_LN2_Q16 >> (16 + WEIR_HOSTS_STEPS_SHIFT));
}

/* A packet of the host arrives, of either band. Each value is read once and written once, as in weir_band_arrival. */
WEIR_INLINE void weir_host_arrival(struct weir_host *host, const struct weir_params *p, __u64 now_us, __u64 len_bytes)
{
	__u64 last_us = *(volatile __u64 *)&host->host_last_us, bytes = *(volatile __u32 *)&host->host_bytes;
	__u32 steps = weir_host_steps(&last_us, now_us, p->share_shift + WEIR_HOSTS_LONGER_SHIFT); /* 18 */

	host->host_last_us = last_us;
	host->host_bytes = weir_bytes_sum(weir_host_decayed(bytes, steps),
					  len_bytes > WEIR_BYTES_MAX ? WEIR_BYTES_MAX : len_bytes);
	if (steps)
		host->host_flows_q16 = weir_host_decayed(*(volatile __u64 *)&host->host_flows_q16, steps);
}

/* Adds to a number of hosts or flows one that has so many recent bytes; one below half of its share counts in part. */
WEIR_INLINE __u64 weir_host_count_q16(__u64 sum_q16, __u64 len_bytes, __u32 bytes, __u32 share_bytes)
{
	__u64 of_bytes = bytes > share_bytes >> 1 ? bytes : share_bytes >> 1;

	if (of_bytes)
		sum_q16 += (len_bytes << 16) / of_bytes;
	return sum_q16 > WEIR_FAIR_FLOWS_MOST_Q16 ? WEIR_FAIR_FLOWS_MOST_Q16 : sum_q16;
}

/*
 * The packet is of band B. Returns the recent bytes of a flow of this host that has its fair share. all_q16 corrects
 * the number of hosts while the counters fill after a silence: it is the same sum for one host with all packets, 1
 * later.
 */
WEIR_INLINE __u32 weir_host_share(struct weir_host *host, struct weir_fair *fair, const struct weir_params *p,
				  enum weir_kind kind, __u32 flow_bytes, __u64 now_us, __u64 len_bytes)
{
	__u64 last_us = *(volatile __u64 *)&fair->fair_last_us, hosts_q16 = *(volatile __u64 *)&fair->flows_q16;
	__u64 passed_bytes = *(volatile __u32 *)&fair->passed_bytes;
	__u64 flows_q16 = *(volatile __u64 *)&host->host_flows_q16, share_bytes, flow_share_bytes;
	__u64 all_q16 = *(volatile __u64 *)&fair->all_q16, all_bytes = *(volatile __u32 *)&fair->all_bytes, hosts_q8,
	      all_q8;
	__u32 steps = weir_host_steps(&last_us, now_us, p->share_shift + WEIR_HOSTS_LONGER_SHIFT); /* 19 */

	if (len_bytes > WEIR_BYTES_MAX)
		len_bytes = WEIR_BYTES_MAX;
	passed_bytes = weir_host_decayed(passed_bytes, steps);
	hosts_q16 = weir_host_decayed(hosts_q16, steps);
	all_q16 = weir_host_decayed(all_q16, steps);
	all_bytes = weir_host_decayed(all_bytes, steps);
	if (kind != WEIR_KIND_STRANGER && flow_bytes) {
		hosts_q16 = weir_host_count_q16(hosts_q16, len_bytes, *(volatile __u32 *)&host->host_bytes,
						*(volatile __u32 *)&fair->host_share_bytes);
		flows_q16 = weir_host_count_q16(flows_q16, len_bytes, flow_bytes,
						*(volatile __u32 *)&host->host_share_bytes);
		all_bytes = weir_bytes_sum(all_bytes, len_bytes);
		all_q16 = weir_host_count_q16(all_q16, len_bytes, (__u32)all_bytes, 0);
	}
	hosts_q8 = hosts_q16 >> 8; /* 20 */
	all_q8 = all_q16 >> 8;
	share_bytes = hosts_q8 > all_q8 ? passed_bytes * all_q8 / hosts_q8 : passed_bytes;
	flow_share_bytes = (share_bytes << 16) / (flows_q16 < WEIR_HOSTS_ONE_Q16 ? WEIR_HOSTS_ONE_Q16 : flows_q16);
	fair->fair_last_us = last_us;
	fair->flows_q16 = hosts_q16;
	fair->host_share_bytes = (__u32)share_bytes;
	fair->all_q16 = all_q16;
	fair->all_bytes = (__u32)all_bytes;
	if (steps)
		fair->passed_bytes = (__u32)passed_bytes;
	host->host_flows_q16 = flows_q16;
	host->host_share_bytes = (__u32)flow_share_bytes;
	return flow_share_bytes < WEIR_FAIR_LEAST_BYTES ? WEIR_FAIR_LEAST_BYTES : (__u32)flow_share_bytes;
}

/* Small or large by the host's share, in the place of weir_kind_by_share: large are the flows of a host above its share
 * that have at least the mean of its flows. */
WEIR_INLINE enum weir_kind weir_kind_by_host(enum weir_kind kind, const struct weir_host *host,
					     const struct weir_fair *fair, __u32 flow_bytes)
{
	__u64 flows_q8 = *(volatile __u64 *)&host->host_flows_q16 >> 8,
	      host_bytes = *(volatile __u32 *)&host->host_bytes;

	if (kind != WEIR_KIND_SMALL && kind != WEIR_KIND_LARGE)
		return kind;
	if (flows_q8 < WEIR_HOSTS_ONE_Q16 >> 8)
		flows_q8 = WEIR_HOSTS_ONE_Q16 >> 8;
	return host_bytes >= *(volatile __u32 *)&fair->host_share_bytes && flow_bytes * flows_q8 >= host_bytes << 8
		       ? WEIR_KIND_LARGE
		       : WEIR_KIND_SMALL; /* 21 */
}

#endif /* WEIR_HOSTS_H */
