/* SPDX-License-Identifier: Apache-2.0 */
/* From events of the programs to lines of the file. */
#include "sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "error.h"

#define SWEEP_NS 1000000000ULL
#define SWEEP_BATCH 4096

static void write_lost(struct hop *hop, __u64 entry_ns, __u32 bytes)
{
	fprintf(sampler.out, "{\"k\":\"lost\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"bytes\":%u}\n",
		(uint64_t)(entry_ns / 1000), hop->name, bytes);
	hop->lost++;
}

/* The packet was inside at each tick from its entry up to, but without, its exit. */
static void count_ticks(const struct hop *hop, __u64 entry_ns, __u64 exit_ns, __u32 bytes)
{
	__u64 from_ns = entry_ns > sampler.start_ns ? entry_ns - sampler.start_ns : 0;
	__u64 number = (from_ns + sampler.every_ns - 1) / sampler.every_ns;

	if (number < sampler.tick_next)
		number = sampler.tick_next;
	for (; sampler.start_ns + number * sampler.every_ns < exit_ns; number++) {
		struct tick *tick = &hop->ticks[number % sampler.tick_room];

		if (number - sampler.tick_next >= sampler.tick_room)
			return; /* can't be: a packet inside for so long has been given up */
		tick->bytes += bytes;
		tick->packets++;
	}
}

int on_event(void *context, void *data, size_t size)
{
	const struct sojourn_event *event = data;
	struct hop *hop = &sampler.hops[event->hop];
	__u64 sojourn_ns = event->exit_ns - event->entry_ns;

	(void)context;
	(void)size;
	if (!event->exit_ns) {
		write_lost(hop, event->entry_ns, event->bytes);
		return 0;
	}
	fprintf(sampler.out,
		"{\"k\":\"pkt\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"sojourn_us\":%" PRIu64
		",\"bytes\":%u,\"ce\":%u,\"low\":%u,\"flow\":%u}\n",
		(uint64_t)(event->exit_ns / 1000), hop->name, (uint64_t)(sojourn_ns / 1000), event->bytes, event->ce,
		event->low, event->flow);
	if (sojourn_ns > hop->longest_ns)
		hop->longest_ns = sojourn_ns;
	if (sampler.every_ns)
		count_ticks(hop, event->entry_ns, event->exit_ns, event->bytes);
	return 0;
}

/* Queue lines of every tick up to a time; whoever calls knows that all packets inside at those ticks are out. */
static void write_ticks(__u64 until_ns)
{
	if (!sampler.every_ns)
		return;
	for (; sampler.start_ns + sampler.tick_next * sampler.every_ns <= until_ns; sampler.tick_next++) {
		__u64 at_ns = sampler.start_ns + sampler.tick_next * sampler.every_ns;

		for (int i = 0; i < sampler.hop_count; i++) {
			struct hop *hop = &sampler.hops[i];
			struct tick *tick = &hop->ticks[sampler.tick_next % sampler.tick_room];

			fprintf(sampler.out,
				"{\"k\":\"queue\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"backlog_bytes\":%" PRIu64
				",\"backlog_packets\":%" PRIu64 "}\n",
				(uint64_t)(at_ns / 1000), hop->name, (uint64_t)tick->bytes, (uint64_t)tick->packets);
			memset(tick, 0, sizeof(*tick));
		}
	}
}

struct left {
	struct sojourn_key key;
	struct sojourn_stamp stamp;
};

static int by_entry(const void *a, const void *b)
{
	const struct left *x = a, *y = b;

	if (x->stamp.entry_ns != y->stamp.entry_ns)
		return x->stamp.entry_ns < y->stamp.entry_ns ? -1 : 1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Everything that is inside now, oldest first. The number of them, or -1 with a message. */
static int list_inside(struct left **list)
{
	static struct sojourn_key keys[SWEEP_BATCH];
	static struct sojourn_stamp stamps[SWEEP_BATCH];
	int map = bpf_map__fd(sampler.hops[0].skeleton->maps.inside), result, total = 0;
	struct left *all = malloc(SOJOURN_INSIDE_MAX * sizeof(*all));
	__u64 position;
	bool first = true;

	if (!all)
		return weir_error("no memory to look for lost packets");
	do {
		__u32 count = SWEEP_BATCH;

		result = bpf_map_lookup_batch(map, first ? NULL : &position, &position, keys, stamps, &count, NULL);
		if (result && result != -ENOENT) { /* it ends the list so */
			free(all);
			return weir_error("can't look for lost packets: %s", weir_reason(result));
		}
		first = false;
		for (__u32 i = 0; i < count && total < SOJOURN_INSIDE_MAX; i++, total++)
			all[total] = (struct left){.key = keys[i], .stamp = stamps[i]};
	} while (!result);
	qsort(all, (size_t)total, sizeof(*all), by_entry);
	*list = all;
	return total;
}

/* Gives up packets that are inside for too long. At the end: all but those that may still be on their way. */
static int sweep(__u64 now, bool end)
{
	struct left *list = NULL;
	int total = list_inside(&list);

	if (total < 0)
		return -1;
	for (int i = 0; i < total; i++) {
		struct hop *hop = &sampler.hops[list[i].key.hop];
		__u64 entry_ns = list[i].stamp.entry_ns;
		__u64 patience_ns = sampler.lost_after_ns;

		if (end && hop->longest_ns < patience_ns)
			patience_ns = hop->longest_ns;
		if (entry_ns < now && now - entry_ns > patience_ns) {
			/* gone by now: it came out between our look and this */
			if (!bpf_map_delete_elem(bpf_map__fd(hop->skeleton->maps.inside), &list[i].key))
				write_lost(hop, entry_ns, list[i].stamp.bytes);
		} else {
			hop->inside++;
		}
	}
	free(list);
	return 0;
}

int drain(void)
{
	__u64 before_ns = weir_now_ns();
	int result = ring_buffer__consume(sampler.ring);

	if (result < 0)
		return weir_error("can't read the ring buffer: %s", weir_reason(result));
	if (before_ns - sampler.swept_ns >= SWEEP_NS) {
		sampler.swept_ns = before_ns;
		for (int i = 0; i < sampler.hop_count; i++)
			sampler.hops[i].inside = 0;
		if (sweep(before_ns, false))
			return -1;
		/* A packet inside at such a tick has come out and been drained, or been given up at this sweep. */
		if (before_ns > sampler.lost_after_ns + SWEEP_NS)
			write_ticks(before_ns - sampler.lost_after_ns - 1);
	}
	if (ferror(sampler.out))
		return weir_error("%s: can't write: %s", sampler.out_path, weir_reason(errno));
	return 0;
}

int finish(void)
{
	__u64 end_ns = weir_now_ns();
	int result = drain();

	for (int i = 0; i < sampler.hop_count; i++)
		sampler.hops[i].inside = 0;
	if (!result)
		result = sweep(end_ns, true);
	write_ticks(end_ns);
	for (int i = 0; i < sampler.hop_count && !result; i++) {
		struct hop *hop = &sampler.hops[i];
		struct sojourn_counters n;

		if (bpf_map_lookup_elem(bpf_map__fd(hop->skeleton->maps.counters), &i, &n)) {
			result = weir_error("%s: can't read the counters: %s", hop->name, weir_reason(errno));
			break;
		}
		fprintf(sampler.out,
			"{\"k\":\"sampler\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"stamped\":%" PRIu64
			",\"matched\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"inside\":%" PRIu64 ",\"collisions\":%" PRIu64
			",\"full\":%" PRIu64 ",\"strays\":%" PRIu64 ",\"ring_drops\":%" PRIu64 "}\n",
			(uint64_t)(end_ns / 1000), hop->name, (uint64_t)n.stamped, (uint64_t)n.matched,
			(uint64_t)hop->lost, (uint64_t)hop->inside, (uint64_t)n.collisions, (uint64_t)n.full,
			(uint64_t)n.strays, (uint64_t)n.ring_drops);
	}
	return result;
}
