/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands under an interface: its tree of queue disciplines and classes, and whether the root's backlog is the
 * queue that one law can control.
 */
#ifndef WEIR_TREE_H
#define WEIR_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/maps.h"

#define WEIR_TREE_NAME_LEN 32

struct weir_tree {
	char kind[16]; /* of the root; "" if there is none that counts (noqueue) */
	__u32 handle;  /* of the root */
	__u32 queues;  /* leaf classes; 1 where there are no classes */
	/* by kind and handle as tc writes them, "netem 10:"; "" if there is none */
	char delaying[WEIR_TREE_NAME_LEN];   /* holds packets back for a time, whatever the line does */
	char scheduling[WEIR_TREE_NAME_LEN]; /* gives each flow a queue of its own */
	char unshaped[WEIR_TREE_NAME_LEN];   /* is to shape by classes and has none */
};

/* 0 or -errno. netlink: a socket in the interface's namespace. */
int weir_tree_read(int netlink, int ifindex, struct weir_tree *tree);

/*
 * Why the law can't go by this queue, and what to do, as a sentence without its subject's name; false if it can. whole:
 * the operator wants one law over all queues of the tree. A virtual queue takes any tree.
 */
bool weir_tree_objection(const struct weir_tree *tree, __u32 signal, bool whole, char *why, size_t size);

/* Whether the root is still the one found at attach. */
bool weir_root_is(const struct weir_config *config, const char *kind, __u32 handle);

/* The same of what stands there while the law is attached, and whether the root is still the one found at attach. */
bool weir_tree_trouble(const struct weir_tree *tree, const struct weir_config *config, bool whole, char *why,
		       size_t size);

/* "htb 1:", or "none (noqueue)". */
void weir_qdisc_name(char *name, size_t size, const char *kind, __u32 handle);

#endif /* WEIR_TREE_H */
