/* SPDX-License-Identifier: Apache-2.0 */
/* One interface, or class, that the daemon keeps, what became of it, and the metrics of all of them. Pure but for
 * metrics_write.
 */
#ifndef WEIR_XDP_KEEP_H
#define WEIR_XDP_KEEP_H

#include <stdbool.h>
#include <stdio.h>

#include "weir-xdp/daemon/config.h"
#include "weir-xdp/ensure.h"

struct kept {
	char dev[IF_NAMESIZE];
	char name[REQUEST_NAME_LEN]; /* of the table, and in the metrics: eth0, or eth0/1:10 */
	unsigned int ifindex;	     /* as last attached; 0: never, or the interface went away */
	__u64 due_ms;		     /* when it is looked at next, by the monotonic clock */
	__u64 last_ms;		     /* when it was looked at */
	unsigned int failed;	     /* looks in a row that failed or changed something */
	__u64 cost_us;		     /* CPU time of the last look */
	bool attached;
	bool off;	  /* it was taken off since, and could not be put on again */
	bool raised;	  /* the target is a higher one than asked for */
	bool apply;	  /* the configuration was read again: it is put in force even where drift is left */
	bool part[PARTS]; /* drift that is left as it is, so that it is counted once */
	__u64 drift[PARTS], mended, attaches, failures, looks;
};

/* Whether the law has been on this interface already, so that what differs is drift. */
bool kept_is_known(const struct kept *k, unsigned int ifindex);

/*
 * The time between two looks at what no message tells of: as configured, but so long that looks at all of the tables
 * take a tenth of a CPU at most.
 */
__u64 kept_check_ms(const struct kept *list, size_t count, const struct daemon_config *c);

/*
 * Takes the result of a look. ifindex: of the interface, 0 where there is none; result: of ensure_run, and `changed`:
 * whether the differences were put right, not only looked at. Sets what is due next; check_ms: see kept_check_ms.
 */
void kept_take(struct kept *k, __u64 check_ms, unsigned int ifindex, int result, bool changed, const struct outcome *o,
	       __u64 now_ms);

/* Whether what a message tells of a class or, where the minor number is 0, of a qdisc with classes can concern a table
 * of that interface. */
bool wanted_concerns(const struct wanted *w, __u32 class);

/* Something happened to the interface: it is due soon, but not more often than the law of a storm of messages allows.
 */
void kept_touch(struct kept *k, __u64 now_ms);

/* In Prometheus' text format, in place of the file's old content. 0, or -1 after one line. */
int metrics_write(const char *path, const struct kept *list, size_t count, __u64 removed, __u64 check_ms);

#endif /* WEIR_XDP_KEEP_H */
