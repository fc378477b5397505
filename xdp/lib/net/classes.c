/* SPDX-License-Identifier: Apache-2.0 */
#include "net/classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

struct walk {
	weir_class_each_f *each;
	void *context;
};

static void take(const struct nlmsghdr *message, void *context)
{
	const struct walk *walk = context;
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	struct weir_qdisc now;
	struct tc_htb_opt htb;
	__u64 ceil_bytes_s;

	if (message->nlmsg_type != RTM_NEWTCLASS)
		return;
	weir_qdisc_parse(message, &now);
	if (!TC_H_MIN(now.handle)) /* hfsc's root is reported as a class with the number of the qdisc itself */
		return;
	if (!strcmp(now.kind, "htb") && weir_payload(weir_nested(options, TCA_HTB_PARMS), &htb, sizeof(htb))) {
		now.prio = htb.prio;
		now.ceil_bit_s = (__u64)htb.ceil.rate * 8;
		if (weir_payload(weir_nested(options, TCA_HTB_CEIL64), &ceil_bytes_s, sizeof(ceil_bytes_s)))
			now.ceil_bit_s = ceil_bytes_s * 8;
	}
	walk->each(&now, walk->context);
}

int weir_classes_each(int netlink, int ifindex, weir_class_each_f *each, void *context)
{
	struct walk walk = {each, context};

	return weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_DUMP, ifindex, 0, 0, take, &walk);
}

struct growing {
	struct weir_class_list *classes;
	size_t room;
	int error;
};

static void append(const struct weir_qdisc *now, void *context)
{
	struct growing *g = context;
	struct weir_class_list *classes = g->classes;

	if (g->error)
		return;
	if (classes->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		struct weir_qdisc *list = realloc(classes->list, room * sizeof(*list));

		if (!list) {
			g->error = -ENOMEM;
			return;
		}
		classes->list = list;
		g->room = room;
	}
	classes->list[classes->count++] = *now;
}

static int compare(const void *a, const void *b)
{
	__u32 one = ((const struct weir_qdisc *)a)->handle, other = ((const struct weir_qdisc *)b)->handle;

	return one < other ? -1 : one > other;
}

int weir_classes_read(int netlink, int ifindex, struct weir_class_list *classes)
{
	struct growing growing = {.classes = classes};
	int error;

	*classes = (struct weir_class_list){0};
	error = weir_classes_each(netlink, ifindex, append, &growing);
	error = error ? error : growing.error;
	if (error) {
		free(classes->list);
		*classes = (struct weir_class_list){0};
	} else if (classes->count) {
		qsort(classes->list, classes->count, sizeof(*classes->list), compare);
	}
	return error;
}

const struct weir_qdisc *weir_classes_find(const struct weir_class_list *classes, __u32 handle)
{
	const struct weir_qdisc wanted = {.handle = handle};

	return classes->count ? bsearch(&wanted, classes->list, classes->count, sizeof(wanted), compare) : NULL;
}

static void copy(const struct weir_qdisc *now, void *context)
{
	*(struct weir_qdisc *)context = *now;
}

int weir_class_read(int netlink, int ifindex, __u32 handle, struct weir_qdisc *now)
{
	struct walk walk = {copy, now};
	int result;

	*now = (struct weir_qdisc){0};
	/* ECHO: see weir_qdisc_read */
	result = weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_ACK | NLM_F_ECHO, ifindex, 0, handle, take, &walk);
	if (result == -EINVAL) /* the kernel's answer where the qdisc of this number has no classes at all */
		return -ENOENT;
	return !result && !now->handle ? -ENOENT : result;
}
