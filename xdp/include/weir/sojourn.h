/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Data shared by the sojourn sampler's programs and its process. */
#ifndef WEIR_SOJOURN_H
#define WEIR_SOJOURN_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define SOJOURN_HOPS_MAX 64
#define SOJOURN_INSIDE_MAX 65536
#define SOJOURN_TRANSPORT_BYTES 16
#define SOJOURN_TAIL_BYTES 8

/*
 * Identity of a packet while it is between the two ends: nothing in it changes between egress and the peer's ingress.
 * So neither hop limit nor ECN, and not the TCP and UDP checksums, which the kernel may fill in after the queue. The
 * last bytes distinguish encrypted packets, and pure acknowledgements by their timestamps.
 */
struct sojourn_key {
	__u32 hop;
	__u32 id; /* IPv4 identification or IPv6 flow label */
	__u16 ip_bytes;
	__u16 fragment;
	__u8 version;
	__u8 protocol;
	__u16 reserved;
	__u8 source[16];
	__u8 destination[16];
	__u8 transport[SOJOURN_TRANSPORT_BYTES];
	__u8 tail[SOJOURN_TAIL_BYTES];
};

struct sojourn_stamp {
	__u64 entry_ns;
	__u32 bytes;
	__u32 low;
};

/* One packet that came out or is given up; exit_ns is 0 for the latter. */
struct sojourn_event {
	__u64 entry_ns;
	__u64 exit_ns;
	__u32 bytes;
	__u16 hop;
	__u8 ce;  /* as it came out */
	__u8 low; /* of band L (RFC 9332) as it went in */
	__u32 flow;
	__u32 reserved;
};

struct sojourn_counters {
	__u64 stamped;
	__u64 matched;
	__u64 replaced;	  /* given up when an identical packet entered */
	__u64 collisions; /* not stamped: an identical packet was inside */
	__u64 full;	  /* not stamped: no room */
	__u64 strays;	  /* came out without a stamp */
	__u64 ring_drops; /* matched or replaced, but the process was too slow to read it */
};

#endif /* WEIR_SOJOURN_H */
