/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan that are about laws of classes. */
#include "weir-xdp/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "error.h"
#include "hooks/hooks.h"
#include "pins/attachment.h"
#include "signal/poll/process.h"
#include "weir-xdp/values.h"

#define LOOK_WAIT_NS 5000000000ULL
#define TRIES_A_DOUBT 50

int plan_resolve(struct plan *p, struct weir_attachment *there)
{
	int back, netlink, filters = 0, result;

	classes_free(&p->classes);
	if (weir_netns_enter(p->r->netns, &back))
		return -1;
	netlink = weir_netlink_open();
	if (netlink < 0) {
		result = weir_error("no netlink socket: %s", weir_reason(netlink));
	} else {
		result = classes_resolve(p->r, netlink, p->dev.ifindex, there, &p->classes);
		filters = weir_clsact_filters(netlink, p->dev.ifindex);
		close(netlink);
	}
	weir_netns_leave(back);
	/* filters may give packets their class (skbedit priority), and TCX programs run before all of them */
	p->filtered = filters > 0;
	return result;
}

/* Of the classes that are asked for; the others get the slots behind those. */
static void leave_carried_out(struct plan *p)
{
	struct class_list *list = &p->classes;
	__u32 left = 0;

	for (__u32 i = 0; i < list->count; i++)
		if (!carried_has(&p->carried, list->list[i].handle))
			list->list[left++] = list->list[i];
	list->count = left;
	for (__u32 i = 0; i < left; i++)
		list->slot[i] = p->carried.count + 1 + i;
}

int plan_put_classes(struct plan *p)
{
	const struct bpf_object *object = p->l.object;
	struct class_store store = {
		.config = p->l.config,
		.queue = p->l.queue,
		.path = p->path,
	};
	struct weir_queue q;

	if (!p->r->classes)
		return 0;
	store.counters = bpf_object__find_map_fd_by_name(object, "counters");
	store.maps = (struct weir_class_maps){
		.class = bpf_object__find_map_fd_by_name(object, "class"),
		.tells = bpf_object__find_map_fd_by_name(object, "tells"),
		.telling = bpf_object__find_map_fd_by_name(object, "telling"),
		.minors = bpf_object__find_map_fd_by_name(object, "minors"),
		.slots = p->about.slots,
	};
	plan_first_state(p->r, &p->config, &q);
	if (p->carried.count && carried_put(&p->carried, &store, &q))
		return -1;
	leave_carried_out(p);
	return classes_put(&store, p->r, &p->classes, &p->config, &q);
}

/* Until the poll process has looked at a class. One that died just before still seemed to live: another one starts. */
static int wait_for_look(struct plan *p, int queue, __u32 slot, __u64 since_ns)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	struct weir_queue q;

	for (int tries = 1; weir_now_ns() - since_ns < LOOK_WAIT_NS; tries++) {
		if (bpf_map_lookup_elem_flags(queue, &slot, &q, BPF_F_LOCK))
			return weir_error("can't read the queue's state: %s", weir_reason(errno));
		if (q.poll_ns > since_ns)
			return 0;
		if (tries % TRIES_A_DOUBT == 0 && !weir_poll_lives_at(p->path, &p->about))
			return plan_restart(p, p->path, &p->about);
		nanosleep(&pause, NULL);
	}
	return weir_error("%s: the poll process has not looked at the new class in %llu s; `weir-xdp status %s` shows "
			  "whether it lives",
			  p->r->dev, LOOK_WAIT_NS / 1000000000, p->r->dev);
}

static int add_classes(struct plan *p, struct weir_attachment *a)
{
	struct class_store store = {.config = a->config, .queue = a->queue, .counters = a->counters, .path = a->path};
	struct weir_params law = p->config.law;
	struct weir_queue q;
	int result;

	if (weir_config_read(a, &p->config) || weir_class_maps_open(&store.maps, a))
		return -1;
	p->config.law = law;
	p->config.frozen = p->r->fixed_given;
	plan_first_state(p->r, &p->config, &q);
	result = weir_class_sweep(&store.maps) || plan_resolve(p, a) ||
		 classes_find_room(&store.maps, p->r->dev, &p->classes) ||
		 classes_put(&store, p->r, &p->classes, &p->config, &q) ||
		 (p->classes.count && wait_for_look(p, a->queue, p->classes.slot[p->classes.count - 1], q.poll_ns));
	if (result) /* those that were not finished */
		weir_class_sweep(&store.maps);
	weir_class_maps_close(&store.maps);
	return result ? -1 : 0;
}

int plan_add_classes(struct plan *p, const char *path)
{
	struct weir_attachment a;
	int result;

	p->dev.ifindex = (int)p->dev.place.ifindex;
	snprintf(p->path, sizeof(p->path), "%s", path);
	if (weir_attachment_open(&a, path, p->r->dev))
		return -1;
	p->about = a.about;
	plan_configure_law(p->r, &p->gains, 0, &p->config);
	if (a.about.build != object_build(WEIR_SIGNAL_POLL, a.about.hook, LAWS_CLASSES))
		result = weir_error(
			"%s: its laws of classes are of another version of weir-xdp: detach and attach again",
			p->r->dev);
	else if (p->r->hook_given && p->r->hook != WEIR_HOOK_TC && p->r->hook != a.about.hook)
		result = weir_error("%s: its laws of classes are at hook %s, and can't be at another one too",
				    p->r->dev, weir_hook_name(a.about.hook));
	else
		result = add_classes(p, &a);
	weir_attachment_close(&a);
	return result;
}

/* Laws of classes whose class is gone have no claim on room in a new table, if the daemon keeps them. */
static int drop_gone(struct plan *p)
{
	struct weir_class_list there = {0};
	int back, netlink, error;

	if (weir_netns_enter(p->r->netns, &back))
		return -1;
	netlink = weir_netlink_open();
	error = netlink < 0 ? netlink : weir_classes_read(netlink, p->dev.ifindex, &there);
	if (netlink >= 0)
		close(netlink);
	weir_netns_leave(back);
	if (error)
		return weir_error("%s: can't read its classes: %s", p->r->dev, weir_reason(error));
	carried_drop_gone(&p->carried, &there);
	free(there.list);
	return 0;
}

int plan_carry(struct plan *p, const char *path)
{
	struct weir_attachment a;
	int result;

	if (weir_attachment_open(&a, path, p->r->dev))
		return -1;
	carried_free(&p->carried);
	result = carried_read(&p->carried, &a) || drop_gone(p);
	weir_attachment_close(&a);
	return result ? -1 : 0;
}

int plan_restart(struct plan *p, const char *path, struct weir_meta *about)
{
	char name[PATH_MAX + 32];
	int meta, result;

	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0)
		return weir_error("%s: %s", name, weir_reason(errno));
	weir_poll_end(about);
	about->poll_pid = about->poll_errno = 0;
	about->poll_start_ticks = 0;
	result = weir_poll_start(about, meta, path, p->r->netns, &p->locks);
	close(meta);
	return result;
}
