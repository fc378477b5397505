// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law at tc egress where the kernel lets us read the root qdisc itself: its backlog at each step, its
 * departures from the qdisc_dequeue tracepoint. Needs the kernel's BTF and the JIT, hence an object of its own.
 */
#define WEIR_NO_LOCK
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "weir/arrival.h"
#include "weir/departures.h"
#include "weir/flows.h"
#include "weir/sampling.h"
#include "weir/advise.h"

/* Only the fields we read; libbpf finds them in the running kernel's BTF. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gnet_stats_queue {
	__u32 backlog;
};
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	struct Qdisc *qdisc;
	int ifindex;
	possible_net_t nd_net;
};
struct netdev_queue {
	struct net_device *dev;
};
struct Qdisc_ops {
	char id[16];
};
struct Qdisc {
	const struct Qdisc_ops *ops;
	__u32 handle;
	struct gnet_stats_queue qstats;
	struct netdev_queue *dev_queue;
};
struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	char cb[48]; /* begins with the length that qdiscs count: with a size table (stab), that of the frame */
};
#pragma clang attribute pop

/*
 * The root qdisc's backlog, if it is the one found at attach still. Another one may keep no backlog at all, or count
 * what is no queue: then 0, as if nothing waited. A call of its own: few packets come here.
 */
static __attribute__((noinline)) int weir_root_backlog(struct __sk_buff *skb, const struct weir_config *c,
						       struct weir_counters *n, __u64 *backlog_bytes)
{
	struct Qdisc *root = BPF_CORE_READ((struct sk_buff *)skb, dev, qdisc);
	const __u64 *wanted = (const __u64 *)c->root_kind;
	__u64 kind[2] = {};

	*backlog_bytes = 0;
	BPF_CORE_READ_INTO(&kind, root, ops, id);
	if (BPF_CORE_READ(root, handle) != c->root_handle || kind[0] != wanted[0] || kind[1] != wanted[1]) {
		n->unusable++;
		return 0;
	}
	*backlog_bytes = BPF_CORE_READ(root, qstats.backlog);
	return 1;
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	struct weir_drain *d = bpf_map_lookup_elem(&drain, &weir_first);
	const struct weir_config *c;
	__u64 coarse_ns, now_ns, backlog_bytes;
	struct weir_chance chance;
	struct weir_arrival a;
	enum weir_fate fate;
	enum weir_size size;
	int marked;
	__u32 tau_us;

	if (!weir_arrival_begin(&a) || !d)
		return TC_ACT_UNSPEC;
	c = a.config;
	weir_arrival_see(&a, weir_skb_find_header(skb, c->l2_bytes), skb->wire_len);
	weir_advise(skb, &a);

	coarse_ns = bpf_ktime_get_coarse_ns();
	now_ns = weir_step_time_ns(a.queue, c, coarse_ns);
	if (now_ns) {
		weir_root_backlog(skb, c, a.counters, &backlog_bytes);
		weir_step(now_ns, weir_tau_us(&d->rate, &c->law, backlog_bytes), backlog_bytes);
	}
	size = weir_skb_flow_size(a.queue, skb, c, a.header, coarse_ns, skb->wire_len);
	if (!a.header.proto || !weir_may_hit(&a.queue->law, &a.queue->spacing, c)) {
		weir_sample(skb, &a, WEIR_KIND_QUEUE, WEIR_FATE_PASS, 0);
		return TC_ACT_UNSPEC;
	}
	/* Reading the backlog is dear: it is done for packets that departures' estimate would drop or mark. */
	tau_us = weir_tau_us(&d->rate, &c->law, d->backlog_bytes);
	fate = WEIR_FATE_PASS;
	if (weir_may_be_hit(&a.queue->law, &a.queue->spacing, &c->law, d->backlog_bytes, tau_us, size, &chance))
		fate = weir_draw_fate(&a.queue->law, &a.queue->spacing, c, tau_us,
				      weir_skb_counts_as_ect(skb, a.header, c), &chance);
	if (fate == WEIR_FATE_PASS) {
		d->backlog_bytes +=
			skb->wire_len; /* an addition that two CPUs lose is put right by the next departure */
		weir_sample(skb, &a, WEIR_KIND_QUEUE, fate, 0);
		return TC_ACT_UNSPEC;
	}
	if (!weir_root_backlog(skb, c, a.counters, &backlog_bytes))
		return TC_ACT_UNSPEC;
	d->backlog_bytes = backlog_bytes;
	tau_us = weir_tau_us(&d->rate, &c->law, backlog_bytes);
	if (backlog_bytes < c->law.min_backlog_bytes ||
	    (!chance.mark && tau_us < c->law.min_delay_us && !weir_excess_q32(&c->law, backlog_bytes, tau_us, size)))
		return TC_ACT_UNSPEC;
	marked = weir_arrival_wants_mark(&a, fate) && weir_skb_mark(skb, a.header);
	weir_sample(skb, &a, WEIR_KIND_QUEUE, fate, marked);
	return weir_arrival_end(&a, fate, marked) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* Drivers that take several packets at once get a list; longer ones are rare and cost accuracy only. */
#define WEIR_LIST_MAX 32

/* The root qdisc's lock is held here, so there is one departure at a time. */
SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(weir_departures, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets, struct sk_buff *skb)
{
	const struct weir_config *c;
	struct weir_drain *d;
	struct net_device *dev;
	__u64 now_ns = 0, len_bytes = 0, backlog_bytes;

	if (!skb) /* nothing was ready */
		return 0;
	c = weir_config_get();
	d = bpf_map_lookup_elem(&drain, &weir_first);
	if (!c || !d)
		return 0;
	if (qdisc->handle != c->root_handle)
		return 0;
	dev = qdisc->dev_queue->dev;
	if (dev->ifindex != (int)c->ifindex || dev->nd_net.net->ns.inum != c->netns_inum)
		return 0;
	for (int i = 0; i < WEIR_LIST_MAX && skb; i++) {
		len_bytes += *(const __u32 *)skb->cb;
		skb = skb->next;
	}
	backlog_bytes = qdisc->qstats.backlog;
	d->backlog_bytes = backlog_bytes;
	if (weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes))
		now_ns = bpf_ktime_get_ns();
	weir_departure(&d->rate, &c->law, now_ns / 1000, len_bytes, backlog_bytes);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
