/* SPDX-License-Identifier: Apache-2.0 */
#include "tcx.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

/* linux/bpf.h since 6.6; the headers and the libbpf of Debian 12 don't name them, but pass them on */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)
#define PROGRAMS_MAX 64 /* the kernel's BPF_MPROG_MAX */

static enum bpf_attach_type type_of(enum bpf_tc_attach_point point)
{
	return point == BPF_TC_EGRESS ? TCX_EGRESS : TCX_INGRESS;
}

int weir_tcx_probe(int prog)
{
	/* no interface has number 0; a kernel without TCX does not look that far */
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

int weir_tcx_attach(int prog, int ifindex, enum bpf_tc_attach_point point)
{
	char name[BPF_OBJ_NAME_LEN];
	int error = name_of(prog, name);

	if (!error)
		error = is_there(name, ifindex, point);
	if (error)
		return error > 0 ? -EEXIST : error;
	return bpf_link_create(prog, ifindex, type_of(point), NULL);
}

int weir_tcx_detach(const char *pin)
{
	int link = bpf_obj_get(pin), error;

	if (link < 0)
		return link == -ENOENT ? 0 : link;
	error = bpf_link_detach(link);
	close(link);
	return error;
}

int weir_tcx_before(int ifindex, int link, char *names, size_t size)
{
	__u32 ids[PROGRAMS_MAX], flags, count = PROGRAMS_MAX, info_size = sizeof(struct bpf_link_info);
	struct bpf_link_info info = {0};
	char name[BPF_OBJ_NAME_LEN];
	int before = 0, length = 0;

	*names = 0;
	if (link >= 0 && bpf_obj_get_info_by_fd(link, &info, &info_size))
		return 0;
	if (bpf_prog_query(ifindex, TCX_EGRESS, 0, &flags, ids, &count))
		return 0;
	for (__u32 i = 0; i < count && !(link >= 0 && ids[i] == info.prog_id); i++, before++) {
		int prog = bpf_prog_get_fd_by_id(ids[i]);

		if (prog < 0 || name_of(prog, name))
			*name = 0;
		if (prog >= 0)
			close(prog);
		if (length >= 0 && (size_t)length < size)
			length += snprintf(names + length, size - (size_t)length, "%s%s%sid %u%s", before ? ", " : "",
					   name, *name ? " (" : "", ids[i], *name ? ")" : "");
	}
	return before;
}

bool weir_tcx_is_on(int link, unsigned int ifindex)
{
	__u32 size = sizeof(struct bpf_link_info);
	struct bpf_link_info info = {0};

	/* `tcx.ifindex` in newer headers, in the same place; 0 when the interface is gone */
	return !bpf_obj_get_info_by_fd(link, &info, &size) && info.xdp.ifindex == ifindex;
}
