/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/filters.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "hooks/tcx.h"
#include "net/net.h"

/* In the options of a filter: the attribute its actions are in, and for bpf its flags. */
static const struct {
	const char *kind;
	unsigned short actions;
} filter_kinds[] = {
	{"u32", TCA_U32_ACT},		{"bpf", TCA_BPF_ACT},	  {"flower", TCA_FLOWER_ACT},
	{"matchall", TCA_MATCHALL_ACT}, {"basic", TCA_BASIC_ACT}, {"fw", TCA_FW_ACT},
	{"route", TCA_ROUTE4_ACT},	{"flow", TCA_FLOW_ACT},	  {"cgroup", TCA_CGROUP_ACT},
};

/* Actions whose parameters are not attribute 2. */
static const char *const first_attribute[] = {"csum", "nat", "ct", "connmark", "ife", "mpls"};

/*
 * Whether what a filter's actions take goes on to the next filter. Only `continue` as the last one does that: the chain
 * ends with any other answer, `pipe` too, and with no action at all (a class id).
 */
static bool lets_on(const struct rtattr *actions)
{
	const struct rtattr *last = NULL, *kind, *parameters;
	unsigned short type = 2;
	struct {
		tc_gen;
	} general;
	int len = actions ? (int)RTA_PAYLOAD(actions) : 0;

	if (!actions)
		return false;
	for (const struct rtattr *a = RTA_DATA(actions); RTA_OK(a, len); a = RTA_NEXT(a, len))
		last = a;
	kind = weir_nested(last, TCA_ACT_KIND);
	for (size_t i = 0; kind && i < sizeof(first_attribute) / sizeof(*first_attribute); i++)
		if (!strcmp(RTA_DATA(kind), first_attribute[i]))
			type = 1;
	parameters = weir_nested(weir_nested(last, TCA_ACT_OPTIONS), type);
	return weir_payload(parameters, &general, sizeof(general)) && general.action == TC_ACT_UNSPEC;
}

struct filters {
	unsigned int before; /* filters before ours that may end the chain */
	__u32 priority;	     /* of the first of them, */
	char kind[16];
	bool decides; /* it is a program that decides packet by packet */
};

static void look(const struct nlmsghdr *message, void *context)
{
	struct filters *f = context;
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *kind = weir_tc_attribute(message, TCA_KIND);
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	const struct rtattr *flags, *actions = NULL;
	__u32 priority = tc->tcm_info >> 16, bits = 0;

	/* without a handle: the head of a priority, and no filter */
	if (message->nlmsg_type != RTM_NEWTFILTER || !kind || !options || !tc->tcm_handle ||
	    priority >= WEIR_TC_PRIORITY)
		return;
	if (!strcmp(RTA_DATA(kind), "u32") && weir_nested(options, TCA_U32_DIVISOR)) /* a table of filters */
		return;
	for (size_t i = 0; i < sizeof(filter_kinds) / sizeof(*filter_kinds); i++)
		if (!strcmp(RTA_DATA(kind), filter_kinds[i].kind))
			actions = weir_nested(options, filter_kinds[i].actions);
	flags = strcmp(RTA_DATA(kind), "bpf") ? NULL : weir_nested(options, TCA_BPF_FLAGS);
	weir_payload(flags, &bits, sizeof(bits));
	if (lets_on(actions))
		return;
	if (f->before++ && f->priority <= priority)
		return;
	f->priority = priority;
	f->decides = bits & TCA_BPF_FLAG_ACT_DIRECT;
	snprintf(f->kind, sizeof(f->kind), "%s", (const char *)RTA_DATA(kind));
}

void weir_filters_ahead(const struct weir_side *side, int netlink, char *text, size_t size)
{
	struct filters f = {0};

	*text = 0;
	if (!weir_netlink_ask(netlink, RTM_GETTFILTER, NLM_F_DUMP, side->ifindex,
			      TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS), 0, look, &f) &&
	    f.before)
		snprintf(text, size,
			 "filter %s of priority %u at egress runs before ours (%d) and %s the chain: packets that it "
			 "takes never reach the law; give it a priority above %d, let its action be `continue`%s",
			 f.kind, f.priority, WEIR_TC_PRIORITY, f.decides ? "can end" : "ends", WEIR_TC_PRIORITY,
			 weir_tcx_is_there(side->ifindex) ? ", or attach with --hook tcx" : "");
}
