// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law at tc egress, before the qdisc, and the far end's counter. Runs anywhere: no BTF of the kernel, no JIT.
 * For a packet that passes it returns TC_ACT_UNSPEC (for TCX: TCX_NEXT), so that programs and filters after it still
 * run.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/flows.h"
#include "weir/framing.h"
#include "weir/pairs.h"
#include "weir/polled.h"
#include "weir/sampling.h"
#include "weir/advise.h"

WEIR_INLINE enum weir_fate weir_veth_arrival(struct weir_queue *q, struct weir_drain *d, const struct weir_config *c,
					     struct weir_counters *n, __u64 len_bytes, struct __sk_buff *skb,
					     struct weir_header header)
{
	__u64 pair = weir_between(q, d), backlog_bytes, coarse_ns = bpf_ktime_get_coarse_ns();
	__u64 now_ns = weir_step_time_ns(q, c, coarse_ns);
	enum weir_size size = weir_skb_flow_size(q, skb, c, header, coarse_ns, len_bytes);
	struct weir_chance chance;
	__u32 tau_us;

	if (now_ns) {
		pair = weir_pair_resync(q, d, n, pair, now_ns);
		backlog_bytes = WEIR_PAIR_BYTES(pair);
		weir_step(now_ns, weir_tau_us(&d->rate, &c->law, backlog_bytes), backlog_bytes);
	}
	backlog_bytes = WEIR_PAIR_BYTES(pair);
	if (!pair)
		q->busy_ns = coarse_ns;
	if ((c->limit_packets && WEIR_PAIR_PACKETS(pair) >= c->limit_packets) ||
	    (c->limit_bytes && backlog_bytes + len_bytes > c->limit_bytes))
		return WEIR_FATE_LIMIT;
	if (!weir_may_hit(&q->law, &q->spacing, c))
		return WEIR_FATE_PASS;
	tau_us = weir_tau_us(&d->rate, &c->law, backlog_bytes);
	if (!weir_may_be_hit(&q->law, &q->spacing, &c->law, backlog_bytes, tau_us, size, &chance))
		return WEIR_FATE_PASS;
	return weir_draw_fate(&q->law, &q->spacing, c, tau_us, weir_skb_counts_as_ect(skb, header, c), &chance);
}

/* Each segment of a packet that will be segmented has its own frame. */
WEIR_INLINE __u64 weir_pair_framed_bytes(const struct weir_config *c, __u64 pair)
{
	__u64 segments = WEIR_PAIR_PACKETS(pair), len_bytes = WEIR_PAIR_BYTES(pair);

	return segments > 1 ? segments * weir_framed_bytes(&c->framing, len_bytes / segments)
			    : weir_framed_bytes(&c->framing, len_bytes);
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	struct weir_drain *d = bpf_map_lookup_elem(&drain, &weir_first);
	const struct weir_config *c;
	__u64 now_ns, len_bytes, framed_bytes = 0, pair = 0;
	struct weir_arrival a;
	enum weir_fate fate;
	int marked, may_hit;

	if (!weir_arrival_begin(&a) || !d)
		return TC_ACT_UNSPEC;
	c = a.config;
	if (c->signal == WEIR_SIGNAL_VETH || c->signal == WEIR_SIGNAL_VIRTUAL)
		pair = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = pair ? WEIR_PAIR_BYTES(pair) : weir_skb_wire_len(skb);
	weir_arrival_see(&a, weir_skb_find_header(skb, c->l2_bytes), len_bytes);
	weir_advise(skb, &a);

	if (c->signal == WEIR_SIGNAL_VETH) {
		fate = weir_veth_arrival(a.queue, d, c, a.counters, len_bytes, skb, a.header);
	} else if (c->signal == WEIR_SIGNAL_VIRTUAL) {
		now_ns = bpf_ktime_get_ns();
		may_hit = weir_virtual_may_hit(a.queue, c, now_ns);
		framed_bytes = weir_pair_framed_bytes(c, pair);
		fate = weir_virtual_arrival(a.queue, c, now_ns, framed_bytes, may_hit,
					    !may_hit || weir_skb_counts_as_ect(skb, a.header, c),
					    weir_skb_flow_size(a.queue, skb, c, a.header, now_ns, len_bytes));
	} else {
		fate = weir_poll_arrival(&a, skb, &weir_first);
	}

	marked = weir_arrival_wants_mark(&a, fate) && weir_skb_mark(skb, a.header);
	weir_sample(skb, &a, WEIR_KIND_QUEUE, fate, marked);
	if (weir_arrival_end(&a, fate, marked))
		return TC_ACT_SHOT;
	if (c->signal == WEIR_SIGNAL_VIRTUAL && fate != WEIR_FATE_PASS)
		weir_virtual_join(a.queue, framed_bytes);
	if (c->signal == WEIR_SIGNAL_VETH)
		__sync_fetch_and_add(&a.queue->in, pair);
	return TC_ACT_UNSPEC;
}

/* At the ingress of the veth's other end: the packet has left the queue. */
SEC("tc")
int weir_peer(struct __sk_buff *skb)
{
	const struct weir_config *c = weir_config_get();
	const struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	struct weir_drain *d = bpf_map_lookup_elem(&drain, &weir_first);
	__u64 len_bytes, backlog_bytes, pair, out;

	if (!c || !q || !d)
		return TC_ACT_UNSPEC;
	pair = weir_between(q, d);
	out = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = WEIR_PAIR_BYTES(out);
	if (WEIR_PAIR_PACKETS(pair) < WEIR_PAIR_PACKETS(out) || WEIR_PAIR_BYTES(pair) < len_bytes) {
		/* it went in before we came, or by a way around us */
		__sync_fetch_and_add(&d->strays, 1);
		return TC_ACT_UNSPEC;
	}
	backlog_bytes = WEIR_PAIR_BYTES(pair) - len_bytes;
	__sync_fetch_and_add(&d->out, out);
	d->last_ns = bpf_ktime_get_coarse_ns();
	weir_pair_departure(d, c, len_bytes, backlog_bytes);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
