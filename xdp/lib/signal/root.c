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
#include "pins/slots.h"
#include "signal/row.h"

bool weir_root_is(const struct weir_config *config, const char *kind, __u32 handle)
{
	return config->root_handle == handle && !strncmp(config->root_kind, kind, sizeof(config->root_kind));
}

static int observe_root(struct weir_sample *s, const struct weir_attachment *a, int netlink)
{
	int error = netlink < 0 ? 0 : weir_qdisc_read(netlink, (int)a->about.ifindex, &s->root);

	if (error)
		return weir_error("%s: can't read its queue discipline: %s", a->about.dev, weir_reason(error));
	s->unusable = !weir_root_is(&s->config, s->root.kind, s->root.handle);
	return 0;
}

static int observe_class(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u32 handle)
{
	int error = 0;

	if (a->classes && weir_classes_find(a->classes, handle))
		s->root = *weir_classes_find(a->classes, handle);
	else if (netlink >= 0)
		error = weir_class_read(netlink, (int)a->about.ifindex, handle, &s->root);
	if (error && error != -ENOENT)
		return weir_error("%s: can't read its class: %s", a->about.dev, weir_reason(error));
	s->unusable = !s->root.handle;
	return 0;
}

/* The queue of a slot. Without netlink its interface is gone, and the queue with it. */
static int observe_backlog(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	struct weir_class class;

	if (weir_slot_read(a, a->slot, &class))
		return -1;
	if (a->about.slots > 1 && a->slot == WEIR_SLOT_NONE) /* of no class */
		return 0;
	if (class.handle ? observe_class(s, a, netlink, class.handle) : observe_root(s, a, netlink))
		return -1;
	s->backlog_bytes = s->root.backlog_bytes;
	s->backlog_packets = s->root.backlog_packets;
	return 0;
}

/* One process serves all slots; that it lives is in the first one. */
static int observe_poll(struct weir_sample *s, const struct weir_attachment *a, int netlink, __u64 *measured_us)
{
	static const __u32 first = 0;
	struct weir_queue pulse;

	s->dq_time_q8_us = s->queue.poll_dq_time_q8_us;
	*measured_us = s->queue.poll_dq_start_us;
	if (bpf_map_lookup_elem_flags(a->queue, &first, &pulse, BPF_F_LOCK))
		return weir_error("can't read the queue: %s", weir_reason(errno));
	s->silent_ns = weir_since_ns(s->now_ns, pulse.poll_ns);
	if (observe_backlog(s, a, netlink, measured_us))
		return -1;
	s->unusable |= s->queue.poll_unusable;
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
