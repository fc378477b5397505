/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signal veth: what a queue holds is what went in at one end less what came out at the other. */
#ifndef WEIR_PAIRS_H
#define WEIR_PAIRS_H

#include "departures.h"
#include "packet.h"

/*
 * Length of a packet at either end of a veth. The receiving side takes the outermost tag out of the data and the
 * sending side may never have had it in there, so it is counted where it is missing.
 */
WEIR_INLINE __u64 weir_skb_len(const struct __sk_buff *skb)
{
	return skb->len + (skb->vlan_present ? WEIR_VLAN_BYTES : 0);
}

/* Bytes between the two ends. `out` is read first: a packet is in before it is out. */
WEIR_INLINE __u64 weir_between(const struct weir_queue *q, const struct weir_drain *d)
{
	__u64 out = *(const volatile __u64 *)&d->out;
	__u64 pair = *(const volatile __u64 *)&q->in - out;

	return pair < WEIR_PAIR_NEGATIVE ? pair : 0;
}

/* The pair, or 0 if something else dropped what we count as queued (a full qdisc, a lossy link): then we start anew. */
WEIR_INLINE __u64 weir_pair_resync(struct weir_queue *q, const struct weir_drain *d, struct weir_counters *n,
				   __u64 pair, __u64 now_ns)
{
	if (!pair || !weir_ago(now_ns, d->last_ns, WEIR_STUCK_NS) || !weir_ago(now_ns, q->busy_ns, WEIR_STUCK_NS))
		return pair;
	__sync_fetch_and_add(&q->in, -pair);
	n->resyncs++;
	return 0;
}

/* A packet came out, and backlog_bytes stay behind it. */
WEIR_INLINE void weir_pair_departure(struct weir_drain *d, const struct weir_config *c, __u64 len_bytes,
				     __u64 backlog_bytes)
{
	__u64 now_ns = 0;

	/* no rate is being measured and none begins: nothing to lock for */
	if (!d->rate.dq_on && !weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes))
		return;
	/* Guessed before the lock, because no helper can be called under it; if another CPU made the guess wrong,
	 * again. */
	if (weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes))
		now_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&d->lock);
	if (!now_ns && weir_departure_needs_time(&d->rate, &c->law, len_bytes, backlog_bytes)) {
		bpf_spin_unlock(&d->lock);
		now_ns = bpf_ktime_get_ns();
		bpf_spin_lock(&d->lock);
	}
	weir_departure(&d->rate, &c->law, now_ns / 1000, len_bytes, backlog_bytes);
	bpf_spin_unlock(&d->lock);
}

#endif /* WEIR_PAIRS_H */
