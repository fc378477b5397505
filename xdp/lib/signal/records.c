/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/records.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"

const char *const weir_kind_names[WEIR_KINDS] = {"ahead", "small", "large", "spilled", "stranger", "queue"};

static int open_pin(const struct weir_attachment *a, const char *name)
{
	char pin[PATH_MAX + 32];

	snprintf(pin, sizeof(pin), "%s/%s", a->path, name);
	return bpf_obj_get(pin);
}

static int read_kind(int map, __u32 kind, __u32 epoch, struct weir_record *each, int cpus, struct weir_record *sum)
{
	if (bpf_map_lookup_elem(map, &kind, each))
		return -1;
	for (int cpu = 0; cpu < cpus; cpu++) {
		const struct weir_record *one = &each[cpu];
		__u32 peak_us = weir_peak_us(&one->peak, epoch);

		sum->packets += one->packets;
		sum->bytes += one->bytes;
		sum->delay_us += one->delay_us;
		sum->marks += one->marks;
		sum->drops += one->drops;
		if (peak_us > sum->peak.now_us)
			sum->peak.now_us = peak_us;
	}
	return 0;
}

static int read_kinds(const struct weir_attachment *a, __u32 epoch, struct weir_records *records)
{
	int cpus = libbpf_num_possible_cpus(), map = open_pin(a, "kind_records"), result = 0;
	struct weir_record *each;

	if (map < 0)
		return weir_error("%s: its program has no records of flows", a->about.dev);
	each = cpus < 1 ? NULL : calloc((size_t)cpus, sizeof(*each));
	for (__u32 kind = 0; each && !result && kind < WEIR_KINDS; kind++)
		result = read_kind(map, kind, epoch, each, cpus, &records->kind[kind]);
	if (!each || result)
		result = weir_error("%s: can't read the records of kinds: %s", a->about.dev,
				    each ? weir_reason(errno) : "out of memory");
	free(each);
	close(map);
	return result;
}

/* The kernel gives whole buckets of the hash table; flows that come and go meanwhile may be missing or come twice. */
static int read_flows(const struct weir_attachment *a, __u32 epoch, struct weir_records *records)
{
	int map = open_pin(a, "flow_records"), result = 0;
	size_t room = 2 * WEIR_FLOW_RECORDS;
	__u32 at = 0, next, got = 1;

	if (map < 0)
		return weir_error("%s: can't open the records of flows: %s", a->about.dev, weir_reason(errno));
	records->key = calloc(room, sizeof(*records->key));
	records->flow = calloc(room, sizeof(*records->flow));
	while (records->key && records->flow && !result && got && records->count < room) {
		got = (__u32)(room - records->count);
		result = bpf_map_lookup_batch(map, records->count ? &at : NULL, &next, records->key + records->count,
					      records->flow + records->count, &got, NULL);
		at = next;
		if (!result || errno == ENOENT)
			records->count += got;
	}
	if (!records->key || !records->flow || (result && errno != ENOENT))
		result = weir_error("%s: can't read the records of flows: %s", a->about.dev,
				    records->key && records->flow ? weir_reason(errno) : "out of memory");
	else
		result = 0;
	for (size_t i = 0; i < records->count; i++) {
		struct weir_peak *peak = &records->flow[i].sum.peak;

		peak->now_us = weir_peak_us(peak, epoch);
	}
	close(map);
	return result;
}

int weir_records_read(const struct weir_attachment *a, __u64 now_ns, struct weir_records *records)
{
	__u32 epoch = (__u32)(now_ns >> WEIR_PEAK_EPOCH_SHIFT);
	int result;

	memset(records, 0, sizeof(*records));
	result = read_kinds(a, epoch, records);
	if (!result && a->cached.flow_records)
		result = read_flows(a, epoch, records);
	if (result)
		weir_records_free(records);
	return result;
}

void weir_records_free(struct weir_records *records)
{
	free(records->key);
	free(records->flow);
	memset(records, 0, sizeof(*records));
}
