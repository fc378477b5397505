/* SPDX-License-Identifier: Apache-2.0 */
/* The shaper that weir-xdp makes itself: an htb as the root, with one class or two bands, a fifo in each, or
 * flow queues in that of the law. */
#ifndef WEIR_SHAPE_H
#define WEIR_SHAPE_H

#include <stdbool.h>

#include <linux/types.h>

#include "net/tree.h"
#include "weir/maps.h"

/* Classes of a shaper: one, two bands of flows, or two coupled bands. */
enum weir_shape_kind { WEIR_SHAPE_ONE, WEIR_SHAPE_FLOWS, WEIR_SHAPE_COUPLED };

/* Shaper for a rate in bit/s: the limit is half a second of full frames, and at least 1000 packets. */
/* flows: with flow queues below the law, a fq_codel that never drops by delay. */
struct weir_shape weir_shape_of(double rate_bit_s, enum weir_shape_kind kind, bool flows,
				const struct weir_framing *framing);

/* The classes that packets wait in; that of band A or L first. Returns how many. */
__u32 weir_shape_leaves(const struct weir_shape *shape, struct weir_leaf leaf[WEIR_TREE_LEAVES]);

/*
 * Makes it, where no one has put a root qdisc of his own; `replace`: whatever the root is now, and without the classes
 * and filters that somebody added. Existing parts are put right. netlink: a socket of the interface's namespace. 0 or
 * -errno; EEXIST: another root is there.
 */
int weir_shape_make(int netlink, int ifindex, const struct weir_shape *shape, bool replace);

/*
 * 1 if what stands under the interface is this shape and nothing else, 0 if not, or -errno. whole: false where its
 * making may have been cut short.
 */
int weir_shape_is(int netlink, int ifindex, const struct weir_shape *shape, bool whole);

/* Whether a root has a number that only weir-xdp gives. */
bool weir_shape_is_root(const struct weir_qdisc *root);
/* A shaper as weir-xdp makes them, of any rate: 1, with the shape; 0 if there is none, or -errno. */
int weir_shape_find(int netlink, int ifindex, struct weir_shape *shape);

/* Takes its root away; the kernel puts its default back. 0 or -errno. */
int weir_shape_remove(int netlink, int ifindex, const struct weir_shape *shape);

#endif /* WEIR_SHAPE_H */
