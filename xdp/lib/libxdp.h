/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XDP programs beside others: libxdp's dispatcher, which holds several on one interface, and which programs are there.
 * The library is opened when it is needed, so that a machine without it builds and runs all the same.
 */
#ifndef WEIR_LIBXDP_H
#define WEIR_LIBXDP_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

/* Functions work in the network namespace we are in, and return 0 or -errno unless they say otherwise. */

/*
 * Puts a program behind those that the dispatcher of an interface holds, and makes the dispatcher if there is none. The
 * program is loaded anew from the object's bytes and shares the maps of `loaded`. -ENOSYS: there is no libxdp here.
 * -EBUSY: another XDP program is there, without a dispatcher. After any error nothing is attached.
 */
int weir_libxdp_attach(const void *bytes, size_t size, const struct bpf_object *loaded, int ifindex, bool verbose);

/* Takes away the one that uses this map; others stay. */
int weir_libxdp_detach(int ifindex, __u32 map_id);

/*
 * An XDP program on the interface, alone or in a dispatcher, that uses a map (map_id), or if that is 0 has a name. A
 * file descriptor, or -errno: -ENOENT if it is not there, -EPERM if it can't be told.
 */
int weir_xdp_find(int ifindex, __u32 map_id, const char *name);

/* The name of the interface's own XDP program ("xdp_dispatcher" is libxdp's); "" if it has none or can't be told. */
void weir_xdp_name(int ifindex, char *name, size_t size);

/* One of a program's maps, by name. A file descriptor or -errno. */
int weir_prog_map(int prog, const char *name);
__u32 weir_map_id(int map);

#endif /* WEIR_LIBXDP_H */
