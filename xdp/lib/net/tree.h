/* SPDX-License-Identifier: Apache-2.0 */
/* Tree of queue disciplines and classes under an interface. */
#ifndef WEIR_TREE_H
#define WEIR_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#include "net/classes.h"

#define WEIR_TREE_NAME_LEN 32
#define WEIR_TREE_LEAVES 2

/* A class that packets wait in. */
struct weir_leaf {
	__u32 handle; /* 0x1000a is what tc calls 1:a */
	__u32 prio;   /* htb: lower is served first; 0 for other kinds */
	bool of_prio; /* a band of prio, served by its number */
};

struct weir_tree {
	char kind[16];	  /* of the root; "" if there is none that counts (noqueue) */
	__u32 handle;	  /* of the root */
	__u32 queues;	  /* leaf classes; 1 where there are no classes */
	__u64 rate_bit_s; /* one queue leaves at no more: the rate of tbf, or the least ceil of htb's; 0: not known */
	struct weir_leaf leaf[WEIR_TREE_LEAVES]; /* the first of them, as far as there are any */
	/* by kind and handle as tc writes them, "netem 10:"; "" if there is none */
	char delaying[WEIR_TREE_NAME_LEN];   /* holds packets back for a time, whatever the line does */
	char scheduling[WEIR_TREE_NAME_LEN]; /* gives each flow a queue of its own */
	char dividing[WEIR_TREE_NAME_LEN];   /* below the root, divides what it gets among classes of its own */
	char unshaped[WEIR_TREE_NAME_LEN];   /* is to shape by classes and has none */
};

/* 0 or -errno. netlink: a socket in the interface's namespace. */
int weir_tree_read(int netlink, int ifindex, struct weir_tree *tree);

/* Of the qdisc in one class, what the tree says of such (delaying, scheduling, dividing), if it is there. 0 or
 * -errno. */
int weir_leaf_read(int netlink, int ifindex, const struct weir_qdisc *in, struct weir_tree *tree);

/* Number of these classes that have neither classes below them nor a qdisc with classes in it. */
__u32 weir_classes_leaves(const struct weir_class_list *classes);

/* "htb 1:", or "none (noqueue)". */
void weir_qdisc_name(char *name, size_t size, const char *kind, __u32 handle);

#endif /* WEIR_TREE_H */
