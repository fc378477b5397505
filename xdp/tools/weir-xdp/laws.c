/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/laws.h"

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

int laws_check_marks(const struct request *r, bool queues)
{
	if (!queues || !(r->by_mark || r->others))
		return 0;
	return weir_error("--%s goes with classes of htb: the kernel gives packets their queue of mq",
			  r->by_mark ? "mark" : "others");
}

void laws_free(struct laws *laws)
{
	free(laws->list);
	*laws = (struct laws){0};
}

int laws_append(struct laws *laws, const struct law *law)
{
	struct law *grown = realloc(laws->list, (laws->count + 1) * sizeof(*grown));

	if (!grown)
		return weir_error("out of memory");
	laws->list = grown;
	laws->list[laws->count++] = *law;
	return 0;
}

bool laws_have(const struct laws *laws, __u32 handle)
{
	for (__u32 i = 0; i < laws->count; i++)
		if (laws->list[i].class.handle == handle)
			return true;
	return false;
}

/* A request beside what there is. */
struct resolving {
	const struct request *r;
	int netlink, ifindex;
	struct weir_class_list found;  /* all classes under the interface */
	struct weir_attachment *there; /* NULL: no class has a law yet */
	struct laws *list;	       /* the outcome */
};

static bool is_inner(const struct resolving *s, __u32 handle)
{
	for (size_t i = 0; i < s->found.count; i++)
		if (s->found.list[i].parent == handle)
			return true;
	return false;
}

static bool is_queue(const struct weir_qdisc *now)
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
	if (laws_check_marks(s->r, true))
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
static int check_class(const struct resolving *s, const struct weir_qdisc *now)
{
	/* the process goes by the first attach */
	__u32 sums = s->there ? s->there->about.whole_tree : request_sums(s->r);
	struct weir_tree leaf = {0};
	int error = weir_leaf_read(s->netlink, s->ifindex, now, &leaf);
	char why[512];

	if (error)
		return weir_error("%s: can't read what is in its classes: %s", s->r->dev, weir_reason(error));
	if (weir_class_say(weir_class_judge(now, is_inner(s, now->handle), &leaf, sums), now->handle, why, sizeof(why)))
		return weir_error("%s: %s", s->r->dev, why);
	return is_queue(now) ? check_queue(s) : 0;
}

/* Whether a class has a law, or is in the list by now. */
static bool has_law(const struct resolving *s, __u32 handle)
{
	struct weir_class class;
	char why[256];
	bool has = false;

	if (laws_have(s->list, handle))
		return true;
	if (s->there) {
		weir_error_into(why, sizeof(why));
		has = !weir_class_find(s->there, handle, &class);
		weir_error_into(NULL, 0);
		s->there->slot = WEIR_SLOT_NONE;
	}
	return has;
}

static int append(const struct resolving *s, const struct weir_qdisc *now)
{
	const struct law law = {.class = {.handle = now->handle,
					  .by_mark = s->r->by_mark,
					  .mark = s->r->mark,
					  .kept = s->r->kept,
					  .sent_bytes = now->sent_bytes},
				.others = s->r->others};

	return laws_append(s->list, &law);
}

/* One class by its number. */
static int resolve_one(const struct resolving *s, __u32 handle)
{
	const struct weir_qdisc *now = weir_classes_find(&s->found, handle);
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
		const struct weir_qdisc *now = &s->found.list[i];

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

int laws_resolve(const struct request *r, int netlink, int ifindex, struct weir_attachment *there, struct laws *laws)
{
	struct resolving s = {.r = r, .netlink = netlink, .ifindex = ifindex, .there = there, .list = laws};
	int error = weir_classes_read(netlink, ifindex, &s.found), result = 0;

	*laws = (struct laws){0};
	if (error)
		return weir_error("%s: can't read its classes: %s", r->dev, weir_reason(error));
	for (unsigned int i = 0; !result && i < r->classes; i++)
		result = r->class[i] & 0xffff ? resolve_one(&s, r->class[i]) : resolve_all(&s, r->class[i]);
	laws->there = weir_classes_leaves(&s.found);
	free(s.found.list);
	return result;
}

struct carrying {
	struct laws *laws;
	const struct weir_class_list *there;
	__u32 others; /* the slot of packets that nothing else tells */
};

static int carry_one(struct weir_attachment *from, const struct weir_class *class, void *context)
{
	const struct carrying *carrying = context;
	struct law law = {
		.class = *class, .from = from->slot, .carried = true, .others = from->slot == carrying->others};

	if (class->kept && !weir_classes_find(carrying->there, class->handle))
		return 0;
	carrying->laws->carries = true;
	return weir_config_read(from, &law.config) ? -1 : laws_append(carrying->laws, &law);
}

int laws_carry(struct laws *laws, struct weir_attachment *from, int netlink, int ifindex)
{
	struct weir_class_list there = {0};
	struct carrying carrying = {.laws = laws, .there = &there};
	int error = weir_classes_read(netlink, ifindex, &there), result;
	struct weir_telling telling;

	if (error)
		return weir_error("%s: can't read its classes: %s", from->about.dev, weir_reason(error));
	result = weir_telling_read(from, &telling);
	if (!result) {
		laws->carried = (struct weir_telling){.mark_mask = telling.mark_mask, .queues = telling.queues};
		carrying.others = telling.others;
		result = weir_law_each(from, carry_one, &carrying);
	}
	free(there.list);
	return result;
}

__u32 laws_room(__u32 there)
{
	__u32 slots = ROOM_LEAST;

	while (slots < 2 * there && slots < WEIR_SLOTS_MAX)
		slots *= 2;
	return slots;
}

int laws_find_room(const struct weir_attachment *a, struct laws *laws)
{
	struct weir_class class;
	__u32 given = 0;

	for (__u32 slot = 1; given < laws->count && slot < a->about.slots; slot++) {
		if (weir_slot_read(a, slot, &class))
			return -1;
		if (class.state == WEIR_CLASS_FREE)
			laws->list[given++].slot = slot;
	}
	return given == laws->count
		       ? 0
		       : weir_error("%s: there is room for laws of %u classes; detach and attach again, which "
				    "makes room for twice the classes there are then",
				    a->about.dev, a->about.slots - 1);
}

/* Whether another class's law goes by marks. */
static int others_have_marks(const struct weir_attachment *a, __u32 slot, bool *any)
{
	struct weir_class class;

	*any = false;
	for (__u32 i = 1; !*any && i < a->about.slots; i++) {
		if (weir_slot_read(a, i, &class))
			return -1;
		*any = i != slot && class.state == WEIR_CLASS_READY && class.by_mark;
	}
	return 0;
}

/* Whether marks, and packets that nothing else tells, may be those of the class in a slot; none has it yet: the first
 * one. */
static int check_tells(const struct weir_attachment *a, const struct request *r, __u32 slot)
{
	struct weir_telling telling;
	__u32 leads_to;
	bool marks = false;

	if (weir_telling_read(a, &telling))
		return -1;
	if (r->others && telling.others != WEIR_SLOT_NONE && telling.others != slot)
		return weir_error("--others: packets that nothing else tells are those of another class's law already");
	if (!r->by_mark)
		return 0;
	if (telling.mark_mask && telling.mark_mask != r->mark_mask && others_have_marks(a, slot, &marks))
		return -1;
	if (marks)
		return weir_error("--mark %#x/%#x: the marks of all classes must have one mask, and others have %#x",
				  r->mark, r->mark_mask, telling.mark_mask);
	if (weir_mark_slot(a, r->mark, &leads_to))
		return -1;
	return leads_to == WEIR_SLOT_NONE || leads_to == slot
		       ? 0
		       : weir_error("--mark %#x: packets with this mark are those of another class's law already",
				    r->mark);
}

/* Sets the keys of packets, beside each class's own. */
static int tell_by(const struct weir_attachment *a, const struct request *r, const struct laws *laws)
{
	struct weir_telling telling;

	if (check_tells(a, r, WEIR_SLOT_NONE) || weir_telling_read(a, &telling))
		return -1;
	if ((telling.major || laws->carries) && !telling.queues != !laws->queues)
		return weir_error("%s: its laws are those of %s; queues of mq and classes of htb have none at once",
				  r->dev, laws->queues ? "classes of htb" : "queues of mq");
	telling.mark_mask = r->by_mark ? r->mark_mask : telling.mark_mask;
	telling.queues = laws->queues;
	return weir_telling_write(a, &telling);
}

int laws_tell(const struct weir_attachment *a, const struct request *r, __u32 slot, bool *differs)
{
	struct weir_telling telling;
	struct weir_class class;
	__u32 leads_to;
	bool mark, others;

	if (weir_slot_read(a, slot, &class) || weir_telling_read(a, &telling) || weir_mark_slot(a, r->mark, &leads_to))
		return -1;
	mark = r->by_mark &&
	       (!class.by_mark || class.mark != r->mark || leads_to != slot || telling.mark_mask != r->mark_mask);
	others = r->others && telling.others != slot;
	*differs |= mark || others;
	if ((mark || others) && !r->kept && check_tells(a, r, slot))
		return -1;
	if (r->look)
		return 0;
	return (mark && weir_slot_set_mark(a, slot, r->mark, r->mark_mask)) || (others && weir_slot_set_others(a, slot))
		       ? -1
		       : 0;
}

int laws_tell_queues(const struct weir_attachment *a, __u32 queues, bool look, bool *differs)
{
	struct weir_telling telling;

	if (!queues)
		return 0;
	if (weir_telling_read(a, &telling))
		return -1;
	if (!telling.queues || telling.queues == queues) /* classes of htb: whoever adds one of mq is told so */
		return 0;
	*differs = true;
	telling.queues = queues;
	return look ? 0 : weir_telling_write(a, &telling);
}

/* A queue that has seen nothing yet; what another class has left in its slot goes. */
static int put_queue(const struct weir_attachment *a, const struct law *law, const struct weir_queue *first,
		     const struct weir_attachment *from)
{
	int cpus = libbpf_num_possible_cpus(), error = 0;
	struct weir_counters *none = cpus > 0 ? calloc((size_t)cpus, sizeof(*none)) : NULL;
	struct weir_queue q = *first, old = {0};

	if (!none)
		return weir_error("out of memory");
	if (law->carried) {
		error = bpf_map_lookup_elem_flags(from->queue, &law->from, &old, BPF_F_LOCK);
		q.law = old.law;
		q.tau_us = old.tau_us;
		q.backlog_bytes = old.backlog_bytes;
		q.spacing = old.spacing;
		q.virtual_q16_bytes = old.virtual_q16_bytes;
		q.virtual_ns = old.virtual_ns ? old.virtual_ns : q.virtual_ns;
	}
	error = error || (law->slot && bpf_map_update_elem(a->counters, &law->slot, none, BPF_ANY)) ||
		bpf_map_update_elem(a->queue, &law->slot, &q, BPF_F_LOCK);
	free(none);
	return error ? weir_error("can't write the queue's state: %s", weir_reason(errno)) : 0;
}

/* Those with the same configuration stand together. */
static int compare(const void *one, const void *other)
{
	const struct law *a = one, *b = other;
	int order = memcmp(&a->config, &b->config, sizeof(a->config));

	return order ? order : a->slot < b->slot ? -1 : a->slot > b->slot;
}

int laws_put(struct weir_attachment *a, const struct request *r, struct laws *laws, const struct weir_queue *first,
	     const struct weir_attachment *from)
{
	struct weir_class none;
	struct run run = {0};
	bool anew = false;
	int result = weir_slot_read(a, WEIR_SLOT_NONE, &none);

	for (__u32 i = 0; i < laws->count; i++)
		anew |= laws->list[i].class.handle && !laws->list[i].carried;
	if (!result && laws->carries)
		result = weir_telling_write(a, &laws->carried);
	if (!result && anew)
		result = tell_by(a, r, laws);
	qsort(laws->list, laws->count, sizeof(*laws->list), compare);
	for (__u32 i = 0; !result && i < laws->count; i++) {
		struct law *law = &laws->list[i];

		a->slot = law->slot;
		law->class.serial = law->carried ? law->class.serial : none.serial + 1;
		result = (law->class.handle && weir_slot_write(a, law->slot, &law->class, WEIR_CLASS_HALF)) ||
			 put_queue(a, law, first, from) || run_add(&run, a, &law->config);
	}
	result = run_end(&run, a, result);
	for (__u32 i = 0; !result && i < laws->count; i++)
		if (laws->list[i].class.handle)
			result = weir_slot_finish(a, laws->list[i].slot, &laws->list[i].class, laws->list[i].others);
	a->slot = WEIR_SLOT_NONE;
	return result ? -1 : weir_slots_changed(a);
}

static int run_put(struct run *run, const struct weir_attachment *a)
{
	__u32 count = run->count;

	run->count = 0;
	return count ? weir_config_replace(a->config, a->path, run->slot, count, &run->config) : 0;
}

int run_end(struct run *run, const struct weir_attachment *a, int result)
{
	if (!result)
		result = run_put(run, a);
	free(run->slot);
	return result;
}

int run_add(struct run *run, const struct weir_attachment *a, const struct weir_config *config)
{
	if (run->count && memcmp(config, &run->config, sizeof(*config)) && run_put(run, a))
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
