/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/row.h"

#include <errno.h>

#include <bpf/bpf.h>

#include "error.h"

struct weir_side weir_side_of(const struct weir_meta *about, const char *name)
{
	return (struct weir_side){name, (int)about->ifindex, BPF_TC_EGRESS, false};
}

const char *weir_point_name(enum bpf_tc_attach_point point)
{
	return point == BPF_TC_EGRESS ? "egress" : "ingress";
}

int weir_meta_write(int meta, const struct weir_meta *about, const char *name)
{
	static const __u32 first = 0;

	return bpf_map_update_elem(meta, &first, about, BPF_ANY)
		       ? weir_error("%s: can't write down what is attached: %s", name, weir_reason(errno))
		       : 0;
}

__u32 weir_prog_id(int prog)
{
	__u32 size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {0};

	return bpf_obj_get_info_by_fd(prog, &info, &size) ? 0 : info.id;
}
