/* SPDX-License-Identifier: Apache-2.0 */
/* Records of flows and of kinds of packets (weir/records.h), as read from their pins. */
#ifndef WEIR_SIGNAL_RECORDS_H
#define WEIR_SIGNAL_RECORDS_H

#include <stddef.h>

#include "pins/attachment.h"
#include "weir/records.h"

extern const char *const weir_kind_names[WEIR_KINDS];

struct weir_records {
	struct weir_record kind[WEIR_KINDS]; /* summed over CPUs; the peak is now_us */
	size_t count;			     /* of the flows; 0 where none are recorded */
	struct weir_flow_key *key;
	struct weir_flow_record *flow; /* the peak is sum.peak.now_us */
};

/* now_ns: CLOCK_MONOTONIC, for the peaks. 0, or -1 after one line. weir_records_free() what is in it. */
int weir_records_read(const struct weir_attachment *a, __u64 now_ns, struct weir_records *records);
void weir_records_free(struct weir_records *records);

#endif /* WEIR_SIGNAL_RECORDS_H */
