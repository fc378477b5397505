/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of each hop: our programs at clsact, which we make where it is missing. */
#include "sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "net/net.h"
#include "pins/place.h"

#define LOCKS "/run/weir-sojourn"
#define FILTER_HANDLE 1
#define EGRESS_PRIORITY 65520 /* after every filter that might drop */
#define INGRESS_PRIORITY 1    /* before every filter that might take the packet elsewhere */

static void hook_of(const struct point *point, struct bpf_tc_hook *hook)
{
	memset(hook, 0, sizeof(*hook));
	hook->sz = sizeof(*hook);
	hook->ifindex = point->ifindex;
	hook->attach_point = point->egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
}

/* It dies with this process, however that ends. In the device's namespace. */
static int lock_point(struct point *point)
{
	struct weir_place here;
	char name[64];
	int held;

	weir_place_here(&here);
	snprintf(name, sizeof(name), "%llu-%d-%s", here.netns_cookie ? here.netns_cookie : here.netns_inum,
		 point->ifindex, point->egress ? "egress" : "ingress");
	held = weir_lock_take(&point->lock, LOCKS, name, point->dev, 0);
	return held > 0 ? weir_error("%s: another weir-sojourn is attached to this side of it", point->dev) : held;
}

static bool is_ours(__u32 program_id, const char *name)
{
	struct bpf_prog_info info = {0};
	__u32 length = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(program_id), result;

	if (fd < 0)
		return false;
	result = bpf_obj_get_info_by_fd(fd, &info, &length);
	close(fd);
	return !result && !strncmp(info.name, name, BPF_OBJ_NAME_LEN - 1);
}

/* In the device's namespace. */
static int attach_here(struct point *point, const struct bpf_program *program)
{
	struct bpf_tc_hook hook;
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
		    .priority = point->egress ? EGRESS_PRIORITY : INGRESS_PRIORITY);
	LIBBPF_OPTS(bpf_tc_opts, found, .handle = FILTER_HANDLE, .priority = filter.priority);
	int result;

	if (lock_point(point))
		return -1;
	hook_of(point, &hook);
	result = bpf_tc_hook_create(&hook);
	if (result && result != -EEXIST)
		return weir_error("%s: can't add clsact: %s", point->dev, weir_reason(result));
	point->owns_clsact = !result;
	/* EEXIST is the answer for an ingress qdisc, too, whose filters never see what leaves */
	if (result && point->egress && weir_filter_qdisc_of(point->ifindex) == WEIR_FILTER_QDISC_INGRESS)
		return weir_ingress_qdisc_error(point->dev, "");
	if (!bpf_tc_query(&hook, &found)) {
		if (!is_ours(found.prog_id, bpf_program__name(program)))
			return weir_error("%s: another filter is at %s priority %u, handle %u; remove it", point->dev,
					  point->egress ? "egress" : "ingress", filter.priority, filter.handle);
		filter.flags = BPF_TC_F_REPLACE; /* of a sampler that was killed; the lock says none lives */
		point->owns_clsact = true;	 /* it goes only if nothing else is on it */
	}
	filter.prog_fd = bpf_program__fd(program);
	result = bpf_tc_attach(&hook, &filter);
	if (result)
		return weir_error("%s: can't attach at clsact %s: %s", point->dev, point->egress ? "egress" : "ingress",
				  weir_reason(result));
	point->attached = true;
	return 0;
}

static int attach_point(struct point *point, const struct bpf_program *program)
{
	int back, result;

	if (weir_netns_enter(point->netns, &back))
		return -1;
	result = attach_here(point, program);
	weir_netns_leave(back);
	return result;
}

static void detach_point(struct point *point)
{
	struct bpf_tc_hook hook;
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
		    .priority = point->egress ? EGRESS_PRIORITY : INGRESS_PRIORITY);
	int back, result;

	if (!point->attached || weir_netns_enter(point->netns, &back))
		return;
	hook_of(point, &hook);
	result = bpf_tc_detach(&hook, &filter);
	if (result && result != -ENODEV && result != -ENOENT && result != -EINVAL) /* the device or clsact is gone */
		weir_error("%s: can't detach: %s", point->dev, weir_reason(result));
	point->attached = false;
	weir_netns_leave(back);
}

/* After all filters are off: a clsact may carry those of two hops, and by now also those of other programs. */
static void drop_clsact(struct point *point)
{
	struct bpf_tc_hook hook;
	int back, netlink;

	if (!point->owns_clsact || weir_netns_enter(point->netns, &back))
		return;
	netlink = weir_netlink_open();
	if (netlink >= 0) {
		hook_of(point, &hook);
		hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
		if (weir_clsact_filters(netlink, point->ifindex) == 0)
			bpf_tc_hook_destroy(&hook);
		close(netlink);
	}
	point->owns_clsact = false;
	weir_netns_leave(back);
}

void detach_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++)
		detach_point(&sampler.hops[i].entry);
	for (int i = 0; i < sampler.hop_count; i++)
		detach_point(&sampler.hops[i].exit);
	for (int i = 0; i < sampler.hop_count; i++) {
		drop_clsact(&sampler.hops[i].entry);
		drop_clsact(&sampler.hops[i].exit);
		weir_lock_drop(&sampler.hops[i].entry.lock);
		weir_lock_drop(&sampler.hops[i].exit.lock);
	}
}

static int load_hop(int index)
{
	struct hop *hop = &sampler.hops[index];
	struct sojourn *first = sampler.hops[0].skeleton, *s = sojourn__open();
	int result;

	if (!s)
		return weir_error("%s: can't open the programs: %s", hop->name, weir_reason(errno));
	hop->skeleton = s;
	s->rodata->hop = (__u32)index;
	s->rodata->lost_after_ns = sampler.lost_after_ns;
	s->rodata->one_in = hop->one_in;
	if (first && (bpf_map__reuse_fd(s->maps.inside, bpf_map__fd(first->maps.inside)) ||
		      bpf_map__reuse_fd(s->maps.events, bpf_map__fd(first->maps.events)) ||
		      bpf_map__reuse_fd(s->maps.counters, bpf_map__fd(first->maps.counters))))
		return weir_error("%s: can't share maps: %s", hop->name, weir_reason(errno));
	result = sojourn__load(s);
	if (result)
		return weir_error("can't load the programs: %s", weir_reason(result));
	return 0;
}

int load_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++) {
		if (load_hop(i))
			return -1;
		if (sampler.every_ns) {
			sampler.hops[i].ticks = calloc(sampler.tick_room, sizeof(struct tick));
			if (!sampler.hops[i].ticks)
				return weir_error("no memory for the queue's lengths; use a longer --every-ms");
		}
	}
	return 0;
}

/* Exits first, so that no packet is stamped whose exit would go unseen. */
int attach_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++)
		if (attach_point(&sampler.hops[i].exit, sampler.hops[i].skeleton->progs.sojourn_exit))
			return -1;
	for (int i = 0; i < sampler.hop_count; i++)
		if (attach_point(&sampler.hops[i].entry, sampler.hops[i].skeleton->progs.sojourn_entry))
			return -1;
	return 0;
}
