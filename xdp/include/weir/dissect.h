/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow of an IP packet in plain memory: addresses, protocol and ports, of the inner packet behind one level of
 * IP in IP or GRE. Of VXLAN, Geneve and their kin the outer ports, since the source port differs between inner flows
 * (RFC 7348 5). As net/core/flow_dissector.c has it, so that XDP and tc see the same flows.
 */
#ifndef WEIR_DISSECT_H
#define WEIR_DISSECT_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

#include "law.h"

#define WEIR_DISSECT_LEVELS 2
#define WEIR_DISSECT_EXTENSIONS 4
#define WEIR_DISSECT_MOST_BYTES                                                                                        \
	1022 /* of a frame, before the last header that is read; all headers begin at even ones */

#define WEIR_IP_FRAGMENT 0x3fff /* offset, and more fragments */
#define WEIR_GRE_CHECKSUM 0x8000
#define WEIR_GRE_KEY 0x2000
#define WEIR_GRE_SEQUENCE 0x1000
#define WEIR_GRE_UNKNOWN 0x4007 /* routing, and the version */

/* Words of a flow: four of each address, IPv4's in the first; ports; protocol. */
enum { WEIR_FLOW_SOURCE = 0, WEIR_FLOW_DESTINATION = 4, WEIR_FLOW_PORTS = 8, WEIR_FLOW_PROTOCOL = 9, WEIR_FLOW_WORDS };

/*
 * Volatile, and in the value of a map: the verifier does not follow what is there. In registers and on the stack each
 * way through the headers would be a state of its own, and each goes on to the end of the program.
 */
struct weir_dissection {
	volatile __u32 word[WEIR_FLOW_WORDS];
	volatile __u32 at;	 /* bytes before the next header */
	volatile __be16 proto;	 /* of that header, an IP one */
	volatile __u16 protocol; /* of the header behind it */
};

/* A word at an even address: some kernels check each access for its alignment. */
typedef __u32 __attribute__((aligned(2), may_alias)) weir_even_word;

/* The next header, if so much of it is there. */
WEIR_INLINE const void *weir_dissect_next(const struct weir_dissection *d, const void *data, const void *end,
					  __u32 bytes)
{
	__u32 at = d->at;

	if (at > WEIR_DISSECT_MOST_BYTES)
		return 0;
	at &= WEIR_DISSECT_MOST_BYTES; /* the verifier wants to see that it is even */
	data += at;
	return data + bytes > end ? 0 : data;
}

/* 0: neither ports nor a tunnel can be read behind this header, of a fragment or a packet that is cut short. */
WEIR_INLINE int weir_dissect_ipv4(struct weir_dissection *d, const void *data, const void *end)
{
	const __u8 *h = weir_dissect_next(d, data, end, sizeof(struct iphdr));

	if (!h || h[0] >> 4 != 4 || (h[0] & 15) < 5)
		return 0;
#pragma unroll
	for (int i = 1; i < 4; i++)
		d->word[WEIR_FLOW_SOURCE + i] = d->word[WEIR_FLOW_DESTINATION + i] = 0;
	d->word[WEIR_FLOW_SOURCE] = *(const weir_even_word *)(h + 12);
	d->word[WEIR_FLOW_DESTINATION] = *(const weir_even_word *)(h + 16);
	d->word[WEIR_FLOW_PROTOCOL] = d->protocol = h[9];
	d->at += (h[0] & 15) * 4;
	return !(*(const __be16 *)(h + 6) & bpf_htons(WEIR_IP_FRAGMENT));
}

WEIR_INLINE int weir_is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING || protocol == IPPROTO_DSTOPTS ||
	       protocol == IPPROTO_FRAGMENT;
}

WEIR_INLINE int weir_dissect_ipv6(struct weir_dissection *d, const void *data, const void *end)
{
	const __u8 *h = weir_dissect_next(d, data, end, sizeof(struct ipv6hdr));
	__u8 protocol;

	if (!h || h[0] >> 4 != 6)
		return 0;
#pragma unroll
	for (int i = 0; i < WEIR_FLOW_PORTS; i++) /* both addresses */
		d->word[i] = *(const weir_even_word *)(h + 8 + 4 * i);
	d->word[WEIR_FLOW_PROTOCOL] = d->protocol = h[6];
	d->at += sizeof(struct ipv6hdr);
#pragma unroll
	for (int i = 0; i < WEIR_DISSECT_EXTENSIONS; i++) {
		protocol = (__u8)d->protocol;
		if (!weir_is_extension(protocol))
			return 1;
		h = weir_dissect_next(d, data, end, 8);
		if (!h)
			return 0;
		d->word[WEIR_FLOW_PROTOCOL] = d->protocol = h[0];
		if (protocol == IPPROTO_FRAGMENT)
			return 0;
		d->at += 8 + h[1] * 8;
	}
	return 1;
}

/* RFC 2784 and 2890, with IP or Ethernet in it. */
WEIR_INLINE int weir_dissect_gre(struct weir_dissection *d, const void *data, const void *end)
{
	const __be16 *h = weir_dissect_next(d, data, end, 4);
	__be16 flags;

	if (!h || h[0] & bpf_htons(WEIR_GRE_UNKNOWN))
		return 0;
	flags = h[0];
	d->proto = h[1];
	d->at += 4 + (flags & bpf_htons(WEIR_GRE_CHECKSUM) ? 4 : 0) + (flags & bpf_htons(WEIR_GRE_KEY) ? 4 : 0) +
		 (flags & bpf_htons(WEIR_GRE_SEQUENCE) ? 4 : 0);
	if (d->proto == bpf_htons(ETH_P_TEB)) {
		h = weir_dissect_next(d, data, end, sizeof(struct ethhdr));
		if (!h)
			return 0;
		d->proto = h[6];
		d->at += sizeof(struct ethhdr);
	}
	return d->proto == bpf_htons(ETH_P_IP) || d->proto == bpf_htons(ETH_P_IPV6);
}

/* Whether the next header is that of a packet in the packet. */
WEIR_INLINE int weir_dissect_tunnel(struct weir_dissection *d, const void *data, const void *end)
{
	if (d->protocol == IPPROTO_GRE)
		return weir_dissect_gre(d, data, end);
	d->proto = d->protocol == IPPROTO_IPIP ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	return d->protocol == IPPROTO_IPIP || d->protocol == IPPROTO_IPV6;
}

WEIR_INLINE int weir_has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

/* The flow of the IP packet at `at`. The number of an association of ESP or AH counts as ports. */
WEIR_INLINE void weir_dissect(struct weir_dissection *d, const void *data, const void *end, __u32 at, __be16 proto)
{
	const weir_even_word *ports;

#pragma unroll
	for (int i = 0; i < WEIR_FLOW_WORDS; i++)
		d->word[i] = 0;
	d->at = at;
	d->proto = proto;
#pragma unroll
	for (int level = 0; level < WEIR_DISSECT_LEVELS; level++) {
		if (!(d->proto == bpf_htons(ETH_P_IP) ? weir_dissect_ipv4(d, data, end)
						      : weir_dissect_ipv6(d, data, end)))
			return;
		if (level == WEIR_DISSECT_LEVELS - 1 || !weir_dissect_tunnel(d, data, end))
			break;
	}
	if (d->protocol == IPPROTO_AH)
		d->at += 4;
	else if (!weir_has_ports((__u8)d->protocol) && d->protocol != IPPROTO_ESP)
		return;
	ports = weir_dissect_next(d, data, end, 4);
	if (ports)
		d->word[WEIR_FLOW_PORTS] = *ports;
}

#endif /* WEIR_DISSECT_H */
