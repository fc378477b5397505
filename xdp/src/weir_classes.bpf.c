// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A law for each of many classes of htb (docs/design/classes.md), at tc egress. A packet's class is found as htb will
 * find it: by its priority, else by its mark; or as mq's queue is picked. The class leads to its slot, whose state the
 * poll process keeps. No BTF of the kernel, no JIT.
 */
#define WEIR_FLOW_COUNTERS 256 /* a class is a subscriber's, who has some tens of flows: 4 KiB each */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/polled.h"

/* The sizes below are for one class; the loader gives all maps the room that is asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_class);
} class SEC(".maps");

/* To the slot, from the minor number of a class. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_MINORS);
	__type(key, __u32);
	__type(value, __u32);
} minors SEC(".maps");

/* From WEIR_BY_PRIORITY or WEIR_BY_MARK. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, __u64);
	__type(value, __u32);
} tells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_telling);
} telling SEC(".maps");

/*
 * The queue that netdev_pick_tx() will pick (net/core/dev.c: skb_tx_hash): the one that the packet came by, else by its
 * hash. XPS, a driver with a choice of its own and a socket that keeps to a queue come before that in the kernel.
 */
WEIR_INLINE __u32 queue_of(struct __sk_buff *skb, __u32 queues)
{
	__u32 recorded = skb->queue_mapping;

	return recorded ? (recorded - 1) % queues : (__u32)((__u64)bpf_get_hash_recalc(skb) * queues >> 32);
}

WEIR_INLINE __u32 slot_by_minor(__u32 minor)
{
	__u32 key = minor & (WEIR_MINORS - 1);
	const __u32 *slot = bpf_map_lookup_elem(&minors, &key);

	return slot ? *slot : WEIR_SLOT_NONE;
}

/*
 * Each map is looked up in a place of its own: where clang makes one call of look-ups in two maps, the kernel can't put
 * the look-up's code there, and each packet pays 14 ns for a call through a pointer.
 *
 * htb takes a priority with a major number for a class and asks its filters about any other packet. Whether that class
 * is there can't be seen here: where it is not, htb goes on to the filters, and the packet passes us.
 */
WEIR_INLINE __u32 slot_of(struct __sk_buff *skb)
{
	const struct weir_telling *t = bpf_map_lookup_elem(&telling, &weir_first);
	__u32 priority = skb->priority, major = priority >> 16;
	const __u32 *slot;
	__u64 key;

	if (!t)
		return WEIR_SLOT_NONE;
	if (t->queues)
		return slot_by_minor(1 + queue_of(skb, t->queues));
	if (major && major == t->major)
		return slot_by_minor(priority);
	if (!major && !t->mark_mask)
		return t->others;
	key = major ? WEIR_BY_PRIORITY(priority) : WEIR_BY_MARK(skb->mark & t->mark_mask);
	slot = bpf_map_lookup_elem(&tells, &key);
	return slot ? *slot : major ? WEIR_SLOT_NONE : t->others;
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	__u32 slot = slot_of(skb);
	struct weir_arrival a;
	enum weir_fate fate;
	int marked;

	if (!weir_arrival_begin_at(&a, &slot))
		return TC_ACT_UNSPEC;
	weir_arrival_see(&a, weir_skb_find_header(skb, a.config->l2_bytes), weir_skb_wire_len(skb));
	if (slot == WEIR_SLOT_NONE)
		return TC_ACT_UNSPEC;
	fate = weir_poll_arrival(&a, skb, &slot);
	marked = weir_arrival_wants_mark(&a, fate) && weir_skb_mark(skb, a.header);
	return weir_arrival_end(&a, fate, marked) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
