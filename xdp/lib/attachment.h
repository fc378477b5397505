/* SPDX-License-Identifier: Apache-2.0 */
/* An attachment as user space sees it: its pinned maps, what they say, and changing its configuration. */
#ifndef WEIR_ATTACHMENT_H
#define WEIR_ATTACHMENT_H

#include <limits.h>
#include <stdbool.h>

#include "gains.h"
#include "net.h"
#include "weir/maps.h"

#define WEIR_PINS "/sys/fs/bpf/weir"

struct weir_attachment {
	char path[PATH_MAX];			  /* of the pins */
	int config, queue, counters, drain, meta; /* drain: -1 where there is none (XDP) */
	struct weir_meta about;
	__u32 config_id; /* of the inner map `cached` was read from; 0 none yet */
	struct weir_config cached;
};

/* One look at a queue. */
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
	struct weir_qdisc root; /* backlog, poll: the root qdisc now */
	bool unusable;		/* backlog, poll: the law can't go by what stands there, and lets all packets pass */
	double u, drop_probability; /* as the next packet would find them */
	__u64 age_ns;		    /* since the law's last step */
	__u64 rate_age_ns;	    /* since the rate was last measured; 0 for a virtual queue's */
	__u64 silent_ns;	    /* poll: since the process last wrote */
};

/* Functions return 0, or -1 after one line on standard error. */

/*
 * Opens the pins of a folder (weir_place_find); dev: what they are called in messages. WEIR_INCOMPLETE, with a message
 * too: an attach is at work or was cut short.
 */
#define WEIR_INCOMPLETE 1
int weir_attachment_open(struct weir_attachment *a, const char *path, const char *dev);
void weir_attachment_close(struct weir_attachment *a);

/* The configuration in force, from the map itself only if that is another one than last time. */
int weir_config_read(struct weir_attachment *a, struct weir_config *config);
/* Puts a whole new configuration in place; on return every packet sees it. path: of the pins. */
int weir_config_replace(int outer, const char *path, const struct weir_config *config);

/* netlink: a socket in DEV's namespace, used where the queue is the qdisc's (backlog, poll). */
int weir_sample_take(struct weir_attachment *a, int netlink, struct weir_sample *sample);

__u64 weir_now_ns(void);

/* The rate in bit/s that an estimate means; 0 unknown. */
double weir_rate_bit_s(__u64 dq_time_q8_us, const struct weir_params *p);

const char *weir_signal_name(__u32 signal);

/*
 * Whether the poll process lives. Its number says so only in the PID namespace it was started in, so what it writes
 * counts as well: one that has just died lives a little longer.
 */
bool weir_poll_lives(const struct weir_meta *about, const struct weir_config *config, __u64 silent_ns);
/* The same, looked up; false also where what is pinned can't be read. */
bool weir_poll_lives_at(const char *path, const struct weir_meta *about);

/* Start time of a process in clock ticks after boot; 0 if there is no such process (or only its remains). */
__u64 weir_process_start(int pid);

/*
 * Runs the law for DEV until the pins are gone: the poll process. `ready` gets one byte when the first step is done.
 * Returns an errno.
 */
int weir_poll_run(struct weir_attachment *a, int netlink, int ready);

#endif /* WEIR_ATTACHMENT_H */
