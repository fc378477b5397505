// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law where only arrivals are seen: XDP at ingress, before a queue that is elsewhere (behind a modem, in a switch),
 * modelled by one that drains at the configured rate.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "weir/packet.h"
#include "weir/queue.h"

SEC("xdp")
int weir_ingress(struct xdp_md *ctx)
{
	const struct weir_config *c = weir_config_get();
	struct weir_queue *q = bpf_map_lookup_elem(&queue, &weir_first);
	struct weir_counters *n = bpf_map_lookup_elem(&counters, &weir_first);
	__u64 len_bytes = (__u64)ctx->data_end - ctx->data;
	struct weir_ip ip = weir_xdp_find_ip(ctx);
	enum weir_fate fate;

	if (!c || !q || !n)
		return XDP_PASS;
	n->seen_packets++;
	n->seen_bytes += len_bytes;
	if (!ip.proto) {
		n->non_ip_packets++;
		n->non_ip_bytes += len_bytes;
	}

	fate = weir_virtual_arrival(q, c, n, bpf_ktime_get_ns(), len_bytes);
	if (fate == WEIR_FATE_LIMIT) {
		weir_count_drop(n, fate, len_bytes);
		return XDP_DROP;
	}
	if (fate != WEIR_FATE_PASS) {
		if (ip.proto) { /* else the law leaves it alone */
			if (fate != WEIR_FATE_HIT_MARK || !weir_xdp_mark(ctx, ip)) {
				weir_count_drop(n, WEIR_FATE_HIT_DROP, len_bytes);
				return XDP_DROP;
			}
			weir_count_mark(n, len_bytes);
		}
		weir_virtual_join(q, len_bytes);
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
