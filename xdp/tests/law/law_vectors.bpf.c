/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The law as BPF, run by BPF_PROG_TEST_RUN: a packet is an Ethernet header, then a struct law_io. A kernel that insists
 * on alignment (the exact lab) counts from 2 bytes before the header, so the struct is aligned to it.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "law_io.h"

#define LAW_IO_OFFSET 14

SEC("tc")
int law_vectors(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct law_io *io = data + LAW_IO_OFFSET;

	if ((void *)(io + 1) > end)
		return TC_ACT_SHOT;
	return law_execute(io) ? TC_ACT_SHOT : TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
