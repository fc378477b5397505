// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The coupled law for L4S (docs/design/coupled.md) at tc egress before an htb with two classes, and the far end's
 * counter. The program chooses a packet's class; htb serves band L first. Signal veth, one count a band: no BTF of the
 * kernel, no JIT.
 */
#define WEIR_QUEUES WEIR_BANDS
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/flows.h"
#include "weir/pairs.h"

/* Both bands. Their maps have as many entries: what is not found is missing altogether. */
struct bands {
	struct weir_queue *queue[WEIR_BANDS];
	struct weir_drain *drain[WEIR_BANDS];
};

static const __u32 second = WEIR_BAND_L;

WEIR_INLINE int find_bands(struct bands *b)
{
	b->queue[WEIR_BAND_C] = bpf_map_lookup_elem(&queue, &weir_first);
	b->queue[WEIR_BAND_L] = bpf_map_lookup_elem(&queue, &second);
	b->drain[WEIR_BAND_C] = bpf_map_lookup_elem(&drain, &weir_first);
	b->drain[WEIR_BAND_L] = bpf_map_lookup_elem(&drain, &second);
	return b->queue[WEIR_BAND_C] && b->queue[WEIR_BAND_L] && b->drain[WEIR_BAND_C] && b->drain[WEIR_BAND_L];
}

/* RFC 9332 2.5.1: ECT(1) and CE. A header that is cut short or not of its version is of band C. */
WEIR_INLINE int is_low(struct __sk_buff *skb, struct weir_header header)
{
	__u8 first[2];

	if (!header.proto || bpf_skb_load_bytes(skb, header.offset, first, sizeof(first)) < 0)
		return 0;
	if (header.proto == bpf_htons(ETH_P_IP))
		return first[0] >> 4 == 4 && (first[0] & 15) >= 5 && (first[1] & WEIR_ECN_L4S);
	return first[0] >> 4 == 6 && (first[1] >> 4 & WEIR_ECN_L4S);
}

/* The verdict in band L. U is read once: a step on another CPU must not get between the two comparisons. */
WEIR_INLINE enum weir_fate low_fate(const struct weir_config *c, const struct weir_rate *line, __u64 u_q40,
				    __u64 backlog_bytes)
{
	__u32 tau_us = weir_tau_us(line, &c->law, backlog_bytes);
	__u32 floor_us = weir_tau_us(line, &c->law, c->coupling.floor_bytes);
	enum weir_verdict v;

	if (!weir_mark_probability_q32(&c->coupling, u_q40, tau_us, floor_us)) /* most: no random numbers for them */
		return WEIR_FATE_PASS;
	v = weir_decide_low(&c->coupling, u_q40, tau_us, floor_us, bpf_get_prandom_u32(), bpf_get_prandom_u32());
	return v == WEIR_PASS ? WEIR_FATE_PASS : v == WEIR_MARK ? WEIR_FATE_HIT_MARK : WEIR_FATE_HIT_DROP;
}

WEIR_INLINE enum weir_fate decide(const struct bands *b, const struct weir_config *c, struct weir_counters *n, int low,
				  struct __sk_buff *skb, struct weir_header header, __u64 len_bytes)
{
	struct weir_queue *classic = b->queue[WEIR_BAND_C];
	__u64 pair_c = weir_between(classic, b->drain[WEIR_BAND_C]);
	__u64 pair_l = weir_between(b->queue[WEIR_BAND_L], b->drain[WEIR_BAND_L]);
	const struct weir_rate *rate_c = &b->drain[WEIR_BAND_C]->rate, *line = &b->drain[WEIR_BAND_L]->rate;
	__u64 coarse_ns = bpf_ktime_get_coarse_ns(), now_ns = weir_step_time_ns(classic, c, coarse_ns);
	enum weir_size size = low ? WEIR_SMALL : weir_skb_flow_size(classic, skb, c, header, coarse_ns, len_bytes);
	struct weir_chance chance;
	__u32 tau_c_us, tau_l_us;

	if (now_ns) {
		pair_c = weir_pair_resync(classic, b->drain[WEIR_BAND_C], n, pair_c, now_ns);
		pair_l = weir_pair_resync(b->queue[WEIR_BAND_L], b->drain[WEIR_BAND_L], n, pair_l, now_ns);
	}
	tau_c_us = weir_tau_us(rate_c, &c->law, WEIR_PAIR_BYTES(pair_c));
	if (now_ns) {
		tau_l_us = weir_tau_us(line, &c->law, WEIR_PAIR_BYTES(pair_l));
		weir_step(now_ns, tau_l_us > tau_c_us ? tau_l_us : tau_c_us,
			  WEIR_PAIR_BYTES(pair_c) + WEIR_PAIR_BYTES(pair_l));
	}
	if (!pair_c)
		classic->busy_ns = coarse_ns;
	if (!pair_l)
		b->queue[WEIR_BAND_L]->busy_ns = coarse_ns;
	if ((c->limit_packets && WEIR_PAIR_PACKETS(pair_c) + WEIR_PAIR_PACKETS(pair_l) >= c->limit_packets) ||
	    (c->limit_bytes && WEIR_PAIR_BYTES(pair_c) + WEIR_PAIR_BYTES(pair_l) + len_bytes > c->limit_bytes))
		return WEIR_FATE_LIMIT;
	if (low)
		return low_fate(c, line, *(const volatile __u64 *)&classic->law.u_q40, WEIR_PAIR_BYTES(pair_l));
	if (!weir_may_hit(&classic->law, &classic->spacing, c))
		return WEIR_FATE_PASS;
	if (!weir_may_be_hit(&classic->law, &classic->spacing, &c->law, WEIR_PAIR_BYTES(pair_c), tau_c_us, size,
			     &chance))
		return WEIR_FATE_PASS;
	return weir_draw_fate(&classic->law, &classic->spacing, c, tau_c_us, weir_skb_counts_as_ect(skb, header, c),
			      &chance);
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	const struct weir_config *c;
	__u64 len_bytes, in;
	struct weir_arrival a;
	enum weir_fate fate;
	struct weir_header header;
	struct bands b;
	int marked, low;

	if (!weir_arrival_begin(&a) || !find_bands(&b))
		return TC_ACT_UNSPEC;
	c = a.config;
	in = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = WEIR_PAIR_BYTES(in);
	header = weir_skb_find_header(skb, c->l2_bytes);
	low = is_low(skb, header);
	if (low) {
		a.counters = bpf_map_lookup_elem(&counters, &second);
		if (!a.counters)
			return TC_ACT_UNSPEC;
	}
	weir_arrival_see(&a, header, len_bytes);
	fate = decide(&b, c, a.counters, low, skb, header, len_bytes);
	marked = weir_arrival_wants_mark(&a, fate) && weir_skb_mark(skb, header);
	if (weir_arrival_end(&a, fate, marked))
		return TC_ACT_SHOT;
	/* htb takes a class's number as the priority. The far end can't tell the band by ECN, because a packet of band
	 * C may carry CE by then; this index goes with the packet to another namespace, where the priority is lost. */
	skb->priority = low ? c->band_class[WEIR_BAND_L] : c->band_class[WEIR_BAND_C];
	skb->tc_index = low ? WEIR_INDEX_L : WEIR_INDEX_C;
	__sync_fetch_and_add(low ? &b.queue[WEIR_BAND_L]->in : &b.queue[WEIR_BAND_C]->in, in);
	return TC_ACT_UNSPEC;
}

/* At the ingress of the veth's other end: the packet has left its band's queue. */
SEC("tc")
int weir_peer(struct __sk_buff *skb)
{
	const struct weir_config *c = weir_config_get();
	__u64 len_bytes, pair, pair_other, out;
	int low = skb->tc_index == WEIR_INDEX_L, ours = low || skb->tc_index == WEIR_INDEX_C;
	struct weir_drain *d, *line;
	struct bands b;

	if (!c || !find_bands(&b))
		return TC_ACT_UNSPEC;
	skb->tc_index = 0; /* it may go on to another attachment */
	line = b.drain[WEIR_BAND_L];
	d = low ? line : b.drain[WEIR_BAND_C];
	pair = low ? weir_between(b.queue[WEIR_BAND_L], line) : weir_between(b.queue[WEIR_BAND_C], d);
	out = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = WEIR_PAIR_BYTES(out);
	if (!ours || WEIR_PAIR_PACKETS(pair) < WEIR_PAIR_PACKETS(out) || WEIR_PAIR_BYTES(pair) < len_bytes) {
		/* it went in before we came, or by a way around us */
		__sync_fetch_and_add(&d->strays, 1);
		return TC_ACT_UNSPEC;
	}
	pair_other = low ? weir_between(b.queue[WEIR_BAND_C], b.drain[WEIR_BAND_C])
			 : weir_between(b.queue[WEIR_BAND_L], line);
	__sync_fetch_and_add(&d->out, out);
	d->last_ns = bpf_ktime_get_coarse_ns();
	pair = WEIR_PAIR_BYTES(pair) - len_bytes;
	weir_pair_departure(line, c, len_bytes, pair + WEIR_PAIR_BYTES(pair_other));
	if (!low)
		weir_pair_departure(d, c, len_bytes, pair);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
