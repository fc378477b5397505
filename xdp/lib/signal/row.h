/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal: where the law gets the length of the queue from. Each is one file here that defines its row, the row's line
 * in the table of signals.c, and the branch of a program in src/ that goes by it.
 */
#ifndef WEIR_SIGNAL_ROW_H
#define WEIR_SIGNAL_ROW_H

#include <stdbool.h>

#include "pins/attachment.h"
#include "signal/sample.h"

struct weir_signal_row {
	__u32 signal;
	const char *name;
	bool reads_root;			 /* goes by the root qdisc's own counters */
	bool queue_elsewhere;			 /* the queue is none of the tree's under the interface */
	bool needs_peer, needs_rate;		 /* of the operator */
	bool has_limit_packets, has_limit_bytes; /* the queue's limit is the program's to keep */

	/*
	 * Fills in what a sample says of the queue now, and the time its rate was last measured (0: never; as the drain
	 * map has it, unless set here). 0, or -1 after one line.
	 */
	int (*observe)(struct weir_sample *sample, const struct weir_attachment *a, int netlink, __u64 *measured_us);
};

#endif /* WEIR_SIGNAL_ROW_H */
