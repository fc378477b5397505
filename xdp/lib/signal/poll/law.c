/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal `poll`: the law in a process. Each interval it asks the kernel for the root qdisc's counters, steps, and
 * leaves the state in the map the program decides by.
 */
#include "signal/poll/law.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "net/net.h"
#include "net/tree.h"
#include "signal/judge.h"
#include "signal/root.h"
#include "signal/sample.h"

/* Whether the pins are still there is asked once in so many intervals. */
#define PIN_CHECK_INTERVALS 16

/* The root is looked at each time, what is below it so often: that takes a question for each class. */
#define TREE_CHECK_NS 1000000000ULL

/* The last look at the whole tree. */
struct look {
	__u64 at_ns;
	bool objection;
};

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

/* Whether the law can go by the queue there is now. A failed look at the tree is made again the next time. */
static bool usable(const struct weir_attachment *a, int netlink, const struct weir_config *config,
		   const struct weir_qdisc *root, __u64 now_ns, struct look *last)
{
	struct weir_tree tree;
	char why[512];

	if (!weir_root_is(config, root->kind, root->handle))
		return false;
	if ((!last->at_ns || now_ns - last->at_ns >= TREE_CHECK_NS) &&
	    !weir_tree_read(netlink, (int)a->about.ifindex, &tree)) {
		last->at_ns = now_ns;
		last->objection = weir_tree_objection(&tree, config->signal, a->about.whole_tree, why, sizeof(why));
	}
	return !last->objection;
}

int weir_poll_run(struct weir_attachment *a, int netlink, int ready)
{
	static const __u32 first = 0;
	struct weir_config config;
	struct weir_queue queue, latest;
	struct weir_qdisc qdisc;
	struct weir_rate rate = {0};
	__u64 now_us, before_us = 0, sent_bytes = 0, due_ns = weir_now_ns();
	struct look look = {0};
	bool follows = false; /* the counters read now go on from those read last */
	__u32 tau_us;
	int error, stepped;

	if (bpf_map_lookup_elem_flags(a->queue, &first, &queue, BPF_F_LOCK))
		return errno;
	for (unsigned int tick = 0;; tick++) {
		struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};

		while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL)) == EINTR)
			;
		if (error)
			return error;
		if (tick % PIN_CHECK_INTERVALS == 0 && !weir_attachment_is_there(a))
			return 0; /* detached */
		if (weir_config_read(a, &config))
			return errno;
		error = weir_qdisc_read(netlink, (int)a->about.ifindex, &qdisc);
		if (error)
			return -error;

		queue.poll_ns = weir_now_ns();
		now_us = queue.poll_ns / 1000;
		queue.poll_unusable = !usable(a, netlink, &config, &qdisc, queue.poll_ns, &look);
		if (queue.poll_unusable) { /* as if nothing waited, and what was measured is another queue's */
			rate = (struct weir_rate){0};
			qdisc.backlog_bytes = 0;
		} else if (follows && qdisc.sent_bytes >= sent_bytes) { /* else it was put there anew */
			departures(&rate, &config.law, before_us, now_us, qdisc.sent_bytes - sent_bytes,
				   qdisc.backlog_bytes);
		}
		follows = !queue.poll_unusable;
		sent_bytes = qdisc.sent_bytes;
		before_us = now_us;
		tau_us = weir_tau_us(&rate, &config.law, qdisc.backlog_bytes);
		if (!config.frozen) {
			/* the time we were to wake at: by the true one, always a little later, every other step fell
			 * out */
			__u64 last_us = queue.law.last_us, grid_us = due_ns / 1000;

			stepped = weir_update(&queue.law, &config.law, grid_us, tau_us);
			weir_count_step(&queue.poll_steps, &config.law, stepped, queue.law.row, grid_us - last_us);
		}
		queue.tau_us = tau_us;
		queue.backlog_bytes = qdisc.backlog_bytes;
		queue.poll_dq_time_q8_us = rate.dq_time_q8_us;
		queue.poll_dq_start_us = rate.dq_start_us;
		/* what the program has left there meanwhile; the packets of these microseconds are lost from the sum */
		if (bpf_map_lookup_elem_flags(a->queue, &first, &latest, BPF_F_LOCK))
			return errno;
		queue.spacing = latest.spacing;
		if (bpf_map_update_elem(a->queue, &first, &queue, BPF_F_LOCK))
			return errno;
		if (!tick && write(ready, "", 1) != 1)
			return errno;

		/* on the grid, unless we came too late for the next point of it */
		due_ns += config.law.interval_us * 1000ULL;
		if (due_ns < queue.poll_ns)
			due_ns = queue.poll_ns + config.law.interval_us * 1000ULL;
	}
}
