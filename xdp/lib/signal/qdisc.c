/* SPDX-License-Identifier: Apache-2.0 */
/* Signal qdisc: times that packets wait in our own qdisc. The delay is that of the longest flow queue. */
#include "error.h"
#include "net/net.h"
#include "signal/row.h"

static int observe(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	int error = netlink < 0 ? 0 : weir_qdisc_read(netlink, (int)a->about.ifindex, &s->root);

	if (error)
		return weir_error("%s: can't read its queue discipline: %s", a->about.dev, weir_reason(error));
	s->backlog_bytes = s->root.backlog_bytes;
	s->backlog_packets = s->root.backlog_packets;
	s->dq_time_q8_us = s->config.drain_q8_us;
	*measured_us = s->now_ns / 1000;
	return 0;
}

const struct weir_signal_row weir_signal_qdisc = {
	.signal = WEIR_SIGNAL_QDISC,
	.name = "qdisc",
	.queue_elsewhere = true,
	.has_limit_packets = true,
	.has_limit_bytes = true,
	.observe = observe,
};
