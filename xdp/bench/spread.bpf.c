// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * For the benchmark of many classes: gives each packet the number of one of them at random as its priority, and goes on
 * to the program under test. Its own cost is the same for any program.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} tested SEC(".maps");

/* Number of classes: 1:1 and those after it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} spread SEC(".maps");

SEC("tc")
int spread_tc(struct __sk_buff *skb)
{
	static const __u32 first = 0;
	const __u32 *classes = bpf_map_lookup_elem(&spread, &first);

	if (classes && *classes)
		skb->priority = 0x10001 + bpf_get_prandom_u32() % *classes;
	bpf_tail_call(skb, &tested, 0);
	return TC_ACT_SHOT; /* there is none: the benchmark looks at the verdict */
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
