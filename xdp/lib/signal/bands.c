/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/bands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <linux/pkt_sched.h>

#include "error.h"
#include "signal/judge.h"
#include "signal/signals.h"

#define CLASS "%x:%x"
#define NUMBERS(handle) TC_H_MAJ(handle) >> 16, TC_H_MIN(handle)

bool weir_bands_objection(const struct weir_tree *tree, __u32 signal, __u32 *band_class, char *why, size_t size)
{
	static const char wanted[] = "two bands need an htb or prio as the root, with two classes that packets wait in";
	const struct weir_leaf *leaf = tree->leaf;
	bool prio = !strcmp(tree->kind, "prio");
	struct weir_tree one = *tree;
	__u32 first;

	one.queues = 1;
	if (strcmp(tree->kind, "htb") && !prio) {
		char root[WEIR_TREE_NAME_LEN];

		weir_qdisc_name(root, sizeof(root), tree->kind, tree->handle);
		snprintf(why, size, "its root qdisc is %s; %s (weir-xdp makes them with --shape RATE --bands)", root,
			 wanted);
		return true;
	}
	if (weir_tree_objection(&one, signal, false, why, size))
		return true;
	if (tree->queues != 2 || *tree->unshaped) {
		snprintf(why, size, "packets wait in %u classes; %s", *tree->unshaped ? 0 : tree->queues, wanted);
		return true;
	}
	if (!prio && leaf[0].prio == leaf[1].prio) {
		snprintf(why, size,
			 "classes " CLASS " and " CLASS " both have prio %u; give the one that is to be served first a "
			 "lower one (tc class change ... prio 0)",
			 NUMBERS(leaf[0].handle), NUMBERS(leaf[1].handle), leaf[0].prio);
		return true;
	}
	first = prio ? leaf[1].handle < leaf[0].handle : leaf[1].prio < leaf[0].prio;
	band_class[WEIR_BAND_AHEAD] = leaf[first].handle;
	band_class[WEIR_BAND_BULK] = leaf[!first].handle;
	return false;
}

bool weir_bands_trouble(const struct weir_tree *tree, const struct weir_config *config, char *why, size_t size)
{
	__u32 band_class[WEIR_BANDS] = {0};

	if (weir_bands_objection(tree, config->signal, band_class, why, size))
		return true;
	if (!memcmp(band_class, config->band_class, sizeof(band_class)))
		return false;
	snprintf(why, size,
		 "its bands were classes " CLASS " and " CLASS " at attach and are " CLASS " and " CLASS " now; "
		 "detach and attach again",
		 NUMBERS(config->band_class[WEIR_BAND_AHEAD]), NUMBERS(config->band_class[WEIR_BAND_BULK]),
		 NUMBERS(band_class[WEIR_BAND_AHEAD]), NUMBERS(band_class[WEIR_BAND_BULK]));
	return true;
}

int weir_bulk_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc *qdisc)
{
	struct weir_qdisc now = {0};
	int error = weir_class_read(netlink, ifindex, config->band_class[WEIR_BAND_BULK], &now);

	if (!error && !now.handle)
		error = -ENOENT;
	qdisc->backlog_bytes = now.backlog_bytes;
	qdisc->backlog_packets = now.backlog_packets;
	return error;
}

/* Signal veth: the pairs of a band. 0 or an errno. */
static int pair_read(const struct weir_attachment *a, __u32 band, struct weir_band_sample *b,
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

/* Signal poll: the class of a band. The rate of band A is nobody's to know. 0 or an errno. */
static int class_read(const struct weir_attachment *a, int netlink, __u32 band, struct weir_band_sample *b,
		      const struct weir_sample *s)
{
	struct weir_rate rate = {.dq_time_q8_us = band == WEIR_BAND_BULK ? s->queue.poll_dq_time_q8_us : 0};
	struct weir_qdisc now = {0};
	int error = netlink < 0 ? 0 : weir_class_read(netlink, (int)a->about.ifindex, s->config.band_class[band], &now);

	b->backlog_bytes = now.backlog_bytes;
	b->backlog_packets = now.backlog_packets;
	b->dq_time_q8_us = rate.dq_time_q8_us;
	b->tau_us = weir_tau_us(&rate, &s->config.law, b->backlog_bytes);
	return error == -ENOENT ? 0 : -error;
}

int weir_bands_sample(const struct weir_attachment *a, int netlink, struct weir_sample *s)
{
	bool veth = s->config.signal == WEIR_SIGNAL_VETH;

	s->band[WEIR_BAND_BULK].counters = s->counters;
	if (weir_counters_read(a->counters, WEIR_BAND_AHEAD, &s->band[WEIR_BAND_AHEAD].counters))
		return -1;
	weir_counters_add(&s->counters, &s->band[WEIR_BAND_AHEAD].counters);
	s->backlog_bytes = s->backlog_packets = 0;
	for (__u32 i = 0; i < WEIR_BANDS; i++) {
		struct weir_band_sample *b = &s->band[i];
		int error = veth ? pair_read(a, i, b, &s->config.law) : class_read(a, netlink, i, b, s);

		if (error)
			return weir_error("%s: can't read its bands: %s", a->about.dev, weir_reason(error));
		s->backlog_bytes += b->backlog_bytes;
		s->backlog_packets += b->backlog_packets;
	}
	s->dq_time_q8_us = s->band[WEIR_BAND_BULK].dq_time_q8_us;
	s->tau_us = s->band[WEIR_BAND_BULK].tau_us;
	return 0;
}
