// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A qdisc in BPF (Linux 6.16): a queue for each flow, served by DRR++ (flow_queues.h), each under a law of its own. The
 * delay of a law is the time that its flow's packet has waited when it leaves; a packet to be dropped is dropped there,
 * at the head of its queue, so that the sender learns of it a queue earlier than by a drop at the tail. A qdisc can't
 * write packets: weir_egress, before it at tc egress, gives CE marks by the same law.
 *
 * The kernel accepts such a qdisc only as the root or below mq, so it also shapes (--rate).
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/kernel_qdisc.h"

#include "weir/arrival.h"
#include "weir/flow_queues.h"
#include "weir/framing.h"

#define WEIR_SERVICE_STEPS 4096	 /* flows looked at for one packet */
#define WEIR_OVERFLOW_PACKETS 64 /* dropped at once: the search for the longest queue is dear */
#define WEIR_PURGE_PACKETS 1048576
#define WEIR_SHAPER_LAG_NS 1000000 /* of the timer, made up for by packets sent at once */
#define WEIR_EBUSY 16
#define WEIR_ENODEV 19

struct weir_packet {
	struct bpf_list_node node;
	struct sk_buff WEIR_KPTR *skb;
	__u64 arrival_ns;
	__u32 len_bytes;
	__u32 memory_bytes;
	__u32 has_header; /* the law may drop it */
	__u32 is_ect;
};

struct weir_flow_queue {
	struct bpf_spin_lock lock; /* the kernel wants one for the list */
	__u32 backlog_packets;
	struct bpf_list_head packets WEIR_CONTAINS(weir_packet, node);
	__u64 backlog_bytes;
	struct weir_service service;
	struct weir_state law;
	struct weir_spacing spacing;	   /* of drops */
	struct weir_spacing marks_spacing; /* of marks */
	__u32 tau_us;			   /* of the last packet that left */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_FLOW_QUEUES);
	__type(key, __u32);
	__type(value, struct weir_flow_queue);
} flow_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_scheduler);
} qdisc SEC(".maps");

WEIR_INLINE __u32 weir_len_bytes(const struct sk_buff *skb)
{
	return *(const __u32 *)skb->cb;
}

/* The header that the law reads, as weir_skb_find_header has it. Returns whether there is one. */
static __attribute__((noinline)) int weir_classify(const struct sk_buff *skb, __u32 l2_bytes, __u32 *is_ect)
{
	__u32 there_bytes = skb->len - skb->data_len, offset = l2_bytes;
	const unsigned char *data = skb->data;
	__be16 proto = skb->protocol;
	struct weir_pppoe pppoe;
	__u8 first[2];

	for (int tag = 0; tag < WEIR_VLAN_TAGS && weir_is_vlan(proto); tag++) {
		if (offset + WEIR_VLAN_BYTES > there_bytes ||
		    bpf_probe_read_kernel(&proto, sizeof(proto), data + offset + 2))
			return 0;
		offset += WEIR_VLAN_BYTES;
	}
	if (weir_is_pppoe(proto)) {
		if (offset + sizeof(pppoe) > there_bytes || bpf_probe_read_kernel(&pppoe, sizeof(pppoe), data + offset))
			return 0;
		proto = weir_pppoe_payload(&pppoe);
		offset += sizeof(pppoe);
	}
	if ((!weir_is_ip(proto) && !weir_is_names(proto)) || offset + sizeof(first) > there_bytes ||
	    bpf_probe_read_kernel(first, sizeof(first), data + offset))
		return 0;
	if (weir_is_names(proto) && (offset + WEIR_NAMES_BYTES > skb->len || !weir_is_names_kind(first[0])))
		return 0;
	*is_ect = !!weir_is_ect(proto, first[0], first[1]);
	return 1;
}

WEIR_INLINE void weir_list_append(struct weir_scheduler *d, __u32 list, __u32 index, struct weir_flow_queue *f)
{
	struct weir_flow_queue *last;
	struct weir_ends *ends;
	__u32 before;

	ends = &d->ends[list == WEIR_LIST_NEW ? WEIR_LIST_NEW : WEIR_LIST_OLD];
	f->service.list = list;
	f->service.next = 0;
	before = ends->last - 1;
	last = ends->first ? bpf_map_lookup_elem(&flow_queues, &before) : 0;
	if (last)
		last->service.next = index + 1;
	else
		ends->first = index + 1;
	ends->last = index + 1;
}

WEIR_INLINE void weir_list_remove_first(struct weir_scheduler *d, __u32 list, struct weir_flow_queue *f)
{
	struct weir_ends *ends = &d->ends[list == WEIR_LIST_NEW ? WEIR_LIST_NEW : WEIR_LIST_OLD];

	ends->first = f->service.next;
	f->service.list = WEIR_LIST_NONE;
	f->service.next = 0;
}

/* Counts that a packet is out of a flow queue. */
WEIR_INLINE void weir_left(struct weir_scheduler *d, struct weir_flow_queue *f, struct Qdisc *sch, __u32 len_bytes,
			   __u32 memory_bytes)
{
	f->backlog_bytes -= len_bytes;
	f->backlog_packets--;
	d->backlog_bytes -= len_bytes;
	d->backlog_packets--;
	d->memory_bytes -= memory_bytes;
	sch->q.qlen--;
	sch->qstats.backlog -= len_bytes;
}

/* The first packet of a flow queue, which is out of it then; *info: what was noted of it. NULL: there is none. */
WEIR_INLINE struct sk_buff *weir_pop(struct weir_scheduler *d, struct weir_flow_queue *f, struct Qdisc *sch,
				     struct weir_packet *info)
{
	struct bpf_list_node *node;
	struct weir_packet *packet;
	struct sk_buff *skb;

	bpf_spin_lock(&f->lock);
	node = bpf_list_pop_front(&f->packets);
	bpf_spin_unlock(&f->lock);
	if (!node)
		return 0;
	packet = WEIR_CONTAINER(node, struct weir_packet, node);
	info->arrival_ns = packet->arrival_ns;
	info->len_bytes = packet->len_bytes;
	info->has_header = packet->has_header;
	info->is_ect = packet->is_ect;
	weir_left(d, f, sch, packet->len_bytes, packet->memory_bytes);
	skb = bpf_kptr_xchg(&packet->skb, 0);
	bpf_obj_drop_impl(packet, 0);
	return skb;
}

/* Drops the first packets of the longest flow queue. Returns its index. */
static __attribute__((noinline)) __u32 weir_overflow(struct Qdisc *sch)
{
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	struct weir_flow_queue *f;
	__u64 most_bytes = 0;
	__u32 longest = 0, i;
	struct weir_packet info;
	struct sk_buff *skb;
	int *next_i;

	if (!d || !n)
		return 0;
	d->overflows++;
	WEIR_FOR(i, WEIR_FLOW_QUEUES)
	{
		f = bpf_map_lookup_elem(&flow_queues, &i);
		if (f && f->backlog_bytes > most_bytes) {
			most_bytes = f->backlog_bytes;
			longest = i;
		}
	}
	f = bpf_map_lookup_elem(&flow_queues, &longest);
	if (!f)
		return 0;
	WEIR_FOR(i, WEIR_OVERFLOW_PACKETS)
	{
		if (f->backlog_bytes <= most_bytes / 2)
			break;
		skb = weir_pop(d, f, sch, &info);
		if (!skb)
			break;
		weir_count_drop(n, WEIR_FATE_LIMIT, info.len_bytes);
		sch->qstats.drops++;
		bpf_kfree_skb(skb);
	}
	return longest;
}

WEIR_INLINE int weir_is_full(const struct weir_scheduler *d, const struct weir_config *c)
{
	return c && ((c->limit_packets && d->backlog_packets > c->limit_packets) ||
		     (c->limit_bytes && d->memory_bytes > c->limit_bytes));
}

SEC("struct_ops/enqueue")
int BPF_PROG(weir_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 index = bpf_skb_get_hash(skb) & (WEIR_FLOW_QUEUES - 1), len_bytes = weir_len_bytes(skb), is_ect = 0;
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	struct weir_flow_queue *f = bpf_map_lookup_elem(&flow_queues, &index);
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	const struct weir_config *c = weir_config_get();
	struct weir_packet *packet;
	struct sk_buff *old;

	packet = d && f && n ? bpf_obj_new_impl(bpf_core_type_id_local(struct weir_packet), 0) : 0;
	if (!packet)
		goto drop;
	packet->arrival_ns = bpf_ktime_get_ns();
	packet->len_bytes = len_bytes;
	packet->memory_bytes = skb->truesize;
	packet->has_header = weir_classify(skb, c ? c->l2_bytes : 0, &is_ect);
	packet->is_ect = is_ect;
	n->seen_packets++;
	n->seen_bytes += len_bytes;
	if (!packet->has_header) {
		n->non_ip_packets++;
		n->non_ip_bytes += len_bytes;
	}
	d->memory_bytes += skb->truesize;
	d->backlog_bytes += len_bytes;
	d->backlog_packets++;
	f->backlog_bytes += len_bytes;
	f->backlog_packets++;
	sch->q.qlen++;
	sch->qstats.backlog += len_bytes;
	old = bpf_kptr_xchg(&packet->skb, skb);
	if (old) /* never; the verifier wants to see it */
		bpf_qdisc_skb_drop(old, to_free);
	bpf_spin_lock(&f->lock);
	bpf_list_push_back_impl(&f->packets, &packet->node, 0, 0);
	bpf_spin_unlock(&f->lock);
	if (weir_service_starts(&f->service))
		weir_list_append(d, WEIR_LIST_NEW, index, f);
	if (weir_is_full(d, c) && weir_overflow(sch) == index)
		return WEIR_NET_XMIT_CN;
	return WEIR_NET_XMIT_SUCCESS;
drop:
	bpf_qdisc_skb_drop(skb, to_free);
	sch->qstats.drops++;
	return WEIR_NET_XMIT_DROP;
}

/* `queue` has the law of the longest flow queue, for status. */
WEIR_INLINE void weir_report(struct weir_scheduler *d, struct weir_queue *q, const struct weir_flow_queue *f,
			     __u32 index, __u32 tau_us)
{
	__u64 backlog_bytes = f->backlog_bytes;

	if (index != d->longest && backlog_bytes < d->longest_bytes)
		return;
	d->longest = index;
	d->longest_bytes = backlog_bytes;
	q->law = f->law;
	q->tau_us = tau_us;
	q->backlog_bytes = d->backlog_bytes;
}

/*
 * The law of flow queue `index` about its first packet, which has waited for wait_us; it was of len_bytes and is out of
 * the queue. A function of numbers alone: the kernel checks it once, by itself. Returns 1 if the packet is to be
 * dropped.
 */
__attribute__((noinline)) int weir_leave(__u32 index, __u64 now_ns, __u64 wait_us, __u32 len_bytes, __u32 is_ect)
{
	struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	struct weir_flow_queue *f = bpf_map_lookup_elem(&flow_queues, &index);
	const struct weir_config *c = weir_config_get();
	__u32 tau_us = wait_us > WEIR_TAU_MAX_US ? WEIR_TAU_MAX_US : (__u32)wait_us;
	__u64 now_us = now_ns / 1000, before_us, backlog_bytes;
	struct weir_chance chance;
	enum weir_size size;

	if (!q || !n || !d || !f || !c)
		return 0;
	f->tau_us = tau_us;
	if (!c->frozen) {
		int stepped;

		before_us = f->law.last_us;
		stepped = weir_update(&f->law, &c->law, now_us, tau_us);
		weir_count_step(&n->steps, &c->law, stepped, f->law.row, now_us - before_us);
		if (stepped)
			weir_report(d, q, f, index, tau_us);
	}
	if (!weir_may_hit(&f->law, &f->spacing, c))
		return 0;
	size = f->service.list == WEIR_LIST_OLD ? WEIR_LARGE : WEIR_SMALL;
	backlog_bytes = f->backlog_bytes + len_bytes;
	if (!weir_may_be_hit(&f->law, &f->spacing, &c->law, backlog_bytes, tau_us, size, &chance))
		return 0;
	return weir_draw_fate(&f->law, &f->spacing, c, tau_us, (int)is_ect, &chance) == WEIR_FATE_HIT_DROP;
}

SEC("struct_ops/dequeue")
struct sk_buff *BPF_PROG(weir_dequeue, struct Qdisc *sch)
{
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	const struct weir_config *c = weir_config_get();
	__u64 now_ns = bpf_ktime_get_ns(), rate;
	struct weir_flow_queue *f;
	struct weir_packet info;
	struct sk_buff *skb;
	__u32 index, list, i;
	int *next_i;

	if (!d || !n || !sch->q.qlen)
		return 0;
	rate = c ? c->drain_q32_bytes_per_ns : 0;
	if (rate && now_ns < d->next_ns) {
		sch->qstats.overlimits++;
		bpf_qdisc_watchdog_schedule(sch, d->next_ns, 0);
		return 0;
	}
	WEIR_FOR(i, WEIR_SERVICE_STEPS)
	{
		list = weir_list_served(d);
		if (list == WEIR_LIST_NONE)
			return 0;
		index = d->ends[list == WEIR_LIST_NEW ? WEIR_LIST_NEW : WEIR_LIST_OLD].first - 1;
		f = bpf_map_lookup_elem(&flow_queues, &index);
		if (!f)
			return 0;
		if (f->service.deficit_bytes <= 0) {
			f->service.deficit_bytes += WEIR_QUANTUM_BYTES;
			weir_list_remove_first(d, list, f);
			weir_list_append(d, WEIR_LIST_OLD, index, f);
			continue;
		}
		skb = weir_pop(d, f, sch, &info);
		if (!skb) {
			__u32 after = weir_list_after(d, list, 1);

			weir_list_remove_first(d, list, f);
			if (after != WEIR_LIST_NONE)
				weir_list_append(d, WEIR_LIST_OLD, index, f);
			continue;
		}
		if (weir_leave(index, now_ns, (now_ns - info.arrival_ns) / 1000, info.len_bytes, info.is_ect) &&
		    info.has_header) {
			weir_count_drop(n, WEIR_FATE_HIT_DROP, info.len_bytes);
			sch->qstats.drops++;
			bpf_kfree_skb(skb);
			continue;
		}
		f->service.deficit_bytes -= info.len_bytes;
		if (rate) {
			if (now_ns - d->next_ns > WEIR_SHAPER_LAG_NS)
				d->next_ns = now_ns - WEIR_SHAPER_LAG_NS;
			d->next_ns += weir_line_ns(weir_framed_bytes(&c->framing, info.len_bytes), rate);
		}
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	bpf_qdisc_watchdog_schedule(sch, now_ns, 0);
	return 0;
}

WEIR_INLINE int weir_is_owner(const struct weir_scheduler *d, const struct Qdisc *sch)
{
	return d->owner == (__u64)(unsigned long)sch;
}

SEC("struct_ops/init")
int BPF_PROG(weir_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	const struct weir_config *c = weir_config_get();
	struct net_device *dev = sch->dev_queue->dev;

	if (!d || d->owner)
		return -WEIR_EBUSY;
	if (c && (c->ifindex != (__u32)dev->ifindex || c->netns_inum != dev->nd_net.net->ns.inum))
		return -WEIR_ENODEV;
	d->owner = (__u64)(unsigned long)sch;
	sch->limit = c && c->limit_packets && c->limit_packets < 0xffffffff ? (__u32)c->limit_packets : 0xffffffff;
	return 0;
}

static __attribute__((noinline)) void weir_purge(struct Qdisc *sch)
{
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);
	struct weir_flow_queue *f;
	struct weir_packet info;
	struct sk_buff *skb;
	int *next_i, *next_k;
	__u32 i, k;

	if (!d)
		return;
	WEIR_FOR(i, WEIR_FLOW_QUEUES)
	{
		f = bpf_map_lookup_elem(&flow_queues, &i);
		if (!f)
			continue;
		WEIR_FOR(k, WEIR_PURGE_PACKETS)
		{
			skb = weir_pop(d, f, sch, &info);
			if (!skb)
				break;
			bpf_kfree_skb(skb);
		}
		f->service.list = WEIR_LIST_NONE;
		f->service.next = 0;
	}
	d->ends[WEIR_LIST_NEW] = d->ends[WEIR_LIST_OLD] = (struct weir_ends){0};
	d->next_ns = 0;
}

SEC("struct_ops/reset")
void BPF_PROG(weir_reset, struct Qdisc *sch)
{
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);

	if (d && weir_is_owner(d, sch))
		weir_purge(sch);
}

SEC("struct_ops/destroy")
void BPF_PROG(weir_destroy, struct Qdisc *sch)
{
	struct weir_scheduler *d = bpf_map_lookup_elem(&qdisc, &weir_first);

	if (d && weir_is_owner(d, sch)) {
		weir_purge(sch);
		d->owner = 0;
	}
}

/* The loader replaces the name: it must be unique in the kernel. */
SEC(".struct_ops")
struct Qdisc_ops weir_qdisc_ops = {
	.id = "weir_0000000000",
	.enqueue = (void *)weir_enqueue,
	.dequeue = (void *)weir_dequeue,
	.init = (void *)weir_init,
	.reset = (void *)weir_reset,
	.destroy = (void *)weir_destroy,
};

/* CE marks, by the law of the flow queue that the packet is about to join. */
SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	__u32 index = bpf_get_hash_recalc(skb) & (WEIR_FLOW_QUEUES - 1);
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	struct weir_flow_queue *f = bpf_map_lookup_elem(&flow_queues, &index);
	const struct weir_config *c = weir_config_get();
	struct weir_chance chance;
	struct weir_header header;
	enum weir_size size;

	if (!c || !f || !n || !weir_asks_ect(c) || !weir_may_hit(&f->law, &f->marks_spacing, c))
		return TC_ACT_UNSPEC;
	header = weir_skb_find_header(skb, c->l2_bytes);
	size = f->service.list == WEIR_LIST_OLD ? WEIR_LARGE : WEIR_SMALL;
	if (!weir_skb_is_ect(skb, header) ||
	    !weir_may_be_hit(&f->law, &f->marks_spacing, &c->law, f->backlog_bytes, f->tau_us, size, &chance))
		return TC_ACT_UNSPEC;
	if (weir_draw_fate(&f->law, &f->marks_spacing, c, f->tau_us, 1, &chance) == WEIR_FATE_HIT_MARK &&
	    weir_skb_mark(skb, header))
		weir_count_mark(n, weir_skb_wire_len(skb));
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
