/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/slots.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "error.h"

static const __u32 first = 0;

static bool is_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool weir_class_parse(char **text, __u32 *handle)
{
	char *end;
	unsigned long major = strtoul(*text, &end, 16), minor = 0;

	if (!is_digit(**text) || *end != ':' || !major || major > UINT16_MAX)
		return false;
	*text = end + 1;
	if (is_digit(**text)) {
		minor = strtoul(*text, &end, 16);
		if (!minor || minor > UINT16_MAX)
			return false;
		*text = end;
	}
	*handle = (__u32)(major << 16 | minor);
	return true;
}

void weir_class_name(char *name, size_t size, __u32 handle)
{
	snprintf(name, size, "%x:%x", handle >> 16, handle & 0xffff);
}

char *weir_class_split(char *dev)
{
	char *slash = strchr(dev, '/');

	/* DEV@/path; and what is no number of a class is no name of an interface either */
	if (!slash || (slash > dev && slash[-1] == '@') || !strchr(slash, ':'))
		return NULL;
	*slash = 0;
	return slash + 1;
}

static int write_error(void)
{
	return weir_error("can't write the table of classes: %s", weir_reason(errno));
}

int weir_slot_read(const struct weir_attachment *a, __u32 slot, struct weir_class *class)
{
	*class = (struct weir_class){0};
	return a->about.slots > 1 && bpf_map_lookup_elem(a->class, &slot, class)
		       ? weir_error("can't read the table of classes: %s", weir_reason(errno))
		       : 0;
}

int weir_slot_write(const struct weir_attachment *a, __u32 slot, const struct weir_class *class, __u32 state)
{
	struct weir_class with = *class;

	with.state = state;
	return bpf_map_update_elem(a->class, &slot, &with, BPF_ANY) ? write_error() : 0;
}

int weir_law_each(struct weir_attachment *a, weir_law_each_f *each, void *context)
{
	bool table = a->about.slots > 1;
	struct weir_class class;
	int result = 0;

	for (a->slot = table; !result && a->slot < a->about.slots; a->slot++) {
		result = weir_slot_read(a, a->slot, &class);
		if (!result && (!table || class.state == WEIR_CLASS_READY))
			result = each(a, &class, context);
	}
	a->slot = WEIR_SLOT_NONE;
	return result;
}

int weir_telling_read(const struct weir_attachment *a, struct weir_telling *telling)
{
	return bpf_map_lookup_elem(a->telling, &first, telling)
		       ? weir_error("can't read how packets are told apart: %s", weir_reason(errno))
		       : 0;
}

int weir_telling_write(const struct weir_attachment *a, const struct weir_telling *telling)
{
	return bpf_map_update_elem(a->telling, &first, telling, BPF_ANY)
		       ? weir_error("can't write how packets are told apart: %s", weir_reason(errno))
		       : 0;
}

/* The slot that a class's number leads to; WEIR_SLOT_NONE: to none. */
static int lead(const struct weir_attachment *a, __u32 handle, __u32 *slot)
{
	__u32 minor = handle & (WEIR_MINORS - 1);
	__u64 key = WEIR_BY_PRIORITY(handle);
	struct weir_telling telling;

	*slot = WEIR_SLOT_NONE;
	if (weir_telling_read(a, &telling))
		return -1;
	if (handle >> 16 == telling.major ? bpf_map_lookup_elem(a->minors, &minor, slot)
					  : bpf_map_lookup_elem(a->tells, &key, slot) && errno != ENOENT)
		return weir_error("can't read the table of classes: %s", weir_reason(errno));
	return 0;
}

/* Makes it lead there, or nowhere. */
static int lead_to(const struct weir_attachment *a, __u32 handle, __u32 slot)
{
	__u32 minor = handle & (WEIR_MINORS - 1);
	__u64 key = WEIR_BY_PRIORITY(handle);
	struct weir_telling telling;
	int error;

	if (weir_telling_read(a, &telling))
		return -1;
	if (!telling.major) { /* the first one; nothing else has been put anywhere */
		telling.major = handle >> 16;
		if (weir_telling_write(a, &telling))
			return -1;
	}
	if (handle >> 16 == telling.major)
		error = bpf_map_update_elem(a->minors, &minor, &slot, BPF_ANY);
	else if (slot)
		error = bpf_map_update_elem(a->tells, &key, &slot, BPF_ANY);
	else
		error = bpf_map_delete_elem(a->tells, &key) && errno != ENOENT;
	return error ? write_error() : 0;
}

int weir_class_look(const struct weir_attachment *a, __u32 handle, __u32 *slot, struct weir_class *class)
{
	*class = (struct weir_class){0};
	if (lead(a, handle, slot) || (*slot && weir_slot_read(a, *slot, class)))
		return -1;
	if (class->state != WEIR_CLASS_READY)
		*slot = WEIR_SLOT_NONE;
	return 0;
}

int weir_class_find(struct weir_attachment *a, __u32 handle, struct weir_class *class)
{
	char name[WEIR_CLASS_LEN];

	weir_class_name(name, sizeof(name), handle);
	if (a->about.slots == 1)
		return weir_error("%s: its law is the whole interface's, not that of class %s; leave the class out",
				  a->about.dev, name);
	if (weir_class_look(a, handle, &a->slot, class))
		return -1;
	if (a->slot)
		return 0;
	return weir_error("%s: class %s has no law; `weir-xdp status %s` lists those that have one", a->about.dev, name,
			  a->about.dev);
}

int weir_slot_set_others(const struct weir_attachment *a, __u32 slot)
{
	struct weir_telling telling;

	if (weir_telling_read(a, &telling))
		return -1;
	telling.others = slot;
	return weir_telling_write(a, &telling);
}

int weir_slot_finish(const struct weir_attachment *a, __u32 slot, const struct weir_class *class, bool others)
{
	__u64 by_mark = WEIR_BY_MARK(class->mark);

	if (lead_to(a, class->handle, slot))
		return -1;
	if (class->by_mark && bpf_map_update_elem(a->tells, &by_mark, &slot, BPF_ANY))
		return write_error();
	if (others && weir_slot_set_others(a, slot))
		return -1;
	return weir_slot_write(a, slot, class, WEIR_CLASS_READY);
}

/* A mark, if it leads to that slot. */
static int forget_mark(const struct weir_attachment *a, __u32 mark, __u32 slot)
{
	__u64 key = WEIR_BY_MARK(mark);
	__u32 leads_to;

	if (bpf_map_lookup_elem(a->tells, &key, &leads_to) || leads_to != slot)
		return 0;
	return bpf_map_delete_elem(a->tells, &key) && errno != ENOENT ? write_error() : 0;
}

int weir_mark_slot(const struct weir_attachment *a, __u32 mark, __u32 *slot)
{
	__u64 key = WEIR_BY_MARK(mark);

	*slot = WEIR_SLOT_NONE;
	return bpf_map_lookup_elem(a->tells, &key, slot) && errno != ENOENT
		       ? weir_error("can't read how packets are told apart: %s", weir_reason(errno))
		       : 0;
}

/* The class of a slot as one with that mark, or with none. */
static int note_mark(const struct weir_attachment *a, __u32 slot, bool by_mark, __u32 mark)
{
	struct weir_class class;

	if (weir_slot_read(a, slot, &class))
		return -1;
	class.by_mark = by_mark;
	class.mark = mark;
	return weir_slot_write(a, slot, &class, class.state);
}

int weir_slot_set_mark(const struct weir_attachment *a, __u32 slot, __u32 mark, __u32 mask)
{
	__u64 by_mark = WEIR_BY_MARK(mark);
	struct weir_telling telling;
	struct weir_class class;
	__u32 before;

	if (weir_slot_read(a, slot, &class) || weir_telling_read(a, &telling) || weir_mark_slot(a, mark, &before) ||
	    (class.by_mark && class.mark != mark && forget_mark(a, class.mark, slot)) ||
	    note_mark(a, slot, true, mark) || (before && before != slot && note_mark(a, before, false, mark)))
		return -1;
	telling.mark_mask = mask;
	return bpf_map_update_elem(a->tells, &by_mark, &slot, BPF_ANY) ? write_error()
								       : weir_telling_write(a, &telling);
}

int weir_slot_remove(const struct weir_attachment *a, __u32 slot)
{
	static const struct weir_class nothing = {0};
	struct weir_telling telling;
	struct weir_class class;
	__u32 leads_to;

	if (weir_slot_read(a, slot, &class) || weir_slot_write(a, slot, &class, WEIR_CLASS_HALF) ||
	    weir_telling_read(a, &telling) || (telling.others == slot && weir_slot_set_others(a, WEIR_SLOT_NONE)) ||
	    lead(a, class.handle, &leads_to) || (leads_to == slot && lead_to(a, class.handle, WEIR_SLOT_NONE)) ||
	    forget_mark(a, class.mark, slot)) /* also one that weir_slot_set_mark left there as it was killed */
		return -1;
	return weir_slot_write(a, slot, &nothing, WEIR_CLASS_FREE);
}

int weir_slots_sweep(const struct weir_attachment *a)
{
	struct weir_class class;

	for (__u32 slot = 1; slot < a->about.slots; slot++)
		if (weir_slot_read(a, slot, &class) || (class.state == WEIR_CLASS_HALF && weir_slot_remove(a, slot)))
			return -1;
	return 0;
}

int weir_slots_changed(const struct weir_attachment *a)
{
	struct weir_class none;

	if (a->about.slots == 1)
		return 0;
	if (weir_slot_read(a, WEIR_SLOT_NONE, &none))
		return -1;
	none.serial++;
	return weir_slot_write(a, WEIR_SLOT_NONE, &none, none.state);
}
