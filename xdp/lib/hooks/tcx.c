/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCX: programs at tc's hooks by links, without clsact and cls_bpf (Linux 6.6, CONFIG_NET_XGRESS). A program costs
 * about half of what it does through a filter, and a link knows whether its interface is still there.
 */
#include "hooks/tcx.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/own_filter.h"
#include "hooks/row.h"
#include "net/net.h"
#include "pins/folder.h"

/* linux/bpf.h since 6.6; the headers and the libbpf of Debian 12 don't name them, but pass them on */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)
#define PROGRAMS_MAX 64 /* the kernel's BPF_MPROG_MAX */

static enum bpf_attach_type type_of(enum bpf_tc_attach_point point)
{
	return point == BPF_TC_EGRESS ? TCX_EGRESS : TCX_INGRESS;
}

static int probe(int prog)
{
	/* no interface has number 0; a kernel without TCX does not check that far */
	int link = bpf_link_create(prog, 0, TCX_EGRESS, NULL);

	return link == -ENODEV ? 1 : link == -EINVAL ? 0 : link < 0 ? link : -EPROTO;
}

static int name_of(int prog, char *name)
{
	__u32 size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {0};

	if (bpf_obj_get_info_by_fd(prog, &info, &size))
		return -errno;
	memcpy(name, info.name, sizeof(info.name));
	return 0;
}

/* 1 if a program of this name is there, 0 if not, or -errno. */
static int is_there(const char *name, int ifindex, enum bpf_tc_attach_point point)
{
	__u32 ids[PROGRAMS_MAX], flags, count = PROGRAMS_MAX;
	char other_name[BPF_OBJ_NAME_LEN];
	int error = bpf_prog_query(ifindex, type_of(point), 0, &flags, ids, &count);

	for (__u32 i = 0; !error && i < count; i++) {
		int other = bpf_prog_get_fd_by_id(ids[i]);

		if (other == -ENOENT) /* went away just now */
			continue;
		error = other < 0 ? other : name_of(other, other_name);
		if (other >= 0)
			close(other);
		if (!error && !strcmp(name, other_name))
			return 1;
	}
	return error;
}

/*
 * Puts a program after those that are there. A link (file descriptor), or -errno: EEXIST if a program of that name is
 * there already, ERANGE if the limit is reached.
 */
static int make_link(int prog, const struct weir_side *side)
{
	char name[BPF_OBJ_NAME_LEN];
	int error = name_of(prog, name);

	if (!error)
		error = is_there(name, side->ifindex, side->point);
	if (error)
		return error > 0 ? -EEXIST : error;
	return bpf_link_create(prog, side->ifindex, type_of(side->point), NULL);
}

/* Where the link of an end is pinned, which is all that holds the program there. */
static void link_pin(char *pin, size_t size, const char *path, enum bpf_tc_attach_point point)
{
	snprintf(pin, size, "%s/link_%s", path, point == BPF_TC_EGRESS ? "egress" : "peer");
}

static int open_link(const struct weir_side *side, const char *path)
{
	char pin[PATH_MAX + 32];

	link_pin(pin, sizeof(pin), path, side->point);
	return bpf_obj_get(pin);
}

bool weir_tcx_has(const char *name, int ifindex, enum bpf_tc_attach_point point)
{
	return is_there(name, ifindex, point) > 0;
}

/* A second law beside one by a filter would drop twice. */
static bool has_filter(const struct weir_side *side)
{
	int netlink = weir_netlink_open();
	bool has = netlink >= 0 && weir_filter_ours(side, netlink);

	if (netlink >= 0)
		close(netlink);
	return has;
}

static int attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	const char *where = weir_point_name(side->point);
	int link = has_filter(side) ? -EEXIST : make_link(program->prog, side), error = 0;
	char pin[PATH_MAX + 32];

	if (link == -EEXIST)
		return weir_error("%s: a program of ours is at %s already, pinned elsewhere; `bpftool link` or `tc "
				  "filter show dev %s %s` shows it",
				  side->name, where, side->name, where);
	if (link < 0)
		return weir_error("%s: can't attach at %s: %s", side->name, where,
				  link == -ERANGE ? "as many programs as the kernel takes are there"
						  : weir_reason(link));
	link_pin(pin, sizeof(pin), program->path, side->point);
	if (weir_pin(link, pin))
		error = errno;
	close(link); /* not pinned, it ends with this */
	return error ? weir_error("%s: can't pin: %s", pin, weir_reason(error)) : 0;
}

/* The same link with another program, pinned a second time: a process killed here leaves it on the interface. */
static int swap(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		const char *old_path, struct weir_meta *about)
{
	int link = open_link(side, old_path), error = link < 0 ? -errno : 0;
	char pin[PATH_MAX + 32];

	link_pin(pin, sizeof(pin), program->path, side->point);
	if (!error && weir_pin(link, pin))
		error = -errno;
	if (!error)
		error = bpf_link_update(link, program->prog, NULL);
	if (link >= 0)
		close(link);
	return error ? weir_error("%s: can't replace the program at %s: %s", side->name, weir_point_name(side->point),
				  weir_reason(error))
		     : 0;
}

/* At once, even if another holds the link; its pin stays. */
static int detach(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	int link = open_link(side, path), error;

	if (link == -ENOENT)
		return 0;
	error = link < 0 ? link : bpf_link_detach(link);
	if (link >= 0)
		close(link);
	return error ? weir_error("%s: can't take the program off %s: %s", side->name, weir_point_name(side->point),
				  weir_reason(error))
		     : 0;
}

/* Number of programs at egress before the one of a link (-1: all), and their names. 0 too if they can't be listed. */
static int before(int ifindex, int link, char *names, size_t size)
{
	__u32 ids[PROGRAMS_MAX], flags, count = PROGRAMS_MAX, info_size = sizeof(struct bpf_link_info);
	struct bpf_link_info info = {0};
	char name[BPF_OBJ_NAME_LEN];
	int found = 0, length = 0;

	*names = 0;
	if (link >= 0 && bpf_obj_get_info_by_fd(link, &info, &info_size))
		return 0;
	if (bpf_prog_query(ifindex, TCX_EGRESS, 0, &flags, ids, &count))
		return 0;
	for (__u32 i = 0; i < count && !(link >= 0 && ids[i] == info.prog_id); i++, found++) {
		int prog = bpf_prog_get_fd_by_id(ids[i]);

		if (prog < 0 || name_of(prog, name))
			*name = 0;
		if (prog >= 0)
			close(prog);
		if (length >= 0 && (size_t)length < size)
			length += snprintf(names + length, size - (size_t)length, "%s%s%sid %u%s", found ? ", " : "",
					   name, *name ? " (" : "", ids[i], *name ? ")" : "");
	}
	return found;
}

bool weir_tcx_is_there(int ifindex)
{
	__u32 flags, count = 0;

	return !bpf_prog_query(ifindex, TCX_EGRESS, 0, &flags, NULL, &count);
}

void weir_tcx_ahead(int ifindex, int link, char *text, size_t size)
{
	char names[128];

	*text = 0;
	if (before(ifindex, link, names, sizeof(names)) > 0)
		snprintf(text, size,
			 "TCX program %s at egress runs before ours: packets that it lets through for good (TCX_PASS, "
			 "not TCX_NEXT) never reach the law; if it does that, detach it and attach it again after ours",
			 names);
}

/* Whether a program is the one that is pinned as ours of that end; also true where none is pinned. */
static bool is_pinned(__u32 prog_id, const char *path, enum bpf_tc_attach_point point)
{
	char pin[PATH_MAX + 32];
	bool same;
	int prog;

	snprintf(pin, sizeof(pin), "%s/prog_weir_%s", path, point == BPF_TC_EGRESS ? "egress" : "peer");
	prog = bpf_obj_get(pin);
	if (prog < 0)
		return true;
	same = weir_prog_id(prog) == prog_id;
	close(prog);
	return same;
}

static bool find(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	__u32 size = sizeof(struct bpf_link_info);
	struct bpf_link_info info = {0};
	int link = open_link(side, path);
	bool found;

	if (link < 0)
		return false;
	/* `tcx.ifindex` in newer headers, in the same place; 0 when the interface was removed */
	found = !bpf_obj_get_info_by_fd(link, &info, &size) && info.xdp.ifindex == (__u32)side->ifindex &&
		is_pinned(info.prog_id, path, side->point);
	close(link);
	return found;
}

static struct weir_hook_description describe(void)
{
	return (struct weir_hook_description){.direction = "egress"};
}

static void ahead(const struct weir_side *side, int netlink, const char *path, char *text, size_t size)
{
	int link = open_link(side, path);

	weir_tcx_ahead(side->ifindex, link, text, size);
	if (link >= 0)
		close(link);
}

const struct weir_hook_row weir_hook_tcx = {
	.hook = WEIR_HOOK_TCX,
	.name = "tcx",
	.is_tc = true,
	.by_link = true,
	.probe = probe,
	.lacking = "this kernel lacks it (Linux 6.6, CONFIG_NET_XGRESS); clsact works here",
	.attach = attach,
	.swap = swap,
	.detach = detach,
	.find = find,
	.describe = describe,
	.ahead = ahead,
};
