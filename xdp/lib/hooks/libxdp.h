/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XDP programs on an interface, alone or in libxdp's dispatcher, which holds several. The library is opened when it is
 * needed, so that a machine without it builds and runs all the same.
 */
#ifndef WEIR_LIBXDP_H
#define WEIR_LIBXDP_H

#include <stdbool.h>
#include <stddef.h>

#include "hooks/row.h"

/* Functions work in the network namespace we are in, and return 0 or -errno unless they say otherwise. */

/*
 * An XDP program on the interface, alone or in a dispatcher, that uses a map (map_id), or if that is 0 has a name. A
 * file descriptor, or -errno: -ENOENT if it is not there, -EPERM if that can't be read.
 */
int weir_xdp_find(int ifindex, __u32 map_id, const char *name);

/* The name of the interface's own XDP program ("xdp_dispatcher" is libxdp's); "" if it has none or it can't be read. */
void weir_xdp_name(int ifindex, char *name, size_t size);

/* One of a program's maps, by name. A file descriptor or -errno. */
int weir_prog_map(int prog, const char *name);
__u32 weir_map_id(int map);

/* For the rows of XDP: the line that says what is there already (-1), */
int weir_xdp_taken(const struct weir_side *side);
/* the outcome of taking a program off: 0 also where none is there, */
int weir_xdp_detached(const struct weir_side *side, int error);
/* and whether our program is on the interface, alone or beside others. */
bool weir_xdp_is_among(const struct weir_side *side, const struct weir_meta *about, const char *path);

#endif /* WEIR_LIBXDP_H */
