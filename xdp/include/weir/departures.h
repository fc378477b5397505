/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For programs that see packets leave: the map of the departures. */
#ifndef WEIR_DEPARTURES_H
#define WEIR_DEPARTURES_H

#include "queue.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_QUEUES);
	__type(key, __u32);
	__type(value, struct weir_drain);
} drain SEC(".maps");

/* Whether weir_departure will read the time. Reading the clock is most of what a departure costs. */
WEIR_INLINE int weir_departure_needs_time(const struct weir_rate *r, const struct weir_params *p, __u64 len_bytes,
					  __u64 backlog_bytes)
{
	__u64 chunk_bytes = 1ULL << p->dq_shift;

	return r->dq_on ? r->dq_count_bytes + len_bytes >= chunk_bytes : backlog_bytes >= chunk_bytes;
}

#endif /* WEIR_DEPARTURES_H */
