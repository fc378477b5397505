/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/net.h"

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

/* These may have classes, in which packets wait; some have them as soon as they are there. */
static bool has_classes(const char *kind)
{
	static const char *const kinds[] = {"htb", "hfsc", "prio", "drr", "qfq", "ets", "cbq", "multiq", "mqprio"};

	return is_one_of(kind, kinds, sizeof(kinds) / sizeof(*kinds));
}

void weir_qdisc_name(char *name, size_t size, const char *kind, __u32 handle)
{
	if (*kind)
		snprintf(name, size, "%s %x:", kind, TC_H_MAJ(handle) >> 16);
	else
		snprintf(name, size, "none (" WEIR_NO_QDISC ")");
}

/* netem with a rate, a loss or a limit only holds nothing back by itself: what waits there is a queue. */
static bool netem_delays(const struct rtattr *options)
{
	struct tc_netem_qopt fixed;
	struct tc_netem_slot slot = {0};
	__s64 number;
	bool delays;
	int len;

	if (!weir_payload(options, &fixed, sizeof(fixed)))
		return true; /* unheard of: better to say no */
	delays = fixed.latency || fixed.jitter;
	len = (int)(RTA_PAYLOAD(options) - RTA_ALIGN(sizeof(fixed)));
	for (const struct rtattr *a = (const void *)((const char *)RTA_DATA(options) + RTA_ALIGN(sizeof(fixed)));
	     RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == TCA_NETEM_LATENCY64 || a->rta_type == TCA_NETEM_JITTER64)
			delays |= weir_payload(a, &number, sizeof(number)) && number;
		else if (a->rta_type == TCA_NETEM_SLOT)
			weir_payload(a, &slot, sizeof(slot));
	}
	return delays || slot.min_delay || slot.max_delay || slot.dist_delay;
}

static __u64 tbf_rate_bit_s(const struct rtattr *options)
{
	struct tc_tbf_qopt tbf = {0};
	__u64 bytes_s;

	weir_payload(weir_nested(options, TCA_TBF_PARMS), &tbf, sizeof(tbf));
	return 8 * (weir_payload(weir_nested(options, TCA_TBF_RATE64), &bytes_s, sizeof(bytes_s)) ? bytes_s
												  : tbf.rate.rate);
}

static void take_qdisc(const struct nlmsghdr *message, void *context)
{
	struct weir_tree *tree = context;
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	struct weir_qdisc q;
	bool delays;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return;
	weir_qdisc_parse(message, &q);
	if (!strcmp(q.kind, WEIR_NO_QDISC))
		return;
	if (q.parent == TC_H_ROOT) {
		memcpy(tree->kind, q.kind, sizeof(q.kind));
		tree->handle = q.handle;
		if (!strcmp(q.kind, "tbf"))
			tree->rate_bit_s = tbf_rate_bit_s(options);
	}
	/* etf holds a packet until the time its sender wants it out */
	delays = !strcmp(q.kind, "etf") || (!strcmp(q.kind, "netem") && (!options || netem_delays(options)));
	if (delays && !*tree->delaying)
		weir_qdisc_name(tree->delaying, sizeof(tree->delaying), q.kind, q.handle);
	if (q.parent != TC_H_ROOT && has_classes(q.kind) && !*tree->dividing)
		weir_qdisc_name(tree->dividing, sizeof(tree->dividing), q.kind, q.handle);
	if (schedules_flows(q.kind) && !*tree->scheduling)
		weir_qdisc_name(tree->scheduling, sizeof(tree->scheduling), q.kind, q.handle);
}

/* As classes of these the kernel reports the flows there are at present. */
static bool is_flow(const struct weir_qdisc *now)
{
	return schedules_flows(now->kind) || !strcmp(now->kind, "clsact") || !strcmp(now->kind, "ingress");
}

static void leave_flows_out(struct weir_class_list *classes)
{
	size_t kept = 0;

	for (size_t i = 0; i < classes->count; i++)
		if (!is_flow(&classes->list[i]))
			classes->list[kept++] = classes->list[i];
	classes->count = kept;
}

static int compare_numbers(const void *a, const void *b)
{
	__u32 one = *(const __u32 *)a, other = *(const __u32 *)b;

	return one < other ? -1 : one > other;
}

/* A class with classes below it, or with a qdisc in it that has classes, is inner; all others are leaves. */
static __u32 count_leaves(const struct weir_class_list *classes, struct weir_leaf *first)
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
		const struct weir_qdisc *c = &classes->list[i];

		if (bsearch(&c->handle, inner, count, sizeof(*inner), compare_numbers) ||
		    (c->leaf && bsearch(&c->leaf, inner, count, sizeof(*inner), compare_numbers)))
			continue;
		if (leaves < WEIR_TREE_LEAVES)
			first[leaves] = (struct weir_leaf){c->handle, c->prio, !strcmp(c->kind, "prio")};
		leaves++;
	}
	free(inner);
	return leaves;
}

__u32 weir_classes_leaves(const struct weir_class_list *classes)
{
	struct weir_leaf first[WEIR_TREE_LEAVES];

	return count_leaves(classes, first);
}

int weir_leaf_read(int netlink, int ifindex, const struct weir_qdisc *in, struct weir_tree *tree)
{
	/* the kernel's own qdisc has no number; in htb that is a fifo, in mq whatever default_qdisc says */
	bool unnumbered = !in->leaf && !strcmp(in->kind, "mq");
	int result;

	if (!in->leaf && !unnumbered)
		return 0;
	result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, unnumbered ? in->handle : 0,
				  in->leaf, take_qdisc, tree);
	return result == -ENOENT ? 0 : result; /* gone since, or one that the kernel does not report */
}

static void limit_rate(struct weir_tree *tree, const struct weir_class_list *classes)
{
	for (size_t i = 0; i < classes->count; i++) {
		__u64 ceil_bit_s = classes->list[i].ceil_bit_s;

		if (ceil_bit_s && (!tree->rate_bit_s || ceil_bit_s < tree->rate_bit_s))
			tree->rate_bit_s = ceil_bit_s;
	}
}

int weir_tree_read(int netlink, int ifindex, struct weir_tree *tree)
{
	struct weir_class_list classes = {0};
	int result;

	memset(tree, 0, sizeof(*tree));
	/* ECHO: see weir_qdisc_read */
	result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, TC_H_ROOT, 0, take_qdisc,
				  tree);
	if (result == -ENOENT || (!result && !*tree->kind))
		return 0;
	if (!result)
		result = weir_classes_read(netlink, ifindex, &classes);
	leave_flows_out(&classes);
	for (size_t i = 0; !result && i < classes.count; i++)
		result = weir_leaf_read(netlink, ifindex, &classes.list[i], tree);
	if (!result) {
		tree->queues = classes.count ? count_leaves(&classes, tree->leaf) : 1;
		if (tree->queues == 1)
			limit_rate(tree, &classes);
		if (!classes.count && shapes_by_classes(tree->kind))
			weir_qdisc_name(tree->unshaped, sizeof(tree->unshaped), tree->kind, tree->handle);
	}
	free(classes.list);
	return result;
}
