/* SPDX-License-Identifier: Apache-2.0 */
/* Two bands of flows (docs/design/flows.md): the classes of a tree, and what waits in them. */
#ifndef WEIR_SIGNAL_BANDS_H
#define WEIR_SIGNAL_BANDS_H

#include <stdbool.h>

#include "net/tree.h"
#include "signal/sample.h"

static inline bool weir_has_bands(const struct weir_config *config)
{
	return config->flow_bands.ahead_most_bytes != 0;
}

/*
 * The two classes of an htb or prio that is the root, that of band A the one served first. False with the reason where
 * the tree has others.
 */
bool weir_bands_objection(const struct weir_tree *tree, __u32 signal, __u32 *band_class, char *why, size_t size);

/* The same for the classes found at attach. */
bool weir_bands_trouble(const struct weir_tree *tree, const struct weir_config *config, char *why, size_t size);

/*
 * Puts the backlog of band B's class in the place of the root's. The bytes sent stay the root's: band B waits at the
 * rate of the whole line, and packets of band A do not count as a slower line. 0 or -errno; -ENOENT: no such class.
 */
int weir_bulk_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc *qdisc);

/* Both bands of a sample whose counters are band B's so far. 0, or -1 after one line. */
int weir_bands_sample(const struct weir_attachment *a, int netlink, struct weir_sample *s);

#endif /* WEIR_SIGNAL_BANDS_H */
