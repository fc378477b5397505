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
#include "signal/bands.h"
#include "signal/judge.h"
#include "signal/poll/step.h"
#include "signal/root.h"
#include "signal/sample.h"

/* The root is looked at each time, what is below it so often: that takes a question for each class. */
#define TREE_CHECK_NS 1000000000ULL

/* The last reading of the whole tree. */
struct look {
	__u64 at_ns;
	bool objection;
};

int weir_poll_wait(__u64 due_ns)
{
	struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};
	int error;

	while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL)) == EINTR)
		;
	return error;
}

/* Whether the law can go by the queue there is now. A failed reading of the tree is repeated the next time. */
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
		last->objection = weir_has_bands(config) ? weir_bands_trouble(&tree, config, why, sizeof(why))
							 : weir_tree_objection(&tree, config->signal,
									       a->about.whole_tree, why, sizeof(why));
	}
	return !last->objection;
}

int weir_poll_run(struct weir_attachment *a, int netlink, int ready)
{
	struct weir_polled polled = {0};
	struct weir_polled_look seen;
	struct weir_config config;
	struct weir_qdisc qdisc;
	struct look look = {0};
	__u64 due_ns = weir_now_ns();
	int error, gone;

	if (bpf_map_lookup_elem_flags(a->queue, &a->slot, &polled.queue, BPF_F_LOCK))
		return errno;
	for (unsigned int tick = 0;; tick++) {
		error = weir_poll_wait(due_ns);
		if (error)
			return error;
		if (tick % WEIR_POLL_PIN_CHECK_INTERVALS == 0 && !weir_attachment_is_there(a))
			return 0; /* detached */
		if (weir_config_read(a, &config))
			return errno;
		error = weir_qdisc_read(netlink, (int)a->about.ifindex, &qdisc);
		if (error)
			return -error;
		gone = weir_has_bands(&config) ? weir_bulk_read(netlink, (int)a->about.ifindex, &config, &qdisc) : 0;
		if (gone && gone != -ENOENT)
			return -gone;
		seen = (struct weir_polled_look){.now_ns = weir_now_ns(),
						 .due_ns = due_ns,
						 .backlog_bytes = qdisc.backlog_bytes,
						 .sent_bytes = qdisc.sent_bytes};
		seen.unusable = gone || !usable(a, netlink, &config, &qdisc, seen.now_ns, &look);
		weir_polled_step(&polled, &config, &seen);
		error = weir_polled_store(&polled, a->queue, a->slot);
		if (error)
			return error;
		if (!tick && write(ready, "", 1) != 1)
			return errno;

		/* on the grid, unless we came too late for the next point of it */
		due_ns += config.law.interval_us * 1000ULL;
		if (due_ns < seen.now_ns)
			due_ns = seen.now_ns + config.law.interval_us * 1000ULL;
	}
}
