/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "clock.h"
#include "error.h"
#include "net/classes.h"
#include "signal/bands.h"
#include "signal/signals.h"

static const __u32 first = 0;

double weir_rate_bit_s(__u64 dq_time_q8_us, const struct weir_params *p)
{
	return dq_time_q8_us ? (double)(1U << p->dq_shift) * 8 * 256 * 1e6 / (double)dq_time_q8_us : 0;
}

static int read_counters(int map, __u32 key, struct weir_counters *sum)
{
	int cpus = libbpf_num_possible_cpus();
	struct weir_counters *each;
	int result;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 1)
		return weir_error("can't read how many CPUs there are");
	each = calloc((size_t)cpus, sizeof(*each));
	if (!each)
		return weir_error("out of memory");
	result = bpf_map_lookup_elem(map, &key, each);
	for (int cpu = 0; !result && cpu < cpus; cpu++)
		for (size_t i = 0; i < sizeof(*sum) / sizeof(__u64); i++)
			((__u64 *)sum)[i] += ((__u64 *)&each[cpu])[i];
	free(each);
	return result ? weir_error("can't read the counters: %s", weir_reason(errno)) : 0;
}

/* A probability of the poll process, halved for each time that it has been silent. */
static __u64 faded_q40(const struct weir_sample *s, __u64 q40)
{
	__u64 stretch_ns = s->config.law.interval_us * 1000ULL * WEIR_POLL_SILENT_INTERVALS, halvings;

	if (s->silent_ns < stretch_ns)
		return q40;
	halvings = s->silent_ns / stretch_ns;
	return halvings < 64 ? q40 >> halvings : 0;
}

/*
 * U as the next packet would find it. A silent poll process' fades (weir_poll_arrival). Elsewhere a packet that comes
 * after missed intervals takes a step that makes up for them (docs/design/law.md, step 5): the same step on a copy.
 */
static __u64 effective_u_q40(const struct weir_sample *s)
{
	struct weir_state law = s->queue.law;

	if (s->config.frozen)
		return law.u_q40;
	if (s->config.signal != WEIR_SIGNAL_POLL) {
		if (s->age_ns >= 2000ULL * s->config.law.interval_us)
			weir_update(&law, &s->config.law, s->now_ns / 1000, s->tau_us);
		return law.u_q40;
	}
	return faded_q40(s, law.u_q40);
}

/* R of two coupled bands, in the same way. */
static __u64 effective_r_q40(const struct weir_sample *s)
{
	__u64 u_q40 = (__u64)(s->u * (double)WEIR_U_ONE_Q40), interval_ns = s->config.law.interval_us * 1000ULL;
	int classic_active = s->band[WEIR_BAND_C].backlog_bytes != 0;

	if (s->config.frozen)
		return u_q40;
	if (s->config.signal == WEIR_SIGNAL_POLL)
		return faded_q40(s, s->r_q40);
	return s->age_ns < 2 * interval_ns ? s->r_q40 : weir_follow_q40(s->r_q40, u_q40, classic_active, 1);
}

static void add_counters(struct weir_counters *sum, const struct weir_counters *more)
{
	for (size_t i = 0; i < sizeof(*sum) / sizeof(__u64); i++)
		((__u64 *)sum)[i] += ((const __u64 *)more)[i];
}

static void set_probabilities(struct weir_sample *s)
{
	const struct weir_rate line = {.dq_time_q8_us = s->dq_time_q8_us};
	__u32 floor_us = weir_tau_us(&line, &s->config.law, s->config.coupling.floor_bytes);
	__u64 r_q40 = effective_r_q40(s);
	__u64 p_q32 = weir_mark_probability_q32(&s->config.coupling, r_q40, s->band[WEIR_BAND_L].tau_us, floor_us);

	s->band[WEIR_BAND_C].probability = s->drop_probability;
	s->band[WEIR_BAND_L].probability = (double)p_q32 / (double)WEIR_P_ONE_Q32;
}

/* Signal veth: the pairs of a band. 0 or an errno. */
static int read_pair(const struct weir_attachment *a, __u32 band, struct weir_band_sample *b,
		     const struct weir_params *p)
{
	struct weir_drain drain;
	struct weir_queue queue;
	__u64 pair;

	/* departures before arrivals, or the difference could be negative */
	if (bpf_map_lookup_elem(a->drain, &band, &drain) ||
	    bpf_map_lookup_elem_flags(a->queue, &band, &queue, BPF_F_LOCK))
		return errno;
	pair = queue.in - drain.out;
	if (pair >= WEIR_PAIR_NEGATIVE)
		pair = 0;
	b->backlog_bytes = WEIR_PAIR_BYTES(pair);
	b->backlog_packets = WEIR_PAIR_PACKETS(pair);
	b->dq_time_q8_us = drain.rate.dq_time_q8_us;
	b->tau_us = weir_tau_us(&drain.rate, p, b->backlog_bytes);
	return 0;
}

/* Signal poll: the class of a band. 0 or an errno. */
static int read_class(const struct weir_attachment *a, int netlink, __u32 band, struct weir_band_sample *b,
		      const struct weir_sample *s, __u64 dq_time_q8_us)
{
	struct weir_rate rate = {.dq_time_q8_us = dq_time_q8_us};
	struct weir_qdisc now = {0};
	int error = netlink < 0 ? 0 : weir_class_read(netlink, (int)a->about.ifindex, s->config.band_class[band], &now);

	b->backlog_bytes = now.backlog_bytes;
	b->backlog_packets = now.backlog_packets;
	b->dq_time_q8_us = rate.dq_time_q8_us;
	b->tau_us = weir_tau_us(&rate, &s->config.law, b->backlog_bytes);
	return error == -ENOENT ? 0 : -error;
}

/* Both bands of flows of a sample whose counters are band B's so far. 0, or -1 after one line. */
static int take_flow_bands(const struct weir_attachment *a, int netlink, struct weir_sample *s)
{
	bool veth = s->config.signal == WEIR_SIGNAL_VETH;

	s->band[WEIR_BAND_BULK].counters = s->counters;
	if (read_counters(a->counters, WEIR_BAND_AHEAD, &s->band[WEIR_BAND_AHEAD].counters))
		return -1;
	add_counters(&s->counters, &s->band[WEIR_BAND_AHEAD].counters);
	s->backlog_bytes = s->backlog_packets = 0;
	for (__u32 i = 0; i < WEIR_BANDS; i++) {
		struct weir_band_sample *b = &s->band[i];
		/* the rate of band A is not measured */
		__u64 dq_time_q8_us = i == WEIR_BAND_BULK ? s->queue.poll_dq_time_q8_us : 0;
		int error = veth ? read_pair(a, i, b, &s->config.law) : read_class(a, netlink, i, b, s, dq_time_q8_us);

		if (error)
			return weir_error("%s: can't read its bands: %s", a->about.dev, weir_reason(error));
		s->backlog_bytes += b->backlog_bytes;
		s->backlog_packets += b->backlog_packets;
	}
	s->dq_time_q8_us = s->band[WEIR_BAND_BULK].dq_time_q8_us;
	s->tau_us = s->band[WEIR_BAND_BULK].tau_us;
	return 0;
}

/* Both coupled bands, and their sum. The sample so far is band C's. */
static int take_bands(const struct weir_attachment *a, int netlink, struct weir_sample *s)
{
	bool veth = s->config.signal == WEIR_SIGNAL_VETH;
	static const __u32 second = WEIR_BAND_L;
	struct weir_queue low_queue;
	struct weir_drain low_drain;
	__u64 dq_time_q8_us[WEIR_BANDS], measured_us;

	if (read_counters(a->counters, second, &s->band[WEIR_BAND_L].counters))
		return -1;
	if (bpf_map_lookup_elem(a->drain, &second, &low_drain))
		return weir_error("can't read the departures: %s", weir_reason(errno));
	if (bpf_map_lookup_elem_flags(a->queue, &second, &low_queue, BPF_F_LOCK))
		return weir_error("can't read the queue: %s", weir_reason(errno));
	dq_time_q8_us[WEIR_BAND_C] = s->queue.poll_dq_time_q8_us;
	dq_time_q8_us[WEIR_BAND_L] = low_queue.poll_dq_time_q8_us;
	s->r_q40 = low_queue.law.u_q40;
	s->band[WEIR_BAND_C].counters = s->counters;
	s->backlog_bytes = s->backlog_packets = 0;
	s->tau_us = 0;
	for (__u32 i = 0; i < WEIR_BANDS; i++) {
		struct weir_band_sample *b = &s->band[i];
		int error = veth ? read_pair(a, i, b, &s->config.law)
				 : read_class(a, netlink, i, b, s, s->unusable ? 0 : dq_time_q8_us[i]);

		if (error)
			return weir_error("%s: can't read its bands: %s", a->about.dev, weir_reason(error));
		s->backlog_bytes += b->backlog_bytes;
		s->backlog_packets += b->backlog_packets;
		if (b->tau_us > s->tau_us)
			s->tau_us = b->tau_us;
	}
	add_counters(&s->counters, &s->band[WEIR_BAND_L].counters);
	s->drain.strays += low_drain.strays;
	s->dq_time_q8_us = s->band[WEIR_BAND_L].dq_time_q8_us;
	measured_us = veth ? low_drain.rate.dq_start_us : low_queue.poll_dq_start_us;
	s->rate_age_ns = weir_since_ns(s->now_ns, measured_us * 1000);
	return 0;
}

int weir_sample_take(struct weir_attachment *a, int netlink, struct weir_sample *s)
{
	struct weir_rate rate = {0};
	const struct weir_signal_row *row;
	__u64 measured_us;

	memset(s, 0, sizeof(*s));
	if (weir_config_read(a, &s->config) || read_counters(a->counters, a->slot, &s->counters))
		return -1;
	s->config_id = a->config_id;
	/* departures before arrivals, or the difference could be negative */
	if (a->drain >= 0 && bpf_map_lookup_elem(a->drain, &first, &s->drain))
		return weir_error("can't read the departures: %s", weir_reason(errno));
	if (bpf_map_lookup_elem_flags(a->queue, &a->slot, &s->queue, BPF_F_LOCK))
		return weir_error("can't read the queue: %s", weir_reason(errno));
	s->now_ns = weir_now_ns();
	for (size_t i = 0; i < sizeof(s->counters.steps) / sizeof(__u64); i++)
		((__u64 *)&s->counters.steps)[i] += ((const __u64 *)&s->queue.poll_steps)[i];

	s->has_packets = true;
	s->dq_time_q8_us = s->drain.rate.dq_time_q8_us;
	measured_us = s->drain.rate.dq_start_us;
	/* before the first step: since the attach */
	s->age_ns = weir_since_ns(s->now_ns, s->queue.law.started ? s->queue.law.last_us * 1000 : s->queue.poll_ns);
	row = weir_signal_of(s->config.signal);
	if (row && row->observe(s, a, netlink, &measured_us))
		return -1;
	if (s->unusable) /* the rate is that of a queue that is gone */
		s->dq_time_q8_us = 0;
	s->rate_age_ns = weir_since_ns(s->now_ns, measured_us * 1000);
	rate.dq_time_q8_us = s->dq_time_q8_us;
	s->tau_us = weir_tau_us(&rate, &s->config.law, s->backlog_bytes);
	if (s->config.signal == WEIR_SIGNAL_QDISC) /* 0 where no packet waits */
		s->tau_us = s->backlog_bytes ? s->queue.tau_us : 0;
	if ((s->config.coupled && take_bands(a, netlink, s)) ||
	    (weir_has_bands(&s->config) && take_flow_bands(a, netlink, s)))
		return -1;
	s->u = (double)effective_u_q40(s) / (double)WEIR_U_ONE_Q40;
	s->drop_probability = s->unusable ? 0 : s->config.law.squared ? s->u * s->u : s->u;
	if (s->config.coupled)
		set_probabilities(s);
	if (weir_has_bands(&s->config))
		s->band[WEIR_BAND_BULK].probability = s->drop_probability;
	return 0;
}
