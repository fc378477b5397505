/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shape.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/aqm.h"
#include "net/framing.h"
#include "net/net.h"
#include "net/question.h"

#define ROOT (0x7e1dU << 16) /* a number of our own, so that tc shows whose it is */
#define LEAF (0x7e1eU << 16)
#define ROOT_BANDS (0x7e1fU << 16)
#define LEAF_AHEAD (0x7e20U << 16)
#define ROOT_COUPLED (0x7e21U << 16)
#define CLASS 1
#define CLASS_AHEAD 2
#define CLASS_BULK 3
#define CLASSES_MOST 3
#define QUANTUM_BYTES 60000 /* of no effect with one class a prio; without it the kernel warns of its own choice */

#define FRAME_BYTES 1514
#define LIMIT_S 0.5
#define LIMIT_LEAST 1000 /* packets: what the kernel gives an Ethernet queue */
#define LIMIT_MOST 65536

/* htb's burst: a millisecond's worth, as sqm-scripts have it, but no less than tc gives. */
#define BURST_S 1e-3
#define BURST_LEAST_BYTES 1600

#define TICK_NS 64 /* of the kernel's packet scheduler */

/*
 * htb sends a class's own rate beside the packet on the line, not after it. So the bands have next to none, and borrow
 * the line: the one that is served first waits for one packet of the other.
 */
#define OWN_SHARE (1.0 / 1024)
#define OWN_LEAST_BYTES_S 125.0

/* Of the line, for band L; the rest is C's (RFC 9332 4.1). Ten frames may go at once. */
#define LOW_SHARE 0.9
#define LOW_BURST_BYTES 15400.0

static const __u32 roots[] = {
	[WEIR_SHAPE_ONE] = ROOT, [WEIR_SHAPE_FLOWS] = ROOT_BANDS, [WEIR_SHAPE_COUPLED] = ROOT_COUPLED};

struct weir_shape weir_shape_of(double rate_bit_s, enum weir_shape_kind kind, bool flows,
				const struct weir_framing *framing)
{
	double packets = ceil(rate_bit_s / 8 * LIMIT_S / FRAME_BYTES);

	return (struct weir_shape){
		.rate_bit_s = (__u64)rint(rate_bit_s),
		.handle = roots[kind],
		.limit_packets = (__u32)fmin(fmax(packets, LIMIT_LEAST), LIMIT_MOST),
		.flows = flows,
		.framing = *framing,
	};
}

static enum weir_shape_kind kind_of(const struct weir_shape *shape)
{
	return shape->handle == ROOT_BANDS     ? WEIR_SHAPE_FLOWS
	       : shape->handle == ROOT_COUPLED ? WEIR_SHAPE_COUPLED
					       : WEIR_SHAPE_ONE;
}

static bool has_bands(const struct weir_shape *shape)
{
	return kind_of(shape) != WEIR_SHAPE_ONE;
}

/* One class of a shaper. */
struct part {
	__u32 parent, class, leaf; /* leaf 0: classes are below it */
	bool borrows;
	__u32 prio;
};

/* The classes of a shaper, in the order in which they are made. Returns how many. */
static unsigned int parts_of(const struct weir_shape *shape, struct part parts[CLASSES_MOST])
{
	__u32 line = shape->handle | CLASS;

	if (!has_bands(shape)) {
		parts[0] = (struct part){shape->handle, line, LEAF, false, 0};
		return 1;
	}
	parts[0] = (struct part){shape->handle, line, 0, false, 0};
	parts[1] = (struct part){line, shape->handle | CLASS_AHEAD, LEAF_AHEAD, true, 0};
	parts[2] = (struct part){line, shape->handle | CLASS_BULK, LEAF, true, 1};
	return 3;
}

__u32 weir_shape_leaves(const struct weir_shape *shape, struct weir_leaf leaf[WEIR_TREE_LEAVES])
{
	struct part parts[CLASSES_MOST];
	unsigned int count = parts_of(shape, parts);
	__u32 leaves = 0;

	for (unsigned int i = 0; i < count; i++)
		if (parts[i].leaf)
			leaf[leaves++] = (struct weir_leaf){parts[i].class, parts[i].prio, false};
	return leaves;
}

/* The class of band L. */
static bool is_low(const struct weir_shape *shape, const struct part *part)
{
	return kind_of(shape) == WEIR_SHAPE_COUPLED && part->leaf == LEAF_AHEAD;
}

static struct tc_htb_opt class_options(const struct weir_shape *shape, const struct part *part)
{
	double bytes_s = (double)shape->rate_bit_s / 8, burst = fmax(bytes_s * BURST_S, BURST_LEAST_BYTES);
	double own_s = part->borrows ? fmin(fmax(bytes_s * OWN_SHARE, OWN_LEAST_BYTES_S), bytes_s) : bytes_s;
	bool low = is_low(shape, part);
	double ceil_s = low ? bytes_s * LOW_SHARE : bytes_s, ceil_burst = low ? fmax(burst, LOW_BURST_BYTES) : burst;
	/* with its link layer named the kernel reckons by itself, and needs no table of tc's */
	struct tc_ratespec ceil = {.rate = (__u32)fmin(ceil_s, UINT32_MAX), .linklayer = TC_LINKLAYER_ETHERNET};
	struct tc_ratespec rate = {.rate = (__u32)fmin(own_s, UINT32_MAX), .linklayer = TC_LINKLAYER_ETHERNET};

	return (struct tc_htb_opt){.rate = rate,
				   .ceil = ceil,
				   .buffer = (__u32)fmin(rint(burst / own_s * 1e9 / TICK_NS), UINT32_MAX),
				   .cbuffer = (__u32)fmin(rint(ceil_burst / ceil_s * 1e9 / TICK_NS), UINT32_MAX),
				   .quantum = QUANTUM_BYTES,
				   .prio = part->prio};
}

static int make_root(int netlink, int ifindex, const struct weir_shape *shape, bool replace)
{
	struct tc_htb_glob global = {.version = 3, .rate2quantum = 10, .defcls = has_bands(shape) ? CLASS_BULK : CLASS};
	struct weir_question q;
	struct rtattr *nest;

	weir_question_begin(&q, RTM_NEWQDISC, (__u16)(NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL)), ifindex,
			    TC_H_ROOT, shape->handle);
	weir_question_put_kind(&q, "htb");
	nest = weir_question_nest(&q, TCA_OPTIONS);
	weir_question_put(&q, TCA_HTB_INIT, &global, sizeof(global));
	weir_question_close(&q, nest);
	weir_framing_put(&q, &shape->framing);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

/* Gives an existing root our size table, or takes its own away. */
static int frame_root(int netlink, int ifindex, const struct weir_shape *shape)
{
	struct weir_question q;

	weir_question_begin(&q, RTM_NEWQDISC, 0, ifindex, TC_H_ROOT, shape->handle);
	weir_question_put_kind(&q, "htb");
	weir_framing_put(&q, &shape->framing);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

static int make_class(int netlink, int ifindex, const struct weir_shape *shape, const struct part *part)
{
	struct tc_htb_opt options = class_options(shape, part);
	__u64 bytes_s = shape->rate_bit_s / 8, own_s = part->borrows ? options.rate.rate : bytes_s;
	__u64 ceil_s = is_low(shape, part) ? (__u64)((double)bytes_s * LOW_SHARE) : bytes_s;
	struct weir_question q;
	struct rtattr *nest;

	weir_question_begin(&q, RTM_NEWTCLASS, NLM_F_CREATE, ifindex, part->parent, part->class);
	weir_question_put_kind(&q, "htb");
	nest = weir_question_nest(&q, TCA_OPTIONS);
	weir_question_put(&q, TCA_HTB_PARMS, &options, sizeof(options));
	if (own_s > UINT32_MAX)
		weir_question_put(&q, TCA_HTB_RATE64, &own_s, sizeof(own_s));
	if (ceil_s > UINT32_MAX)
		weir_question_put(&q, TCA_HTB_CEIL64, &ceil_s, sizeof(ceil_s));
	weir_question_close(&q, nest);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

/* The class that the law controls, which with two bands is that of bulk. */
static bool has_flows(const struct weir_shape *shape, const struct part *part)
{
	return shape->flows && part->leaf == LEAF;
}

static const char *leaf_kind(const struct weir_shape *shape, const struct part *part)
{
	return has_flows(shape, part) ? "fq_codel" : "pfifo";
}

static int make_leaf(int netlink, int ifindex, const struct weir_shape *shape, const struct part *part)
{
	struct tc_fifo_qopt limit = {.limit = shape->limit_packets};
	__u32 target_us = WEIR_AQM_CODEL_US, off = 0;
	struct weir_question q;
	struct rtattr *nest;

	weir_question_begin(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, ifindex, part->class, part->leaf);
	weir_question_put_kind(&q, leaf_kind(shape, part));
	if (has_flows(shape, part)) {
		nest = weir_question_nest(&q, TCA_OPTIONS);
		weir_question_put(&q, TCA_FQ_CODEL_LIMIT, &shape->limit_packets, sizeof(shape->limit_packets));
		weir_question_put(&q, TCA_FQ_CODEL_TARGET, &target_us, sizeof(target_us));
		weir_question_put(&q, TCA_FQ_CODEL_ECN, &off, sizeof(off));
		weir_question_close(&q, nest);
	} else {
		weir_question_put(&q, TCA_OPTIONS, &limit, sizeof(limit));
	}
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

/* Existing parts of a shaper. */
struct found {
	const struct weir_shape *shape;
	struct weir_framing framing; /* of the root's size table */
	struct part parts[CLASSES_MOST];
	unsigned int count;	       /* of its parts */
	unsigned int classes, filters; /* those there */
	__u32 leaf[CLASSES_MOST];      /* of each part, the number of the qdisc in the class; 0: the kernel's own */
	bool root_fits;		       /* its size table is ours */
	bool class_fits[CLASSES_MOST]; /* made as it should be, */
	unsigned int leaves_fit;       /* and so many of the qdiscs */
	__u64 line_bytes_s;	       /* rate of the first class */
};

static bool is_kind(const struct nlmsghdr *message, const char *kind)
{
	const struct rtattr *a = weir_tc_attribute(message, TCA_KIND);

	return a && !strcmp(RTA_DATA(a), kind);
}

static bool same_options(const struct tc_htb_opt *a, const struct tc_htb_opt *b)
{
	return a->rate.rate == b->rate.rate && a->ceil.rate == b->ceil.rate && a->buffer == b->buffer &&
	       a->cbuffer == b->cbuffer && a->rate.overhead == b->rate.overhead &&
	       a->rate.linklayer == b->rate.linklayer && a->prio == b->prio;
}

static void see_class(const struct nlmsghdr *message, void *context)
{
	struct found *found = context;
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	struct tc_htb_opt wanted, is;
	unsigned int part = 0;

	if (message->nlmsg_type != RTM_NEWTCLASS || !is_kind(message, "htb"))
		return;
	found->classes++;
	while (part < found->count && found->parts[part].class != tc->tcm_handle)
		part++;
	if (part == found->count || !options)
		return;
	if (found->parts[part].leaf)
		found->leaf[part] = tc->tcm_info;
	wanted = class_options(found->shape, &found->parts[part]);
	if (!weir_payload(weir_nested(options, TCA_HTB_PARMS), &is, sizeof(is)))
		return;
	found->class_fits[part] = same_options(&wanted, &is);
	if (!part && !weir_payload(weir_nested(options, TCA_HTB_RATE64), &found->line_bytes_s, sizeof(__u64)))
		found->line_bytes_s = is.rate.rate;
}

static void see_leaf(const struct nlmsghdr *message, void *context)
{
	struct found *found = context;
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct weir_shape *shape = found->shape;
	struct tc_fifo_qopt is;
	__u32 limit, target_us;

	for (unsigned int i = 0; message->nlmsg_type == RTM_NEWQDISC && i < found->count; i++) {
		const struct part *part = &found->parts[i];

		if (part->leaf != tc->tcm_handle || !is_kind(message, leaf_kind(shape, part)))
			continue;
		if (has_flows(shape, part))
			found->leaves_fit +=
				weir_payload(weir_nested(options, TCA_FQ_CODEL_LIMIT), &limit, sizeof(limit)) &&
				weir_payload(weir_nested(options, TCA_FQ_CODEL_TARGET), &target_us,
					     sizeof(target_us)) &&
				limit == shape->limit_packets && target_us == WEIR_AQM_CODEL_US;
		else
			found->leaves_fit += weir_payload(options, &is, sizeof(is)) && is.limit == shape->limit_packets;
	}
}

static void see_root(const struct nlmsghdr *message, void *context)
{
	struct found *found = context;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return;
	found->root_fits = weir_framing_is(message, &found->shape->framing);
	found->framing = weir_framing_of(message);
}

static void see_filter(const struct nlmsghdr *message, void *context)
{
	if (message->nlmsg_type == RTM_NEWTFILTER)
		((struct found *)context)->filters++;
}

/* The root of a shape is there; found: its classes and filters. 0 or -errno. */
static int find(int netlink, int ifindex, struct found *found)
{
	int error =
		weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, TC_H_ROOT, 0, see_root, found);

	if (!error)
		error = weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_DUMP, ifindex, 0, 0, see_class, found);
	return error ? error
		     : weir_netlink_ask(netlink, RTM_GETTFILTER, NLM_F_DUMP, ifindex, found->shape->handle, 0,
					see_filter, found);
}

/* Something beside our classes, which making those anew would not take away. */
static bool has_more(const struct found *found)
{
	return found->filters || found->classes > found->count;
}

static struct found parts_wanted(const struct weir_shape *shape)
{
	struct found found = {.shape = shape};

	found.count = parts_of(shape, found.parts);
	return found;
}

/* Asks for the qdisc in each class. 0 or -errno. */
static int find_leaves(int netlink, int ifindex, struct found *found)
{
	int error = 0;

	for (unsigned int i = 0; !error && i < found->count; i++)
		if (found->parts[i].leaf && found->leaf[i] == found->parts[i].leaf)
			error = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, 0,
						 found->leaf[i], see_leaf, found);
	return error;
}

/* Whether all of it is there, and as it was made. */
static bool is_whole(const struct found *found, bool *begun)
{
	unsigned int fit = 0, leaves = 0, held = 0;

	for (unsigned int i = 0; i < found->count; i++) {
		fit += found->class_fits[i];
		leaves += found->parts[i].leaf != 0;
		held += found->leaf[i] != 0;
	}
	*begun = found->classes < found->count || held < leaves;
	return found->root_fits && fit == found->count && found->leaves_fit == leaves;
}

int weir_shape_make(int netlink, int ifindex, const struct weir_shape *shape, bool replace)
{
	struct found found = parts_wanted(shape);
	struct weir_qdisc root;
	int error = weir_qdisc_read(netlink, ifindex, &root);
	bool there = !strcmp(root.kind, "htb") && root.handle == shape->handle, made;

	if (!error && there) {
		error = find(netlink, ifindex, &found);
		if (!error && replace && has_more(&found)) {
			error = weir_shape_remove(netlink, ifindex, shape);
			there = false;
		}
	}
	if (!error && there && !found.root_fits)
		error = frame_root(netlink, ifindex, shape);
	if (!error && !there)
		error = make_root(netlink, ifindex, shape, replace);
	made = !error && !there;
	for (unsigned int i = 0; !error && i < found.count; i++) {
		error = make_class(netlink, ifindex, shape, &found.parts[i]);
		if (!error && found.parts[i].leaf)
			error = make_leaf(netlink, ifindex, shape, &found.parts[i]);
	}
	if (error && made)
		weir_shape_remove(netlink, ifindex, shape); /* half a shaper shapes nothing */
	return error;
}

int weir_shape_is(int netlink, int ifindex, const struct weir_shape *shape, bool whole)
{
	struct found found = parts_wanted(shape);
	struct weir_qdisc root;
	int error = weir_qdisc_read(netlink, ifindex, &root);
	bool fits, begun;

	if (error || strcmp(root.kind, "htb") || root.handle != shape->handle)
		return error;
	error = find(netlink, ifindex, &found);
	if (!error)
		error = find_leaves(netlink, ifindex, &found);
	if (error)
		return error;
	if (has_more(&found))
		return 0;
	fits = is_whole(&found, &begun);
	return fits || (!whole && begun);
}

bool weir_shape_is_root(const struct weir_qdisc *root)
{
	return !strcmp(root->kind, "htb") &&
	       (root->handle == ROOT || root->handle == ROOT_BANDS || root->handle == ROOT_COUPLED);
}

int weir_shape_find(int netlink, int ifindex, struct weir_shape *shape)
{
	struct found found;
	struct weir_qdisc root;
	int error = weir_qdisc_read(netlink, ifindex, &root), is = 0;

	if (error || !weir_shape_is_root(&root))
		return error;
	*shape = (struct weir_shape){.handle = root.handle};
	found = parts_wanted(shape);
	error = find(netlink, ifindex, &found);
	if (error || !found.line_bytes_s)
		return error;
	for (__u64 i = 0; !is && i < 16; i++) { /* the kernel has whole bytes a second */
		*shape = weir_shape_of((double)(8 * found.line_bytes_s + i / 2), kind_of(shape), i % 2, &found.framing);
		is = weir_shape_is(netlink, ifindex, shape, true);
	}
	return is;
}

int weir_shape_remove(int netlink, int ifindex, const struct weir_shape *shape)
{
	struct weir_question q;

	weir_question_begin(&q, RTM_DELQDISC, 0, ifindex, TC_H_ROOT, shape->handle);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}
