/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "libxdp.h"
#include "net.h"
#include "place.h"
#include "tcx.h"

#define TC_HANDLE 1

static const __u32 first = 0;

static const char *point_name(enum bpf_tc_attach_point point)
{
	return point == BPF_TC_EGRESS ? "egress" : "ingress";
}

const char *weir_hook_name(__u32 hook)
{
	static const char *const names[] = {"tc", "tcx", "clsact", "xdp"};

	return hook < sizeof(names) / sizeof(*names) ? names[hook] : "unknown";
}

int weir_hook_parse(const char *text, __u32 *hook)
{
	for (*hook = 0; *hook <= WEIR_HOOK_XDP; ++*hook)
		if (!strcmp(text, weir_hook_name(*hook)))
			return 0;
	return weir_error("--hook %s: must be tc, tcx, clsact or xdp", text);
}

void weir_link_pin(char *pin, size_t size, const char *path, enum bpf_tc_attach_point point)
{
	snprintf(pin, size, "%s/link_%s", path, point == BPF_TC_EGRESS ? "egress" : "peer");
}

int weir_at_tcx(const struct weir_side *side, int prog, const char *path)
{
	int link = weir_tcx_attach(prog, side->ifindex, side->point), error = 0;
	char pin[PATH_MAX + 32];

	if (link == -EEXIST)
		return weir_error("%s: a program of ours is at %s already, pinned elsewhere; `bpftool link` shows it",
				  side->name, point_name(side->point));
	if (link < 0)
		return weir_error("%s: can't attach at %s: %s", side->name, point_name(side->point),
				  link == -ERANGE ? "as many programs as the kernel takes are there"
						  : weir_reason(link));
	weir_link_pin(pin, sizeof(pin), path, side->point);
	if (bpf_obj_pin(link, pin))
		error = errno;
	close(link); /* not pinned, it ends with this */
	return error ? weir_error("%s: can't pin: %s", pin, weir_reason(error)) : 0;
}

int weir_off_tcx(const char *name, const char *path, enum bpf_tc_attach_point point)
{
	char pin[PATH_MAX + 32];
	int error;

	weir_link_pin(pin, sizeof(pin), path, point);
	error = weir_tcx_detach(pin);
	return error ? weir_error("%s: can't take the program off %s: %s", name, point_name(point), weir_reason(error))
		     : 0;
}

int weir_at_clsact(const struct weir_side *side, int prog, __u32 *made_clsact)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = TC_HANDLE, .priority = WEIR_TC_PRIORITY, .prog_fd = prog);
	int error = bpf_tc_hook_create(&hook);

	if (error && error != -EEXIST)
		return weir_error("%s: can't add clsact: %s", side->name,
				  error == -ENOENT ? "this kernel lacks it (CONFIG_NET_SCH_INGRESS)"
						   : weir_reason(error));
	*made_clsact = !error;
	hook.attach_point = side->point;
	error = bpf_tc_attach(&hook, &opts);
	if (error == -EEXIST)
		return weir_error(
			"%s: priority %d at %s is taken by another filter; `tc filter show dev %s %s` shows it",
			side->name, WEIR_TC_PRIORITY, point_name(side->point), side->name, point_name(side->point));
	if (error)
		return weir_error("%s: can't attach at %s: %s", side->name, point_name(side->point),
				  error == -ENOENT ? "this kernel lacks the bpf filter (CONFIG_NET_CLS_BPF)"
						   : weir_reason(error));
	return 0;
}

bool weir_is_at_clsact(const struct weir_side *side, __u32 prog_id)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = side->point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = TC_HANDLE, .priority = WEIR_TC_PRIORITY);

	return prog_id && !bpf_tc_query(&hook, &opts) && opts.prog_id == prog_id;
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
	char name[PATH_MAX + 32];
	int meta, result = 0;

	if (!strcmp(path, heir->own) || !weir_meta_read(path, &about))
		return 0;
	at = weir_place_of(&about);
	peer_at = (struct weir_place){.netns_cookie = about.peer_netns_cookie, .netns_inum = about.peer_netns_inum};
	if (about.prog_id && about.hook == WEIR_HOOK_CLSACT && about.ifindex == heir->place.ifindex &&
	    weir_place_same_netns(&at, &heir->place))
		about.made_clsact = 1;
	else if (about.peer_prog_id && about.peer_ifindex == heir->place.ifindex &&
		 weir_place_same_netns(&peer_at, &heir->place))
		about.peer_made_clsact = 1;
	else
		return 0;
	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta >= 0) {
		result = !bpf_map_update_elem(meta, &first, &about, BPF_ANY);
		close(meta);
	}
	return result;
}

/* Another attachment whose filter sits on the clsact we made shall take it away when it goes. */
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

int weir_off_clsact(const struct weir_side *side, __u32 prog_id, bool made_clsact, const char *own)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = side->ifindex, .attach_point = side->point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = TC_HANDLE, .priority = WEIR_TC_PRIORITY);
	int error, netlink, filters;

	if (weir_is_at_clsact(side, prog_id)) {
		error = bpf_tc_detach(&hook, &opts);
		if (error && error != -ENOENT)
			return weir_error("%s: can't take the filter off %s: %s", side->name, point_name(side->point),
					  weir_reason(error));
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

int weir_off_xdp(const char *name, const struct weir_meta *about, const char *path)
{
	char pin[PATH_MAX + 32];
	__u32 id = 0;
	int error, config;

	switch (about->owner) {
	case WEIR_OWNER_DISPATCHER:
		error = weir_libxdp_detach((int)about->ifindex, about->config_map_id);
		break;
	case WEIR_OWNER_OTHER: /* theirs; without a configuration it lets everything pass */
		snprintf(pin, sizeof(pin), "%s/config", path);
		config = bpf_obj_get(pin);
		error = config < 0 || !bpf_map_delete_elem(config, &first) ? 0 : -errno;
		if (config >= 0)
			close(config);
		return error && error != -ENOENT
			       ? weir_error("%s: can't take the configuration away: %s", name, weir_reason(error))
			       : 0;
	default:
		if (bpf_xdp_query_id((int)about->ifindex, 0, &id) || id != about->prog_id)
			return 0; /* gone, or another's by now */
		error = bpf_xdp_detach((int)about->ifindex, 0, NULL);
	}
	return error && error != -ENOENT
		       ? weir_error("%s: can't take the XDP program off: %s", name, weir_reason(error))
		       : 0;
}

static bool xdp_is_on(const struct weir_meta *about)
{
	__u32 id = 0;
	int prog;

	if (bpf_xdp_query_id((int)about->ifindex, 0, &id) || !id)
		return false;
	if (about->owner == WEIR_OWNER_LOADER)
		return id == about->prog_id;
	prog = weir_xdp_find((int)about->ifindex, about->config_map_id, NULL);
	if (prog >= 0)
		close(prog);
	return prog >= 0 || prog == -EPERM || prog == -EACCES; /* who may not look is not told that it is gone */
}

bool weir_program_is_on(const struct weir_meta *about, int link, const char *name)
{
	struct weir_side side = {name, (int)about->ifindex, BPF_TC_EGRESS};

	switch (about->hook) {
	case WEIR_HOOK_XDP:
		return xdp_is_on(about);
	case WEIR_HOOK_TCX:
		return weir_tcx_is_on(link, about->ifindex);
	default:
		return weir_is_at_clsact(&side, about->prog_id);
	}
}

__u32 weir_prog_id(int prog)
{
	__u32 size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {0};

	return bpf_obj_get_info_by_fd(prog, &info, &size) ? 0 : info.id;
}
