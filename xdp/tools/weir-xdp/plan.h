/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of putting the law on an interface: `attach`, `adopt` and `ensure` are made of these. */
#ifndef WEIR_XDP_PLAN_H
#define WEIR_XDP_PLAN_H

#include <limits.h>

#include "gains/gains.h"
#include "pins/lock.h"
#include "weir-xdp/interface.h"
#include "weir-xdp/laws.h"
#include "weir-xdp/objects.h"
#include "weir-xdp/request.h"

struct plan {
	const struct request *r;
	struct interface dev, peer;
	struct weir_gains gains;
	struct weir_config config;
	struct weir_meta about;
	struct loaded l;
	struct weir_locks locks;
	bool regains;		     /* the root is a shaper of weir-xdp whose pins were lost */
	bool filtered;		     /* with laws of classes: filters of others are at the hook */
	struct laws laws;	     /* of the classes that are asked for; of an attachment that is made all its laws */
	struct weir_attachment from; /* whose laws go on in the one that is made; config -1: there is none */
	struct laws carried;	     /* with laws of classes: these */
	char path[PATH_MAX];	     /* of the pins that are made */
	bool ingress;		     /* the law is to be that of packets that arrive */
};

/* The object for the laws that a request is about. */
enum object_kind plan_object(const struct request *r);

/* Functions return 0, or -1 after one line. */

/* Checks the request; its interfaces are there, and are locked until plan_end; nothing is held after -1. */
int plan_begin(struct plan *p, const struct request *r);
/* The same for the other direction of an interface whose lock `holder` has. */
int plan_begin_beside(struct plan *p, const struct request *r, const struct plan *holder);
void plan_end(struct plan *p);

/*
 * Puts a whole new attachment in the place of one that is at work, of the same hook and ends, with no packet passing
 * between them. After plan_look; path: of the old one's pins.
 */
int plan_replace(struct plan *p, const struct weir_meta *old, const char *path);

/* With laws of classes, path: of the pins: the laws of those classes that are asked for and have none. */
int plan_add(struct plan *p, const char *path);
/* The laws at path go on in what the next plan_attach or plan_replace makes. */
int plan_carry(struct plan *p, const char *path);
/* Its poll process anew, with all it has pinned; `about` knows it then. */
int plan_restart(struct plan *p, const char *path, struct weir_meta *about);

/* Attaches where no working law is attached. Nothing is left after a failure. Gains and coupling are set. */
int plan_attach(struct plan *p);

/* Removes remains where the programs are to be (lib/remains); dry: only counts them. Returns
 * their number, or -1 after one line. */
int plan_clear_remains(const struct plan *p, bool dry);

/* Looks at the qdiscs there, and makes the configuration that follows; with --shape as it will be, unless `about` has a
 * shaper. */
int plan_look(struct plan *p);
/* Rate of the shaper there, ours or another's, where the law is that of one queue; 0: none is known. */
double plan_shaped_bit_s(const struct plan *p);
/* Makes the shaper of `about`, in place of another root if asked. */
int plan_shape(const struct plan *p, bool replace);

/* The classes that are asked for; there: an attachment that has laws of classes already. */
int plan_resolve(struct plan *p, struct weir_attachment *there);

#endif /* WEIR_XDP_PLAN_H */
