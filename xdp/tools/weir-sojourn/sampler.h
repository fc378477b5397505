/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of weir-sojourn. Functions return 0, or -1 after one line on standard error. */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>

#include <bpf/libbpf.h>

#include "pins/lock.h"
#include "sojourn.skel.h"
#include "weir/sojourn.h"

#define NAME_LEN 32

/* One end of a hop: where a program hangs. */
struct point {
	char dev[IF_NAMESIZE];
	char netns[64]; /* "" or /proc/self/fd/N of the namespace, held open */
	int ifindex;
	struct weir_lock lock; /* held while attached, so that no second sampler replaces our filter */
	bool egress;
	bool attached;
	bool owns_clsact; /* made here, or by a sampler that was killed */
};

/* Content of the queue at one moment of the --every-ms grid. */
struct tick {
	__u64 bytes;
	__u64 packets;
};

struct hop {
	char name[NAME_LEN];
	struct point entry;
	struct point exit;
	struct sojourn *skeleton;
	__u32 one_in;
	struct tick *ticks; /* ring, indexed by the number of the tick */
	__u64 lost;
	__u64 longest_ns;
	__u64 inside;
};

struct sampler {
	const char *out_path;
	FILE *out;
	__u64 every_ns; /* 0: no queue lines */
	__u64 lost_after_ns;
	__u32 one_in; /* of the hops named next */
	struct hop hops[SOJOURN_HOPS_MAX];
	int hop_count;
	struct ring_buffer *ring;
	__u64 start_ns;
	__u64 tick_next; /* number of the first tick not written yet */
	__u64 tick_room;
	__u64 swept_ns;
};

/* The only one of the process. */
extern struct sampler sampler;

/* options.c: fills in what the command line says, namespaces and interfaces found. */
int parse(int count, char **arguments);

/* points.c: the programs of all hops, at both ends of each. */
int load_all(void);
int attach_all(void);
void detach_all(void);

/* samples.c: one event of the ring buffer, */
int on_event(void *context, void *data, size_t size);
/* all that have come since the last time, and those given up, */
int drain(void);
/* and what is left at the end. */
int finish(void);

#endif /* WEIR_SAMPLER_H */
