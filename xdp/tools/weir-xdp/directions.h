/* SPDX-License-Identifier: Apache-2.0 */
/* `--ingress RATE`: one request for the laws of both directions of an interface. */
#ifndef WEIR_XDP_DIRECTIONS_H
#define WEIR_XDP_DIRECTIONS_H

#include "weir-xdp/request.h"

/* The requests of each direction; `egress` is the whole request where --ingress is not given. */
struct directions {
	bool has_egress, has_ingress;
	struct request egress, ingress;
};

/* 0, or -1 after one line; directions_free in either case. */
int directions_of(const struct request *r, struct directions *d);
void directions_free(struct directions *d);

#endif /* WEIR_XDP_DIRECTIONS_H */
