// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times packets through whatever lies between a device's clsact egress and its peer's clsact ingress, which is the
 * device's queue. Changes no packet and no verdict. Loaded once per hop; the maps are shared. Runs without BTF and JIT.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <asm/errno.h>
#include <bpf/bpf_helpers.h>

#include "weir/packet.h"
#include "weir/sojourn.h"

#define FRAGMENT_OFFSET 0x1fff
#define UDP_CHECKSUM_AT 6
/* Space for a TCP header before the tail, so that no checksum is in it. */
#define TAIL_NEEDS_BYTES (20 + SOJOURN_TAIL_BYTES)

const volatile __u32 hop = 0;
const volatile __u64 lost_after_ns = 3000000000ULL;
const volatile __u32 one_in = 1;

/* Not an LRU: when it is full the newcomer goes untimed and is counted, where an LRU would forget silently. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SOJOURN_INSIDE_MAX);
	__type(key, struct sojourn_key);
	__type(value, struct sojourn_stamp);
} inside SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SOJOURN_HOPS_MAX);
	__type(key, __u32);
	__type(value, struct sojourn_counters);
} counters SEC(".maps");

WEIR_INLINE void add_one(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/*
 * Whether a packet is of those that are timed: as likely for one as for another, and the same at every hop. The choice
 * depends on fields that differ between the packets of a flow: numbers of TCP, encrypted bytes of QUIC, IP ids of the
 * rest.
 */
WEIR_INLINE int is_timed(const struct sojourn_key *key)
{
	const __u32 *transport = (const __u32 *)key->transport, *tail = (const __u32 *)key->tail;
	__u32 mixed = key->id;

	if (one_in == 1)
		return 1;
	for (int i = 0; i < SOJOURN_TRANSPORT_BYTES / 4; i++)
		mixed = (mixed ^ transport[i]) * 0x9e3779b1U;
	for (int i = 0; i < SOJOURN_TAIL_BYTES / 4; i++)
		mixed = (mixed ^ tail[i]) * 0x9e3779b1U;
	/* The high bits have mixed best. */
	return (mixed >> 16) % one_in == 0;
}

/* Fills a key that is all zero, and *ecn with the packet's ECN field. Returns 0 if it is not IP. */
WEIR_INLINE int identify(struct __sk_buff *skb, struct sojourn_key *key, __u8 *ecn)
{
	struct weir_header ip = weir_skb_find_header(skb, ETH_HLEN);
	__u32 transport_at, transport_bytes;

	key->hop = hop;
	if (ip.proto == bpf_htons(ETH_P_IP)) {
		struct iphdr h;

		if (bpf_skb_load_bytes(skb, ip.offset, &h, sizeof(h)) < 0 || h.version != 4 || h.ihl < 5)
			return 0;
		key->version = 4;
		key->protocol = h.protocol;
		key->id = h.id;
		key->fragment = bpf_ntohs(h.frag_off);
		key->ip_bytes = bpf_ntohs(h.tot_len);
		__builtin_memcpy(key->source, &h.saddr, sizeof(h.saddr));
		__builtin_memcpy(key->destination, &h.daddr, sizeof(h.daddr));
		*ecn = h.tos & WEIR_ECN_MASK;
		transport_at = h.ihl * 4;
	} else if (ip.proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr h;
		const __u8 *raw = (const __u8 *)&h;

		if (bpf_skb_load_bytes(skb, ip.offset, &h, sizeof(h)) < 0 || h.version != 6)
			return 0;
		key->version = 6;
		key->protocol = h.nexthdr;
		key->id = (raw[1] & 0xfU) << 16 | raw[2] << 8 | raw[3];
		key->ip_bytes = (__u16)(bpf_ntohs(h.payload_len) + sizeof(h));
		__builtin_memcpy(key->source, &h.saddr, sizeof(key->source));
		__builtin_memcpy(key->destination, &h.daddr, sizeof(key->destination));
		*ecn = raw[1] >> 4 & WEIR_ECN_MASK;
		transport_at = sizeof(h);
	} else {
		return 0;
	}

	/* Failing to read them leaves zeros: the rest is still an identity. */
	transport_bytes = key->ip_bytes > transport_at ? key->ip_bytes - transport_at : 0;
	if (transport_bytes >= SOJOURN_TRANSPORT_BYTES)
		bpf_skb_load_bytes(skb, ip.offset + transport_at, key->transport, SOJOURN_TRANSPORT_BYTES);
	else if (transport_bytes >= SOJOURN_TRANSPORT_BYTES / 2)
		bpf_skb_load_bytes(skb, ip.offset + transport_at, key->transport, SOJOURN_TRANSPORT_BYTES / 2);
	if (transport_bytes >= TAIL_NEEDS_BYTES)
		bpf_skb_load_bytes(skb, ip.offset + key->ip_bytes - SOJOURN_TAIL_BYTES, key->tail, SOJOURN_TAIL_BYTES);
	if (key->protocol == IPPROTO_UDP && !(key->fragment & FRAGMENT_OFFSET)) {
		key->transport[UDP_CHECKSUM_AT] = 0;
		key->transport[UDP_CHECKSUM_AT + 1] = 0;
	}
	return 1;
}

/*
 * Whether a packet is of band L: ECT(1) and CE (RFC 9332 2.5.1). Our own law has seen the packet before us and may have
 * marked one of band C; where it has two bands, it says in tc_index which one the packet is in.
 */
WEIR_INLINE int is_low(const struct __sk_buff *skb, __u8 ecn)
{
	return skb->tc_index ? skb->tc_index == WEIR_INDEX_L : ecn & WEIR_ECN_L4S;
}

/* Hash of a packet's flow: addresses, protocol, and ports of TCP and UDP. 1 to 2^20 - 1, so two flows may share one. */
WEIR_INLINE __u32 flow_of(const struct sojourn_key *key)
{
	const __u32 *source = (const __u32 *)key->source, *destination = (const __u32 *)key->destination;
	__u32 mixed = key->protocol;

	for (int i = 0; i < 4; i++)
		mixed = ((mixed ^ source[i]) * 0x9e3779b1U ^ destination[i]) * 0x85ebca6bU;
	if ((key->protocol == IPPROTO_TCP || key->protocol == IPPROTO_UDP) && !(key->fragment & FRAGMENT_OFFSET))
		mixed ^= *(const __u32 *)key->transport;
	mixed = (mixed ^ mixed >> 15) * 0x9e3779b1U;
	return mixed >> 12 ? mixed >> 12 : 1;
}

WEIR_INLINE void report(struct sojourn_counters *n, const struct sojourn_stamp *stamp, const struct sojourn_key *key,
			__u64 exit_ns, __u8 ecn)
{
	struct sojourn_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		add_one(&n->ring_drops);
		return;
	}
	event->entry_ns = stamp->entry_ns;
	event->exit_ns = exit_ns;
	event->bytes = stamp->bytes;
	event->hop = (__u16)hop;
	event->ce = ecn == WEIR_ECN_CE;
	event->low = (__u8)stamp->low;
	event->flow = flow_of(key);
	event->reserved = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP); /* the process looks by itself: a wake-up a packet is dear */
}

SEC("tc")
int sojourn_entry(struct __sk_buff *skb)
{
	struct sojourn_stamp stamp = {.entry_ns = bpf_ktime_get_ns(), .bytes = skb->len};
	struct sojourn_key key = {};
	__u32 index = hop;
	struct sojourn_counters *n = bpf_map_lookup_elem(&counters, &index);
	struct sojourn_stamp *before, old;
	__u8 ecn = 0;
	long result;

	if (!n || !identify(skb, &key, &ecn) || !is_timed(&key))
		return TC_ACT_UNSPEC;
	stamp.low = is_low(skb, ecn);
	result = bpf_map_update_elem(&inside, &key, &stamp, BPF_NOEXIST);
	if (!result) {
		add_one(&n->stamped);
		return TC_ACT_UNSPEC;
	}
	before = bpf_map_lookup_elem(&inside, &key);
	if (result != -EEXIST || !before) {
		add_one(&n->full);
		return TC_ACT_UNSPEC;
	}
	old = *before;
	if (stamp.entry_ns - old.entry_ns < lost_after_ns) {
		add_one(&n->collisions);
		return TC_ACT_UNSPEC;
	}
	if (!bpf_map_update_elem(&inside, &key, &stamp, BPF_EXIST)) {
		add_one(&n->stamped);
		add_one(&n->replaced);
		report(n, &old, &key, 0, 0);
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int sojourn_exit(struct __sk_buff *skb)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct sojourn_key key = {};
	__u32 index = hop;
	struct sojourn_counters *n = bpf_map_lookup_elem(&counters, &index);
	struct sojourn_stamp *found, stamp;
	__u8 ecn = 0;

	if (!n || !identify(skb, &key, &ecn) || !is_timed(&key))
		return TC_ACT_UNSPEC;
	found = bpf_map_lookup_elem(&inside, &key);
	if (!found) {
		add_one(&n->strays);
		return TC_ACT_UNSPEC;
	}
	stamp = *found;
	if (bpf_map_delete_elem(&inside, &key)) /* the process has just given it up */
		return TC_ACT_UNSPEC;
	add_one(&n->matched);
	report(n, &stamp, &key, now_ns, ecn);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
