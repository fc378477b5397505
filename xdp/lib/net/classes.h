/* SPDX-License-Identifier: Apache-2.0 */
/* The classes under an interface, with what waits in each and what each has sent. */
#ifndef WEIR_CLASSES_H
#define WEIR_CLASSES_H

#include <stddef.h>

#include <linux/types.h>

#include "net/net.h"

/* netlink: a socket in the interface's namespace. */

/* Calls for each class of the interface, in no order. 0 or -errno. */
typedef void weir_class_each_f(const struct weir_qdisc *now, void *context);
int weir_classes_each(int netlink, int ifindex, weir_class_each_f *each, void *context);

/* All of them, in the order of their handles; free() what is in it. 0 or -errno. */
struct weir_class_list {
	struct weir_qdisc *list;
	size_t count;
};
int weir_classes_read(int netlink, int ifindex, struct weir_class_list *classes);
/* NULL if there is none of that number. */
const struct weir_qdisc *weir_classes_find(const struct weir_class_list *classes, __u32 handle);

/* One class. 0, -ENOENT if there is none of that number, or -errno. */
int weir_class_read(int netlink, int ifindex, __u32 handle, struct weir_qdisc *now);

#endif /* WEIR_CLASSES_H */
