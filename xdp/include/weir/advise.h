/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes throughput advice into SCONE packets (scone.h): the configured rate, or the fair share of the line. Reads a
 * packet's UDP payload only where the program was loaded with advice. Included after the headers of the signal.
 *
 * Of a GSO packet the first segment alone is read and written: a few rewrites in a monitoring period suffice, and a
 * write behind the linear part would copy the packet.
 */
#ifndef WEIR_ADVISE_H
#define WEIR_ADVISE_H

#include "arrival.h"
#include "flows.h"
#include "sampling.h"
#include "scone.h"

/* Set by the loader before the verifier runs, which removes the code of a program without advice. */
const volatile __u32 weir_advises SEC(".rodata.advise") = 0;

#define WEIR_UDP_BYTES 8
#define WEIR_ADVISED_SLOTS 4096 /* a power of two */
#define WEIR_COUNT_EVERY_NS 100000000ULL

struct weir_advised {
	__u64 next_ns[WEIR_ADVISED_SLOTS]; /* by flow: struct Rewrites of the golden model */
	__u64 counted_ns;
	__u64 flows; /* active at that time */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_advised);
} advised SEC(".maps");

#ifdef WEIR_SAMPLES_XDP
WEIR_INLINE int weir_advise_load(struct xdp_md *ctx, __u32 at, void *to, const __u32 bytes)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;

	/* the verifier must see the bound: headers, and a connection ID of 255 bytes */
	asm volatile("%0 &= 511" : "+r"(at));
	data += at;
	if (data + bytes > end)
		return -1;
	__builtin_memcpy(to, data, bytes);
	return 0;
}

WEIR_INLINE int weir_advise_store(struct xdp_md *ctx, __u32 udp_at, const __u8 old[2], const __u8 new[2])
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *udp;
	__sum16 check;
	__be16 word[2];

	asm volatile("%0 &= 511" : "+r"(udp_at));
	udp = data + udp_at;
	if ((void *)(udp + WEIR_UDP_BYTES + 2) > end)
		return -1;
	__builtin_memcpy(&check, udp + 6, 2);
	__builtin_memcpy(&word[0], old, 2);
	__builtin_memcpy(&word[1], new, 2);
	if (check) { /* 0: no checksum (RFC 768) */
		check = weir_checksum_replace(check, word[0], word[1]);
		if (!check)
			check = (__sum16)0xffff;
		__builtin_memcpy(udp + 6, &check, 2);
	}
	udp[WEIR_UDP_BYTES] = new[0];
	udp[WEIR_UDP_BYTES + 1] = new[1];
	return 0;
}

WEIR_INLINE __u32 weir_advise_packet_bytes(const struct xdp_md *ctx)
{
	return (__u32)(ctx->data_end - ctx->data);
}

#define weir_advise_load_behind(packet, at, to, bytes) (-1)
#define weir_advise_segment_bytes(packet) 0
#define weir_advise_flow weir_xdp_flow
#else
#define weir_advise_load bpf_skb_load_bytes
#define weir_advise_load_behind bpf_skb_load_bytes
#define weir_advise_flow weir_skb_flow

/*
 * The kernel completes a partial checksum later, over the new bytes: bpf_l4_csum_replace leaves it as it is. A sum over
 * the whole packet (CHECKSUM_COMPLETE) stays right where both words change, so it is adjusted without a checksum only.
 */
WEIR_INLINE int weir_advise_store(struct __sk_buff *skb, __u32 udp_at, const __u8 old[2], const __u8 new[2])
{
	__be16 word[2];
	__sum16 check;

	__builtin_memcpy(&word[0], old, 2);
	__builtin_memcpy(&word[1], new, 2);
	if (bpf_skb_load_bytes(skb, udp_at + 6, &check, sizeof(check)) < 0 ||
	    bpf_skb_store_bytes(skb, udp_at + WEIR_UDP_BYTES, new, 2, check ? 0 : BPF_F_RECOMPUTE_CSUM) < 0)
		return -1;
	if (check)
		bpf_l4_csum_replace(skb, udp_at + 6, word[0], word[1], sizeof(word[0]) | BPF_F_MARK_MANGLED_0);
	return 0;
}

WEIR_INLINE __u32 weir_advise_packet_bytes(const struct __sk_buff *skb)
{
	return skb->len;
}

#define weir_advise_segment_bytes(packet) ((packet)->gso_size)
#endif

#define WEIR_IP_READ_BYTES 10 /* of either version, for weir_udp_behind */

/* Length of an IP header with UDP behind it; 0 for other protocols, extension headers and fragments. */
WEIR_INLINE __u32 weir_udp_behind(const __u8 *h, __be16 proto)
{
	if (proto == bpf_htons(ETH_P_IP)) {
		if (h[9] != IPPROTO_UDP || h[0] >> 4 != 4 || (h[0] & 15) < 5 || ((h[6] << 8 | h[7]) & WEIR_IP_FRAGMENT))
			return 0;
		return (h[0] & 15) * 4;
	}
	return h[6] == IPPROTO_UDP && h[0] >> 4 == 6 ? sizeof(struct ipv6hdr) : 0;
}

/* Place of the UDP header behind this one of IP; 0: none. Read where it lies: the helper costs more. */
WEIR_INLINE __u32 weir_udp_at(WEIR_PACKET *packet, struct weir_header header)
{
	const __u8 *at = (const void *)(long)packet->data;
	__u32 offset = header.offset, bytes;
	__u8 h[WEIR_IP_READ_BYTES];

	asm volatile("" : "+r"(offset)); /* one register: the verifier must see the bound of what is added */
	if (offset <= WEIR_HEADER_OFFSET_MAX) {
		at += offset;
		asm volatile("" : "+r"(at)); /* likewise */
		if ((const void *)(at + WEIR_IP_READ_BYTES) <= (const void *)(long)packet->data_end) {
			bytes = weir_udp_behind(at, header.proto);
			return bytes ? header.offset + bytes : 0;
		}
	}
	if (weir_advise_load_behind(packet, header.offset, h, sizeof(h)) < 0)
		return 0;
	bytes = weir_udp_behind(h, header.proto);
	return bytes ? header.offset + bytes : 0;
}

/* Whether a datagram may begin with a SCONE packet, by two bytes: only then it is read further. */
WEIR_INLINE int weir_may_be_scone(WEIR_PACKET *packet, __u32 udp_at)
{
	const __u8 *at = (const void *)(long)packet->data;
	__u8 h[2];

	asm volatile("" : "+r"(udp_at));
	if (udp_at <= WEIR_HEADER_OFFSET_MAX + 60) {
		at += udp_at;
		asm volatile("" : "+r"(at));
		if ((const void *)(at + WEIR_UDP_BYTES + sizeof(h)) <= (const void *)(long)packet->data_end)
			return weir_scone_may_begin(at + WEIR_UDP_BYTES);
	}
	return weir_advise_load_behind(packet, udp_at + WEIR_UDP_BYTES, h, sizeof(h)) == 0 && weir_scone_may_begin(h);
}

/* Rate of the line, as configured or as measured; 0: unknown. */
WEIR_INLINE __u64 weir_line_bit_s(const struct weir_config *c)
{
	const struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	__u64 dq_time_q8_us = 0;

	if (c->advice.line_bit_s)
		return c->advice.line_bit_s;
	if (q && c->signal == WEIR_SIGNAL_POLL)
		dq_time_q8_us = q->poll_unusable ? 0 : q->poll_dq_time_q8_us;
#ifdef WEIR_DEPARTURES_H
	if (c->signal == WEIR_SIGNAL_BACKLOG || c->signal == WEIR_SIGNAL_VETH) {
		const struct weir_drain *line = bpf_map_lookup_elem(&drain, &weir_first);

		dq_time_q8_us = line ? line->rate.dq_time_q8_us : 0;
	}
#endif
	return dq_time_q8_us ? (8000000ULL << (c->law.dq_shift + 8 & 63)) / dq_time_q8_us : 0;
}

/*
 * Counts flows whose recent bytes are those of 100 kbit/s at least. A function of numbers alone, as weir_step, so that
 * the kernel checks it once. The sum is kept in the map, where the verifier does not follow it.
 */
__attribute__((noinline)) int weir_count_flows(__u64 now_ns)
{
	const struct weir_flows *f = bpf_map_lookup_elem(&flows, &weir_first);
	struct weir_advised *a = bpf_map_lookup_elem(&advised, &weir_first);
	const struct weir_config *c = weir_config_get();
	__u64 least, now_us = now_ns >> 10;
	volatile __u64 *sum;

	if (!f || !a || !c)
		return 0;
	least = weir_scone_active_bytes(c->law.share_shift);
	sum = &a->flows;
	a->counted_ns = now_ns;
	*sum = 0;
	for (__u32 i = 0; i < WEIR_FLOW_COUNTERS; i++) {
		__u64 halvings = (now_us - f->flow[i].flow_last_us) >> (c->law.share_shift & 63), many = halvings >> 6;
		__u64 bytes = (__u64)f->flow[i].flow_bytes >> (halvings & 63);

		/* signs of differences, not comparisons: the verifier keeps each branch of a loop to the end */
		asm volatile("" : "+r"(many), "+r"(bytes));
		*sum += (least - 1 - bytes) >> 63 & ((many - 1) >> 63);
	}
	return 0;
}

/* Signal of a share of a line. Likewise. */
__attribute__((noinline)) int weir_share_signal(__u64 line_bit_s, __u64 flows)
{
	return (int)weir_scone_signal_for(line_bit_s / (flows ? flows : 1));
}

/* The signal of this queue now; WEIR_SCONE_UNKNOWN: none. */
WEIR_INLINE __u32 weir_advice_signal(struct weir_advised *a, const struct weir_config *c, __u64 now_ns)
{
	__u64 line_bit_s;

	if (c->advice.kind == WEIR_ADVISE_RATE)
		return c->advice.signal;
	if (c->advice.kind != WEIR_ADVISE_SHARE || !weir_counts_flows(&c->law))
		return WEIR_SCONE_UNKNOWN;
	line_bit_s = weir_line_bit_s(c);
	if (!line_bit_s)
		return WEIR_SCONE_UNKNOWN;
	if (!a->counted_ns || weir_ago(now_ns, a->counted_ns, WEIR_COUNT_EVERY_NS))
		weir_count_flows(now_ns);
	return (__u32)weir_share_signal(line_bit_s, a->flows);
}

/*
 * Advises an IP packet. Static and a call, as weir_record: the kernel checks its ways once, and others pay a branch. A
 * packet that is cut short, or without another QUIC packet behind the SCONE packet, is left alone.
 */
static __attribute__((noinline)) int weir_advise_at(WEIR_PACKET *packet, __u32 offset, __u32 proto, __u32 udp_at)
{
	struct weir_header header = {.offset = offset, .proto = (__be16)proto};
	__u8 h[WEIR_UDP_BYTES + WEIR_SCONE_HEAD_BYTES], *head = h + WEIR_UDP_BYTES, old[2], source_bytes;
	__u32 source_at, payload_bytes, segment_bytes, signal;
	const struct weir_config *c;
	struct weir_counters *n;
	struct weir_advised *a;
	__u64 now_ns;

	if (weir_advise_load(packet, udp_at, h, sizeof(h)) < 0 || !weir_scone_begins(head))
		return 0;
	c = weir_config_get();
	n = bpf_map_lookup_elem(&counters, &weir_first);
	a = bpf_map_lookup_elem(&advised, &weir_first);
	if (!c || !n || !a)
		return 0;
	payload_bytes = (__u32)h[4] << 8 | h[5];
	segment_bytes = weir_advise_segment_bytes(packet);
	if (payload_bytes < WEIR_UDP_BYTES || udp_at + payload_bytes > weir_advise_packet_bytes(packet))
		return 0;
	payload_bytes -= WEIR_UDP_BYTES;
	if (segment_bytes && segment_bytes < payload_bytes)
		payload_bytes = segment_bytes;
	source_at = weir_scone_source_at(head);
	if (source_at >= payload_bytes ||
	    weir_advise_load(packet, udp_at + WEIR_UDP_BYTES + source_at, &source_bytes, 1) < 0 ||
	    weir_scone_bytes(source_at, source_bytes) >= payload_bytes)
		return 0;
	now_ns = bpf_ktime_get_coarse_ns();
	signal = weir_advice_signal(a, c, now_ns);
	if (signal >= weir_scone_signal(head) ||
	    !weir_scone_may_rewrite(&a->next_ns[weir_advise_flow(packet, header) & (WEIR_ADVISED_SLOTS - 1)], now_ns))
		return 0;
	__builtin_memcpy(old, head, sizeof(old));
	weir_scone_put(head, signal);
	if (!weir_advise_store(packet, udp_at, old, head))
		n->advised++;
	return 0;
}

/* A packet that was counted. */
WEIR_INLINE void weir_advise(WEIR_PACKET *packet, const struct weir_arrival *a)
{
	__u32 udp_at;

	if (!weir_advises || !weir_is_ip(a->header.proto))
		return;
	udp_at = weir_udp_at(packet, a->header);
	if (udp_at && weir_may_be_scone(packet, udp_at))
		weir_advise_at(packet, a->header.offset, a->header.proto, udp_at);
}

#endif /* WEIR_ADVISE_H */
