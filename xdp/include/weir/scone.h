/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Throughput advice in SCONE packets (draft-ietf-scone-protocol-08): rates, the packet, and the limit on rewrites.
 * Pure functions of their arguments; controller/weir/scone.py is the golden model.
 */
#ifndef WEIR_SCONE_H
#define WEIR_SCONE_H

#include "law.h"

#define WEIR_SCONE_UNKNOWN 127
#define WEIR_SCONE_GREATEST 126
/* First bytes of a SCONE packet, up to the length of the destination connection ID. */
#define WEIR_SCONE_HEAD_BYTES 6
#define WEIR_SCONE_LEAST_BIT_S 100000

/* Draft, "Damage to Other Protocols": datagrams of a flow are rewritten a few times in a monitoring period of 67 s. */
#define WEIR_SCONE_REWRITES_AT_ONCE 4
#define WEIR_SCONE_REWRITES_EVERY_NS 10000000000ULL

/* 10^(n/20) for n of 0 to 19, times 10^9. */
#define WEIR_SCONE_STEPS 20
#define WEIR_SCONE_MANTISSAS 32 /* a power of two: the verifier sees the bound of an index that is masked */
static const __u64 weir_scone_mantissa[WEIR_SCONE_MANTISSAS] = {
	1000000000, 1122018454, 1258925412, 1412537545, 1584893192, 1778279410, 1995262315,
	2238721139, 2511886432, 2818382931, 3162277660, 3548133892, 3981071706, 4466835922,
	5011872336, 5623413252, 6309573445, 7079457844, 7943282347, 8912509381,
};
#define WEIR_SCONE_DECADES 6 /* of the greatest signal */

/* Rate of a signal, 100 kbit/s * 10^(signal / 20), rounded down. */
WEIR_INLINE __u64 weir_scone_rate_bit_s(__u32 signal)
{
	__u64 scale = 1;

	for (int decade = 0; decade < WEIR_SCONE_DECADES; decade++) {
		if (signal < WEIR_SCONE_STEPS)
			break;
		signal -= WEIR_SCONE_STEPS;
		scale *= 10;
	}
	return weir_scone_mantissa[signal & (WEIR_SCONE_MANTISSAS - 1)] * scale / 10000;
}

/* The greatest signal whose rate is at most this one; 0 for less than 100 kbit/s. */
WEIR_INLINE __u32 weir_scone_signal_for(__u64 rate_bit_s)
{
	__u32 low = 0, high = WEIR_SCONE_GREATEST + 1;

	/* 2^7 is above the number of signals */
	for (int step = 0; step < 7; step++) {
		__u32 middle = (low + high) / 2;

		if (middle == low)
			break;
		if (weir_scone_rate_bit_s(middle) <= rate_bit_s)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Whether a datagram with these first two bytes may begin with a SCONE packet: a long header, and half of a version. */
WEIR_INLINE int weir_scone_may_begin(const __u8 head[2])
{
	return (head[0] & 0x80) && (head[1] & 0x7f) == 0x6f;
}

/* Whether a datagram with these first bytes begins with a SCONE packet: a long header, and one of two versions. */
WEIR_INLINE int weir_scone_begins(const __u8 head[WEIR_SCONE_HEAD_BYTES])
{
	return weir_scone_may_begin(head) && head[2] == 0x7d && head[3] == 0xc0 && head[4] == 0xfd;
}

WEIR_INLINE __u32 weir_scone_signal(const __u8 head[2])
{
	return (head[0] & 0x3fU) << 1 | head[1] >> 7;
}

WEIR_INLINE void weir_scone_put(__u8 head[2], __u32 signal)
{
	head[0] = (__u8)((head[0] & 0xc0) | (signal >> 1 & 0x3f));
	head[1] = (__u8)((head[1] & 0x7f) | signal << 7);
}

/* Place of the length of the source connection ID, and the length of the packet. */
WEIR_INLINE __u32 weir_scone_source_at(const __u8 head[WEIR_SCONE_HEAD_BYTES])
{
	return WEIR_SCONE_HEAD_BYTES + head[5];
}

WEIR_INLINE __u32 weir_scone_bytes(__u32 source_at, __u8 source_bytes)
{
	return source_at + 1 + source_bytes;
}

/* Whether a datagram of a flow may be rewritten now; it then counts. next_ns is zero at the start. */
WEIR_INLINE int weir_scone_may_rewrite(__u64 *next_ns, __u64 now_ns)
{
	__u64 start_ns = *(volatile __u64 *)next_ns;

	if (start_ns < now_ns)
		start_ns = now_ns;
	if (start_ns - now_ns >= WEIR_SCONE_REWRITES_AT_ONCE * WEIR_SCONE_REWRITES_EVERY_NS)
		return 0;
	*(volatile __u64 *)next_ns = start_ns + WEIR_SCONE_REWRITES_EVERY_NS;
	return 1;
}

/* Recent bytes, halved each 2^share_shift us, from which a flow counts as active: those of 100 kbit/s. */
WEIR_INLINE __u64 weir_scone_active_bytes(__u32 share_shift)
{
	return ((__u64)WEIR_SCONE_LEAST_BIT_S << (share_shift & 31)) / 8000000;
}

#endif /* WEIR_SCONE_H */
