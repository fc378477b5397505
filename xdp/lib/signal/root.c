/* SPDX-License-Identifier: Apache-2.0 */
/* Signals backlog and poll: the root qdisc's own counters, read by the program or by our process. */
#include "signal/root.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "error.h"
#include "net/classes.h"
#include "net/net.h"
#include "signal/row.h"

bool weir_root_is(const struct weir_config *config, const char *kind, __u32 handle)
{
	return config->root_handle == handle && !strncmp(config->root_kind, kind, sizeof(config->root_kind));
}

static int observe_root(struct weir_sample *s, const struct weir_attachment *a, int netlink)
{
	int error;

	if (netlink >= 0) { /* else the interface is gone, and its queue with it */
		error = weir_qdisc_read(netlink, (int)a->about.ifindex, &s->root);
		if (error)
			return weir_error("%s: can't read its queue discipline: %s", a->about.dev, weir_reason(error));
		s->backlog_bytes = s->root.backlog_bytes;
		s->backlog_packets = s->root.backlog_packets;
	}
	s->unusable = !weir_root_is(&s->config, s->root.kind, s->root.handle);
	return 0;
}

static int observe_backlog(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	return observe_root(s, a, netlink);
}

/* The queue of one class, and whether the process still looks at all of them. */
static int observe_class(struct weir_sample *s, const struct weir_attachment *a, int netlink)
{
	static const __u32 none = WEIR_SLOT_NONE;
	struct weir_class_now now = {0};
	struct weir_class class;
	struct weir_queue pulse;
	int error = 0;

	if (bpf_map_lookup_elem_flags(a->queue, &none, &pulse, BPF_F_LOCK) ||
	    bpf_map_lookup_elem(a->class, &a->slot, &class))
		return weir_error("can't read the class: %s", weir_reason(errno));
	s->silent_ns = weir_since_ns(s->now_ns, pulse.poll_ns);
	if (a->slot == WEIR_SLOT_NONE)
		return 0;
	if (a->classes && weir_classes_find(a->classes, class.handle))
		now = *weir_classes_find(a->classes, class.handle);
	else if (netlink >= 0)
		error = weir_class_read(netlink, (int)a->about.ifindex, class.handle, &now);
	if (error && error != -ENOENT)
		return weir_error("%s: can't read its class: %s", a->about.dev, weir_reason(error));
	s->backlog_bytes = now.backlog_bytes;
	s->backlog_packets = now.backlog_packets;
	memcpy(s->root.kind, now.kind, sizeof(s->root.kind));
	s->root.handle = now.handle;
	s->root.sent_bytes = now.sent_bytes;
	s->unusable = !now.handle || s->queue.poll_unusable;
	return 0;
}

static int observe_poll(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	s->dq_time_q8_us = s->queue.poll_dq_time_q8_us;
	*measured_us = s->queue.poll_dq_start_us;
	if (a->about.slots)
		return observe_class(s, a, netlink);
	if (observe_root(s, a, netlink))
		return -1;
	s->unusable |= s->queue.poll_unusable;
	s->silent_ns = weir_since_ns(s->now_ns, s->queue.poll_ns);
	return 0;
}

const struct weir_signal_row weir_signal_backlog = {
	.signal = WEIR_SIGNAL_BACKLOG,
	.name = "backlog",
	.reads_root = true,
	.observe = observe_backlog,
};

const struct weir_signal_row weir_signal_poll = {
	.signal = WEIR_SIGNAL_POLL,
	.name = "poll",
	.reads_root = true,
	.observe = observe_poll,
};
