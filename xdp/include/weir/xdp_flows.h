/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flow of a packet before XDP, where the kernel has no hash yet. */
#ifndef WEIR_XDP_FLOWS_H
#define WEIR_XDP_FLOWS_H

#include "flows.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_dissection);
} dissection SEC(".maps");

/* As the kernel's own hash would have it. By name: as at tc. */
WEIR_INLINE __u32 weir_xdp_flow(const struct xdp_md *ctx, struct weir_header header)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
	struct weir_dissection *d = bpf_map_lookup_elem(&dissection, &weir_first);
	const __u32 *word = data + header.offset;

	if (!d || header.offset > WEIR_HEADER_OFFSET_MAX)
		return 0; /* never; the verifier wants to see the bound */
	if (weir_is_names(header.proto))
		return (const void *)(word + WEIR_NAMES_FLOW_WORDS) > end ? 0 : weir_names_flow(word);
	weir_dissect(d, data, end, header.offset, header.proto);
	return weir_flow_hash(d->word, WEIR_FLOW_WORDS);
}

#endif /* WEIR_XDP_FLOWS_H */
