/* SPDX-License-Identifier: Apache-2.0 */
/* Signal virtual: a queue that exists in arithmetic only, drained at a rate the operator gives. */
#include "signal/virtual.h"

#include <math.h>

#include "clock.h"
#include "signal/row.h"

void weir_virtual_set_rate(struct weir_config *c, double bit_s)
{
	double bytes_per_ns = bit_s / 8e9;

	if (!(bit_s > 0)) { /* a qdisc that does not shape */
		c->rate_bit_s = c->drain_q32_bytes_per_ns = c->drain_full_ns = c->drain_q8_us = 0;
		return;
	}
	c->rate_bit_s = (__u64)rint(bit_s);
	c->drain_q32_bytes_per_ns = (__u64)rint(bytes_per_ns * 0x1p32);
	/* in this time 2^31 bytes leave, more than the queue may hold; and the product stays below 2^63 */
	c->drain_full_ns = (__u64)ceil(0x1p31 / bytes_per_ns);
	c->drain_q8_us =
		(__u64)fmax(1, fmin(rint((double)(1U << c->law.dq_shift) / bytes_per_ns / 1e3 * 256), 0x1p32 - 1));
}

static int observe(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	__u64 dt_ns = weir_since_ns(s->now_ns, s->queue.virtual_ns), drained_q16;

	s->has_packets = false;
	s->dq_time_q8_us = s->config.drain_q8_us;
	*measured_us = s->now_ns / 1000;
	if (dt_ns < s->config.drain_full_ns) {
		drained_q16 = (dt_ns * s->config.drain_q32_bytes_per_ns) >> 16;
		if (drained_q16 < s->queue.virtual_q16_bytes)
			s->backlog_bytes = (s->queue.virtual_q16_bytes - drained_q16) >> 16;
	}
	return 0;
}

const struct weir_signal_row weir_signal_virtual = {
	.signal = WEIR_SIGNAL_VIRTUAL,
	.name = "virtual",
	.queue_elsewhere = true,
	.needs_rate = true,
	.has_limit_bytes = true,
	.observe = observe,
};
