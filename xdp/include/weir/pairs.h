/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signal veth: what a queue holds is what went in at one end less what came out at the other. */
#ifndef WEIR_PAIRS_H
#define WEIR_PAIRS_H

#include <linux/in.h>

#include "departures.h"
#include "packet.h"

/*
 * Length of a packet at either end of a veth. The receiving side takes the outermost tag out of the data and the
 * sending side may never have had it in there, so it is counted where it is missing.
 */
WEIR_INLINE __u64 weir_skb_len(const struct __sk_buff *skb)
{
	return skb->len + (skb->vlan_present ? WEIR_VLAN_BYTES : 0);
}

/* Link, IP and transport header of a GSO packet; 0 if they can't be read. */
WEIR_INLINE __u32 weir_gso_header_bytes(struct __sk_buff *skb, __u32 l2_bytes)
{
	struct weir_header header = weir_skb_find_header(skb, l2_bytes);
	__u32 bytes = header.offset + sizeof(struct ipv6hdr), protocol_at = 6;
	__u8 first, protocol, words;

	if (!weir_is_ip(header.proto) || bpf_skb_load_bytes(skb, header.offset, &first, sizeof(first)) < 0)
		return 0;
	if (header.proto == bpf_htons(ETH_P_IP)) {
		bytes = header.offset + (first & 15) * 4;
		protocol_at = 9;
	}
	if (bpf_skb_load_bytes(skb, header.offset + protocol_at, &protocol, sizeof(protocol)) < 0)
		return 0;
	if (protocol == IPPROTO_UDP)
		return bytes + 8;
	if (protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, bytes + 12, &words, sizeof(words)) < 0)
		return 0;
	return bytes + (words >> 4) * 4;
}

/*
 * A packet as WEIR_PAIR, by the segments of a GSO packet: it may come out whole or as its segments, and both ends must
 * count the same. gso_segs is 0 where the packet came from a virtual machine.
 */
WEIR_INLINE __u64 weir_skb_pair(struct __sk_buff *skb, __u32 l2_bytes)
{
	__u32 segment_bytes = skb->gso_size, header_bytes, segments;
	__u64 len_bytes = weir_skb_len(skb);

	if (!segment_bytes)
		return WEIR_PAIR(1, len_bytes);
	header_bytes = weir_gso_header_bytes(skb, l2_bytes);
	if (!header_bytes || skb->len <= header_bytes)
		return WEIR_PAIR(1, len_bytes);
	segments = (skb->len - header_bytes + segment_bytes - 1) / segment_bytes;
	header_bytes += len_bytes - skb->len; /* the tag */
	return WEIR_PAIR(segments, len_bytes + (__u64)(segments - 1) * header_bytes);
}

/* Bytes between the two ends. `out` is read first: a packet is in before it is out. */
WEIR_INLINE __u64 weir_between(const struct weir_queue *q, const struct weir_drain *d)
{
	__u64 out = *(const volatile __u64 *)&d->out;
	__u64 pair = *(const volatile __u64 *)&q->in - out;

	return pair < WEIR_PAIR_NEGATIVE ? pair : 0;
}

/* The pair, or 0 if something else dropped what we count as queued (a full qdisc, a lossy link): then we start anew. */
WEIR_INLINE __u64 weir_pair_resync(struct weir_queue *q, const struct weir_drain *d, struct weir_counters *n,
				   __u64 pair, __u64 now_ns)
{
	if (!pair || !weir_ago(now_ns, d->last_ns, WEIR_STUCK_NS) || !weir_ago(now_ns, q->busy_ns, WEIR_STUCK_NS))
		return pair;
	__sync_fetch_and_add(&q->in, -pair);
	n->resyncs++;
	return 0;
}

/* A packet came out, and backlog_bytes stay behind it. */
WEIR_INLINE void weir_pair_departure(struct weir_drain *d, const struct weir_config *c, __u64 len_bytes,
				     __u64 backlog_bytes)
{
	__u64 now_ns = 0;

	/* no rate is being measured and none begins: nothing to lock for */
	if (!d->rate.dq_on && !weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes))
		return;
	/* Guessed before the lock, because no helper can be called under it; if another CPU made the guess wrong,
	 * again. */
	if (weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes))
		now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&d->lock);
	if (!now_ns && weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes)) {
		bpf_spin_unlock(&d->lock);
		now_ns = bpf_ktime_get_ns();
		bpf_spin_lock(&d->lock);
	}
	weir_departure(&d->rate, &c->law, now_ns / 1000, len_bytes, backlog_bytes);
	bpf_spin_unlock(&d->lock);
}

#endif /* WEIR_PAIRS_H */
