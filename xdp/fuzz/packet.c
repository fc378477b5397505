/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a frame, before the programs at tc and at XDP: both read and mark it alike, a mark changes the ECN bits
 * and the checksum alone, and nothing is read behind the frame's end. XDP's pointers have 32 bits, so the frame lies in
 * the lowest 4 GB, and its end at a page that can't be read.
 */
#include "input.h"

#include <linux/types.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static __u8 *frame, *frame_end;

static long load_bytes(const void *skb, __u32 offset, void *to, __u32 size)
{
	if (offset > (size_t)(frame_end - frame) || size > (size_t)(frame_end - frame) - offset)
		return -1;
	memcpy(to, frame + offset, size);
	return 0;
}

static long store_bytes(void *skb, __u32 offset, const void *from, __u32 size, __u64 flags)
{
	if (offset > (size_t)(frame_end - frame) || size > (size_t)(frame_end - frame) - offset)
		return -1;
	memcpy(frame + offset, from, size);
	return 0;
}

/* The first value of each map, zero at first; the code reads two maps. */
static void *lookup(const void *map, const void *key)
{
	static __u64 value[2][64];
	static const void *maps[2];
	int i = maps[0] && maps[0] != map;

	maps[i] = map;
	return value[i];
}

static __u32 random_word(void)
{
	return 0x9e3779b1;
}

static __u32 hash_recalc(const void *skb)
{
	return 0;
}

static __u64 clock_ns(void)
{
	return 0;
}

/* libbpf declares helpers as pointers to their numbers. */
#define bpf_skb_load_bytes load_bytes
#define bpf_skb_store_bytes store_bytes
#define bpf_map_lookup_elem lookup
#define bpf_get_hash_recalc hash_recalc
#define bpf_get_prandom_u32 random_word
#define bpf_ktime_get_ns clock_ns
#define bpf_spin_lock(lock) ((void)(lock))
#define bpf_spin_unlock(lock) ((void)(lock))
#include "weir/xdp_flows.h"

#define FRAME_MAX 4096

static __u16 sum_of(const __u8 *header, size_t size)
{
	__u32 sum = 0;

	for (size_t i = 0; i + 1 < size; i += 2)
		sum += (__u32)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

/* A mark left all as it was but the ECN bits, which say CE now, and the checksum, which stayed as right as it was. */
static void check_mark(const __u8 *before, const __u8 *after, size_t size, struct weir_header header)
{
	size_t at = header.offset;

	for (size_t i = 0; i < size; i++) {
		if (header.proto == bpf_htons(ETH_P_IP) && (i == at + 10 || i == at + 11))
			continue;
		PROMISE(i == at + 1 || before[i] == after[i]);
	}
	if (header.proto == bpf_htons(ETH_P_IP)) {
		PROMISE(after[at + 1] == (before[at + 1] | WEIR_ECN_CE));
		PROMISE(sum_of(before + at, 20) % 0xffff == sum_of(after + at, 20) % 0xffff);
	} else if (weir_is_names(header.proto)) {
		PROMISE(after[at + 1] == (before[at + 1] | WEIR_NAMES_CE));
	} else {
		PROMISE(after[at + 1] == (before[at + 1] | WEIR_ECN_CE << 4));
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	__u8 *pages = mmap(NULL, 2 * FRAME_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	PROMISE(pages != MAP_FAILED && !mprotect(pages + FRAME_MAX, FRAME_MAX, PROT_NONE));
	frame_end = pages + FRAME_MAX;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	__u8 marked[FRAME_MAX];
	struct weir_header at_xdp, at_tc;
	struct __sk_buff skb = {0};
	struct xdp_md ctx = {0};
	int is_ect, is_marked;

	if (size > FRAME_MAX)
		return -1;
	frame = frame_end - size;
	memcpy(frame, data, size);
	skb.data = ctx.data = (__u32)(unsigned long)frame;
	skb.data_end = ctx.data_end = (__u32)(unsigned long)frame_end;
	skb.len = (__u32)size;
	at_xdp = weir_xdp_find_header(&ctx);
	PROMISE(at_xdp.offset <= WEIR_HEADER_OFFSET_MAX);
	if (at_xdp.proto)
		PROMISE(weir_xdp_flow(&ctx, at_xdp) < WEIR_FLOWS);
	if (size < sizeof(struct ethhdr))
		return 0;
	memcpy(&skb.protocol, frame + 12, 2);
	at_tc = weir_skb_find_header(&skb, sizeof(struct ethhdr));
	PROMISE(at_tc.offset == at_xdp.offset && at_tc.proto == at_xdp.proto);
	if (!at_tc.proto)
		return 0;
	is_ect = weir_xdp_is_ect(&ctx, at_xdp);
	PROMISE(!is_ect == !weir_skb_is_ect(&skb, at_tc));
	if (weir_is_names(at_tc.proto))
		PROMISE(weir_skb_flow(&skb, at_tc) == weir_xdp_flow(&ctx, at_xdp));
	if (!is_ect)
		return 0;
	is_marked = weir_xdp_mark(&ctx, at_xdp);
	if (is_marked)
		check_mark(data, frame, size, at_xdp);
	else
		PROMISE(!memcmp(frame, data, size));
	memcpy(marked, frame, size);
	memcpy(frame, data, size);
	PROMISE(!weir_skb_mark(&skb, at_tc) == !is_marked && !memcmp(frame, marked, size));
	PROMISE(!weir_skb_mark(&skb, at_tc) == !is_marked && !memcmp(frame, marked, size));
	return 0;
}
