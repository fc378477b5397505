// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The coupled law for L4S (docs/design/coupled.md) at tc egress before an htb or prio with two classes, and the far
 * end's counter. The program chooses a packet's class; the scheduler serves band L first. Signals veth, one count a
 * band, and poll: no BTF of the kernel, no JIT.
 */
#define WEIR_QUEUES WEIR_BANDS
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/flows.h"
#include "weir/pairs.h"
#include "weir/polled.h"

/* Both bands. Their maps have as many entries: what is not found is missing altogether. */
struct bands {
	struct weir_queue *queue[WEIR_BANDS];
	struct weir_drain *drain[WEIR_BANDS];
};

/* Signal poll: while band C waits, band L has nine tenths of the line, as in Linux's dualpi2. A delay at that rate
 * drops L from this value on, and marks it from a quarter of it on, which is beyond any burst: under strict priority
 * nothing else keeps C from starving (RFC 9332 4.1). On slow lines the value is the time of so many full frames. */
#define LOW_SHARE_NS(len_ns) (10 * (len_ns) / 9)
#define LOW_EXCESS_NS 100000000ULL
#define LOW_EXCESS_BYTES (32 * 1514)

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

/* The verdict in band L. R is read once: a step on another CPU must not get between the two comparisons. */
WEIR_INLINE enum weir_fate low_fate(const struct weir_config *c, const struct weir_rate *line, __u64 r_q40,
				    __u32 tau_us)
{
	__u32 floor_us = weir_tau_us(line, &c->law, c->coupling.floor_bytes);
	enum weir_verdict v;

	if (!weir_mark_probability_q32(&c->coupling, r_q40, tau_us, floor_us)) /* most: no random numbers for them */
		return WEIR_FATE_PASS;
	v = weir_decide_low(&c->coupling, r_q40, tau_us, floor_us, bpf_get_prandom_u32(), bpf_get_prandom_u32());
	return v == WEIR_PASS ? WEIR_FATE_PASS : v == WEIR_MARK ? WEIR_FATE_HIT_MARK : WEIR_FATE_HIT_DROP;
}

/* R has the place of U in band L's queue. A U that is frozen is its own root mean square. */
WEIR_INLINE __u64 root_mean_square_q40(const struct bands *b, const struct weir_config *c)
{
	const struct weir_queue *q = b->queue[c->frozen ? WEIR_BAND_C : WEIR_BAND_L];

	return *(const volatile __u64 *)&q->law.u_q40;
}

/* After a step of the law, so long after the one before. */
WEIR_INLINE void follow(const struct bands *b, const struct weir_config *c, __u64 classic_pair, __u64 now_ns,
			__u64 elapsed_us)
{
	__u64 interval_us = c->law.interval_us, *r_q40 = &b->queue[WEIR_BAND_L]->law.u_q40;
	int left_lately = !weir_ago(now_ns, b->drain[WEIR_BAND_C]->last_ns, 2000 * interval_us);

	*r_q40 = weir_follow_q40(*r_q40, b->queue[WEIR_BAND_C]->law.u_q40, classic_pair || left_lately,
				 elapsed_us >= 2 * interval_us);
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
	__u64 before_us;
	__u32 tau_c_us, tau_l_us;

	if (now_ns) {
		pair_c = weir_pair_resync(classic, b->drain[WEIR_BAND_C], n, pair_c, now_ns);
		pair_l = weir_pair_resync(b->queue[WEIR_BAND_L], b->drain[WEIR_BAND_L], n, pair_l, now_ns);
	}
	tau_c_us = weir_tau_us(rate_c, &c->law, WEIR_PAIR_BYTES(pair_c));
	if (now_ns) {
		before_us = *(const volatile __u64 *)&classic->law.last_us;
		tau_l_us = weir_tau_us(line, &c->law, WEIR_PAIR_BYTES(pair_l));
		if (weir_step(now_ns, tau_l_us > tau_c_us ? tau_l_us : tau_c_us,
			      WEIR_PAIR_BYTES(pair_c) + WEIR_PAIR_BYTES(pair_l)))
			follow(b, c, pair_c, now_ns, now_ns / 1000 - before_us);
	}
	if (!pair_c)
		classic->busy_ns = coarse_ns;
	if (!pair_l)
		b->queue[WEIR_BAND_L]->busy_ns = coarse_ns;
	if ((c->limit_packets && WEIR_PAIR_PACKETS(pair_c) + WEIR_PAIR_PACKETS(pair_l) >= c->limit_packets) ||
	    (c->limit_bytes && WEIR_PAIR_BYTES(pair_c) + WEIR_PAIR_BYTES(pair_l) + len_bytes > c->limit_bytes))
		return WEIR_FATE_LIMIT;
	if (low)
		return low_fate(c, line, root_mean_square_q40(b, c),
				weir_tau_us(line, &c->law, WEIR_PAIR_BYTES(pair_l)));
	if (!weir_may_hit(&classic->law, &classic->spacing, c))
		return WEIR_FATE_PASS;
	if (!weir_may_be_hit(&classic->law, &classic->spacing, &c->law, WEIR_PAIR_BYTES(pair_c), tau_c_us, size,
			     &chance))
		return WEIR_FATE_PASS;
	return weir_draw_fate(&classic->law, &classic->spacing, c, tau_c_us, weir_skb_counts_as_ect(skb, header, c),
			      &chance);
}

/* Time until `then_ns`; 0 if that is past, or later than any queue lasts. */
WEIR_INLINE __u64 time_left_ns(__u64 then_ns, __u64 now_ns)
{
	__u64 left_ns = then_ns - now_ns;

	return left_ns < WEIR_TAU_MAX_US * 1000ULL ? left_ns : 0;
}

/*
 * Signal poll, band L. The process reads its backlog once an interval, which is longer than that queue lasts; so the
 * delay is the time until what was there at the last reading and what has come since will have left at the line's rate.
 */
WEIR_INLINE enum weir_fate poll_low(const struct weir_arrival *a, const struct bands *b, __u64 now_ns)
{
	const struct weir_queue *classic = b->queue[WEIR_BAND_C], *low = b->queue[WEIR_BAND_L];
	__u64 r_q40 = root_mean_square_q40(b, a->config);
	__u64 halvings = weir_poll_halvings(classic, a->config, now_ns);
	struct weir_rate line = {.dq_time_q8_us = low->poll_dq_time_q8_us};
	__u64 delay_ns = time_left_ns(*(const volatile __u64 *)&low->low_until_ns, now_ns);
	__u64 share_ns = time_left_ns(*(const volatile __u64 *)&low->low_share_ns, now_ns);
	__u64 excess_ns = 1000ULL * weir_tau_us(&line, &a->config->law, LOW_EXCESS_BYTES);

	if (excess_ns < LOW_EXCESS_NS)
		excess_ns = LOW_EXCESS_NS;
	if (share_ns > excess_ns / 4 && share_ns > delay_ns)
		delay_ns = share_ns;
	if (halvings) { /* neither the rate nor the delay is known any more */
		r_q40 = halvings < 64 ? r_q40 >> halvings : 0;
		line.dq_time_q8_us = delay_ns = 0;
		a->counters->stale++;
	} else if (share_ns > excess_ns) {
		return WEIR_FATE_LIMIT;
	}
	return low_fate(a->config, &line, r_q40, (__u32)(delay_ns / 1000));
}

/* A packet joins band L. */
WEIR_INLINE void poll_join(const struct bands *b, const struct weir_config *c, __u64 len_bytes, __u64 now_ns)
{
	struct weir_queue *low = b->queue[WEIR_BAND_L];
	int waits = b->queue[WEIR_BAND_C]->backlog_bytes != 0;
	__u64 len_ns = ((len_bytes & 0xfffff) * low->poll_dq_time_q8_us * 1000) >> ((c->law.dq_shift + 8) & 63);

	bpf_spin_lock(&low->lock);
	low->low_until_ns = now_ns + time_left_ns(low->low_until_ns, now_ns) + len_ns;
	low->low_share_ns = waits ? now_ns + time_left_ns(low->low_share_ns, now_ns) + LOW_SHARE_NS(len_ns) : now_ns;
	bpf_spin_unlock(&low->lock);
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	const struct weir_config *c;
	__u64 len_bytes, in = 0, now_ns = 0;
	struct weir_arrival a;
	enum weir_fate fate;
	struct weir_header header;
	struct bands b;
	int marked, low;

	if (!weir_arrival_begin(&a) || !find_bands(&b))
		return TC_ACT_UNSPEC;
	c = a.config;
	if (c->signal == WEIR_SIGNAL_VETH)
		in = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = in ? WEIR_PAIR_BYTES(in) : weir_skb_wire_len(skb);
	header = weir_skb_find_header(skb, c->l2_bytes);
	if (a.queue->poll_unusable) { /* another scheduler may take the classes' numbers for its own flows or tins */
		a.counters->unusable++;
		weir_arrival_see(&a, header, len_bytes);
		return TC_ACT_UNSPEC;
	}
	low = is_low(skb, header);
	if (low) {
		a.counters = bpf_map_lookup_elem(&counters, &second);
		if (!a.counters)
			return TC_ACT_UNSPEC;
	}
	weir_arrival_see(&a, header, len_bytes);
	if (c->signal == WEIR_SIGNAL_VETH) {
		fate = decide(&b, c, a.counters, low, skb, header, len_bytes);
	} else if (low) {
		now_ns = bpf_ktime_get_ns();
		fate = poll_low(&a, &b, now_ns);
	} else {
		fate = weir_poll_arrival(&a, skb, &weir_first);
	}
	marked = weir_arrival_wants_mark(&a, fate) && weir_skb_mark(skb, header);
	if (weir_arrival_end(&a, fate, marked))
		return TC_ACT_SHOT;
	/* htb and prio take a class's number as the priority. The far end can't tell the band by ECN, because a packet
	 * of band C may carry CE by then; this index goes with the packet to another namespace, where the priority is
	 * lost. */
	skb->priority = low ? c->band_class[WEIR_BAND_L] : c->band_class[WEIR_BAND_C];
	if (c->signal == WEIR_SIGNAL_VETH) {
		skb->tc_index = low ? WEIR_INDEX_L : WEIR_INDEX_C;
		__sync_fetch_and_add(low ? &b.queue[WEIR_BAND_L]->in : &b.queue[WEIR_BAND_C]->in, in);
	} else if (low) {
		poll_join(&b, c, len_bytes, now_ns);
	}
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
