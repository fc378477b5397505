// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law where only arrivals are seen: XDP at ingress, before a queue that is elsewhere (behind a modem, in a switch),
 * modelled by one that drains at the configured rate.
 */
#define WEIR_SAMPLES_XDP
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "weir/arrival.h"
#include "weir/framing.h"
#include "weir/sampling.h"
#include "weir/xdp_flows.h"
#include "weir/advise.h"

SEC("xdp")
int weir_ingress(struct xdp_md *ctx)
{
	__u64 len_bytes = (__u64)ctx->data_end - ctx->data, framed_bytes;
	struct weir_arrival a;
	enum weir_fate fate;
	__u64 now_ns;
	enum weir_size size = WEIR_SMALL;
	int marked, may_hit, ect;

	if (!weir_arrival_begin(&a))
		return XDP_PASS;
	weir_arrival_see(&a, weir_xdp_find_header(ctx), len_bytes);
	weir_advise(ctx, &a);

	now_ns = bpf_ktime_get_ns();
	framed_bytes = weir_framed_bytes(&a.config->framing, len_bytes);
	may_hit = weir_virtual_may_hit(a.queue, a.config, now_ns);
	ect = !may_hit || !weir_asks_ect(a.config) || weir_xdp_is_ect(ctx, a.header);
	if (weir_counts_flows(&a.config->law) && a.header.proto)
		size = weir_flow_size(a.queue, a.config, weir_xdp_flow(ctx, a.header), now_ns, len_bytes);
	fate = weir_virtual_arrival(a.queue, a.config, now_ns, framed_bytes, may_hit, ect, size);
	marked = weir_arrival_wants_mark(&a, fate) && weir_xdp_mark(ctx, a.header);
	weir_sample(ctx, &a, WEIR_KIND_QUEUE, fate, marked);
	if (weir_arrival_end(&a, fate, marked))
		return XDP_DROP;
	if (fate != WEIR_FATE_PASS)
		weir_virtual_join(a.queue, framed_bytes);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
