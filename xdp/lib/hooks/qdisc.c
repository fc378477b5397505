/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A qdisc in BPF at the root (Linux 6.16, CONFIG_NET_SCH_BPF), with the program of marks before it, by TCX. The kernel
 * knows the qdisc by a name, as long as the map of its operations has a value.
 */
#include "hooks/qdisc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "error.h"
#include "hooks/row.h"
#include "net/net.h"
#include "net/question.h"

#define HANDLE (0x7e21U << 16) /* after those of net/shape.c */
#define OPS "weir_qdisc_ops"
#define NAME_IN_OBJECT "weir_0000000000"
#define VALUE_WORDS 128 /* the operations of this kernel and of later ones fit */

static const __u32 first = 0;

extern const struct weir_hook_row weir_hook_tcx;

void weir_qdisc_kind(__u64 netns_inum, __u32 ifindex, char kind[WEIR_QDISC_KIND_LEN])
{
	const __u64 numbers[] = {netns_inum, ifindex};
	__u64 hash = 0xcbf29ce484222325ULL; /* FNV-1a */

	for (size_t i = 0; i < sizeof(numbers); i++)
		hash = (hash ^ ((const unsigned char *)numbers)[i]) * 0x100000001b3ULL;
	snprintf(kind, WEIR_QDISC_KIND_LEN, "weir_%010llx", (unsigned long long)(hash >> 24));
}

int weir_qdisc_name_object(void *bytes, size_t size, const char *kind)
{
	char *name = memmem(bytes, size, NAME_IN_OBJECT, sizeof(NAME_IN_OBJECT));

	if (!name)
		return -ENOENT;
	memcpy(name, kind, sizeof(NAME_IN_OBJECT));
	return 0;
}

int weir_qdisc_tag_object(struct bpf_object *object)
{
	struct btf *btf = bpf_object__btf(object);
	int packet = btf__find_by_name_kind(btf, "weir_packet", BTF_KIND_STRUCT), tag;
	const struct btf_type *type = packet < 0 ? NULL : btf__type_by_id(btf, (__u32)packet);

	for (__u16 i = 0; type && i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		const struct btf_type *pointer = btf__type_by_id(btf, member->type);

		if (strcmp(btf__name_by_offset(btf, member->name_off), "skb"))
			continue;
		if (!btf_is_ptr(pointer) || btf_is_type_tag(btf__type_by_id(btf, pointer->type)))
			return 0;
		tag = btf__add_type_tag(btf, "kptr", (int)pointer->type);
		tag = tag < 0 ? tag : btf__add_ptr(btf, tag);
		if (tag < 0)
			return tag;
		/* types move when others are added */
		type = btf__type_by_id(btf, (__u32)packet);
		((struct btf_member *)(void *)(btf_members(type) + i))->type = (__u32)tag;
		return 0;
	}
	return -ENOENT;
}

static char lacking[160];

static int probe(int prog)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	bool has = kernel && btf__find_by_name_kind(kernel, "bpf_struct_ops_Qdisc_ops", BTF_KIND_STRUCT) > 0;
	struct utsname name = {0};

	btf__free(kernel);
	uname(&name);
	snprintf(lacking, sizeof(lacking), "Linux 6.16 with CONFIG_NET_SCH_BPF and BTF is needed, this is %s%s",
		 name.release, kernel ? "" : " without BTF");
	return has;
}

static int put_root(const struct weir_side *side, int netlink)
{
	char kind[WEIR_QDISC_KIND_LEN];
	struct weir_question q;

	weir_qdisc_kind(weir_netns_inum(), (__u32)side->ifindex, kind);
	weir_question_begin(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, side->ifindex, TC_H_ROOT, HANDLE);
	weir_question_put_kind(&q, kind);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

/* 1 if the root is our qdisc, 0 if not, or -errno. */
static int is_root(const struct weir_side *side, int netlink)
{
	char kind[WEIR_QDISC_KIND_LEN];
	struct weir_qdisc root;
	int error = netlink < 0 ? netlink : weir_qdisc_read(netlink, side->ifindex, &root);

	weir_qdisc_kind(weir_netns_inum(), (__u32)side->ifindex, kind);
	return error ? error : !strcmp(root.kind, kind);
}

/* The map of operations of that kind, which needs no pin. A descriptor, or -1. */
static int find_ops(const char *kind)
{
	__u64 value[VALUE_WORDS];
	__u32 id = 0, size;
	int ops;

	while (!bpf_map_get_next_id(id, &id)) {
		struct bpf_map_info info = {0};

		ops = bpf_map_get_fd_by_id(id);
		size = sizeof(info);
		if (ops >= 0 && !bpf_obj_get_info_by_fd(ops, &info, &size) && info.type == BPF_MAP_TYPE_STRUCT_OPS &&
		    !strcmp(info.name, OPS) && info.value_size <= sizeof(value) &&
		    !bpf_map_lookup_elem(ops, &first, value) && memmem(value, info.value_size, kind, strlen(kind) + 1))
			return ops;
		if (ops >= 0)
			close(ops);
	}
	return -1;
}

/* The kernel forgets a kind; a qdisc that is in use stays until it is removed. 0 or -errno. */
static int forget_kind(const char *kind)
{
	int ops = find_ops(kind), error = 0;

	if (ops < 0)
		return 0;
	if (bpf_map_delete_elem(ops, &first) && errno != ENOENT && errno != EINPROGRESS)
		error = -errno;
	close(ops);
	return error;
}

int weir_qdisc_forget(const struct weir_meta *about)
{
	char kind[WEIR_QDISC_KIND_LEN];
	int error;

	if (about->hook != WEIR_HOOK_QDISC)
		return 0;
	weir_qdisc_kind(about->netns_inum, about->ifindex, kind);
	error = forget_kind(kind);
	return error ? weir_error("%s: can't remove the kind of its qdisc: %s", about->dev, weir_reason(error)) : 0;
}

bool weir_qdisc_is_root(int ifindex, int netlink)
{
	const struct weir_side side = {.ifindex = ifindex};

	return is_root(&side, netlink) > 0;
}

int weir_qdisc_clear(int ifindex, int netlink)
{
	char kind[WEIR_QDISC_KIND_LEN];
	struct weir_question q;
	int error = 0;

	if (weir_qdisc_is_root(ifindex, netlink)) {
		weir_question_begin(&q, RTM_DELQDISC, 0, ifindex, TC_H_ROOT, 0);
		error = weir_netlink_talk(netlink, &q.head, NULL, NULL);
	}
	weir_qdisc_kind(weir_netns_inum(), (__u32)ifindex, kind);
	return error ? error : forget_kind(kind);
}

static int attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	struct bpf_map *ops = bpf_object__find_map_by_name(program->object, OPS);
	struct bpf_link *link;
	int netlink, error;

	about->prog_id = weir_prog_id(program->prog); /* or undoing would not detach here */
	if (weir_meta_write(program->meta, about, side->name) || weir_hook_tcx.attach(side, program, about))
		return -1;
	netlink = weir_netlink_open();
	error = netlink < 0 ? netlink : weir_qdisc_clear(side->ifindex, netlink); /* of lost pins */
	link = error ? NULL : bpf_map__attach_struct_ops(ops);
	if (link) {
		bpf_link__disconnect(link); /* or it ends with us */
		bpf_link__destroy(link);
		error = put_root(side, netlink);
	} else if (!error) {
		error = -errno;
	}
	if (netlink >= 0)
		close(netlink);
	return error ? weir_error("%s: can't make the root qdisc: %s", side->name, weir_reason(error)) : 0;
}

static int detach(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	struct weir_question q;
	int netlink = weir_netlink_open(), is = is_root(side, netlink);

	weir_question_begin(&q, RTM_DELQDISC, 0, side->ifindex, TC_H_ROOT, 0);
	if (is > 0)
		is = weir_netlink_talk(netlink, &q.head, NULL, NULL);
	if (netlink >= 0)
		close(netlink);
	return is ? weir_error("%s: can't remove its qdisc: %s", side->name, weir_reason(is)) : 0;
}

static bool find(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	int netlink = weir_netlink_open(), is = is_root(side, netlink);

	if (netlink >= 0)
		close(netlink);
	return is != 0 && weir_hook_tcx.find(side, about, path);
}

static struct weir_hook_description describe(void)
{
	return (struct weir_hook_description){.direction = "egress"};
}

const struct weir_hook_row weir_hook_qdisc = {
	.hook = WEIR_HOOK_QDISC,
	.name = "qdisc",
	.probe = probe,
	.lacking = lacking,
	.attach = attach,
	.detach = detach,
	.find = find,
	.describe = describe,
};

static int forget(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	return side->point == BPF_TC_EGRESS ? weir_qdisc_forget(about) : 0;
}

const struct weir_hook_row weir_hook_qdisc_ops = {
	.hook = WEIR_HOOK_QDISC,
	.name = "qdisc",
	.by_link = true,
	.detach = forget,
	.describe = describe,
};
