/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sampled records of flows and kinds of packets (RFC 7011, RFC 5476): the values of two maps, for programs and user
 * space. */
#ifndef WEIR_RECORDS_H
#define WEIR_RECORDS_H

#include "bands.h"

/* One packet in so many is sampled; all drops and marks of a known flow are counted. */
#define WEIR_SAMPLE_ONE_IN 16
#define WEIR_FLOW_RECORDS 4096

/* Index of a kind's record: enum weir_kind, or this one where the law has one queue. */
#define WEIR_KIND_QUEUE 5
#define WEIR_KINDS 6

/* A peak is the maximum of this epoch and of the one before: 2^33 ns each, 9 to 17 s. No reader resets it. */
#define WEIR_PEAK_EPOCH_SHIFT 33

struct weir_peak {
	__u32 epoch;
	__u32 now_us, before_us;
	__u32 reserved;
};

/* Addresses and ports in network order; IPv4 as ::ffff:0:0/96 (RFC 4291 2.5.5.2). No ports: 0. */
struct weir_flow_key {
	__u8 source[16], destination[16];
	__u16 source_port, destination_port;
	__u8 protocol;
	__u8 reserved[3];
};

struct weir_record {
	__u64 packets, bytes; /* sampled, also those dropped or marked */
	__u64 delay_us;	      /* sum of the delays by Cao Eq. 1 that sampled packets met */
	__u64 marks, drops;   /* all */
	struct weir_peak peak;
};

struct weir_flow_record {
	struct weir_record sum;
	__u64 last_ns;
	__u32 kind_packets[8]; /* sampled, of WEIR_KINDS */
};

WEIR_INLINE void weir_peak_put(struct weir_peak *p, __u32 epoch, __u32 delay_us)
{
	if (p->epoch != epoch) {
		p->before_us = epoch - p->epoch == 1 ? p->now_us : 0;
		p->now_us = 0;
		p->epoch = epoch;
	}
	if (delay_us > p->now_us)
		p->now_us = delay_us;
}

WEIR_INLINE __u32 weir_peak_us(const struct weir_peak *p, __u32 epoch)
{
	if (p->epoch == epoch)
		return p->now_us > p->before_us ? p->now_us : p->before_us;
	return epoch - p->epoch == 1 ? p->now_us : 0;
}

#endif /* WEIR_RECORDS_H */
