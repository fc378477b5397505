/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/poll/step.h"

#include <errno.h>

#include <bpf/bpf.h>

/*
 * The law wants single departures; a poll sees the sum of an interval's. Spreads it evenly over the interval in parts
 * well below the 2^s bytes a rate is measured over, which is what a busy line does.
 */
static void departures(struct weir_rate *rate, const struct weir_params *p, __u64 from_us, __u64 to_us, __u64 bytes,
		       __u64 backlog_bytes)
{
	__u64 part_bytes = (1ULL << p->dq_shift) / 8, parts = (bytes + part_bytes - 1) / part_bytes;

	for (__u64 i = 1; i <= parts; i++) {
		__u64 at_us = from_us + (__u64)((double)(to_us - from_us) * (double)i / (double)parts);
		__u64 len_bytes = i < parts ? part_bytes : bytes - part_bytes * (parts - 1);

		/* an empty queue ends a measurement: so may it, but only with the last part */
		weir_departure(rate, p, at_us, len_bytes, i < parts && !backlog_bytes ? 1 : backlog_bytes);
	}
}

void weir_polled_rate(struct weir_polled *p, const struct weir_config *config, const struct weir_polled_look *look)
{
	__u64 now_us = look->now_ns / 1000;

	if (look->unusable) /* the measurement is of another queue */
		p->rate = (struct weir_rate){0};
	else if (p->follows && look->sent_bytes >= p->sent_bytes) /* else it was put there anew */
		departures(&p->rate, &config->law, p->before_us, now_us, look->sent_bytes - p->sent_bytes,
			   look->backlog_bytes);
	p->follows = !look->unusable;
	p->sent_bytes = look->sent_bytes;
	p->before_us = now_us;
}

void weir_polled_step(struct weir_polled *p, const struct weir_config *config, const struct weir_polled_look *look)
{
	struct weir_queue *q = &p->queue;
	__u64 backlog_bytes = look->unusable ? 0 : look->backlog_bytes;
	__u32 tau_us;

	q->poll_ns = look->now_ns;
	q->poll_unusable = look->unusable;
	weir_polled_rate(p, config, look);
	tau_us = weir_tau_us(&p->rate, &config->law, backlog_bytes);
	if (tau_us < look->tau_least_us)
		tau_us = look->tau_least_us;
	if (!config->frozen) {
		/* the time we were to wake at: by the true one, always a little later, every other step fell out */
		__u64 last_us = q->law.last_us, grid_us = look->due_ns / 1000;
		int stepped = weir_update(&q->law, &config->law, grid_us, tau_us);

		weir_count_step(&q->poll_steps, &config->law, stepped, q->law.row, grid_us - last_us);
	}
	q->tau_us = tau_us;
	q->backlog_bytes = backlog_bytes;
	q->poll_dq_time_q8_us = (__u32)p->rate.dq_time_q8_us;
	q->poll_dq_start_us = p->rate.dq_start_us;
}

int weir_polled_store(struct weir_polled *p, int map, __u32 slot)
{
	struct weir_queue latest;

	/* counters that the program has left meanwhile; the packets of these microseconds are lost from sum and mean */
	if (bpf_map_lookup_elem_flags(map, &slot, &latest, BPF_F_LOCK))
		return errno;
	p->queue.spacing = latest.spacing;
	p->queue.share = latest.share;
	return bpf_map_update_elem(map, &slot, &p->queue, BPF_F_LOCK) ? errno : 0;
}
