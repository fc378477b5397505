/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frame of each program that decides about arriving packets: find the maps, count the packet, and in the end count
 * what becomes of it. Where the queue is and what the law says of it comes between.
 */
#ifndef WEIR_ARRIVAL_H
#define WEIR_ARRIVAL_H

#include "packet.h"
#include "queue.h"

struct weir_arrival {
	const struct weir_config *config;
	struct weir_queue *queue;
	struct weir_counters *counters;
	struct weir_header header;
	__u64 len_bytes;
};

/* Finds the values of a slot. 0 if one is missing: then the packet passes, uncounted. */
WEIR_INLINE int weir_arrival_begin_at(struct weir_arrival *a, const __u32 *slot)
{
	a->config = weir_config_at(slot);
	a->queue = bpf_map_lookup_elem(&queue, slot);
	a->counters = bpf_map_lookup_elem(&counters, slot);
	return a->config && a->queue && a->counters;
}

/* The same where there is one law. */
WEIR_INLINE int weir_arrival_begin(struct weir_arrival *a)
{
	return weir_arrival_begin_at(a, &weir_first);
}

/* Counts the packet as seen; one that is neither IP nor by name, which the law leaves alone, also as such. */
WEIR_INLINE void weir_arrival_see(struct weir_arrival *a, struct weir_header header, __u64 len_bytes)
{
	a->header = header;
	a->len_bytes = len_bytes;
	a->counters->seen_packets++;
	a->counters->seen_bytes += len_bytes;
	if (!header.proto) {
		a->counters->non_ip_packets++;
		a->counters->non_ip_bytes += len_bytes;
	}
}

/* tc: whether a packet that may be dropped or marked is taken for ECT. Its header is read only where the law asks for
 * it. */
WEIR_INLINE int weir_skb_counts_as_ect(const struct __sk_buff *skb, struct weir_header header,
				       const struct weir_config *c)
{
	return !weir_asks_ect(c) || weir_skb_is_ect(skb, header);
}

/* Whether the packet should be given a CE mark, if it can carry one. */
WEIR_INLINE int weir_arrival_wants_mark(const struct weir_arrival *a, enum weir_fate fate)
{
	return fate == WEIR_FATE_HIT_MARK && a->header.proto;
}

/* Counts what becomes of the packet; marked: it carries CE now. Returns 1 if it must be dropped. */
WEIR_INLINE int weir_arrival_end(const struct weir_arrival *a, enum weir_fate fate, int marked)
{
	if (fate == WEIR_FATE_PASS || (fate != WEIR_FATE_LIMIT && !a->header.proto))
		return 0;
	if (marked) {
		weir_count_mark(a->counters, a->len_bytes);
		return 0;
	}
	weir_count_drop(a->counters, fate, a->len_bytes);
	return 1;
}

#endif /* WEIR_ARRIVAL_H */
