/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HOOK_QDISC_H
#define WEIR_HOOK_QDISC_H

#include <stdbool.h>
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
/* Removes the kind from the kernel, by its name alone; a qdisc that is in use stays. 0, or -1 after one line. */
int weir_qdisc_forget(const struct weir_meta *about);
/* Whether our qdisc is the root, in the namespace we are in. */
bool weir_qdisc_is_root(int ifindex, int netlink);
/* Removes that root and its kind. 0 or -errno. */
int weir_qdisc_clear(int ifindex, int netlink);

#endif /* WEIR_HOOK_QDISC_H */
