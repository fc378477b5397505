/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow queues served by DRR++ (MacGregor and Shi, "Deficits for bursty latency-critical flows"; RFC 8290 4.2): a flow
 * that begins to send is in the list of new flows, which is served first, until it has sent a quantum. The lists are
 * those of indices: 0 is none, i + 1 the flow queue i.
 */
#ifndef WEIR_FLOW_QUEUES_H
#define WEIR_FLOW_QUEUES_H

#include "maps.h"

#define WEIR_FLOW_QUEUES 1024
#define WEIR_QUANTUM_BYTES 1514

/* List that a flow queue is in. */
enum weir_list { WEIR_LIST_NONE, WEIR_LIST_NEW, WEIR_LIST_OLD, WEIR_LISTS };

/* Service of one flow queue; zero at the start. */
struct weir_service {
	__s32 deficit_bytes;
	__u32 list;
	__u32 next;
	__u32 reserved;
};

struct weir_ends {
	__u32 first;
	__u32 last;
};

/* State of the qdisc but for its flow queues. Its callbacks run under its lock; zero at the start. */
struct weir_scheduler {
	struct weir_ends ends[WEIR_LISTS];
	__u64 owner;	     /* the instance that has the flow queues; 0: none */
	__u64 next_ns;	     /* of a rate: when the line is free */
	__u64 backlog_bytes; /* of all flow queues, */
	__u64 memory_bytes;  /* with the kernel's own data of packets, */
	__u32 backlog_packets;
	__u32 longest; /* index of the flow queue whose law `queue` has */
	__u64 longest_bytes;
	__u64 overflows; /* searches for the longest flow queue because of the limit */
};

/* A packet of the flow arrives. */
WEIR_INLINE int weir_service_starts(struct weir_service *s)
{
	if (s->list != WEIR_LIST_NONE)
		return 0;
	s->list = WEIR_LIST_NEW;
	s->deficit_bytes = WEIR_QUANTUM_BYTES;
	s->next = 0;
	return 1;
}

/* List to be served; WEIR_LIST_NONE: both are empty. */
WEIR_INLINE enum weir_list weir_list_served(const struct weir_scheduler *d)
{
	return d->ends[WEIR_LIST_NEW].first   ? WEIR_LIST_NEW
	       : d->ends[WEIR_LIST_OLD].first ? WEIR_LIST_OLD
					      : WEIR_LIST_NONE;
}

/* List of the first flow of `list` after its deficit is used up, or its queue found empty: a new flow that emptied
 * waits behind the old ones, or it would be served first again and again (RFC 8290 4.2.2). */
WEIR_INLINE enum weir_list weir_list_after(const struct weir_scheduler *d, enum weir_list list, int is_empty)
{
	if (!is_empty)
		return WEIR_LIST_OLD;
	return list == WEIR_LIST_NEW && d->ends[WEIR_LIST_OLD].first ? WEIR_LIST_OLD : WEIR_LIST_NONE;
}

/* Time on a line of rate_bit_s, in ns: framed bytes divided by 2^-32 bytes per ns. */
WEIR_INLINE __u64 weir_line_ns(__u64 framed_bytes, __u64 q32_bytes_per_ns)
{
	if (framed_bytes > 0xffffffff)
		framed_bytes = 0xffffffff;
	return q32_bytes_per_ns ? (framed_bytes << 32) / q32_bytes_per_ns : 0;
}

#endif /* WEIR_FLOW_QUEUES_H */
