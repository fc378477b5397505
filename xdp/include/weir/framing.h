/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes of a packet on the line: headers of the link below this interface, cells of ATM, sync bytes of PTM. */
#ifndef WEIR_FRAMING_H
#define WEIR_FRAMING_H

#include "maps.h"

/* ITU-T I.363.5: AAL5 fills cells of 53 bytes with 48 bytes each. */
#define WEIR_ATM_CELL_BYTES 53
#define WEIR_ATM_PAYLOAD_BYTES 48
/* IEEE 802.3 61.3.3: 64 bytes are sent as 65. A fraction of 64 counts as 64, as in cake. */
#define WEIR_PTM_BYTES 64

WEIR_INLINE __u64 weir_framed_bytes(const struct weir_framing *f, __u64 len_bytes)
{
	__s64 bytes = (__s64)len_bytes + f->extra_bytes;

	if (bytes < f->mpu_bytes)
		bytes = f->mpu_bytes;
	len_bytes = bytes < 0 ? 0 : (__u64)bytes;
	if (f->line == WEIR_LINE_ATM)
		return (len_bytes + WEIR_ATM_PAYLOAD_BYTES - 1) / WEIR_ATM_PAYLOAD_BYTES * WEIR_ATM_CELL_BYTES;
	if (f->line == WEIR_LINE_PTM)
		return len_bytes + (len_bytes + WEIR_PTM_BYTES - 1) / WEIR_PTM_BYTES;
	return len_bytes;
}

#endif /* WEIR_FRAMING_H */
