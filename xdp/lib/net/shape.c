/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shape.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/net.h"

#define ROOT (0x7e1dU << 16) /* a number of our own, so that tc shows whose it is */
#define LEAF (0x7e1eU << 16)
#define CLASS 1
#define QUANTUM_BYTES 60000 /* of no effect with one class; without it the kernel warns of its own choice */

#define FRAME_BYTES 1514
#define LIMIT_S 0.5
#define LIMIT_LEAST 1000 /* packets: what the kernel gives an Ethernet queue */
#define LIMIT_MOST 65536

/* htb's burst: a millisecond's worth, as sqm-scripts have it, but no less than tc gives. */
#define BURST_S 1e-3
#define BURST_LEAST_BYTES 1600

#define TICK_NS 64 /* of the kernel's packet scheduler */

struct weir_shape weir_shape_of(double rate_bit_s)
{
	double packets = ceil(rate_bit_s / 8 * LIMIT_S / FRAME_BYTES);

	return (struct weir_shape){
		.rate_bit_s = (__u64)rint(rate_bit_s),
		.handle = ROOT,
		.limit_packets = (__u32)fmin(fmax(packets, LIMIT_LEAST), LIMIT_MOST),
	};
}

__u32 weir_shape_class(const struct weir_shape *shape)
{
	return shape->handle | CLASS;
}

/* A request about traffic control, large enough for ours. */
struct question {
	struct nlmsghdr head;
	struct tcmsg tc;
	char attributes[512];
};

static void begin(struct question *q, __u16 type, __u16 flags, int ifindex, __u32 parent, __u32 handle)
{
	*q = (struct question){
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q->tc)),
			 .nlmsg_type = type,
			 .nlmsg_flags = (__u16)(NLM_F_REQUEST | NLM_F_ACK | flags)},
		.tc = {.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex, .tcm_parent = parent, .tcm_handle = handle},
	};
}

/* Where the next attribute begins. */
static struct rtattr *end_of(struct question *q)
{
	return (struct rtattr *)((char *)q + NLMSG_ALIGN(q->head.nlmsg_len));
}

static void put(struct question *q, unsigned short type, const void *data, size_t size)
{
	struct rtattr *a = end_of(q);

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(a), data, size);
	q->head.nlmsg_len = (__u32)(NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static void put_kind(struct question *q, const char *kind)
{
	put(q, TCA_KIND, kind, strlen(kind) + 1);
}

/* An attribute that holds what is put next, until close_nest. */
static struct rtattr *open_nest(struct question *q, unsigned short type)
{
	struct rtattr *nest = end_of(q);

	put(q, type, NULL, 0);
	return nest;
}

static void close_nest(struct question *q, struct rtattr *nest)
{
	nest->rta_len = (unsigned short)((char *)end_of(q) - (char *)nest);
}

static struct tc_htb_opt class_options(const struct weir_shape *shape)
{
	double bytes_s = (double)shape->rate_bit_s / 8, burst = fmax(bytes_s * BURST_S, BURST_LEAST_BYTES);
	__u32 ticks = (__u32)fmin(rint(burst / bytes_s * 1e9 / TICK_NS), UINT32_MAX);
	/* with its link layer named the kernel reckons by itself, and needs no table of tc's */
	struct tc_ratespec rate = {.rate = (__u32)fmin(bytes_s, UINT32_MAX), .linklayer = TC_LINKLAYER_ETHERNET};

	return (struct tc_htb_opt){
		.rate = rate, .ceil = rate, .buffer = ticks, .cbuffer = ticks, .quantum = QUANTUM_BYTES};
}

static int make_root(int netlink, int ifindex, const struct weir_shape *shape, bool replace)
{
	struct tc_htb_glob global = {.version = 3, .rate2quantum = 10, .defcls = CLASS};
	struct question q;
	struct rtattr *nest;

	begin(&q, RTM_NEWQDISC, (__u16)(NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL)), ifindex, TC_H_ROOT,
	      shape->handle);
	put_kind(&q, "htb");
	nest = open_nest(&q, TCA_OPTIONS);
	put(&q, TCA_HTB_INIT, &global, sizeof(global));
	close_nest(&q, nest);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

static int make_class(int netlink, int ifindex, const struct weir_shape *shape)
{
	struct tc_htb_opt options = class_options(shape);
	__u64 bytes_s = shape->rate_bit_s / 8;
	struct question q;
	struct rtattr *nest;

	begin(&q, RTM_NEWTCLASS, NLM_F_CREATE, ifindex, shape->handle, weir_shape_class(shape));
	put_kind(&q, "htb");
	nest = open_nest(&q, TCA_OPTIONS);
	put(&q, TCA_HTB_PARMS, &options, sizeof(options));
	if (bytes_s > UINT32_MAX) {
		put(&q, TCA_HTB_RATE64, &bytes_s, sizeof(bytes_s));
		put(&q, TCA_HTB_CEIL64, &bytes_s, sizeof(bytes_s));
	}
	close_nest(&q, nest);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

static int make_leaf(int netlink, int ifindex, const struct weir_shape *shape)
{
	struct tc_fifo_qopt limit = {.limit = shape->limit_packets};
	struct question q;

	begin(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, ifindex, weir_shape_class(shape), LEAF);
	put_kind(&q, "pfifo");
	put(&q, TCA_OPTIONS, &limit, sizeof(limit));
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

/* Existing parts of a shaper. */
struct found {
	const struct weir_shape *shape;
	unsigned int classes, filters;
	__u32 leaf; /* the number of the qdisc in the class; 0: the kernel's own */
	bool class_fits, leaf_fits;
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
	struct tc_htb_opt wanted = class_options(found->shape), is;

	if (message->nlmsg_type != RTM_NEWTCLASS || !is_kind(message, "htb"))
		return;
	found->classes++;
	if (tc->tcm_handle != weir_shape_class(found->shape) || !options)
		return;
	found->leaf = tc->tcm_info;
	if (weir_payload(weir_nested(options, TCA_HTB_PARMS), &is, sizeof(is)))
		found->class_fits = same_options(&wanted, &is);
}

static void see_leaf(const struct nlmsghdr *message, void *context)
{
	struct found *found = context;
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	struct tc_fifo_qopt is;

	if (message->nlmsg_type == RTM_NEWQDISC && is_kind(message, "pfifo") && weir_payload(options, &is, sizeof(is)))
		found->leaf_fits = is.limit == found->shape->limit_packets;
}

static void see_filter(const struct nlmsghdr *message, void *context)
{
	if (message->nlmsg_type == RTM_NEWTFILTER)
		((struct found *)context)->filters++;
}

/* The root of a shape is there; found: its classes and filters. 0 or -errno. */
static int find(int netlink, int ifindex, struct found *found)
{
	int error = weir_netlink_ask(netlink, RTM_GETTCLASS, NLM_F_DUMP, ifindex, 0, 0, see_class, found);

	return error ? error
		     : weir_netlink_ask(netlink, RTM_GETTFILTER, NLM_F_DUMP, ifindex, found->shape->handle, 0,
					see_filter, found);
}

/* Something beside our class, which making that anew would not take away. */
static bool has_more(const struct found *found)
{
	return found->filters || found->classes > 1;
}

int weir_shape_make(int netlink, int ifindex, const struct weir_shape *shape, bool replace)
{
	struct found found = {.shape = shape};
	struct weir_qdisc root;
	int error = weir_qdisc_read(netlink, ifindex, &root);
	bool there = !strcmp(root.kind, "htb") && root.handle == shape->handle, made;

	if (!error && there && replace) {
		error = find(netlink, ifindex, &found);
		if (!error && has_more(&found)) {
			error = weir_shape_remove(netlink, ifindex, shape);
			there = false;
		}
	}
	if (!error && !there)
		error = make_root(netlink, ifindex, shape, replace);
	made = !error && !there;
	if (!error)
		error = make_class(netlink, ifindex, shape);
	if (!error)
		error = make_leaf(netlink, ifindex, shape);
	if (error && made)
		weir_shape_remove(netlink, ifindex, shape); /* half a shaper shapes nothing */
	return error;
}

int weir_shape_is(int netlink, int ifindex, const struct weir_shape *shape, bool whole)
{
	struct found found = {.shape = shape};
	struct weir_qdisc root;
	int error = weir_qdisc_read(netlink, ifindex, &root);

	if (error || strcmp(root.kind, "htb") || root.handle != shape->handle)
		return error;
	error = find(netlink, ifindex, &found);
	if (!error && found.leaf == LEAF)
		error = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, 0, LEAF, see_leaf,
					 &found);
	if (error)
		return error;
	if (has_more(&found))
		return 0;
	if (!whole && (!found.classes || !found.leaf))
		return 1;
	return found.classes && found.class_fits && found.leaf_fits;
}

int weir_shape_remove(int netlink, int ifindex, const struct weir_shape *shape)
{
	struct question q;

	begin(&q, RTM_DELQDISC, 0, ifindex, TC_H_ROOT, shape->handle);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}
