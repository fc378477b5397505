/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples packets into the records of their flow and kind. Of no effect on the packet or the law. A program of XDP
 * defines WEIR_SAMPLES_XDP before it includes this.
 */
#ifndef WEIR_SAMPLING_H
#define WEIR_SAMPLING_H

#include "arrival.h"
#include "flows.h"
#include "records.h"
#ifndef WEIR_SAMPLES_XDP
#include "departures.h"
#ifndef WEIR_NO_LOCK
#include "pairs.h"
#endif
#endif

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_FLOW_RECORDS);
	__type(key, struct weir_flow_key);
	__type(value, struct weir_flow_record);
} flow_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEIR_KINDS);
	__type(key, __u32);
	__type(value, struct weir_record);
} kind_records SEC(".maps");

/* Events of a packet, beside its kind in the low bits. */
#define WEIR_EVENT_KIND 7
#define WEIR_EVENT_SAMPLED 8
#define WEIR_EVENT_DROP 16
#define WEIR_EVENT_MARK 32

#ifdef WEIR_SAMPLES_XDP
#define WEIR_PACKET struct xdp_md

WEIR_INLINE int weir_packet_load(const struct xdp_md *ctx, __u32 offset, void *to, const __u32 bytes)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;

	asm volatile("%0 &= 127" : "+r"(offset)); /* the verifier must see the bound of what is added */
	data += offset;
	if (data + bytes > end)
		return -1;
	__builtin_memcpy(to, data, bytes);
	return 0;
}
#else
#define WEIR_PACKET struct __sk_buff
#define weir_packet_load bpf_skb_load_bytes
#endif

WEIR_INLINE int weir_flow_key_of(const WEIR_PACKET *packet, __u32 offset, __u32 proto, struct weir_flow_key *key)
{
	__u32 ports_at = 0;

	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr h;

		if (weir_packet_load(packet, offset, &h, sizeof(h)) < 0)
			return 0;
		key->source[10] = key->source[11] = key->destination[10] = key->destination[11] = 0xff;
		__builtin_memcpy(key->source + 12, &h.saddr, 4);
		__builtin_memcpy(key->destination + 12, &h.daddr, 4);
		key->protocol = h.protocol;
		if (!(h.frag_off & bpf_htons(0x3fff)))
			ports_at = offset + h.ihl * 4;
	} else {
		struct ipv6hdr h;

		if (proto != bpf_htons(ETH_P_IPV6) || weir_packet_load(packet, offset, &h, sizeof(h)) < 0)
			return 0;
		__builtin_memcpy(key->source, &h.saddr, 16);
		__builtin_memcpy(key->destination, &h.daddr, 16);
		key->protocol = h.nexthdr;
		ports_at = offset + sizeof(h);
	}
	if (ports_at && weir_has_ports(key->protocol))
		weir_packet_load(packet, ports_at, &key->source_port, 4); /* cut short: both stay 0 */
	return 1;
}

/* Delay by Cao Eq. 1 of the queue that a packet joins: its band's backlog at the rate of the line. */
WEIR_INLINE __u32 weir_sampled_delay_us(const struct weir_config *c, __u32 kind)
{
	__u32 band = WEIR_QUEUES > 1 && kind == WEIR_KIND_AHEAD ? WEIR_BAND_AHEAD : WEIR_BAND_BULK;
	const struct weir_queue *bulk = bpf_map_lookup_elem(&queue, &weir_first);
	const struct weir_queue *q = band ? bpf_map_lookup_elem(&queue, &band) : bulk;
	struct weir_rate rate = {};
	__u64 backlog_bytes = 0;

	if (!bulk || !q)
		return 0;
	if (c->signal == WEIR_SIGNAL_VIRTUAL) {
		rate.dq_time_q8_us = c->drain_q8_us;
		backlog_bytes = q->virtual_q16_bytes >> 16;
	} else if (c->signal == WEIR_SIGNAL_POLL) {
		rate.dq_time_q8_us = bulk->poll_unusable ? 0 : bulk->poll_dq_time_q8_us;
		backlog_bytes = q->backlog_bytes;
	}
#ifdef WEIR_DEPARTURES_H
	if (c->signal == WEIR_SIGNAL_BACKLOG || c->signal == WEIR_SIGNAL_VETH) {
		const struct weir_drain *line = bpf_map_lookup_elem(&drain, &weir_first);
		const struct weir_drain *d = band ? bpf_map_lookup_elem(&drain, &band) : line;

		if (!line || !d)
			return 0;
		rate.dq_time_q8_us = line->rate.dq_time_q8_us;
		backlog_bytes = d->backlog_bytes;
#ifdef WEIR_PAIRS_H
		backlog_bytes = WEIR_PAIR_BYTES(weir_between(q, d));
#endif
	}
#endif
	return weir_tau_us(&rate, &c->law, backlog_bytes);
}

WEIR_INLINE void weir_record_hit(struct weir_record *r, __u32 event)
{
	if (event & WEIR_EVENT_DROP)
		__sync_fetch_and_add(&r->drops, 1);
	if (event & WEIR_EVENT_MARK)
		__sync_fetch_and_add(&r->marks, 1);
}

WEIR_INLINE void weir_record_sample(struct weir_record *r, __u32 len_bytes, __u32 epoch, __u32 delay_us)
{
	__sync_fetch_and_add(&r->packets, 1);
	__sync_fetch_and_add(&r->bytes, len_bytes);
	__sync_fetch_and_add(&r->delay_us, delay_us);
	weir_peak_put(&r->peak, epoch, delay_us);
}

static const struct weir_flow_record weir_no_record = {}; /* a program's stack is too small for one */

/* Static: a kernel without BTF rejects a global function that takes the context. A drop or mark of a flow without a
 * record makes none, so that a flood of addresses costs one search at most. */
static __attribute__((noinline)) int weir_record(WEIR_PACKET *packet, __u32 offset, __u32 proto, __u32 len_bytes,
						 __u32 event)
{
	const struct weir_config *c = weir_config_get();
	__u32 kind = event & WEIR_EVENT_KIND, delay_us = 0, epoch;
	struct weir_record *by_kind = bpf_map_lookup_elem(&kind_records, &kind);
	struct weir_flow_key key = {};
	struct weir_flow_record *f;
	__u64 now_ns;

	if (!c || !by_kind || kind >= WEIR_KINDS)
		return 0;
	now_ns = bpf_ktime_get_coarse_ns();
	epoch = (__u32)(now_ns >> WEIR_PEAK_EPOCH_SHIFT);
	weir_record_hit(by_kind, event);
	if (event & WEIR_EVENT_SAMPLED) {
		delay_us = weir_sampled_delay_us(c, kind);
		weir_record_sample(by_kind, len_bytes, epoch, delay_us);
	}
	if (!c->flow_records || !weir_flow_key_of(packet, offset, proto, &key))
		return 0;
	f = bpf_map_lookup_elem(&flow_records, &key);
	if (!f && event & WEIR_EVENT_SAMPLED) {
		bpf_map_update_elem(&flow_records, &key, &weir_no_record, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&flow_records, &key);
	}
	if (!f)
		return 0;
	f->last_ns = now_ns;
	weir_record_hit(&f->sum, event);
	if (event & WEIR_EVENT_SAMPLED) {
		weir_record_sample(&f->sum, len_bytes, epoch, delay_us);
		asm volatile("%0 &= 7" : "+r"(kind)); /* the verifier must see the bound beside its use */
		__sync_fetch_and_add(&f->kind_packets[kind], 1);
	}
	return 0;
}

/*
 * A packet that was counted, with its fate. Multiples of the golden ratio sample one packet in WEIR_SAMPLE_ONE_IN
 * without random numbers and without favour for packets at any fixed distance (Knuth 6.4, theorem S).
 */
WEIR_INLINE void weir_sample(WEIR_PACKET *packet, const struct weir_arrival *a, __u32 kind, enum weir_fate fate,
			     int marked)
{
	__u32 turn = (__u32)a->counters->seen_packets * 0x9e3779b1, event = kind;

	if (turn < (1ULL << 32) / WEIR_SAMPLE_ONE_IN)
		event |= WEIR_EVENT_SAMPLED;
	if (fate != WEIR_FATE_PASS && (fate == WEIR_FATE_LIMIT || a->header.proto))
		event |= marked ? WEIR_EVENT_MARK : WEIR_EVENT_DROP;
	if (event != kind)
		weir_record(packet, a->header.offset, a->header.proto, (__u32)a->len_bytes, event);
}

#endif /* WEIR_SAMPLING_H */
