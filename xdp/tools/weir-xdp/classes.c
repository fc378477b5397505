/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/classes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "net/classes.h"
#include "net/queues.h"
#include "net/tree.h"
#include "signal/judge.h"
#include "signal/signals.h"

#define ROOM_LEAST 64

static const __u32 first = 0;

int classes_check(const struct request *r)
{
	if (!r->classes)
		return weir_error("--%s goes with --class", r->by_mark ? "mark" : "others");
	if (r->signal && r->signal != WEIR_SIGNAL_POLL)
		return weir_error("--class takes signal poll, not %s: the others see the whole interface",
				  weir_signal_name(r->signal));
	if (r->peer || r->rate_bit_s > 0 || r->shape_bit_s > 0 || r->coupled || r->bands || r->limit_packets ||
	    r->limit_bytes)
		return weir_error(
			"--class: a law of a class takes neither --peer, --rate, --shape, --coupled nor --bands, and "
			"no limit: the class's qdisc has its own");
	if (r->hook == WEIR_HOOK_XDP)
		return weir_error("--hook xdp: a law of a class is at tc egress");
	if ((r->by_mark || r->others) && (r->classes != 1 || !(r->class[0] & 0xffff)))
		return weir_error("--%s goes with one --class, which those packets are of",
				  r->by_mark ? "mark" : "others");
	return 0;
}

int classes_check_marks(const struct request *r, bool queues)
{
	if (!queues || !(r->by_mark || r->others))
		return 0;
	return weir_error("--%s goes with classes of htb: the kernel gives packets their queue of mq",
			  r->by_mark ? "mark" : "others");
}

void classes_name(const char *dev, __u32 handle, char name[CLASSES_NAME_LEN])
{
	char class[WEIR_CLASS_LEN];

	weir_class_name(class, sizeof(class), handle);
	if (!(handle & 0xffff)) /* all of htb 1: */
		snprintf(class, sizeof(class), "%x:", handle >> 16);
	snprintf(name, CLASSES_NAME_LEN, "%s%s%s", dev, handle ? "/" : "", handle ? class : "");
}

void classes_free(struct class_list *list)
{
	free(list->list);
	free(list->slot);
	*list = (struct class_list){0};
}

/* A request beside what there is. */
struct resolving {
	const struct request *r;
	int netlink, ifindex;
	struct weir_class_list found;  /* all classes under the interface */
	struct weir_attachment *there; /* NULL: no class has a law yet */
	struct class_list *list;       /* the outcome */
};

static bool is_inner(const struct resolving *s, __u32 handle)
{
	for (size_t i = 0; i < s->found.count; i++)
		if (s->found.list[i].parent == handle)
			return true;
	return false;
}

static bool is_queue(const struct weir_class_now *now)
{
	return !strcmp(now->kind, "mq");
}

/* Number of queues of mq that packets are spread over. A driver that does not report it has no more than mq has
 * classes. */
static __u32 count_queues(const struct resolving *s, const char *name)
{
	__u32 queues = weir_queues_count(name), most = 0;

	for (size_t i = 0; i < s->found.count; i++)
		most += is_queue(&s->found.list[i]);
	return queues && queues < most ? queues : most;
}

/* Whether the queue of a packet can be told as mq's laws have to. */
static int check_queue(const struct resolving *s)
{
	char name[IF_NAMESIZE];

	if (s->list->queues)
		return 0;
	if (!if_indextoname((unsigned int)s->ifindex, name))
		return weir_error("no interface %s", s->r->dev);
	if (classes_check_marks(s->r, true))
		return -1;
	if (weir_queues_by_cpu(name, s->ifindex))
		return weir_error(
			"%s: XPS picks its queues by CPU, and the law can't see that; switch it off: for f in "
			"/sys/class/net/%s/queues/tx-*/xps_*; do echo 0 > $f; done",
			s->r->dev, name);
	s->list->queues = count_queues(s, name);
	return 0;
}

/* 0 if a law can go by it, or -1 after one line. */
static int check_class(const struct resolving *s, const struct weir_class_now *now)
{
	bool whole =
		s->there ? s->there->about.whole_tree : s->r->whole_tree; /* the process goes by the first attach */
	struct weir_tree leaf = {0};
	int error = weir_leaf_read(s->netlink, s->ifindex, now, &leaf);
	char why[512];

	if (error)
		return weir_error("%s: can't read what is in its classes: %s", s->r->dev, weir_reason(error));
	if (weir_class_say(weir_class_judge(now, is_inner(s, now->handle), &leaf, whole), now->handle, why,
			   sizeof(why)))
		return weir_error("%s: %s", s->r->dev, why);
	return is_queue(now) ? check_queue(s) : 0;
}

/* Whether a class has a law, or is in the list by now. */
static bool has_law(const struct resolving *s, __u32 handle)
{
	struct weir_class class;
	char why[256];
	bool has = false;

	for (__u32 i = 0; i < s->list->count; i++)
		if (s->list->list[i].handle == handle)
			return true;
	if (s->there) {
		weir_error_into(why, sizeof(why));
		has = !weir_class_find(s->there, handle, &class);
		weir_error_into(NULL, 0);
		s->there->slot = WEIR_SLOT_NONE;
	}
	return has;
}

static int append(const struct resolving *s, const struct weir_class_now *now)
{
	struct class_list *list = s->list;
	struct weir_class *grown = realloc(list->list, (list->count + 1) * sizeof(*grown));
	__u32 *slot = realloc(list->slot, (list->count + 1) * sizeof(*slot));

	list->list = grown ? grown : list->list;
	list->slot = slot ? slot : list->slot;
	if (!grown || !slot)
		return weir_error("out of memory");
	list->slot[list->count] = list->count + 1; /* of an attachment that is to be made; the first is of no class */
	list->list[list->count++] = (struct weir_class){.handle = now->handle,
							.by_mark = s->r->by_mark,
							.mark = s->r->mark,
							.kept = s->r->kept,
							.sent_bytes = now->sent_bytes};
	return 0;
}

/* One class by its number. */
static int resolve_one(const struct resolving *s, __u32 handle)
{
	const struct weir_class_now *now = weir_classes_find(&s->found, handle);
	const char *dev = s->r->dev;
	char name[WEIR_CLASS_LEN];

	weir_class_name(name, sizeof(name), handle);
	if (!now)
		return weir_error("%s: class %s is not there; `tc class show dev %s` lists those that are", dev, name,
				  dev);
	if (check_class(s, now))
		return -1;
	if (is_queue(now) && (handle & 0xffff) > s->list->queues)
		return weir_error("%s: %s is a queue that it does not use: it has %u (ethtool -l %s)", dev, name,
				  s->list->queues, dev);
	if (has_law(s, handle))
		return s->r->ensures
			       ? 0
			       : weir_error("%s: class %s has a law already; `weir-xdp set %s/%s` changes its gains",
					    dev, name, dev, name);
	return append(s, now);
}

static bool is_excepted(const struct request *r, __u32 handle)
{
	for (unsigned int i = 0; i < r->excepts; i++)
		if (r->except[i] == handle)
			return true;
	return false;
}

/* All classes of one htb that packets wait in, or all queues of mq. */
static int resolve_all(const struct resolving *s, __u32 major)
{
	bool any = false;

	for (size_t i = 0; i < s->found.count; i++) {
		const struct weir_class_now *now = &s->found.list[i];

		if ((now->handle & 0xffff0000) != major || is_inner(s, now->handle))
			continue;
		if (is_queue(now) && s->list->queues && (now->handle & 0xffff) > s->list->queues)
			continue;
		any = true;
		if (!is_excepted(s->r, now->handle) && !has_law(s, now->handle) &&
		    (check_class(s, now) || append(s, now)))
			return -1;
	}
	if (any)
		return 0;
	return weir_error("%s: htb %x: has no class that packets wait in; `tc class show dev %s` lists its classes",
			  s->r->dev, major >> 16, s->r->dev);
}

int classes_resolve(const struct request *r, int netlink, int ifindex, struct weir_attachment *there,
		    struct class_list *list)
{
	struct resolving s = {.r = r, .netlink = netlink, .ifindex = ifindex, .there = there, .list = list};
	int error = weir_classes_read(netlink, ifindex, &s.found), result = 0;

	*list = (struct class_list){0};
	if (error)
		return weir_error("%s: can't read its classes: %s", r->dev, weir_reason(error));
	for (unsigned int i = 0; !result && i < r->classes; i++)
		result = r->class[i] & 0xffff ? resolve_one(&s, r->class[i]) : resolve_all(&s, r->class[i]);
	list->there = weir_classes_leaves(&s.found);
	free(s.found.list);
	return result;
}

__u32 classes_room(__u32 there)
{
	__u32 slots = ROOM_LEAST;

	while (slots < 2 * there && slots < WEIR_SLOTS_MAX)
		slots *= 2;
	return slots;
}

int classes_find_room(const struct weir_class_maps *m, const char *dev, struct class_list *list)
{
	struct weir_class class;
	__u32 given = 0;

	for (__u32 slot = 1; given < list->count && slot < m->slots; slot++) {
		if (bpf_map_lookup_elem(m->class, &slot, &class))
			return weir_error("can't read the table of classes: %s", weir_reason(errno));
		if (class.state == WEIR_CLASS_FREE)
			list->slot[given++] = slot;
	}
	return given == list->count
		       ? 0
		       : weir_error("%s: there is room for laws of %u classes; detach and attach again, which "
				    "makes room for twice the classes there are then",
				    dev, m->slots - 1);
}

/* Whether another class's law goes by marks. */
static int others_have_marks(const struct weir_class_maps *maps, __u32 slot, bool *any)
{
	struct weir_class class;

	*any = false;
	for (__u32 i = 1; !*any && i < maps->slots; i++) {
		if (weir_class_entry(maps, i, &class))
			return -1;
		*any = i != slot && class.state == WEIR_CLASS_READY && class.by_mark;
	}
	return 0;
}

/* Whether marks, and packets that nothing else tells, may be those of the class in a slot; none has it yet: the first
 * one. */
static int check_tells(const struct weir_class_maps *maps, const struct request *r, __u32 slot)
{
	struct weir_telling telling;
	__u32 leads_to;
	bool marks = false;

	if (weir_telling_read(maps, &telling))
		return -1;
	if (r->others && telling.others != WEIR_SLOT_NONE && telling.others != slot)
		return weir_error("--others: packets that nothing else tells are those of another class's law already");
	if (!r->by_mark)
		return 0;
	if (telling.mark_mask && telling.mark_mask != r->mark_mask && others_have_marks(maps, slot, &marks))
		return -1;
	if (marks)
		return weir_error("--mark %#x/%#x: the marks of all classes must have one mask, and others have %#x",
				  r->mark, r->mark_mask, telling.mark_mask);
	if (weir_class_mark_slot(maps, r->mark, &leads_to))
		return -1;
	return leads_to == WEIR_SLOT_NONE || leads_to == slot
		       ? 0
		       : weir_error("--mark %#x: packets with this mark are those of another class's law already",
				    r->mark);
}

/* Sets the keys of packets, beside each class's own. */
static int tell_by(const struct class_store *store, const struct request *r, __u32 queues)
{
	struct weir_telling telling;

	if (check_tells(&store->maps, r, WEIR_SLOT_NONE) || weir_telling_read(&store->maps, &telling))
		return -1;
	if (telling.major && !telling.queues != !queues)
		return weir_error("%s: its laws are those of %s; queues of mq and classes of htb have none at once",
				  r->dev, queues ? "classes of htb" : "queues of mq");
	if (!r->by_mark && telling.queues == queues)
		return 0;
	telling.mark_mask = r->by_mark ? r->mark_mask : telling.mark_mask;
	telling.queues = queues;
	return bpf_map_update_elem(store->maps.telling, &first, &telling, BPF_ANY)
		       ? weir_error("can't write how packets are told apart: %s", weir_reason(errno))
		       : 0;
}

int classes_tell(const struct weir_class_maps *maps, const struct request *r, __u32 slot, bool *differs)
{
	struct weir_telling telling;
	struct weir_class class;
	__u32 leads_to;
	bool mark, others;

	if (weir_class_entry(maps, slot, &class) || weir_telling_read(maps, &telling) ||
	    weir_class_mark_slot(maps, r->mark, &leads_to))
		return -1;
	mark = r->by_mark &&
	       (!class.by_mark || class.mark != r->mark || leads_to != slot || telling.mark_mask != r->mark_mask);
	others = r->others && telling.others != slot;
	*differs |= mark || others;
	if ((mark || others) && !r->kept && check_tells(maps, r, slot))
		return -1;
	if (r->look)
		return 0;
	return (mark && weir_class_set_mark(maps, slot, r->mark, r->mark_mask)) ||
			       (others && weir_class_set_others(maps, slot))
		       ? -1
		       : 0;
}

int classes_tell_queues(const struct weir_class_maps *maps, __u32 queues, bool look, bool *differs)
{
	struct weir_telling telling;

	if (!queues)
		return 0;
	if (weir_telling_read(maps, &telling))
		return -1;
	if (!telling.queues || telling.queues == queues) /* classes of htb: whoever adds one of mq is told so */
		return 0;
	*differs = true;
	telling.queues = queues;
	return !look && bpf_map_update_elem(maps->telling, &first, &telling, BPF_ANY)
		       ? weir_error("can't write how packets are told apart: %s", weir_reason(errno))
		       : 0;
}

int classes_clear_slot(const struct class_store *store, __u32 slot, const struct weir_queue *queue)
{
	int cpus = libbpf_num_possible_cpus(), error;
	struct weir_counters *none = cpus > 0 ? calloc((size_t)cpus, sizeof(*none)) : NULL;

	if (!none)
		return weir_error("out of memory");
	error = bpf_map_update_elem(store->counters, &slot, none, BPF_ANY) ||
		bpf_map_update_elem(store->queue, &slot, queue, BPF_F_LOCK);
	free(none);
	return error ? weir_error("can't write the queue's state: %s", weir_reason(errno)) : 0;
}

int classes_put(const struct class_store *store, const struct request *r, struct class_list *list,
		const struct weir_config *config, const struct weir_queue *queue)
{
	__u64 serial;

	if ((list->count && tell_by(store, r, list->queues)) || weir_class_serial(&store->maps, &serial))
		return -1;
	for (__u32 i = 0; i < list->count; i++) {
		list->list[i].serial = serial + 1;
		if (weir_class_begin(&store->maps, list->slot[i], &list->list[i]) ||
		    classes_clear_slot(store, list->slot[i], queue))
			return -1;
	}
	if (list->count && weir_config_replace(store->config, store->path, list->slot, list->count, config))
		return -1;
	for (__u32 i = 0; i < list->count; i++)
		if (weir_class_finish(&store->maps, list->slot[i], &list->list[i], r->others))
			return -1;
	return weir_class_changed(&store->maps);
}

int class_run_put(struct class_run *run, const struct weir_attachment *a)
{
	__u32 count = run->count;

	run->count = 0;
	return count ? weir_config_replace(a->config, a->path, run->slot, count, &run->config) : 0;
}

int class_run_add(struct class_run *run, const struct weir_attachment *a, const struct weir_config *config)
{
	if (run->count && memcmp(config, &run->config, sizeof(*config)) && class_run_put(run, a))
		return -1;
	if (run->count == run->room) {
		__u32 room = run->room ? 2 * run->room : 64, *slot = realloc(run->slot, room * sizeof(*slot));

		if (!slot)
			return weir_error("out of memory");
		run->slot = slot;
		run->room = room;
	}
	run->config = *config;
	run->slot[run->count++] = a->slot;
	return 0;
}
