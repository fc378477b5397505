/* SPDX-License-Identifier: Apache-2.0 */
/* An interface of a namespace, as attach needs to know it. */
#ifndef WEIR_XDP_INTERFACE_H
#define WEIR_XDP_INTERFACE_H

#include "net/net.h"
#include "net/tree.h"
#include "pins/place.h"
#include "weir-xdp/request.h"

struct interface {
	struct weir_place place;
	int ifindex, type;
	struct weir_qdisc qdisc;
	struct weir_tree tree;
};

/* Functions return 0, or -1 after one line. */

/* tree: whether one law is to go by all that stands there; laws of classes go by their classes alone. */
int interface_look(const char *dev, const char *netns, bool tree, struct interface *i);
/* Bytes of the link header before the IP header, by the type of the interface (ARPHRD_*). */
__u32 interface_l2_bytes(int type);
/* Whether a signal (auto: one of those that read the root) can go by what stands there. */
int interface_check_queue(const struct request *r, const struct interface *dev, __u32 signal);
/* Whether a shaper may be made where this root stands: the kernel's own may go, one that somebody made may not. */
int interface_root_is_free(const struct request *r, const struct weir_qdisc *root);

#endif /* WEIR_XDP_INTERFACE_H */
