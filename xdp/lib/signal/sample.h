/* SPDX-License-Identifier: Apache-2.0 */
/* One sample of a queue that the law controls: where it stands, and what the law makes of it. */
#ifndef WEIR_SAMPLE_H
#define WEIR_SAMPLE_H

#include <stdbool.h>

#include "net/net.h"
#include "pins/attachment.h"
#include "weir/maps.h"

/* One band of a coupled attachment, or of two bands of flows: band C has the place of B, and L that of A. */
struct weir_band_sample {
	struct weir_counters counters;
	__u64 backlog_bytes, backlog_packets;
	__u64 dq_time_q8_us; /* C: at which it departs; L: the whole line's */
	__u32 tau_us;
	double probability; /* C: of a drop or a mark by the law; L: of a mark */
};

struct weir_sample {
	__u64 now_ns;
	struct weir_config config;
	__u32 config_id; /* of the map that holds it: another one with each change */
	struct weir_queue queue;
	struct weir_drain drain;
	struct weir_counters counters;	      /* summed over CPUs */
	__u64 backlog_bytes, backlog_packets; /* now */
	bool has_packets;		      /* a virtual queue doesn't count packets */
	__u32 tau_us;			      /* Cao Eq. 1, now */
	__u64 dq_time_q8_us;
	struct weir_qdisc root; /* backlog, poll: the root qdisc now; of a class that class */
	bool unusable;		/* backlog, poll: the law can't go by what stands there, and lets all packets pass */
	double u, drop_probability;		  /* as the next packet would find them */
	__u64 r_q40;				  /* coupled: R after the last step */
	__u64 age_ns;				  /* since the law's last step */
	__u64 rate_age_ns;			  /* since the rate was last measured; 0 for a virtual queue's */
	__u64 silent_ns;			  /* poll: since the process last wrote */
	struct weir_band_sample band[WEIR_BANDS]; /* coupled; the rest is then of both together, the rate the line's,
						     the delay the larger, the probability that of C */
};

/*
 * netlink: a socket in the interface's namespace, used where the queue is the qdisc's (backlog, poll). 0, or -1 after
 * one line.
 */
int weir_sample_take(struct weir_attachment *a, int netlink, struct weir_sample *sample);

/* The rate in bit/s that an estimate means; 0 unknown. */
double weir_rate_bit_s(__u64 dq_time_q8_us, const struct weir_params *p);

#endif /* WEIR_SAMPLE_H */
