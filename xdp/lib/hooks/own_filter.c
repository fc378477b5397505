/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/own_filter.h"

#include <stdbool.h>
#include <string.h>

#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/net.h"

struct ours {
	__u32 prog_id;
	bool is_named;
};

/* libbpf names a filter after its program, with the number behind. */
static void look_for_ours(const struct nlmsghdr *message, void *context)
{
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS), *name;
	struct ours *ours = context;
	__u32 id = 0;

	if (message->nlmsg_type != RTM_NEWTFILTER || !options)
		return;
	name = weir_nested(options, TCA_BPF_NAME);
	if (!name || !weir_payload(weir_nested(options, TCA_BPF_ID), &id, sizeof(id)) || id != ours->prog_id)
		return;
	ours->is_named = !strncmp(RTA_DATA(name), "weir_egress:", strlen("weir_egress:")) ||
			 !strncmp(RTA_DATA(name), "weir_peer:", strlen("weir_peer:"));
}

__u32 weir_filter_ours(const struct weir_side *side, int netlink)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = side->point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY);
	__u32 minor = side->point == BPF_TC_EGRESS ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS;
	struct ours ours = {0};

	if (bpf_tc_query(&hook, &opts))
		return 0;
	ours.prog_id = opts.prog_id;
	if (weir_netlink_ask(netlink, RTM_GETTFILTER, NLM_F_DUMP, side->ifindex, TC_H_MAKE(TC_H_CLSACT, minor), 0,
			     look_for_ours, &ours))
		return 0;
	return ours.is_named ? ours.prog_id : 0;
}
