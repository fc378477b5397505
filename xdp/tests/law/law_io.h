/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One operation on the law with everything it reads and writes: what the vector runner hands to either build of it. */
#ifndef LAW_IO_H
#define LAW_IO_H

#include "weir/law.h"

enum law_op { LAW_UPDATE = 1, LAW_DEPARTURE, LAW_TAU, LAW_DECIDE, LAW_ARRIVAL };

struct law_io {
	__u32 op;
	__u32 result;
	__u64 now_us;
	__u64 len_bytes;
	__u64 backlog_bytes;
	__u32 tau_us;
	__u32 ect;
	__u32 rand_a;
	__u32 rand_b;
	__u32 size;
	__u32 reserved;
	struct weir_params params;
	struct weir_state state;
	struct weir_spacing spacing;
	struct weir_rate rate;
	struct weir_flow flow;
	struct weir_share share;
};

WEIR_INLINE int law_execute(struct law_io *io)
{
	switch (io->op) {
	case LAW_UPDATE:
		io->result = (__u32)weir_update(&io->state, &io->params, io->now_us, io->tau_us);
		return 0;
	case LAW_DEPARTURE:
		weir_departure(&io->rate, &io->params, io->now_us, io->len_bytes, io->backlog_bytes);
		return 0;
	case LAW_TAU:
		io->result = weir_tau_us(&io->rate, &io->params, io->backlog_bytes);
		return 0;
	case LAW_DECIDE:
		io->result = weir_decide(&io->state, &io->spacing, &io->params, io->backlog_bytes, io->tau_us,
					 (int)io->ect, (enum weir_size)io->size, io->rand_a, io->rand_b);
		return 0;
	case LAW_ARRIVAL:
		io->result = (__u32)weir_flow_arrival(&io->flow, &io->share, &io->params, io->now_us, io->len_bytes);
		return 0;
	}
	return -1;
}

#endif /* LAW_IO_H */
