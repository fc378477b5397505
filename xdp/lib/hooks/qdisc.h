/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HOOK_QDISC_H
#define WEIR_HOOK_QDISC_H

#include <stddef.h>

#include <bpf/libbpf.h>

#include "weir/maps.h"

#define WEIR_QDISC_KIND_LEN 16

/* Name of the qdisc of an interface, unique in the kernel. */
void weir_qdisc_kind(__u64 netns_inum, __u32 ifindex, char kind[WEIR_QDISC_KIND_LEN]);
/* Puts the name into the object's file before it is opened. 0 or -ENOENT. */
int weir_qdisc_name_object(void *bytes, size_t size, const char *kind);
/* Marks the packet's owner in the object's types, which clang 14 does not write down. 0 or -errno. */
int weir_qdisc_tag_object(struct bpf_object *object);

#endif /* WEIR_HOOK_QDISC_H */
