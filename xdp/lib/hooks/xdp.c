/* SPDX-License-Identifier: Apache-2.0 */
/* XDP at ingress: our program as the interface's only one, or where another loader put it. */
#include "hooks/row.h"

#include <errno.h>
#include <limits.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/libxdp.h"

static int attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	int error;

	about->prog_id = weir_prog_id(program->prog);
	about->owner = WEIR_OWNER_LOADER;
	if (!about->prog_id)
		return weir_error("%s: can't read the program's id: %s", side->name, weir_reason(errno));
	if (weir_meta_write(program->meta, about, side->name))
		return -1;
	error = bpf_xdp_attach(side->ifindex, program->prog, XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (error == -EBUSY || error == -EEXIST)
		return weir_xdp_taken(side);
	return error ? weir_error("%s: can't attach XDP: %s", side->name, weir_reason(error)) : 0;
}

static int swap(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		const char *old_path, struct weir_meta *about)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts);
	char pin[PATH_MAX + 32];
	int before, error;

	snprintf(pin, sizeof(pin), "%s/prog_weir_ingress", old_path); /* by its number takes CAP_SYS_ADMIN */
	before = bpf_obj_get(pin);
	error = before < 0 ? before : 0;
	about->prog_id = weir_prog_id(program->prog);
	if (!error && !about->prog_id)
		error = -errno;
	if (!error && weir_meta_write(program->meta, about, side->name)) {
		close(before);
		return -1;
	}
	opts.old_prog_fd = before;
	if (!error)
		error = bpf_xdp_attach(side->ifindex, program->prog, 0, &opts);
	if (before >= 0)
		close(before);
	return error ? weir_error("%s: can't replace the XDP program: %s", side->name, weir_reason(error)) : 0;
}

static int detach(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	__u32 id = 0;

	if (bpf_xdp_query_id(side->ifindex, 0, &id) || !id || id != about->prog_id)
		return 0; /* gone, or another's by now */
	return weir_xdp_detached(side, bpf_xdp_detach(side->ifindex, 0, NULL));
}

static bool find(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	__u32 id = 0;

	return !bpf_xdp_query_id(side->ifindex, 0, &id) && id && id == about->prog_id;
}

static struct weir_hook_description describe(void)
{
	return (struct weir_hook_description){.direction = "ingress", .owner = "weir-xdp"};
}

const struct weir_hook_row weir_hook_xdp = {
	.hook = WEIR_HOOK_XDP,
	.owner = WEIR_OWNER_LOADER,
	.name = "xdp",
	.attach = attach,
	.swap = swap,
	.detach = detach,
	.find = find,
	.describe = describe,
};

/* Theirs: only the configuration is ours to take away. Without one the program lets everything pass. */
static int detach_adopted(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	static const __u32 first = 0;
	char pin[PATH_MAX + 32];
	int config, error;

	snprintf(pin, sizeof(pin), "%s/config", path);
	config = bpf_obj_get(pin);
	error = config < 0 || !bpf_map_delete_elem(config, &first) ? 0 : -errno;
	if (config >= 0)
		close(config);
	return error && error != -ENOENT
		       ? weir_error("%s: can't take the configuration away: %s", side->name, weir_reason(error))
		       : 0;
}

static struct weir_hook_description describe_adopted(void)
{
	return (struct weir_hook_description){
		.direction = "ingress",
		.owner = "another loader",
		.owner_line = "put there by another loader, which may take it off",
	};
}

const struct weir_hook_row weir_hook_adopted = {
	.hook = WEIR_HOOK_XDP,
	.owner = WEIR_OWNER_OTHER,
	.name = "xdp",
	.detach = detach_adopted,
	.find = weir_xdp_is_among,
	.describe = describe_adopted,
};
