/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCX: programs at tc's hooks by links, without clsact and cls_bpf (Linux 6.6, CONFIG_NET_XGRESS). A program costs
 * about half of what it does through a filter, and a link knows whether its interface is still there.
 */
#ifndef WEIR_TCX_H
#define WEIR_TCX_H

#include <stdbool.h>

#include <bpf/libbpf.h>

/* 1 if the kernel has TCX, 0 if not, or -errno. prog: any tc program. Attaches nothing. */
int weir_tcx_probe(int prog);

/*
 * Puts a program after those that are there, in the namespace we are in. A link (file descriptor), or -errno: EEXIST if
 * a program of that name is there already, ERANGE if there is no room for one more.
 */
int weir_tcx_attach(int prog, int ifindex, enum bpf_tc_attach_point point);

/* Takes off what is pinned there, at once and whoever else holds it; the pin stays. 0 (also without a pin) or -errno.
 */
int weir_tcx_detach(const char *pin);

/*
 * How many programs run at egress before the one of a link (-1: before clsact, which all do), and their names, or
 * numbers where those may not be asked for. 0 too if it can't be told.
 */
int weir_tcx_before(int ifindex, int link, char *names, size_t size);

/* Whether a link is on this interface. */
bool weir_tcx_is_on(int link, unsigned int ifindex);

#endif /* WEIR_TCX_H */
