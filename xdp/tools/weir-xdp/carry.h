/* SPDX-License-Identifier: Apache-2.0 */
/* Laws of classes on their way from one attachment to the next one of their interface: another version's, or larger. */
#ifndef WEIR_XDP_CARRY_H
#define WEIR_XDP_CARRY_H

#include "weir-xdp/classes.h"

struct carried_law {
	struct weir_class class;
	struct weir_config config;
	struct weir_queue queue;
	bool others; /* packets that nothing else tells are of it */
};

struct carried {
	struct carried_law *list;
	__u32 count, mark_mask, queues;
};

/* Functions return 0, or -1 after one line. */

/* All that an attachment has; `a` is closed by the caller. */
int carried_read(struct carried *c, struct weir_attachment *a);
void carried_free(struct carried *c);

/* Those that the daemon keeps and whose class is not among these any more. */
void carried_drop_gone(struct carried *c, const struct weir_class_list *there);

bool carried_has(const struct carried *c, __u32 handle);

/*
 * Into the maps of a new attachment, from the first slot for classes on, before any packet can meet them. The laws go
 * on from where they stood; counters begin anew. fresh: the first state of a queue.
 */
int carried_put(struct carried *c, const struct class_store *store, const struct weir_queue *fresh);

#endif /* WEIR_XDP_CARRY_H */
