/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TCX_H
#define WEIR_TCX_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

/* Whether the kernel has TCX at this interface. */
bool weir_tcx_is_there(int ifindex);
/* Whether a TCX program of this name is at it. */
bool weir_tcx_has(const char *name, int ifindex, enum bpf_tc_attach_point point);

/*
 * The TCX programs that run at egress before the one of a link (-1: before clsact, which all do) and can let a packet
 * through for good, as a sentence with the remedy; "" if there are none, or none that can be listed.
 */
void weir_tcx_ahead(int ifindex, int link, char *text, size_t size);

#endif /* WEIR_TCX_H */
