/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AQMs below a law that attach disabled. A pinned map of the attachment keeps their earlier values. It is written
 * before the qdisc is changed, so that a killed command can be undone.
 */
#ifndef WEIR_LEAF_AQM_H
#define WEIR_LEAF_AQM_H

#include <stdbool.h>

#include <linux/types.h>

#include "net/aqm.h"

/* Leaves of an attachment: path of its pins, a netlink socket in the interface's namespace. */
struct weir_leaves {
	const char *path, *dev;
	int netlink, ifindex;
	/* whether a class's qdisc is below the law; NULL: all are */
	bool (*wanted)(__u32 class, const void *context);
	const void *context;
};

struct weir_leaf_aqm {
	char kind[16];
	__u32 parent; /* the class, or TC_H_ROOT */
	__u32 before[WEIR_AQM_VALUES], off[WEIR_AQM_VALUES];
};

/* Functions return 0, or -1 after one line. */

/* Rejects leaves whose AQM can't be disabled in place. */
int weir_leaf_aqm_check(const struct weir_leaves *leaves);
/* A note that advises --leaf-aqm off for each leaf with an active AQM. */
void weir_leaf_aqm_advise(const struct weir_leaves *leaves);
/* Disables active AQMs, with a note each; dry_run: changes nothing. *differs: one was active. */
int weir_leaf_aqm_off(const struct weir_leaves *leaves, bool dry_run, bool *differs);
/*
 * Restores those that were disabled. Values that were changed since by another tool, and qdiscs that were replaced, are
 * left as they are, with a note each.
 */
int weir_leaf_aqm_restore(const struct weir_leaves *leaves);
/* The attachment at `to` takes the place of the one at `from`. */
int weir_leaf_aqm_carry(const char *from, const char *to);

/* Whether there is a record of any. */
bool weir_leaf_aqm_any(const char *path);
/* Calls for each that is disabled, by the number of its qdisc. */
typedef void weir_leaf_aqm_each_f(__u32 handle, const struct weir_leaf_aqm *leaf, void *context);
void weir_leaf_aqm_each(const char *path, weir_leaf_aqm_each_f *each, void *context);

#endif /* WEIR_LEAF_AQM_H */
