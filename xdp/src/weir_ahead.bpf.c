// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two bands of flows (docs/design/flows.md) at tc egress before an htb or prio with two classes, and the far end's
 * counter. The program chooses a packet's class; the scheduler serves band A first. Signals veth and poll: no BTF of
 * the kernel, no JIT.
 */
#define WEIR_QUEUES WEIR_BANDS
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/flows.h"
#include "weir/hosts.h"
#include "weir/pairs.h"
#include "weir/polled.h"
#include "weir/sampling.h"
#include "weir/advise.h"

/* Recent bytes of both bands, and of the flows of band B. */
struct recent {
	struct weir_budget budget;
	struct weir_fair fair;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct recent);
} budget SEC(".maps");

/* One counter where the attachment does not count hosts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_HOSTS);
	__type(key, __u32);
	__type(value, struct weir_host);
} hosts SEC(".maps");

/* Both bands. Their maps have as many entries: what is not found is missing altogether. */
struct bands {
	struct weir_queue *queue[WEIR_BANDS];
	struct weir_drain *drain[WEIR_BANDS];
};

/* Result of the classifier, and of the law in band B. */
struct outcome {
	enum weir_kind kind;
	enum weir_fate fate;
	int decided; /* without the law's verdict */
};

static const __u32 second = WEIR_BAND_AHEAD;

WEIR_INLINE int find_bands(struct bands *b)
{
	b->queue[WEIR_BAND_BULK] = bpf_map_lookup_elem(&queue, &weir_first);
	b->queue[WEIR_BAND_AHEAD] = bpf_map_lookup_elem(&queue, &second);
	b->drain[WEIR_BAND_BULK] = bpf_map_lookup_elem(&drain, &weir_first);
	b->drain[WEIR_BAND_AHEAD] = bpf_map_lookup_elem(&drain, &second);
	return b->queue[WEIR_BAND_BULK] && b->queue[WEIR_BAND_AHEAD] && b->drain[WEIR_BAND_BULK] &&
	       b->drain[WEIR_BAND_AHEAD];
}

#define ADDRESS_WORDS 4
#define KIND_UNKNOWN 7 /* also the mask of a kind */

/* Place of the counter of a packet's host; packets without an address have one, too. A function of its own: its paths
 * end here for the verifier. */
static __attribute__((noinline)) __u32 host_of(struct __sk_buff *skb, __u32 offset, __u32 proto,
					       const struct weir_config *c)
{
	__u32 word[ADDRESS_WORDS] = {};

	if (c->hosts == WEIR_HOSTS_MARK)
		word[0] = skb->mark & c->host_mask;
	else if (proto == bpf_htons(ETH_P_IP))
		bpf_skb_load_bytes(skb, offset + (c->hosts == WEIR_HOSTS_SOURCE ? 12 : 16), word, 4);
	else if (proto == bpf_htons(ETH_P_IPV6))
		bpf_skb_load_bytes(skb, offset + (c->hosts == WEIR_HOSTS_SOURCE ? 8 : 24), word, sizeof(word));
	return weir_flow_hash(word, ADDRESS_WORDS) & (WEIR_HOSTS - 1);
}

/*
 * Counts a packet of a host, if hosts are counted, and one of band B. Returns its kind, and in the high 32 bits the
 * recent bytes of a flow that has its fair share. Global, and with numbers only: the verifier checks it once.
 */
__attribute__((noinline)) __u64 weir_share_of(__u32 index, __u32 kind, __u32 flow_bytes, __u64 now_us, __u64 len_bytes)
{
	struct recent *r = bpf_map_lookup_elem(&budget, &weir_first);
	const struct weir_config *c = weir_config_get();
	struct weir_host *host;
	__u32 fair_bytes;

	if (!r || !c)
		return kind;
	host = c->hosts ? bpf_map_lookup_elem(&hosts, &index) : 0;
	if (host)
		weir_host_arrival(host, &c->law, now_us, len_bytes);
	if (kind == WEIR_KIND_AHEAD)
		return kind;
	if (host) {
		fair_bytes = weir_host_share(host, &r->fair, &c->law, kind, flow_bytes, now_us, len_bytes);
		kind = weir_kind_by_host(kind, host, &r->fair, flow_bytes);
	} else {
		fair_bytes = weir_fair_arrival(&r->fair, &c->law, kind, flow_bytes, now_us, len_bytes);
		kind = weir_kind_by_share(kind, flow_bytes, fair_bytes);
	}
	return (__u64)fair_bytes << 32 | kind;
}

/* Kind of a packet; in the high 32 bits the recent bytes of its flow. Without the map of flows KIND_UNKNOWN. A function
 * of its own, for the size of the stack. */
static __attribute__((noinline)) __u64 kind_of(const struct weir_arrival *a, struct recent *r, struct __sk_buff *skb,
					       __u64 now_us, __u32 tau_us)
{
	struct weir_flows *f = bpf_map_lookup_elem(&flows, &weir_first);
	const struct weir_config *c = a->config;
	struct weir_flow *flow;
	__u32 kind;

	if (!f)
		return KIND_UNKNOWN;
	flow = weir_flow_at(f, 0, weir_skb_flow(skb, a->header));
	kind = weir_band_arrival(flow, &a->queue->share, &r->budget, &c->law, &c->flow_bands, now_us, a->len_bytes,
				 tau_us, c->dscp && weir_skb_goes_ahead(skb, a->header));
	return (__u64) * (volatile __u32 *)&flow->flow_bytes << 32 | kind;
}

/*
 * Band of a packet, its flow's part in it, and whether that alone decides. Without the maps all is bulk, and all flows
 * are small.
 */
WEIR_INLINE struct outcome classify(const struct weir_arrival *a, struct recent *r, struct __sk_buff *skb, __u64 now_ns,
				    __u32 tau_us)
{
	struct outcome o = {.kind = WEIR_KIND_SMALL, .fate = WEIR_FATE_PASS};
	const struct weir_config *c = a->config;
	__u64 found = kind_of(a, r, skb, now_ns >> 10, tau_us);
	__u32 flow_bytes = found >> 32, fair_bytes = 0;
	int counts = weir_counts_flows(&c->law);

	if ((__u32)found == KIND_UNKNOWN)
		return o;
	o.kind = (__u32)found;
	o.decided = o.kind == WEIR_KIND_AHEAD;
	if (counts && (c->hosts || !o.decided)) {
		found = weir_share_of(c->hosts ? host_of(skb, a->header.offset, a->header.proto, c) : 0, o.kind,
				      flow_bytes, now_ns >> 10, a->len_bytes);
		fair_bytes = found >> 32;
	}
	if (o.decided)
		return o;
	if (weir_kind_is_refused(o.kind, &c->law, tau_us)) {
		o.fate = WEIR_FATE_HIT_DROP;
		o.decided = 1;
	}
	if (o.decided || !counts)
		return o;
	o.kind = (__u32)found & KIND_UNKNOWN;
	if (weir_may_be_policed(&c->law, flow_bytes, fair_bytes, tau_us) &&
	    weir_is_policed(flow_bytes, fair_bytes, bpf_get_prandom_u32())) {
		o.fate = WEIR_FATE_HIT_DROP;
		o.decided = 1;
	} else if (weir_kind_is_spared(o.kind, &c->law, tau_us)) {
		o.decided = 1;
	}
	return o;
}

/* Fate of a packet of band A, by the backlog of A and the rate of the line. */
WEIR_INLINE enum weir_fate ahead_fate(const struct weir_config *c, const struct weir_rate *rate, __u64 backlog_bytes)
{
	__u32 tau_us = weir_tau_us(rate, &c->law, backlog_bytes);

	return weir_ahead_is_late(&c->law, backlog_bytes, tau_us) ? WEIR_FATE_HIT_DROP : WEIR_FATE_PASS;
}

WEIR_INLINE struct outcome veth_arrival(const struct weir_arrival *a, const struct bands *b, struct recent *r,
					struct __sk_buff *skb)
{
	struct weir_queue *bulk = b->queue[WEIR_BAND_BULK], *ahead = b->queue[WEIR_BAND_AHEAD];
	const struct weir_config *c = a->config;
	__u64 pair_b = weir_between(bulk, b->drain[WEIR_BAND_BULK]);
	__u64 pair_a = weir_between(ahead, b->drain[WEIR_BAND_AHEAD]);
	__u64 coarse_ns = bpf_ktime_get_coarse_ns(), now_ns = weir_step_time_ns(bulk, c, coarse_ns), backlog_bytes;
	struct weir_chance chance;
	struct outcome o;
	__u32 tau_us;

	if (now_ns) {
		pair_b = weir_pair_resync(bulk, b->drain[WEIR_BAND_BULK], a->counters, pair_b, now_ns);
		pair_a = weir_pair_resync(ahead, b->drain[WEIR_BAND_AHEAD], a->counters, pair_a, now_ns);
	}
	backlog_bytes = WEIR_PAIR_BYTES(pair_b);
	tau_us = weir_tau_us(&b->drain[WEIR_BAND_BULK]->rate, &c->law, backlog_bytes);
	if (now_ns)
		weir_step(now_ns, tau_us, backlog_bytes);
	if (!pair_b)
		bulk->busy_ns = coarse_ns;
	if (!pair_a)
		ahead->busy_ns = coarse_ns;
	o = classify(a, r, skb, coarse_ns, tau_us);
	if ((c->limit_packets && WEIR_PAIR_PACKETS(pair_b) + WEIR_PAIR_PACKETS(pair_a) >= c->limit_packets) ||
	    (c->limit_bytes && backlog_bytes + WEIR_PAIR_BYTES(pair_a) + a->len_bytes > c->limit_bytes))
		o.fate = WEIR_FATE_LIMIT;
	else if (o.kind == WEIR_KIND_AHEAD)
		o.fate = ahead_fate(c, &b->drain[WEIR_BAND_BULK]->rate, WEIR_PAIR_BYTES(pair_a));
	else if (!o.decided && weir_may_hit(&bulk->law, &bulk->spacing, c) &&
		 weir_may_be_hit(&bulk->law, &bulk->spacing, &c->law, backlog_bytes, tau_us, weir_kind_size(o.kind),
				 &chance))
		o.fate = weir_draw_fate(&bulk->law, &bulk->spacing, c, tau_us,
					weir_skb_counts_as_ect(skb, a->header, c), &chance);
	return o;
}

WEIR_INLINE struct outcome poll_arrival(const struct weir_arrival *a, const struct bands *b, struct recent *r,
					struct __sk_buff *skb)
{
	const struct weir_config *c = a->config;
	struct weir_rate rate = {.dq_time_q8_us = a->queue->poll_dq_time_q8_us};
	__u64 silent_ns = c->law.interval_us * 1000ULL * WEIR_POLL_SILENT_INTERVALS;
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	__u32 tau_us = weir_tau_us(&rate, &c->law, a->queue->backlog_bytes);
	int silent = weir_ago(now_ns, a->queue->poll_ns, silent_ns);
	struct outcome o;

	if (silent)
		tau_us = 0; /* of a queue that nobody has looked at */
	o = classify(a, r, skb, now_ns, tau_us);
	if (o.kind == WEIR_KIND_AHEAD && !silent)
		o.fate = ahead_fate(c, &rate, b->queue[WEIR_BAND_AHEAD]->backlog_bytes);
	else if (!o.decided)
		o.fate = weir_poll_verdict(a, skb, weir_kind_size(o.kind));
	return o;
}

SEC("tc")
int weir_egress(struct __sk_buff *skb)
{
	struct recent *r = bpf_map_lookup_elem(&budget, &weir_first);
	struct weir_counters *ahead = bpf_map_lookup_elem(&counters, &second);
	const struct weir_config *c;
	struct weir_arrival a;
	struct outcome o;
	struct bands b;
	__u64 pair = 0;
	__u32 band;
	int marked;

	if (!weir_arrival_begin(&a) || !find_bands(&b) || !r || !ahead)
		return TC_ACT_UNSPEC;
	c = a.config;
	a.header = weir_skb_find_header(skb, c->l2_bytes);
	weir_advise(skb, &a);
	if (c->signal == WEIR_SIGNAL_VETH)
		pair = weir_skb_pair(skb, c->l2_bytes);
	a.len_bytes = pair ? WEIR_PAIR_BYTES(pair) : weir_skb_wire_len(skb);
	if (a.queue->poll_unusable) { /* another scheduler may take the classes' numbers for its own flows or tins */
		a.counters->unusable++;
		weir_arrival_see(&a, a.header, a.len_bytes);
		return TC_ACT_UNSPEC;
	}
	o = c->signal == WEIR_SIGNAL_VETH ? veth_arrival(&a, &b, r, skb) : poll_arrival(&a, &b, r, skb);
	band = o.kind == WEIR_KIND_AHEAD ? WEIR_BAND_AHEAD : WEIR_BAND_BULK;
	if (band == WEIR_BAND_AHEAD)
		a.counters = ahead;
	weir_arrival_see(&a, a.header, a.len_bytes);
	marked = weir_arrival_wants_mark(&a, o.fate) && weir_skb_mark(skb, a.header);
	weir_sample(skb, &a, o.kind, o.fate, marked);
	if (weir_arrival_end(&a, o.fate, marked))
		return TC_ACT_SHOT;
	if (band == WEIR_BAND_BULK) {
		weir_bulk_passed(&r->budget, a.len_bytes);
		weir_fair_passed(&r->fair, a.len_bytes);
	}
	/* htb and prio take a class's number as the priority. This index goes with the packet to another namespace,
	 * where the priority is lost. */
	skb->priority = band == WEIR_BAND_AHEAD ? c->band_class[WEIR_BAND_AHEAD] : c->band_class[WEIR_BAND_BULK];
	if (c->signal == WEIR_SIGNAL_VETH) {
		skb->tc_index = band == WEIR_BAND_AHEAD ? WEIR_INDEX_L : WEIR_INDEX_C;
		__sync_fetch_and_add(
			band == WEIR_BAND_AHEAD ? &b.queue[WEIR_BAND_AHEAD]->in : &b.queue[WEIR_BAND_BULK]->in, pair);
	}
	return TC_ACT_UNSPEC;
}

/* At the ingress of the veth's other end: the packet has left its band's queue. */
SEC("tc")
int weir_peer(struct __sk_buff *skb)
{
	const struct weir_config *c = weir_config_get();
	int ahead = skb->tc_index == WEIR_INDEX_L, ours = ahead || skb->tc_index == WEIR_INDEX_C;
	__u64 len_bytes, pair, out;
	struct weir_drain *d;
	struct bands b;

	if (!c || !find_bands(&b))
		return TC_ACT_UNSPEC;
	skb->tc_index = 0; /* it may go on to another attachment */
	d = ahead ? b.drain[WEIR_BAND_AHEAD] : b.drain[WEIR_BAND_BULK];
	pair = ahead ? weir_between(b.queue[WEIR_BAND_AHEAD], d) : weir_between(b.queue[WEIR_BAND_BULK], d);
	out = weir_skb_pair(skb, c->l2_bytes);
	len_bytes = WEIR_PAIR_BYTES(out);
	if (!ours || WEIR_PAIR_PACKETS(pair) < WEIR_PAIR_PACKETS(out) || WEIR_PAIR_BYTES(pair) < len_bytes) {
		/* it went in before we came, or by a way around us */
		__sync_fetch_and_add(&d->strays, 1);
		return TC_ACT_UNSPEC;
	}
	__sync_fetch_and_add(&d->out, out);
	d->last_ns = bpf_ktime_get_coarse_ns();
	/* the rate of the whole line: packets of band A do not count as a slower line */
	pair = WEIR_PAIR_BYTES(pair) - len_bytes;
	pair += WEIR_PAIR_BYTES(ahead ? weir_between(b.queue[WEIR_BAND_BULK], b.drain[WEIR_BAND_BULK])
				      : weir_between(b.queue[WEIR_BAND_AHEAD], b.drain[WEIR_BAND_AHEAD]));
	weir_pair_departure(b.drain[WEIR_BAND_BULK], c, len_bytes, pair);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
