/* SPDX-License-Identifier: Apache-2.0 */
/* Signal veth: what went in at one end less what came out at the other. */
#include "signal/row.h"

static int observe(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	__u64 pair = s->queue.in - s->drain.out;

	s->backlog_bytes = WEIR_PAIR_BYTES(pair);
	s->backlog_packets = WEIR_PAIR_PACKETS(pair);
	return 0;
}

const struct weir_signal_row weir_signal_veth = {
	.signal = WEIR_SIGNAL_VETH,
	.name = "veth",
	.needs_peer = true,
	.has_limit_packets = true,
	.has_limit_bytes = true,
	.observe = observe,
};
