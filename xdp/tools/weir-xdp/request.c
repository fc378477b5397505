/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/request.h"

#include <stdio.h>

#include "error.h"
#include "hooks/hooks.h"
#include "signal/signals.h"

__u32 request_signal(const struct request *r)
{
	if (r->signal)
		return r->signal;
	if (r->hook_given && r->hook == WEIR_HOOK_QDISC)
		return WEIR_SIGNAL_QDISC;
	return r->peer ? WEIR_SIGNAL_VETH : r->rate_bit_s > 0 ? WEIR_SIGNAL_VIRTUAL : WEIR_SIGNAL_AUTO;
}

__u32 request_hook(const struct request *r)
{
	if (r->hook_given)
		return r->hook;
	if (r->direction)
		return r->direction == WEIR_INGRESS ? WEIR_HOOK_XDP : WEIR_HOOK_TC;
	return r->rate_bit_s > 0 ? WEIR_HOOK_XDP : WEIR_HOOK_TC;
}

bool request_is_ingress(const struct request *r)
{
	return weir_hook_is_ingress(request_hook(r));
}

bool request_frames(const struct request *r)
{
	return r->framing.counts_ip || r->mpu_given || r->framing.line != WEIR_LINE_PLAIN;
}

struct weir_framing request_framing(const struct request *r, __u32 l2_bytes)
{
	struct weir_framing framing = r->framing;

	if (framing.counts_ip)
		framing.extra_bytes -= (__s32)l2_bytes;
	return framing;
}

__u32 request_sums(const struct request *r)
{
	return r->sums | (r->whole_tree ? WEIR_SUM_CLASSES : 0) |
	       (r->flows || r->leaf_aqm == LEAF_AQM_OFF ? WEIR_SUM_FLOWS : 0);
}

enum weir_shape_kind request_shape(const struct request *r)
{
	return r->bands ? WEIR_SHAPE_FLOWS : r->coupled ? WEIR_SHAPE_COUPLED : WEIR_SHAPE_ONE;
}

void request_name(const char *dev, __u32 handle, char name[REQUEST_NAME_LEN])
{
	char class[WEIR_CLASS_LEN];

	weir_class_name(class, sizeof(class), handle);
	if (!(handle & 0xffff)) /* all of htb 1: */
		snprintf(class, sizeof(class), "%x:", handle >> 16);
	snprintf(name, REQUEST_NAME_LEN, "%s%s%s", dev, handle ? "/" : "", handle ? class : "");
}

bool wants_class(const struct request *r, __u32 handle)
{
	for (unsigned int i = 0; i < r->classes; i++)
		if (r->class[i] == handle || r->class[i] == (handle & 0xffff0000))
			return true;
	return !r->classes;
}

/* A direction after DEV beside the options. */
static int check_direction(const struct request *r, bool rate)
{
	if (r->direction == WEIR_INGRESS && r->hook_given && !weir_hook_is_ingress(r->hook))
		return weir_error("%s/ingress: only --hook xdp is at ingress: leave one of them out", r->dev);
	if (r->direction == WEIR_EGRESS && r->hook_given && weir_hook_is_ingress(r->hook))
		return weir_error("%s/egress: --hook xdp is at ingress: leave one of them out", r->dev);
	if (r->direction == WEIR_INGRESS && (r->signal || r->peer || r->shape_bit_s > 0) && !rate)
		return weir_error("%s/ingress: signal virtual alone (--rate) is for packets that arrive", r->dev);
	return 0;
}

/* A shaper of ours makes a queue here, of one class. */
static int check_shape(const struct request *r)
{
	if (r->rate_bit_s > 0)
		return weir_error("--shape makes the queue here, --rate is for one elsewhere: leave one of them out");
	if (r->coupled && r->band_class[WEIR_BAND_L])
		return weir_error("--shape makes the classes of --coupled: give it without L,C");
	if (r->coupled && r->flows)
		return weir_error("--flows and --coupled: band C is one queue; leave one of them out");
	return 0;
}

static int check_coupled_bands(const struct request *r, __u32 signal)
{
	if (signal && signal != WEIR_SIGNAL_POLL && signal != WEIR_SIGNAL_VETH)
		return weir_error("--coupled takes signal poll or veth, not %s", weir_signal_name(signal));
	if (r->whole_tree)
		return weir_error(
			"--coupled and --whole-tree: one law over the sum has no bands; leave one of them out");
	if (r->leaf_aqm == LEAF_AQM_OFF)
		return weir_error("--coupled and --leaf-aqm: each band is one queue; put a fifo into its class");
	return 0;
}

static int check_bands(const struct request *r, __u32 signal)
{
	if (signal && signal != WEIR_SIGNAL_POLL && signal != WEIR_SIGNAL_VETH)
		return weir_error("--bands takes signal poll or veth, not %s", weir_signal_name(signal));
	if (r->coupled)
		return weir_error("--bands and --coupled: leave one of them out");
	if (r->whole_tree)
		return weir_error("--bands and --whole-tree: one law over the sum has no bands; leave one of them out");
	return 0;
}

bool request_has_bands(const struct request *r)
{
	__u32 signal = request_signal(r);

	return r->bands || (r->shape_bit_s > 0 && !r->no_bands && !r->whole_tree && !r->coupled &&
			    (!signal || signal == WEIR_SIGNAL_POLL || signal == WEIR_SIGNAL_VETH));
}

static int check_classes(const struct request *r)
{
	if (!r->classes)
		return weir_error("--%s goes with --class", r->by_mark ? "mark" : "others");
	if (r->signal && r->signal != WEIR_SIGNAL_POLL)
		return weir_error("--class takes signal poll, not %s: the others see the whole interface",
				  weir_signal_name(r->signal));
	if (r->peer || r->rate_bit_s > 0 || r->shape_bit_s > 0 || r->coupled || r->bands || r->hosts || r->dscp ||
	    r->limit_packets || r->limit_bytes)
		return weir_error(
			"--class: a law of a class takes neither --peer, --rate, --shape, --coupled, --bands, --hosts "
			"nor --dscp, and "
			"no limit: the class's qdisc has its own");
	if (weir_hook_is_ingress(r->hook))
		return weir_error("--hook xdp: a law of a class is at tc egress");
	if ((r->by_mark || r->others) && (r->classes != 1 || !(r->class[0] & 0xffff)))
		return weir_error("--%s goes with one --class, which those packets are of",
				  r->by_mark ? "mark" : "others");
	return 0;
}

static int check_qdisc(const struct request *r)
{
	return r->shape_bit_s > 0 || r->coupled || r->bands || r->classes || r->by_mark || r->others || r->flow_records
		       ? weir_error("--hook qdisc: has flow queues of its own and shapes by --rate; it takes neither "
				    "--shape, --bands, --coupled, --class nor --flow-records")
		       : 0;
}

int request_check(const struct request *r)
{
	const struct weir_signal_row *row = weir_signal_of(request_signal(r));
	bool peer = row && row->needs_peer, rate = row && row->needs_rate;

	if (check_direction(r, rate))
		return -1;
	if (r->flow_records && r->no_flow_records)
		return weir_error("--flow-records and --no-flow-records: leave one of them out");
	if (r->flow_records && (r->classes || r->coupled))
		return weir_error("--flow-records: neither laws of classes nor coupled bands have them");
	if (r->bands && r->no_bands)
		return weir_error("--bands and --no-bands: leave one of them out");
	if ((r->hook_given && r->hook == WEIR_HOOK_QDISC) != (request_signal(r) == WEIR_SIGNAL_QDISC))
		return weir_error("signal qdisc and --hook qdisc go together");
	if (request_signal(r) == WEIR_SIGNAL_QDISC && check_qdisc(r))
		return -1;
	if (r->advice.kind != WEIR_ADVISE_OFF && (r->classes || r->coupled))
		return weir_error("--advise: neither laws of classes nor coupled bands give advice");
	if (r->classes || r->by_mark || r->others)
		return check_classes(r);
	if ((r->bands && check_bands(r, request_signal(r))) ||
	    (r->coupled && check_coupled_bands(r, request_signal(r))))
		return -1;
	if ((r->hosts || r->dscp) && !request_has_bands(r))
		return weir_error("--%s goes with --bands", r->hosts ? "hosts" : "dscp");
	if (peer && !r->peer)
		return weir_error("signal veth needs the other end: --peer DEV[@NETNS]");
	if (r->peer && !peer)
		return weir_error("--peer goes with signal veth only");
	if (rate && r->rate_bit_s <= 0)
		return weir_error("signal virtual needs the rate its queue drains at: --rate 10mbit");
	if (r->rate_bit_s > 0 && !(row && weir_signal_takes_rate(row->signal)))
		return weir_error("--rate goes with signals virtual and qdisc only");
	if (weir_hook_is_ingress(r->hook) && !rate)
		return weir_error("--hook xdp goes with signal virtual only; the others are at tc egress");
	if (r->limit_packets && !(row && row->has_limit_packets))
		return weir_error("--limit-packets goes with signals veth and qdisc only (a virtual queue takes "
				  "--limit-bytes, a qdisc has "
				  "its own limit)");
	if (r->whole_tree && row && row->queue_elsewhere)
		return weir_error(
			"--whole-tree: this signal does not go by the tree under the interface; leave it out");
	if (r->leaf_aqm && row && row->queue_elsewhere)
		return weir_error("--leaf-aqm: this signal's queue has no qdisc below it; leave it out");
	if (r->limit_bytes && !(row && row->has_limit_bytes))
		return weir_error("--limit-bytes goes with signals veth, virtual and qdisc only; another qdisc has its "
				  "own limit");
	if (request_frames(r) && !(r->shape_bit_s > 0) && !(r->rate_bit_s > 0))
		return weir_error("--%s goes with --shape or --rate, whose rate is that of frames on the line",
				  r->framing.counts_ip		     ? "overhead"
				  : r->mpu_given		     ? "mpu"
				  : r->framing.line == WEIR_LINE_ATM ? "atm"
								     : "ptm");
	if (r->flows && !(r->shape_bit_s > 0))
		return weir_error(
			"--flows goes with --shape; for a shaper of your own put fq_codel into its class and take "
			"--leaf-aqm off");
	return r->shape_bit_s > 0 ? check_shape(r) : 0;
}
