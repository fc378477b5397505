/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow of a packet, and the bytes sent by each flow (docs/design/verdict.md, The share of flows). A flow is a
 * number; WEIR_FLOW_COUNTERS counters of a queue take its low bits.
 */
#ifndef WEIR_FLOWS_H
#define WEIR_FLOWS_H

#include <linux/in.h>

#include "packet.h"
#include "queue.h"

#ifndef WEIR_FLOW_COUNTERS /* a power of two: a program of many queues says so before it includes this */
#define WEIR_FLOW_COUNTERS WEIR_FLOWS
#endif

struct weir_flows {
	struct weir_flow flow[WEIR_FLOW_COUNTERS];
};

/* By slot. Of a coupled attachment those of band C. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_flows);
} flows SEC(".maps");

/*
 * The same counter of another class is in another cache line of its page, or all would share few places of the cache.
 */
WEIR_INLINE struct weir_flow *weir_flow_at(struct weir_flows *f, __u32 slot, __u32 flow)
{
	return &f->flow[(flow ^ slot) & (WEIR_FLOW_COUNTERS - 1)];
}

/*
 * Counts a packet that arrives, and returns its flow's size. Without a lock: two CPUs at once move a drop or mark to
 * another flow at worst. Without the map all flows are small: then fewer packets are dropped or marked.
 */
WEIR_INLINE enum weir_size weir_flow_size_at(const __u32 *slot, struct weir_queue *q, const struct weir_config *c,
					     __u32 flow, __u64 now_ns, __u64 len_bytes)
{
	struct weir_flows *f = bpf_map_lookup_elem(&flows, slot);

	/* in microseconds of 1024 ns: half-lives need not be exact, and a division for each packet is dear */
	return f ? weir_flow_arrival(weir_flow_at(f, *slot, flow), &q->share, &c->law, now_ns >> 10, len_bytes)
		 : WEIR_SMALL;
}

WEIR_INLINE enum weir_size weir_flow_size(struct weir_queue *q, const struct weir_config *c, __u32 flow, __u64 now_ns,
					  __u64 len_bytes)
{
	return weir_flow_size_at(&weir_first, q, c, flow, now_ns, len_bytes);
}

/* One word more in a hash: Knuth's multiplicative one, whose high bits are the good ones, folded after each word. */
WEIR_INLINE __u32 weir_hash(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * 0x9e3779b1;
	return hash ^ hash >> 15;
}

/* The flow of a packet by name, from the first words of its header: (prefix, name, kind), as in p4/include/icn_law.p4.
 */
#define WEIR_NAMES_FLOW_WORDS 5

WEIR_INLINE __u32 weir_names_flow(const __u32 word[WEIR_NAMES_FLOW_WORDS])
{
	__u32 hash = *(const __u8 *)word;

#pragma unroll
	for (int i = 1; i < WEIR_NAMES_FLOW_WORDS; i++)
		hash = weir_hash(hash, word[i]);
	return hash >> (32 - WEIR_FLOWS_SHIFT);
}

/* tc: by the kernel's own hash of addresses, protocol and ports, which it often has already. */
WEIR_INLINE __u32 weir_skb_flow(struct __sk_buff *skb, struct weir_header header)
{
	__u32 word[WEIR_NAMES_FLOW_WORDS];

	if (!weir_is_names(header.proto))
		return bpf_get_hash_recalc(skb);
	return bpf_skb_load_bytes(skb, header.offset, word, sizeof(word)) < 0 ? 0 : weir_names_flow(word);
}

WEIR_INLINE enum weir_size weir_skb_flow_size_at(const __u32 *slot, struct weir_queue *q, struct __sk_buff *skb,
						 const struct weir_config *c, struct weir_header header, __u64 now_ns,
						 __u64 len_bytes)
{
	if (!weir_counts_flows(&c->law) || !header.proto)
		return WEIR_SMALL;
	return weir_flow_size_at(slot, q, c, weir_skb_flow(skb, header), now_ns, len_bytes);
}

WEIR_INLINE enum weir_size weir_skb_flow_size(struct weir_queue *q, struct __sk_buff *skb, const struct weir_config *c,
					      struct weir_header header, __u64 now_ns, __u64 len_bytes)
{
	return weir_skb_flow_size_at(&weir_first, q, skb, c, header, now_ns, len_bytes);
}

WEIR_INLINE int weir_has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

/*
 * XDP, where the kernel has no hash yet: the flow by addresses, protocol and ports; by addresses and protocol for
 * fragments, for protocols without ports and behind extension headers. A header that is cut short is flow 0. By name:
 * as at tc.
 */
WEIR_INLINE __u32 weir_xdp_flow(const struct xdp_md *ctx, struct weir_header header)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
	const __u32 *address, *ports = 0;
	__u32 hash;

	if (header.offset > WEIR_HEADER_OFFSET_MAX)
		return 0; /* never; the verifier wants to see the bound */
	if (header.proto == bpf_htons(ETH_P_IP)) {
		const struct iphdr *h = data + header.offset;

		if ((const void *)(h + 1) > end)
			return 0;
		hash = weir_hash(weir_hash(h->protocol, h->saddr), h->daddr);
		if (weir_has_ports(h->protocol) && !(h->frag_off & bpf_htons(0x3fff)))
			ports = (const void *)h + h->ihl * 4;
	} else if (weir_is_names(header.proto)) {
		const __u32 *word = data + header.offset;

		return (const void *)(word + WEIR_NAMES_FLOW_WORDS) > end ? 0 : weir_names_flow(word);
	} else {
		const struct ipv6hdr *h = data + header.offset;

		if ((const void *)(h + 1) > end)
			return 0;
		hash = h->nexthdr;
		address = (const __u32 *)&h->saddr; /* and behind it the other */
#pragma unroll
		for (int i = 0; i < 8; i++)
			hash = weir_hash(hash, address[i]);
		if (weir_has_ports(h->nexthdr))
			ports = (const void *)(h + 1);
	}
	if (ports && (const void *)(ports + 1) <= end)
		hash = weir_hash(hash, *ports);
	return hash >> (32 - WEIR_FLOWS_SHIFT);
}

#endif /* WEIR_FLOWS_H */
