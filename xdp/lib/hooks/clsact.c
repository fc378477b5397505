/* SPDX-License-Identifier: Apache-2.0 */
/* tc's hooks by filters on clsact: what every kernel has. */
#include "hooks/row.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/filters.h"
#include "hooks/tcx.h"
#include "net/net.h"
#include "pins/place.h"

/* The kernel's name of the side. */
static enum bpf_tc_attach_point point_of(const struct weir_side *side)
{
	return side->received ? BPF_TC_INGRESS : side->point;
}

/* Whether our filter is at that point of the side's interface. */
static bool has_filter_at(const struct weir_side *side, enum bpf_tc_attach_point point, __u32 prog_id)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY);

	return prog_id && !bpf_tc_query(&hook, &opts) && opts.prog_id == prog_id;
}

static bool has_filter(const struct weir_side *side, __u32 prog_id)
{
	return has_filter_at(side, point_of(side), prog_id);
}

/* An ingress qdisc lists a filter for egress at both points, and runs it on received packets. */
static bool is_misplaced(const struct weir_side *side, __u32 prog_id)
{
	return point_of(side) == BPF_TC_EGRESS && has_filter_at(side, BPF_TC_INGRESS, prog_id);
}

static int reject_ingress(const struct weir_side *side)
{
	return weir_ingress_qdisc_error(side->name, weir_tcx_is_there(side->ifindex) ? ", or use --hook tcx" : "");
}

static int check(const struct weir_side *side)
{
	int found = point_of(side) == BPF_TC_EGRESS ? weir_filter_qdisc_of(side->ifindex) : WEIR_FILTER_QDISC_NONE;

	if (found < 0)
		return weir_error("%s: can't read which qdisc its filters are in: %s", side->name, weir_reason(found));
	return found == WEIR_FILTER_QDISC_INGRESS ? reject_ingress(side) : 0;
}

/* *made_clsact: whether we made it. */
static int add_filter(const struct weir_side *side, int prog, __u32 *made_clsact)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY, .prog_fd = prog);
	int error = bpf_tc_hook_create(&hook);

	if (error && error != -EEXIST)
		return weir_error("%s: can't add clsact: %s", side->name,
				  error == -ENOENT ? "this kernel lacks it (CONFIG_NET_SCH_INGRESS)"
						   : weir_reason(error));
	*made_clsact = !error;
	if (error && check(side)) /* EEXIST is the answer for both kinds, and the qdisc may have come just now */
		return -1;
	hook.attach_point = point_of(side);
	error = bpf_tc_attach(&hook, &opts);
	if (error == -EEXIST)
		return weir_error(
			"%s: priority %d at %s is taken by another filter; `tc filter show dev %s %s` shows it",
			side->name, WEIR_TC_PRIORITY, weir_point_name(point_of(side)), side->name,
			weir_point_name(point_of(side)));
	if (error)
		return weir_error("%s: can't attach at %s: %s", side->name, weir_point_name(point_of(side)),
				  error == -ENOENT ? "this kernel lacks the bpf filter (CONFIG_NET_CLS_BPF)"
						   : weir_reason(error));
	if (is_misplaced(side, weir_prog_id(prog))) {
		LIBBPF_OPTS(bpf_tc_opts, ours, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY);

		bpf_tc_detach(&hook, &ours);
		return reject_ingress(side);
	}
	return 0;
}

struct heir {
	const char *own;
	struct weir_place place; /* of the interface whose clsact it is */
};

static int hand_on(const char *path, void *context)
{
	const struct heir *heir = context;
	struct weir_place at, peer_at;
	struct weir_meta about;

	if (!strcmp(path, heir->own) || !weir_meta_read(path, &about))
		return 0;
	at = weir_place_of(&about);
	peer_at = weir_place_of_peer(&about);
	if (about.prog_id && (about.hook == WEIR_HOOK_CLSACT || about.hook == WEIR_HOOK_TC_INGRESS) &&
	    about.ifindex == heir->place.ifindex && weir_place_same_netns(&at, &heir->place))
		about.made_clsact = 1;
	else if (about.peer_prog_id && about.peer_ifindex == heir->place.ifindex &&
		 weir_place_same_netns(&peer_at, &heir->place))
		about.peer_made_clsact = 1;
	else
		return 0;
	return !weir_meta_store(path, &about);
}

/* Another attachment whose filter is on the clsact we made must remove it when it ends. */
static void hand_clsact_on(const char *own, __u32 ifindex)
{
	struct heir heir = {.own = own};
	char pins[PATH_MAX];
	char *slash;

	snprintf(pins, sizeof(pins), "%s", own);
	slash = strrchr(pins, '/');
	if (!slash)
		return;
	*slash = 0;
	weir_place_here(&heir.place);
	heir.place.ifindex = ifindex;
	weir_place_each(pins, hand_on, &heir);
}

/* Takes our filter off, and clsact if it was ours and nobody else has a filter on it. own: the path of our pins. */
static int remove_filter(const struct weir_side *side, __u32 prog_id, bool made_clsact, const char *own)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = point_of(side));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY);
	int error, netlink, filters;

	if (has_filter(side, prog_id)) {
		error = bpf_tc_detach(&hook, &opts);
		if (error && error != -ENOENT)
			return weir_error("%s: can't take the filter off %s: %s", side->name,
					  weir_point_name(point_of(side)), weir_reason(error));
	}
	if (!made_clsact)
		return 0;
	netlink = weir_netlink_open();
	filters = netlink < 0 ? netlink : weir_clsact_filters(netlink, side->ifindex);
	if (netlink >= 0)
		close(netlink);
	if (filters > 0) { /* it stays with those who use it */
		hand_clsact_on(own, (__u32)side->ifindex);
		return 0;
	}
	if (filters < 0 && filters != -ENOENT && filters != -EINVAL) /* removed with it, other people's would go, too */
		return weir_error("%s: can't tell who uses clsact (%s), so it stays", side->name, weir_reason(filters));
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	error = bpf_tc_hook_destroy(&hook);
	if (error && error != -ENOENT && error != -EINVAL) /* EINVAL: clsact is gone already */
		return weir_error("%s: can't remove clsact: %s", side->name, weir_reason(error));
	return 0;
}

static bool is_near(const struct weir_side *side)
{
	return side->point == BPF_TC_EGRESS;
}

static int attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	__u32 *prog_id = is_near(side) ? &about->prog_id : &about->peer_prog_id;
	__u32 *made_clsact = is_near(side) ? &about->made_clsact : &about->peer_made_clsact;
	int there = weir_filter_qdisc_of(side->ifindex);

	if (weir_tcx_has(is_near(side) ? "weir_egress" : "weir_peer", side->ifindex, point_of(side)))
		return weir_error("%s: a program of ours is at %s already, pinned elsewhere; `bpftool link` shows it",
				  side->name, weir_point_name(point_of(side)));
	*prog_id = weir_prog_id(program->prog);
	*made_clsact = !there; /* before it is made, so that nobody has to guess whose it is */
	if (there < 0)
		return weir_error("%s: can't tell whether clsact is there: %s", side->name, weir_reason(there));
	if (!*prog_id)
		return weir_error("%s: can't read the program's id: %s", side->name, weir_reason(errno));
	return weir_meta_write(program->meta, about, side->name) ? -1 : add_filter(side, program->prog, made_clsact);
}

static int swap(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		const char *old_path, struct weir_meta *about)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = point_of(side));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = WEIR_TC_HANDLE, .priority = WEIR_TC_PRIORITY, .prog_fd = program->prog,
		    .flags = BPF_TC_F_REPLACE);
	__u32 *prog_id = is_near(side) ? &about->prog_id : &about->peer_prog_id;
	int error;

	*prog_id = weir_prog_id(program->prog);
	if (is_near(side))
		about->made_clsact = old->made_clsact;
	else
		about->peer_made_clsact = old->peer_made_clsact;
	if (!*prog_id)
		return weir_error("%s: can't read the program's id: %s", side->name, weir_reason(errno));
	if (check(side) || weir_meta_write(program->meta, about, side->name))
		return -1;
	error = bpf_tc_attach(&hook, &opts);
	return error ? weir_error("%s: can't replace the filter at %s: %s", side->name, weir_point_name(point_of(side)),
				  weir_reason(error))
		     : 0;
}

static int detach(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	__u32 prog_id = is_near(side) ? about->prog_id : about->peer_prog_id;
	__u32 made_clsact = is_near(side) ? about->made_clsact : about->peer_made_clsact;
	/* not that of another device which got the number */
	bool ours = !strcmp(side->name, is_near(side) ? about->dev : about->peer) || has_filter(side, prog_id);

	return remove_filter(side, prog_id, made_clsact && ours, path);
}

static bool find(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	__u32 prog_id = is_near(side) ? about->prog_id : about->peer_prog_id;

	return has_filter(side, prog_id) && !is_misplaced(side, prog_id);
}

static struct weir_hook_description describe(void)
{
	return (struct weir_hook_description){.direction = "egress"};
}

static void ahead(const struct weir_side *side, int netlink, const char *path, char *text, size_t size)
{
	weir_filters_ahead(side, netlink, text, size);
	if (!*text)
		weir_tcx_ahead(side->ifindex, -1, text, size);
}

const struct weir_hook_row weir_hook_clsact = {
	.hook = WEIR_HOOK_CLSACT,
	.name = "clsact",
	.is_tc = true,
	.check = check,
	.attach = attach,
	.swap = swap,
	.detach = detach,
	.find = find,
	.describe = describe,
	.ahead = ahead,
};

/* The same at tc's ingress. */
static struct weir_side received(const struct weir_side *side)
{
	struct weir_side at = *side;

	at.received = true;
	return at;
}

static int attach_received(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	const struct weir_side at = received(side);

	return attach(&at, program, about);
}

static int swap_received(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
			 const char *old_path, struct weir_meta *about)
{
	const struct weir_side at = received(side);

	return swap(&at, program, old, old_path, about);
}

static int detach_received(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	const struct weir_side at = received(side);

	return detach(&at, about, path);
}

static bool find_received(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	const struct weir_side at = received(side);

	return find(&at, about, path);
}

static struct weir_hook_description describe_received(void)
{
	return (struct weir_hook_description){.direction = "ingress"};
}

const struct weir_hook_row weir_hook_tc_ingress = {
	.hook = WEIR_HOOK_TC_INGRESS,
	.name = "tc-ingress",
	.attach = attach_received,
	.swap = swap_received,
	.detach = detach_received,
	.find = find_received,
	.describe = describe_received,
};
