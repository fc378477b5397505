/* SPDX-License-Identifier: Apache-2.0 */
/* The classes under an interface, with what waits in each and what each has sent. */
#ifndef WEIR_CLASSES_H
#define WEIR_CLASSES_H

#include <stddef.h>

#include <linux/types.h>

struct weir_class_now {
	char kind[16];	     /* of its qdisc: "htb" */
	__u32 handle;	     /* 0x1000a is what tc calls 1:a */
	__u32 parent;	     /* a class or a qdisc */
	__u32 leaf;	     /* the qdisc in it; 0 if that is the kernel's own (a fifo that tc does not show) */
	__u32 prio;	     /* htb: lower is served first; 0 for other kinds */
	__u64 ceil_bit_s;    /* htb: its limit; 0 for other kinds */
	__u64 sent_bytes;    /* since it was made; of an inner class by all below it */
	__u32 backlog_bytes; /* now; an inner class has none */
	__u32 backlog_packets;
};

/* netlink: a socket in the interface's namespace. */

/* Calls for each class of the interface, in no order. 0 or -errno. */
typedef void weir_class_each_f(const struct weir_class_now *now, void *context);
int weir_classes_each(int netlink, int ifindex, weir_class_each_f *each, void *context);

/* All of them, in the order of their handles; free() what is in it. 0 or -errno. */
struct weir_class_list {
	struct weir_class_now *list;
	size_t count;
};
int weir_classes_read(int netlink, int ifindex, struct weir_class_list *classes);
/* NULL if there is none of that number. */
const struct weir_class_now *weir_classes_find(const struct weir_class_list *classes, __u32 handle);

/* One class. 0, -ENOENT if there is none of that number, or -errno. */
int weir_class_read(int netlink, int ifindex, __u32 handle, struct weir_class_now *now);

#endif /* WEIR_CLASSES_H */
