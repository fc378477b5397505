/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow of a packet, and the bytes sent by each flow (docs/design/verdict.md, The share of flows). A flow is a
 * number; WEIR_FLOW_COUNTERS counters of a queue take its low bits.
 */
#ifndef WEIR_FLOWS_H
#define WEIR_FLOWS_H

#include "dissect.h"
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

/*
 * The key of own hashes, so that nobody outside can choose packets that share a counter with another flow. Made here,
 * because another loader may have loaded the program (`adopt`).
 */
struct weir_hash_key {
	__u64 word[WEIR_FLOW_WORDS + 1];
	__u64 is_made;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_hash_key);
} hash_key SEC(".maps");

/* Two CPUs at once leave a mixture of both keys, and count the first packets elsewhere. */
WEIR_INLINE const struct weir_hash_key *weir_hash_key(void)
{
	struct weir_hash_key *k = bpf_map_lookup_elem(&hash_key, &weir_first);

	if (!k || k->is_made)
		return k;
	for (int i = 0; i <= WEIR_FLOW_WORDS; i++)
		k->word[i] = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	k->is_made = 1;
	return k;
}

/*
 * Vector multiply-shift (Thorup, "High speed hashing for integers and strings", 3.4): over all keys, any two flows
 * share a counter as seldom as at random. The last product keeps neighbouring flows from being neighbouring counters.
 */
WEIR_INLINE __u32 weir_flow_hash(const volatile __u32 *word, int words)
{
	const struct weir_hash_key *k = weir_hash_key();
	__u64 sum;

	if (!k)
		return 0;
	sum = k->word[WEIR_FLOW_WORDS];
#pragma unroll
	for (int i = 0; i < words; i++)
		sum += k->word[i] * word[i];
	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15;
	return (__u32)(sum >> (64 - WEIR_FLOWS_SHIFT));
}

/* The flow of a packet by name, from the first words of its header: (prefix, name, kind), as in p4/include/icn_law.p4.
 */
#define WEIR_NAMES_FLOW_WORDS 5

WEIR_INLINE __u32 weir_names_flow(const __u32 header[WEIR_NAMES_FLOW_WORDS])
{
	__u32 word[WEIR_NAMES_FLOW_WORDS];

	word[0] = *(const __u8 *)header;
#pragma unroll
	for (int i = 1; i < WEIR_NAMES_FLOW_WORDS; i++)
		word[i] = header[i];
	return weir_flow_hash(word, WEIR_NAMES_FLOW_WORDS);
}

/* tc: by the kernel's own hash of addresses, protocol and ports, of the inner packet in a tunnel; it often has it
 * already. Its key is random, too. */
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

#endif /* WEIR_FLOWS_H */
