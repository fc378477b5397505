/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"

struct reading {
	struct carried *c;
	__u32 others; /* the slot of packets that nothing else tells */
};

static int read_one(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	const struct reading *reading = context;
	struct carried *c = reading->c;
	struct carried_law *law = &c->list[c->count];

	*law = (struct carried_law){.class = *class, .others = a->slot == reading->others};
	if (weir_config_read(a, &law->config))
		return -1;
	if (bpf_map_lookup_elem_flags(a->queue, &a->slot, &law->queue, BPF_F_LOCK))
		return weir_error("can't read the queue's state: %s", weir_reason(errno));
	c->count++;
	return 0;
}

/* Those with the same configuration stand together. */
static int compare(const void *one, const void *other)
{
	return memcmp(&((const struct carried_law *)one)->config, &((const struct carried_law *)other)->config,
		      sizeof(struct weir_config));
}

int carried_read(struct carried *c, struct weir_attachment *a)
{
	struct reading reading = {.c = c};
	struct weir_class_maps maps;
	struct weir_telling telling;
	int result;

	*c = (struct carried){.list = calloc(a->about.slots, sizeof(*c->list))};
	if (!c->list)
		return weir_error("out of memory");
	if (weir_class_maps_open(&maps, a)) {
		carried_free(c);
		return -1;
	}
	result = weir_telling_read(&maps, &telling);
	if (!result) {
		c->mark_mask = telling.mark_mask;
		c->queues = telling.queues;
		reading.others = telling.others;
		result = weir_law_each(a, read_one, &reading);
	}
	weir_class_maps_close(&maps);
	if (result)
		carried_free(c);
	else
		qsort(c->list, c->count, sizeof(*c->list), compare);
	return result;
}

void carried_free(struct carried *c)
{
	free(c->list);
	*c = (struct carried){0};
}

void carried_drop_gone(struct carried *c, const struct weir_class_list *there)
{
	__u32 left = 0;

	for (__u32 i = 0; i < c->count; i++)
		if (!c->list[i].class.kept || weir_classes_find(there, c->list[i].class.handle))
			c->list[left++] = c->list[i];
	c->count = left;
}

bool carried_has(const struct carried *c, __u32 handle)
{
	for (__u32 i = 0; i < c->count; i++)
		if (c->list[i].class.handle == handle)
			return true;
	return false;
}

/* Where the law stood, in a queue that has seen nothing yet. */
static int put_queue(const struct carried_law *law, const struct class_store *store, __u32 slot,
		     const struct weir_queue *fresh)
{
	struct weir_queue q = *fresh;

	q.law = law->queue.law;
	q.tau_us = law->queue.tau_us;
	q.backlog_bytes = law->queue.backlog_bytes;
	q.spacing = law->queue.spacing;
	return classes_clear_slot(store, slot, &q);
}

int carried_put(struct carried *c, const struct class_store *store, const struct weir_queue *fresh)
{
	static const __u32 first = 0;
	struct weir_telling telling = {.mark_mask = c->mark_mask, .queues = c->queues};
	struct weir_attachment a = {.config = store->config}; /* as far as configurations are concerned */
	struct class_run run = {0};
	int result = 0;

	memcpy(a.path, store->path, strlen(store->path) + 1);
	if (bpf_map_update_elem(store->maps.telling, &first, &telling, BPF_ANY))
		return weir_error("can't write how packets are told apart: %s", weir_reason(errno));
	for (__u32 i = 0; !result && i < c->count; i++) {
		a.slot = i + 1;
		result = weir_class_begin(&store->maps, a.slot, &c->list[i].class) ||
			 put_queue(&c->list[i], store, a.slot, fresh) || class_run_add(&run, &a, &c->list[i].config);
	}
	if (!result)
		result = class_run_put(&run, &a);
	free(run.slot);
	for (__u32 i = 0; !result && i < c->count; i++)
		result = weir_class_finish(&store->maps, i + 1, &c->list[i].class, c->list[i].others);
	return result ? -1 : 0;
}
