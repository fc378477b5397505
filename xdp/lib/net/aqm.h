/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AQM of a queue discipline: read, and disabled in place. Below a law it would drop and mark a second time. The queues
 * of the qdisc, their order and their limits remain.
 */
#ifndef WEIR_AQM_H
#define WEIR_AQM_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#define WEIR_AQM_VALUES 2

/* A delay that no packet under a law has: CoDel below it never drops. PIE's is bounded by its 32 bits of nanoseconds.
 */
#define WEIR_AQM_CODEL_US 30000000
#define WEIR_AQM_PIE_US 4000000

enum weir_aqm_state {
	WEIR_AQM_NONE, /* the qdisc has none, or it never drops */
	WEIR_AQM_ON,
	WEIR_AQM_FIXED, /* it can't be disabled in place and restored */
};

/* A qdisc that knows an AQM, by the times in us that disable it. */
struct weir_aqm {
	char kind[16];
	__u32 handle; /* 0: the kernel's own, which can't be changed */
	__u32 parent;
	enum weir_aqm_state state;
	__u32 value[WEIR_AQM_VALUES], off[WEIR_AQM_VALUES]; /* as they are, and disabled */
};

struct weir_aqm_list {
	struct weir_aqm *list;
	size_t count;
};

/* netlink: a socket in the interface's namespace. Functions return 0 or -errno. */

/* Qdiscs under an interface that know an AQM, the root and those in classes; free() the list. */
int weir_aqm_read(int netlink, int ifindex, struct weir_aqm_list *aqms);
/* The qdisc of this number in a class, or as the root; -ENOENT: there is none that knows an AQM. */
int weir_aqm_look(int netlink, int ifindex, __u32 parent, __u32 handle, struct weir_aqm *aqm);
/* Gives the qdisc other values; packets stay in it. */
int weir_aqm_change(int netlink, int ifindex, const struct weir_aqm *now, const __u32 value[WEIR_AQM_VALUES]);

/* "target 4999 us"; a value that does not differ from `other` is left out. */
void weir_aqm_say(const char *kind, const __u32 value[WEIR_AQM_VALUES], const __u32 other[WEIR_AQM_VALUES], char *text,
		  size_t size);

#endif /* WEIR_AQM_H */
