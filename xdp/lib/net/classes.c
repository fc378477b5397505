/* SPDX-License-Identifier: Apache-2.0 */
#include "net/classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/net.h"

struct walk {
	weir_class_each_f *each;
	void *context;
};

/* Of an htb's class, from its TCA_OPTIONS. */
static void read_htb(const struct rtattr *options, struct weir_class_now *now)
{
	int len = (int)RTA_PAYLOAD(options);
	struct tc_htb_opt htb;
	__u64 ceil_bytes_s;

	for (const struct rtattr *a = RTA_DATA(options); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_HTB_PARMS && RTA_PAYLOAD(a) >= sizeof(htb)) {
			memcpy(&htb, RTA_DATA(a), sizeof(htb));
			now->prio = htb.prio;
			now->ceil_bit_s = (__u64)htb.ceil.rate * 8;
		} else if (a->rta_type == TCA_HTB_CEIL64 && RTA_PAYLOAD(a) >= sizeof(ceil_bytes_s)) {
			memcpy(&ceil_bytes_s, RTA_DATA(a), sizeof(ceil_bytes_s)); /* follows TCA_HTB_PARMS */
			now->ceil_bit_s = ceil_bytes_s * 8;
		}
	}
}

static void take(const struct nlmsghdr *message, void *context)
{
	const struct walk *walk = context;
	const struct tcmsg *tc = NLMSG_DATA(message);
	int len = (int)NLMSG_PAYLOAD(message, sizeof(*tc));
	const struct rtattr *options = NULL;
	struct weir_class_now now = {0};
	struct weir_qdisc stats = {0};

	/* hfsc's root is reported as a class with the number of the qdisc itself */
	if (message->nlmsg_type != RTM_NEWTCLASS || !TC_H_MIN(tc->tcm_handle))
		return;
	for (const struct rtattr *a = TCA_RTA(tc); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_OPTIONS)
			options = a;
		else if (a->rta_type == TCA_KIND)
			strncpy(now.kind, RTA_DATA(a), sizeof(now.kind) - 1);
		else if (a->rta_type == TCA_STATS2)
			weir_stats_read(a, &stats);
	}
	now.handle = tc->tcm_handle;
	now.parent = tc->tcm_parent;
	now.leaf = tc->tcm_info;
	if (options && !strcmp(now.kind, "htb"))
		read_htb(options, &now);
	now.sent_bytes = stats.sent_bytes;
	now.backlog_bytes = stats.backlog_bytes;
	now.backlog_packets = stats.backlog_packets;
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

static void append(const struct weir_class_now *now, void *context)
{
	struct growing *g = context;
	struct weir_class_list *classes = g->classes;

	if (g->error)
		return;
	if (classes->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		struct weir_class_now *list = realloc(classes->list, room * sizeof(*list));

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
	__u32 one = ((const struct weir_class_now *)a)->handle, other = ((const struct weir_class_now *)b)->handle;

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

const struct weir_class_now *weir_classes_find(const struct weir_class_list *classes, __u32 handle)
{
	const struct weir_class_now wanted = {.handle = handle};

	return classes->count ? bsearch(&wanted, classes->list, classes->count, sizeof(wanted), compare) : NULL;
}

static void copy(const struct weir_class_now *now, void *context)
{
	*(struct weir_class_now *)context = *now;
}

int weir_class_read(int netlink, int ifindex, __u32 handle, struct weir_class_now *now)
{
	struct walk walk = {copy, now};
	int result;

	*now = (struct weir_class_now){0};
	/* ECHO: see weir_qdisc_read */
	result = weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_ACK | NLM_F_ECHO, ifindex, 0, handle, take, &walk);
	return !result && !now->handle ? -ENOENT : result;
}
