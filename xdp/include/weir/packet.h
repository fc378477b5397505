/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading and writing marks of congestion: the two ECN bits of IP, the flags of Data by name (docs/design/icn.md). A
 * header of IP that is cut short or not of its version can't carry a mark: it counts as Not-ECT. The header is the
 * outermost one (RFC 6040), behind up to two VLAN tags and a PPPoE session.
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

/* RFC 2516 4 with the PPP protocol number behind it, which RFC 2516 7 asks peers not to compress. */
struct weir_pppoe {
	__u8 version_type;
	__u8 code;
	__be16 session;
	__be16 length;
	__be16 protocol;
};
#define WEIR_PPPOE_SESSION_DATA 0
#define WEIR_PPP_IP 0x0021
#define WEIR_PPP_IPV6 0x0057

#define WEIR_HEADER_OFFSET_MAX (sizeof(struct ethhdr) + WEIR_VLAN_TAGS * WEIR_VLAN_BYTES + sizeof(struct weir_pppoe))

/* Packets by name. Others use this EtherType for experiments of their own: without our header it is none of ours. */
#define WEIR_ETH_P_NAMES 0x88b5
#define WEIR_NAMES_BYTES 32
#define WEIR_NAMES_INTEREST 0x11 /* the first byte: version 1, and the kind */
#define WEIR_NAMES_DATA 0x12
#define WEIR_NAMES_NACK 0x13
#define WEIR_NAMES_ECT 1 /* in the second byte */
#define WEIR_NAMES_CE 2

/*
 * Where the header is that the law reads. proto: ETH_P_IP, ETH_P_IPV6 or WEIR_ETH_P_NAMES in network order, 0 if it is
 * none of them.
 */
struct weir_header {
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

WEIR_INLINE int weir_is_pppoe(__be16 proto)
{
	return proto == bpf_htons(ETH_P_PPP_SES);
}

/* 0 for control packets of PPP: a session without them breaks, so the law leaves them alone. */
WEIR_INLINE __be16 weir_pppoe_payload(const struct weir_pppoe *h)
{
	if (h->version_type != 0x11 || h->code != WEIR_PPPOE_SESSION_DATA)
		return 0;
	if (h->protocol == bpf_htons(WEIR_PPP_IP))
		return bpf_htons(ETH_P_IP);
	return h->protocol == bpf_htons(WEIR_PPP_IPV6) ? bpf_htons(ETH_P_IPV6) : 0;
}

WEIR_INLINE int weir_is_names(__be16 proto)
{
	return proto == bpf_htons(WEIR_ETH_P_NAMES);
}

WEIR_INLINE int weir_is_names_kind(__u8 first)
{
	return first >= WEIR_NAMES_INTEREST && first <= WEIR_NAMES_NACK;
}

/* Whether a header that begins with these bytes is ECT (of IP also: CE). */
WEIR_INLINE int weir_is_ect(__be16 proto, __u8 first, __u8 second)
{
	if (weir_is_names(proto))
		return first == WEIR_NAMES_DATA && (second & WEIR_NAMES_ECT);
	return (proto == bpf_htons(ETH_P_IP) ? second : second >> 4) & WEIR_ECN_MASK;
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
WEIR_INLINE struct weir_header weir_skb_find_header(struct __sk_buff *skb, __u32 l2_bytes)
{
	struct weir_header header = {.offset = l2_bytes, .proto = (__be16)skb->protocol};
	struct weir_pppoe pppoe;
	__u8 first;

#pragma unroll
	for (int tag = 0; tag < WEIR_VLAN_TAGS; tag++) {
		if (!weir_is_vlan(header.proto) || (tag + 1 == WEIR_VLAN_TAGS && skb->vlan_present))
			break;
		if (bpf_skb_load_bytes(skb, header.offset + 2, &header.proto, sizeof(header.proto)) < 0)
			header.proto = 0;
		header.offset += WEIR_VLAN_BYTES;
	}
	if (weir_is_ip(header.proto))
		return header;
	if (weir_is_pppoe(header.proto)) {
		header.proto = bpf_skb_load_bytes(skb, header.offset, &pppoe, sizeof(pppoe)) < 0
				       ? 0
				       : weir_pppoe_payload(&pppoe);
		header.offset += sizeof(pppoe);
		return header;
	}
	if (!weir_is_names(header.proto) || skb->len < header.offset + WEIR_NAMES_BYTES ||
	    bpf_skb_load_bytes(skb, header.offset, &first, sizeof(first)) < 0 || !weir_is_names_kind(first))
		header.proto = 0;
	return header;
}

/*
 * Length of a packet on the line, where all segments of a GSO packet have headers, and the tag that may be beside the
 * data. The root qdisc counts the same but for that tag.
 */
WEIR_INLINE __u64 weir_skb_wire_len(const struct __sk_buff *skb)
{
	/* volatile: beside a load of skb->len clang makes one load through an altered pointer, which the verifier
	 * rejects */
	return *(const volatile __u32 *)&skb->wire_len + (skb->vlan_present ? WEIR_VLAN_BYTES : 0);
}

/* Whether an skb can carry a mark, or has one. Looked up in the data where it lies there; the helper costs more. */
WEIR_INLINE int weir_skb_is_ect(const struct __sk_buff *skb, struct weir_header header)
{
	const __u8 *at = (const void *)(long)skb->data;
	__u32 offset = header.offset;
	__u8 h[2];

	if (!header.proto)
		return 0;
	asm volatile("" : "+r"(offset)); /* one register: the verifier must see the bound of what is added */
	if (offset <= WEIR_HEADER_OFFSET_MAX) {
		at += offset;
		asm volatile("" : "+r"(at)); /* likewise */
		if ((const void *)(at + 2) <= (const void *)(long)skb->data_end)
			return weir_is_ect(header.proto, at[0], at[1]);
	}
	if (bpf_skb_load_bytes(skb, header.offset, h, sizeof(h)) < 0)
		return 0;
	return weir_is_ect(header.proto, h[0], h[1]);
}

/* Telephony: EF (RFC 3246) and VOICE-ADMIT (RFC 5865). */
#define WEIR_DSCP_EF 46
#define WEIR_DSCP_VOICE_ADMIT 44

/* Whether a packet's DSCP is one of telephony. */
WEIR_INLINE int weir_skb_goes_ahead(struct __sk_buff *skb, struct weir_header header)
{
	__u8 h[2], dscp;

	if (!weir_is_ip(header.proto) || bpf_skb_load_bytes(skb, header.offset, h, sizeof(h)) < 0)
		return 0;
	dscp = header.proto == bpf_htons(ETH_P_IP) ? h[1] >> 2 : (h[0] & 15) << 2 | h[1] >> 6;
	return dscp == WEIR_DSCP_EF || dscp == WEIR_DSCP_VOICE_ADMIT;
}

/* Sets CE on an ECT packet. Returns 0 if the packet is Not-ECT or could not be written, and is then as it was. */
WEIR_INLINE int weir_skb_mark(struct __sk_buff *skb, struct weir_header header)
{
	__u8 ecn;

	if (header.proto == bpf_htons(ETH_P_IP)) {
		struct iphdr h;
		__be16 old_word, new_word;
		__u8 tos;

		if (bpf_skb_load_bytes(skb, header.offset, &h, sizeof(h)) < 0 || h.version != 4 || h.ihl < 5)
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
		return bpf_skb_store_bytes(skb, header.offset, &h, sizeof(h), 0) == 0;
	} else if (weir_is_names(header.proto)) {
		__u8 h[2];

		if (bpf_skb_load_bytes(skb, header.offset, h, sizeof(h)) < 0 || !weir_is_ect(header.proto, h[0], h[1]))
			return 0;
		h[1] |= WEIR_NAMES_CE;
		return bpf_skb_store_bytes(skb, header.offset + 1, &h[1], 1, BPF_F_RECOMPUTE_CSUM) == 0;
	} else {
		__u8 h[sizeof(struct ipv6hdr)];

		if (bpf_skb_load_bytes(skb, header.offset, h, sizeof(h)) < 0 || h[0] >> 4 != 6)
			return 0;
		ecn = h[1] >> 4 & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		h[1] |= WEIR_ECN_CE << 4;
		return bpf_skb_store_bytes(skb, header.offset + 1, &h[1], 1, BPF_F_RECOMPUTE_CSUM) == 0;
	}
}

/* XDP: plain Ethernet frames. */
WEIR_INLINE struct weir_header weir_xdp_find_header(const struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct weir_header header = {.offset = sizeof(struct ethhdr), .proto = 0};
	const struct ethhdr *eth = data;
	const __u8 *names;

	if ((const void *)(eth + 1) > end)
		return header;
	header.proto = eth->h_proto;
#pragma unroll
	for (int tag = 0; tag < WEIR_VLAN_TAGS; tag++) {
		const __be16 *inner = data + header.offset + 2;

		if (!weir_is_vlan(header.proto))
			break;
		header.proto = (const void *)(inner + 1) > end ? 0 : *inner;
		header.offset += WEIR_VLAN_BYTES;
	}
	if (weir_is_ip(header.proto))
		return header;
	if (weir_is_pppoe(header.proto)) {
		const struct weir_pppoe *pppoe = data + header.offset;

		header.proto = (const void *)(pppoe + 1) > end ? 0 : weir_pppoe_payload(pppoe);
		header.offset += sizeof(*pppoe);
		return header;
	}
	names = data + header.offset;
	if (!weir_is_names(header.proto) || (const void *)(names + WEIR_NAMES_BYTES) > end ||
	    !weir_is_names_kind(names[0]))
		header.proto = 0;
	return header;
}

WEIR_INLINE int weir_xdp_is_ect(const struct xdp_md *ctx, struct weir_header header)
{
	const __u8 *h = (const void *)(long)ctx->data + header.offset;

	if (!header.proto || header.offset > WEIR_HEADER_OFFSET_MAX ||
	    (const void *)(h + 2) > (const void *)(long)ctx->data_end)
		return 0;
	return weir_is_ect(header.proto, h[0], h[1]);
}

WEIR_INLINE int weir_xdp_mark(const struct xdp_md *ctx, struct weir_header header)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 ecn;

	if (header.offset > WEIR_HEADER_OFFSET_MAX)
		return 0; /* never; the verifier wants to see the bound */
	if (header.proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *h = data + header.offset;
		__be16 old_word;

		if ((void *)(h + 1) > end || h->version != 4 || h->ihl < 5)
			return 0;
		ecn = h->tos & WEIR_ECN_MASK;
		if (!ecn || ecn == WEIR_ECN_CE)
			return ecn;
		old_word = *(__be16 *)h;
		h->tos |= WEIR_ECN_CE;
		h->check = weir_checksum_replace(h->check, old_word, *(__be16 *)h);
	} else if (weir_is_names(header.proto)) {
		__u8 *h = data + header.offset;

		if ((void *)(h + 2) > end || !weir_is_ect(header.proto, h[0], h[1]))
			return 0;
		h[1] |= WEIR_NAMES_CE;
	} else {
		__u8 *h = data + header.offset;

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
