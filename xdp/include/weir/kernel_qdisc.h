/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's interface of a qdisc in BPF (Linux 6.16, net/sched/bpf_qdisc.c), as far as it is used: types that libbpf
 * finds in the running kernel's BTF, and functions of the kernel.
 */
#ifndef WEIR_KERNEL_QDISC_H
#define WEIR_KERNEL_QDISC_H

#include <linux/bpf.h>
#include <linux/version.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
struct bpf_list_head {
	__u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	__u64 opaque[3];
} __attribute__((aligned(8)));
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
	__u32 drops;
	__u32 requeues;
	__u32 overlimits;
};
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct netdev_queue {
	struct net_device *dev;
};
struct qdisc_skb_head {
	__u32 qlen;
};
struct Qdisc {
	__u32 limit;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};
struct sk_buff {
	unsigned int len;
	unsigned int data_len;
	unsigned int truesize;
	__be16 protocol;
	unsigned char *data;
	char cb[48]; /* begins with the length that qdiscs count */
};
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};
struct nlattr;
struct netlink_ext_ack;
#pragma clang attribute pop

/* Without access by index: libbpf compares the members by name. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

#define WEIR_KPTR __attribute__((btf_type_tag("kptr")))
#define WEIR_CONTAINS(type, node) __attribute__((btf_decl_tag("contains:" #type ":" #node)))

__u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
void bpf_kfree_skb(struct sk_buff *skb) __ksym;
void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
void *bpf_obj_new_impl(__u64 local_type_id, void *meta) __ksym;
void bpf_obj_drop_impl(void *kptr, void *meta) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, __u64 off) __ksym;
struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;

int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

/* clang 14 writes no BTF of a function that only the attribute names */
static inline __attribute__((always_inline)) void weir_for_end(struct bpf_iter_num *it)
{
	bpf_iter_num_destroy(it);
}

/* A loop that the kernel checks for one round, not for each. `i` is below `count` for the verifier, too. */
#define WEIR_FOR(i, count)                                                                                             \
	for (struct bpf_iter_num it_##i __attribute__((cleanup(weir_for_end))),                                        \
	     *begun_##i __attribute__((unused)) = (bpf_iter_num_new(&it_##i, 0, (count)), &it_##i);                    \
	     (next_##i = bpf_iter_num_next(&it_##i)) && ((i) = (__u32)next_##i[0]) < (count);)

/* Return values of enqueue, include/linux/netdevice.h. */
#define WEIR_NET_XMIT_SUCCESS 0
#define WEIR_NET_XMIT_DROP 1
#define WEIR_NET_XMIT_CN 2

#define WEIR_CONTAINER(pointer, type, member) ((type *)((void *)(pointer) - __builtin_offsetof(type, member)))

#endif /* WEIR_KERNEL_QDISC_H */
