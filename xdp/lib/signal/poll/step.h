/* SPDX-License-Identifier: Apache-2.0 */
/* Signal poll: one reading of one queue, and the law's step that follows from it. */
#ifndef WEIR_POLL_STEP_H
#define WEIR_POLL_STEP_H

#include <stdbool.h>

#include "weir/maps.h"

/* A queue as its process knows it. */
struct weir_polled {
	struct weir_queue queue; /* as it is written for the program */
	struct weir_rate rate;
	__u64 before_us, sent_bytes; /* of the last look */
	bool follows;		     /* the counters read next go on from those read last */
};

/* Result of a look. */
struct weir_polled_look {
	__u64 now_ns, due_ns; /* the second: when the look was to be taken */
	__u64 backlog_bytes, sent_bytes;
	__u32 unusable;	    /* not 0: the law can't go by this queue, as if nothing waited */
	__u32 tau_least_us; /* delay of another queue that the same step serves */
};

/* The rate alone, of a queue without a law. */
void weir_polled_rate(struct weir_polled *p, const struct weir_config *config, const struct weir_polled_look *look);

void weir_polled_step(struct weir_polled *p, const struct weir_config *config, const struct weir_polled_look *look);

/* Leaves the queue's state in its slot for the program. 0 or an errno. */
int weir_polled_store(struct weir_polled *p, int map, __u32 slot);

#endif /* WEIR_POLL_STEP_H */
