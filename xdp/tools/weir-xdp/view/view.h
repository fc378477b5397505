/* SPDX-License-Identifier: Apache-2.0 */
/* An attachment as a command looks at it. */
#ifndef WEIR_XDP_VIEW_H
#define WEIR_XDP_VIEW_H

#include <net/if.h>

#include "net/tree.h"
#include "pins/attachment.h"
#include "pins/slots.h"
#include "pins/place.h"
#include "signal/sample.h"
#include "weir-xdp/request.h"

#define VIEW_LABEL_LEN (IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX) + WEIR_CLASS_LEN + WEIR_PATH_LEN)

/* An attachment with a netlink socket in DEV's namespace. */
struct view {
	struct weir_attachment a;
	char label[VIEW_LABEL_LEN]; /* its name: DEV, DEV@NETNS if it is not in ours, DEV/CLASS for a class */
	char place[VIEW_LABEL_LEN]; /* the same without its class */
	struct weir_class class;    /* of whose law it is; handle 0: it is the interface's */
	int netlink;
	__u64 folder_id;       /* another one after each attach to the interface: the inode of the folder of its pins */
	__u64 attach_id;       /* and of each law */
	bool gone;	       /* the interface is, or our program on it */
	char ahead[512];       /* what keeps packets from the law, as far as it is known; "" nothing */
	struct weir_tree tree; /* under the interface, as last looked at */
	__u64 tree_ns;	       /* and when; 0 never */
};

/* Opens the attachment pinned in a folder; asked: the name it was asked for by, NULL if it was found. 0, -1, or
 * WEIR_INCOMPLETE. */
int view_open(struct view *v, const struct request *r, const char *asked, const char *path);
/* From then on it shows the law of a class. 0, or -1 after one line. */
int view_of_class(struct view *v, __u32 handle);
/* The same of a class that weir_law_each has found. */
void view_set_class(struct view *v, const struct weir_class *class);
/* Whether that law is still there; true where it is the interface's. */
bool view_has_law(const struct view *v);
void view_close(struct view *v);

/* Whether its program is still on; also false where that can't be determined. */
bool view_is_on(const struct view *v, const struct request *r);

/* A sample, and in `trouble` what is wrong with the queue it is of ("" nothing). 0, or -1 after one line. */
int view_sample(struct view *v, struct weir_sample *s, char *trouble, size_t size);

/* Adds to `ahead` what the counters show of packets that took another way. */
void view_count_bypassed(struct view *v, const struct weir_sample *s);

/* Whether a namespace can be entered, and is the one that place is in. */
bool can_reach(const struct weir_place *place, const char *netns);
/* Of a list: one that the command is not about, or that can't be seen from here. */
bool is_elsewhere(const struct request *r, const struct weir_meta *about);
/* DEV where the command is about its namespace, else DEV@NETNS: a command takes either, and no other interface has it.
 */
void label(const struct request *r, const struct weir_meta *about, char *text, size_t size);

/* The pins of what a command is about, as weir_place_find; laws of classes are at egress. */
int find_asked(const struct request *r, char *path);

#endif /* WEIR_XDP_VIEW_H */
