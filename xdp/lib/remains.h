/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remains of an attachment whose pins were lost, because their folder was deleted or their file system unmounted. TCX
 * programs end with their pins. Filters, XDP programs and the shaper stay, and no record knows them.
 */
#ifndef WEIR_REMAINS_H
#define WEIR_REMAINS_H

#include <stdbool.h>

#include "net/net.h"
#include "pins/place.h"

enum weir_remains {
	WEIR_REMAINS_EGRESS = 1,      /* the filter at egress */
	WEIR_REMAINS_PEER = 2,	      /* the filter at ingress, of the law at the other end */
	WEIR_REMAINS_XDP = 4,	      /* the XDP program, or in its place a filter at ingress, */
	WEIR_REMAINS_XDP_UNNAMED = 8, /* unless it was attached as DEV/ingress */
	WEIR_REMAINS_SHAPER = 16,
};

/*
 * Removes remains at an interface (a set of enum weir_remains), and reports each in one line; dry: only counts them.
 * Programs of others stay, and those with pins in any visible BPF file system. Returns their number, or -1 after one
 * line.
 */
int weir_remains_clear(const char *pins, const struct weir_place *place, const char *netns, unsigned int what,
		       bool dry);

/* The shaper under an interface if it is one of weir-xdp's that no attachment has: 1, with the shape. 0 if not. */
int weir_remains_shape(const struct weir_place *place, const char *netns, struct weir_shape *shape);

/* Whether a root is one by its number, as far as it may have been changed since. */
bool weir_remains_is_root(const struct weir_place *place, const struct weir_qdisc *root);

/*
 * Restores missing pins of an attachment from the maps of its programs; dry: only counts them. Takes CAP_SYS_ADMIN,
 * without which none is found. Returns their number.
 */
unsigned int weir_pins_restore(const char *path, bool dry);

#endif /* WEIR_REMAINS_H */
