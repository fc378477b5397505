/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of putting the law on an interface: `attach`, `adopt` and `ensure` are made of these. */
#ifndef WEIR_XDP_PLAN_H
#define WEIR_XDP_PLAN_H

#include <limits.h>

#include "gains/gains.h"
#include "net/net.h"
#include "net/tree.h"
#include "pins/lock.h"
#include "pins/place.h"
#include "weir-xdp/carry.h"
#include "weir-xdp/classes.h"
#include "weir-xdp/objects.h"
#include "weir-xdp/request.h"

/* An interface of a namespace as attach needs to know it. */
struct interface {
	struct weir_place place;
	int ifindex, type;
	struct weir_qdisc qdisc;
	struct weir_tree tree;
};

struct plan {
	const struct request *r;
	struct interface dev, peer;
	struct weir_gains gains;
	struct weir_config config;
	struct weir_meta about;
	struct loaded l;
	struct weir_locks locks;
	bool filtered;		   /* with laws of classes: filters of others are at the hook */
	struct class_list classes; /* the laws of classes that are to be; none: one law for the interface */
	struct carried carried;	   /* those that there are, for the attachment that is to be */
	char path[PATH_MAX];	   /* of the pins that are made */
	bool ingress;		   /* the law is to be that of packets that arrive */
};

/* Functions return 0, or -1 after one line. */

/* Checks the request; its interfaces are there, and are locked until plan_end; nothing is held after -1. */
int plan_begin(struct plan *p, const struct request *r);
void plan_end(struct plan *p);

/*
 * Puts a whole new attachment in the place of one that is at work, of the same hook and ends, with no packet passing
 * between them. After plan_look; path: of the old one's pins.
 */
int plan_replace(struct plan *p, const struct weir_meta *old, const char *path);

/* Whether a request is about the law of packets that arrive. */
bool plan_is_ingress(const struct request *r);

enum laws plan_laws(const struct request *r);

/* Whether the options of a request go together; plan_begin has asked. */
int plan_check(const struct request *r);

/*
 * Of laws of classes; path: of the pins of an attachment that has some.
 *
 * More of them: those of the classes that are asked for that have none.
 */
int plan_add_classes(struct plan *p, const char *path);
/* Carries over the state that the next plan_attach or plan_replace needs. */
int plan_carry(struct plan *p, const char *path);
/* Its poll process anew, with all it has pinned; `about` knows it then. */
int plan_restart(struct plan *p, const char *path, struct weir_meta *about);

/* Attaches where no working law is attached. Nothing is left after a failure. Gains and coupling are set. */
int plan_attach(struct plan *p);

/* Looks at the qdiscs there, and makes the configuration that follows; with --shape as it will be, unless `about` has a
 * shaper. */
int plan_look(struct plan *p);
/* Rate of the shaper there, ours or another's, where the law is that of one queue; 0: none is known. */
double plan_shaped_bit_s(const struct plan *p);
/* Whether a signal can go by that; makes the shaper of `about`, in place of another root if asked. */
int plan_check_queue(const struct plan *p, __u32 signal);
/* Whether a shaper may be made where this root stands: the kernel's own may go, one that somebody made may not. */
int plan_root_is_free(const struct request *r, const struct weir_qdisc *root);
int plan_shape(const struct plan *p, bool replace);

/* Steps of these: the classes that are asked for; there: an attachment that has laws of classes already. */
int plan_resolve(struct plan *p, struct weir_attachment *there);
/* The laws of the first classes, before any packet can meet them. */
int plan_put_classes(struct plan *p);
/* First state of a queue, before any packet can see it. */
void plan_first_state(const struct request *r, const struct weir_config *config, struct weir_queue *q);
/* rate_bit_s: at which the queue drains; 0: not configured here. */
void plan_configure_law(const struct request *r, const struct weir_gains *gains, double rate_bit_s,
			struct weir_config *config);

#endif /* WEIR_XDP_PLAN_H */
