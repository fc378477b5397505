/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading and writing the two ECN bits. A header that is cut short or not of its version can't carry a mark: it counts
 * as Not-ECT. Up to two VLAN tags are looked through.
 */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "law.h"

#define WEIR_ECN_MASK 3
#define WEIR_ECN_CE 3
#define WEIR_ECN_L4S 1 /* set in ECT(1) and CE, and in no other */
/* In a packet's tc_index: the band of the coupled law that it is in, from the one end of the veth to the other. */
#define WEIR_INDEX_C 1
#define WEIR_INDEX_L 2
#define WEIR_VLAN_BYTES 4
#define WEIR_VLAN_TAGS 2
#define WEIR_IP_OFFSET_MAX (sizeof(struct ethhdr) + WEIR_VLAN_TAGS * WEIR_VLAN_BYTES)

/* Where the IP header of a packet is. proto: ETH_P_IP, ETH_P_IPV6 in network order, 0 if it is neither. */
struct weir_ip {
	__u32 offset;
	__be16 proto;
};

WEIR_INLINE int weir_is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

WEIR_INLINE int weir_is_ip(__be16 proto)
{
	return proto == bpf_htons(ETH_P_IP) || proto == bpf_htons(ETH_P_IPV6);
}

/* RFC 1624 Eq. 3, for one 16-bit word in network order. */
WEIR_INLINE __sum16 weir_checksum_replace(__sum16 checksum, __be16 old_word, __be16 new_word)
{
	__u32 sum = (__u16)~checksum + (__u16)~old_word + new_word;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

/* tc: an skb, whose tags may be beside the data (then skb->protocol already is what is inside) or in it. */
WEIR_INLINE struct weir_ip weir_skb_find_ip(struct __sk_buff *skb, __u32 l2_bytes)
{
	struct weir_ip ip = {.offset = l2_bytes, .proto = (__be16)skb->protocol};

#pragma unroll
	for (int tag = 0; tag < WEIR_VLAN_TAGS; tag++) {
		if (!weir_is_vlan(ip.proto) || (tag + 1 == WEIR_VLAN_TAGS && skb->vlan_present))
			break;
		if (bpf_skb_load_bytes(skb, ip.offset + 2, &ip.proto, sizeof(ip.proto)) < 0)
			ip.proto = 0;
		ip.offset += WEIR_VLAN_BYTES;
	}
	if (!weir_is_ip(ip.proto))
		ip.proto = 0;
	return ip;
}

/* Whether an skb is ECT(0), ECT(1) or CE. Looked up in the data where it lies there; the helper costs more. */
WEIR_INLINE int weir_skb_is_ect(const struct __sk_buff *skb, struct weir_ip ip)
{
	const __u8 *at = (const void *)(long)skb->data + ip.offset;
	__u8 h[2];

	if (!ip.proto)
		return 0;
	if (ip.offset <= WEIR_IP_OFFSET_MAX && (const void *)(at + 2) <= (const void *)(long)skb->data_end) {
		h[0] = at[0];
		h[1] = at[1];
	} else if (bpf_skb_load_bytes(skb, ip.offset, h, sizeof(h)) < 0) {
		return 0;
	}
	return (ip.proto == bpf_htons(ETH_P_IP) ? h[1] : h[1] >> 4) & WEIR_ECN_MASK;
}

/* Sets CE on an ECT packet. Returns 0 if the packet is Not-ECT or could not be written, and is then as it was. */
WEIR_INLINE int weir_skb_mark(struct __sk_buff *skb, struct weir_ip ip)
{
	__u8 ecn;

	if (ip.proto == bpf_htons(ETH_P_IP)) {
		struct iphdr h;
		__be16 old_word, new_word;
		__u8 tos;

		if (bpf_skb_load_bytes(skb, ip.offset, &h, sizeof(h)) < 0 || h.version != 4 || h.ihl < 5)
			return 0;
		ecn = h.tos & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		tos = h.tos | WEIR_ECN_CE;
		old_word = bpf_htons(h.version << 12 | h.ihl << 8 | h.tos);
		new_word = bpf_htons(h.version << 12 | h.ihl << 8 | tos);
		h.check = weir_checksum_replace(h.check, old_word, new_word);
		h.tos = tos;
		/* the sum over the header stays the same, so a checksum the kernel keeps of the whole stays right */
		return bpf_skb_store_bytes(skb, ip.offset, &h, sizeof(h), 0) == 0;
	} else {
		__u8 h[sizeof(struct ipv6hdr)];

		if (bpf_skb_load_bytes(skb, ip.offset, h, sizeof(h)) < 0 || h[0] >> 4 != 6)
			return 0;
		ecn = h[1] >> 4 & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		h[1] |= WEIR_ECN_CE << 4;
		return bpf_skb_store_bytes(skb, ip.offset + 1, &h[1], 1, BPF_F_RECOMPUTE_CSUM) == 0;
	}
}

/* XDP: plain Ethernet frames. */
WEIR_INLINE struct weir_ip weir_xdp_find_ip(const struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct weir_ip ip = {.offset = sizeof(struct ethhdr), .proto = 0};
	const struct ethhdr *eth = data;

	if ((const void *)(eth + 1) > end)
		return ip;
	ip.proto = eth->h_proto;
#pragma unroll
	for (int tag = 0; tag < WEIR_VLAN_TAGS; tag++) {
		const __be16 *inner = data + ip.offset + 2;

		if (!weir_is_vlan(ip.proto))
			break;
		ip.proto = (const void *)(inner + 1) > end ? 0 : *inner;
		ip.offset += WEIR_VLAN_BYTES;
	}
	if (!weir_is_ip(ip.proto))
		ip.proto = 0;
	return ip;
}

WEIR_INLINE int weir_xdp_is_ect(const struct xdp_md *ctx, struct weir_ip ip)
{
	const __u8 *h = (const void *)(long)ctx->data + ip.offset;

	if (!ip.proto || ip.offset > WEIR_IP_OFFSET_MAX || (const void *)(h + 2) > (const void *)(long)ctx->data_end)
		return 0;
	return (ip.proto == bpf_htons(ETH_P_IP) ? h[1] : h[1] >> 4) & WEIR_ECN_MASK;
}

WEIR_INLINE int weir_xdp_mark(const struct xdp_md *ctx, struct weir_ip ip)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 ecn;

	if (ip.offset > WEIR_IP_OFFSET_MAX)
		return 0; /* never; the verifier wants to see the bound */
	if (ip.proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *h = data + ip.offset;
		__be16 old_word;

		if ((void *)(h + 1) > end || h->version != 4 || h->ihl < 5)
			return 0;
		ecn = h->tos & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		old_word = *(__be16 *)h;
		h->tos |= WEIR_ECN_CE;
		h->check = weir_checksum_replace(h->check, old_word, *(__be16 *)h);
	} else {
		__u8 *h = data + ip.offset;

		if ((void *)(h + sizeof(struct ipv6hdr)) > end || h[0] >> 4 != 6)
			return 0;
		ecn = h[1] >> 4 & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		h[1] |= WEIR_ECN_CE << 4;
	}
	return 1;
}

#endif /* WEIR_PACKET_H */
