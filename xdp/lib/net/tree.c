/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/net.h"

/* A class and the qdisc in it. leaf: 0 if that one is the kernel's own (a fifo that tc does not show). */
struct class
{
	__u32 handle, parent, leaf, prio;
};

struct classes {
	struct class *list;
	size_t count, room;
	bool failed;
};

static bool is_one_of(const char *kind, const char *const *kinds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(kind, kinds[i]))
			return true;
	return false;
}

/* Each of these keeps flows apart; fq paces them besides. */
static bool schedules_flows(const char *kind)
{
	static const char *const kinds[] = {"fq_codel", "fq_pie", "fq", "cake", "sfq", "hhf", "dualpi2"};

	return is_one_of(kind, kinds, sizeof(kinds) / sizeof(*kinds));
}

/* Without a class these let everything pass as it comes. */
static bool shapes_by_classes(const char *kind)
{
	static const char *const kinds[] = {"htb", "hfsc"};

	return is_one_of(kind, kinds, sizeof(kinds) / sizeof(*kinds));
}

void weir_qdisc_name(char *name, size_t size, const char *kind, __u32 handle)
{
	if (*kind)
		snprintf(name, size, "%s %x:", kind, TC_H_MAJ(handle) >> 16);
	else
		snprintf(name, size, "none (" WEIR_NO_QDISC ")");
}

static __s64 number64(const struct rtattr *a)
{
	__s64 value = 0;

	if (RTA_PAYLOAD(a) >= sizeof(value))
		memcpy(&value, RTA_DATA(a), sizeof(value));
	return value;
}

/* netem with a rate, a loss or a limit only holds nothing back by itself: what waits there is a queue. */
static bool netem_delays(const struct rtattr *options)
{
	struct tc_netem_qopt fixed;
	struct tc_netem_slot slot = {0};
	bool delays;
	int len;

	if (RTA_PAYLOAD(options) < sizeof(fixed))
		return true; /* unheard of: better to say no */
	memcpy(&fixed, RTA_DATA(options), sizeof(fixed));
	delays = fixed.latency || fixed.jitter;
	len = (int)(RTA_PAYLOAD(options) - RTA_ALIGN(sizeof(fixed)));
	for (const struct rtattr *a = (const void *)((const char *)RTA_DATA(options) + RTA_ALIGN(sizeof(fixed)));
	     RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_NETEM_LATENCY64 || a->rta_type == TCA_NETEM_JITTER64)
			delays |= number64(a) != 0;
		else if (a->rta_type == TCA_NETEM_SLOT && RTA_PAYLOAD(a) >= sizeof(slot))
			memcpy(&slot, RTA_DATA(a), sizeof(slot));
	}
	return delays || slot.min_delay || slot.max_delay || slot.dist_delay;
}

static void take_qdisc(const struct nlmsghdr *message, void *context)
{
	struct weir_tree *tree = context;
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *options = NULL;
	int len = (int)NLMSG_PAYLOAD(message, sizeof(*tc));
	char kind[16] = "";
	bool delays;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return;
	for (const struct rtattr *a = TCA_RTA(tc); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_KIND)
			strncpy(kind, RTA_DATA(a), sizeof(kind) - 1);
		else if (a->rta_type == TCA_OPTIONS)
			options = a;
	}
	if (!strcmp(kind, WEIR_NO_QDISC))
		return;
	if (tc->tcm_parent == TC_H_ROOT) {
		memcpy(tree->kind, kind, sizeof(kind));
		tree->handle = tc->tcm_handle;
	}
	/* etf holds a packet until the time its sender wants it out */
	delays = !strcmp(kind, "etf") || (!strcmp(kind, "netem") && (!options || netem_delays(options)));
	if (delays && !*tree->delaying)
		weir_qdisc_name(tree->delaying, sizeof(tree->delaying), kind, tc->tcm_handle);
	if (schedules_flows(kind) && !*tree->scheduling)
		weir_qdisc_name(tree->scheduling, sizeof(tree->scheduling), kind, tc->tcm_handle);
}

/* Of an htb's class, from its TCA_OPTIONS. */
static __u32 htb_prio(const struct rtattr *options)
{
	int len = (int)RTA_PAYLOAD(options);

	for (const struct rtattr *a = RTA_DATA(options); RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == TCA_HTB_PARMS && RTA_PAYLOAD(a) >= sizeof(struct tc_htb_opt))
			return ((const struct tc_htb_opt *)RTA_DATA(a))->prio;
	return 0;
}

static void take_class(const struct nlmsghdr *message, void *context)
{
	struct classes *classes = context;
	const struct tcmsg *tc = NLMSG_DATA(message);
	int len = (int)NLMSG_PAYLOAD(message, sizeof(*tc));
	const struct rtattr *options = NULL;
	bool htb = false;

	/* hfsc's root is reported as a class with the number of the qdisc itself */
	if (message->nlmsg_type != RTM_NEWTCLASS || !TC_H_MIN(tc->tcm_handle) || classes->failed)
		return;
	/* as classes of these the kernel reports the flows there are at present */
	for (const struct rtattr *a = TCA_RTA(tc); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_OPTIONS)
			options = a;
		if (a->rta_type != TCA_KIND)
			continue;
		if (schedules_flows(RTA_DATA(a)) || !strcmp(RTA_DATA(a), "clsact") || !strcmp(RTA_DATA(a), "ingress"))
			return;
		htb = !strcmp(RTA_DATA(a), "htb");
	}
	if (classes->count == classes->room) {
		size_t room = classes->room ? 2 * classes->room : 16;
		struct class *list = realloc(classes->list, room * sizeof(*list));

		if (!list) {
			classes->failed = true;
			return;
		}
		classes->list = list;
		classes->room = room;
	}
	classes->list[classes->count++] =
		(struct class){tc->tcm_handle, tc->tcm_parent, tc->tcm_info, htb && options ? htb_prio(options) : 0};
}

static int compare_numbers(const void *a, const void *b)
{
	__u32 one = *(const __u32 *)a, other = *(const __u32 *)b;

	return one < other ? -1 : one > other;
}

/* A class with classes below it, or with a qdisc in it that has classes, is inner; all others are leaves. */
static __u32 count_leaves(const struct classes *classes, struct weir_leaf *first)
{
	__u32 *inner = calloc(2 * classes->count + 1, sizeof(*inner)), leaves = 0;
	size_t count = 0;

	if (!inner)
		return 0;
	for (size_t i = 0; i < classes->count; i++) {
		inner[count++] = classes->list[i].parent;
		inner[count++] = TC_H_MAJ(classes->list[i].handle);
	}
	qsort(inner, count, sizeof(*inner), compare_numbers);
	for (size_t i = 0; i < classes->count; i++) {
		const struct class *c = &classes->list[i];

		if (bsearch(&c->handle, inner, count, sizeof(*inner), compare_numbers) ||
		    (c->leaf && bsearch(&c->leaf, inner, count, sizeof(*inner), compare_numbers)))
			continue;
		if (leaves < WEIR_TREE_LEAVES)
			first[leaves] = (struct weir_leaf){c->handle, c->prio};
		leaves++;
	}
	free(inner);
	return leaves;
}

int weir_tree_read(int netlink, int ifindex, struct weir_tree *tree)
{
	struct classes classes = {0};
	int result;

	memset(tree, 0, sizeof(*tree));
	/* ECHO: see weir_qdisc_read */
	result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, TC_H_ROOT, 0, take_qdisc,
				  tree);
	if (result == -ENOENT || (!result && !*tree->kind))
		return 0;
	if (!result)
		result = weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_DUMP, ifindex, 0, 0, take_class, &classes);
	if (!result && classes.failed)
		result = -ENOMEM;
	for (size_t i = 0; !result && i < classes.count; i++) {
		if (!classes.list[i].leaf)
			continue;
		result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, 0,
					  classes.list[i].leaf, take_qdisc, tree);
		if (result == -ENOENT) /* gone since, or one that the kernel does not report */
			result = 0;
	}
	if (!result) {
		tree->queues = classes.count ? count_leaves(&classes, tree->leaf) : 1;
		if (!classes.count && shapes_by_classes(tree->kind))
			weir_qdisc_name(tree->unshaped, sizeof(tree->unshaped), tree->kind, tree->handle);
	}
	free(classes.list);
	return result;
}
