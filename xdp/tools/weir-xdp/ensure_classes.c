/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Laws of classes, whatever is attached now. First the attachment: it is made, takes the place of one law for the
 * interface, is made anew with all its laws (another version, no room), or gets another process. Then the laws.
 */
#include "weir-xdp/ensure_classes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "hooks/hooks.h"
#include "pins/attachment.h"
#include "signal/poll/process.h"
#include "weir-xdp/values.h"

/* The laws that are asked for, in an attachment that has laws of classes. */
struct asked {
	const struct request *r; /* with its marks */
	struct plan *p;
	const char *path;
	struct class_list wanted;
	struct weir_attachment a;
	struct weir_class_maps maps;
	__u32 has, missing; /* of those */
	bool had;	    /* one of them had a law before */
};

static int open_laws(struct asked *l)
{
	if (weir_attachment_open(&l->a, l->path, l->r->dev))
		return -1;
	if (!weir_class_maps_open(&l->maps, &l->a))
		return 0;
	weir_attachment_close(&l->a);
	return -1;
}

static void close_laws(struct asked *l)
{
	weir_class_maps_close(&l->maps);
	weir_attachment_close(&l->a);
}

/* Finds the classes that have a law; the slots of the others are WEIR_SLOT_NONE. */
static int find_laws(struct asked *l)
{
	struct weir_class class;

	l->has = l->missing = 0;
	for (__u32 i = 0; i < l->wanted.count; i++) {
		if (weir_class_look(&l->maps, l->wanted.list[i].handle, &l->wanted.slot[i], &class))
			return -1;
		if (l->wanted.slot[i])
			l->has++;
		else
			l->missing++;
	}
	return 0;
}

/* Whether there is a slot for each class that has no law yet; what was cut short is room, too. */
static int has_room(struct asked *l, bool *has)
{
	struct weir_class class;
	__u32 room = 0;

	for (__u32 slot = 1; room < l->missing && slot < l->maps.slots; slot++) {
		if (weir_class_entry(&l->maps, slot, &class))
			return -1;
		room += class.state != WEIR_CLASS_READY;
	}
	*has = room == l->missing;
	return 0;
}

/* The same attachment with the same laws, made anew and with more room; those that are missing come with it. */
static int make_anew(struct asked *l)
{
	struct plan *p = l->p;
	const struct weir_meta old = l->a.about;

	p->about.kept |= old.kept;
	if (plan_resolve(p, NULL) || plan_carry(p, l->path) || plan_replace(p, &old, l->path))
		return -1;
	close_laws(l);
	return open_laws(l);
}

/* The process, with what it goes by from its start. */
static int restart(struct asked *l)
{
	struct weir_meta about = l->a.about;

	about.whole_tree |= l->p->r->whole_tree;
	if (plan_restart(l->p, l->path, &about))
		return -1;
	l->a.about = about;
	return 0;
}

/* Program, process and the laws that are missing. */
static int ensure_attachment(struct asked *l, struct outcome *o)
{
	const struct weir_meta *about = &l->a.about;
	bool has = true, queues = false, whole_tree;

	if (find_laws(l) || has_room(l, &has))
		return -1;
	if (classes_tell_queues(&l->maps, l->wanted.queues, l->r->look, &queues))
		return -1;
	l->had = l->has;
	o->part[PART_PROGRAM] = about->build != object_build(WEIR_SIGNAL_POLL, about->hook, LAWS_CLASSES);
	o->part[PART_PROCESS] = !weir_poll_lives_at(l->path, about);
	whole_tree = l->r->whole_tree && !about->whole_tree;
	o->part[PART_QUEUE] = whole_tree || queues;
	o->part[PART_CLASS] = l->missing;
	if (l->r->look)
		return 0;
	if (o->part[PART_PROGRAM] || !has)
		return make_anew(l) || find_laws(l) ? -1 : 0;
	if ((o->part[PART_PROCESS] || whole_tree) && restart(l))
		return -1;
	return l->missing && (plan_add_classes(l->p, l->path) || find_laws(l)) ? -1 : 0;
}

/* Gains of those that have a law, all with the same ones at once. */
static int ensure_gains_of_all(struct asked *l, struct outcome *o)
{
	struct weir_config before = {0}, after = {0}, config;
	struct class_run run = {0};
	bool any = false;
	int result = 0;

	if (!l->r->gains_file && !l->r->words)
		return 0;
	for (__u32 i = 0; !result && i < l->wanted.count; i++) {
		l->a.slot = l->wanted.slot[i];
		if (!l->a.slot)
			continue;
		result = weir_config_read(&l->a, &config);
		if (!result && memcmp(&before, &config, sizeof(config))) { /* else the outcome is the same again */
			before = after = config;
			result = ensure_gains(l->r, 0, &after);
		}
		if (result || !memcmp(&config, &after, sizeof(config)))
			continue;
		any = o->part[PART_GAINS] = true;
		if (!l->r->look)
			result = class_run_add(&run, &l->a, &after);
	}
	if (!result)
		result = class_run_put(&run, &l->a);
	if (any && !l->r->look && weir_class_changed(&l->maps))
		result = -1;
	free(run.slot);
	l->a.slot = WEIR_SLOT_NONE;
	return result;
}

/* From now on the daemon's own, which goes when its table does. */
static int keep_all(struct asked *l)
{
	struct weir_class class;

	for (__u32 i = 0; l->r->kept && !l->r->look && i < l->wanted.count; i++)
		if (!l->wanted.slot[i] || weir_class_entry(&l->maps, l->wanted.slot[i], &class) ||
		    (!class.kept && weir_class_keep(&l->maps, l->wanted.slot[i])))
			return -1;
	return 0;
}

static int ensure_laws(struct asked *l, struct outcome *o)
{
	int folder = weir_folder_lock(l->path), result = folder < 0; /* against a `set` */

	if (!result)
		result = ensure_gains_of_all(l, o);
	if (!result && (l->r->by_mark || l->r->others) && l->has)
		result = classes_tell(&l->maps, l->r, l->wanted.slot[0], &o->part[PART_MARKS]);
	if (!result)
		result = keep_all(l);
	if (folder >= 0)
		close(folder);
	return result ? -1 : 0;
}

/* One law for the interface makes room for laws of its classes, with no packet passing between them. */
static int replace_one_law(struct plan *p, const struct weir_meta *old, const char *path, struct outcome *o)
{
	if (old->peer_ifindex)
		return weir_error("%s: it is attached with the other end, and can't get laws of classes in place: "
				  "detach first",
				  p->r->dev);
	o->part[PART_SIGNAL] = o->part[PART_CLASS] = true;
	o->did = DID_REPLACE;
	return p->r->look ? 0 : plan_replace(p, old, path);
}

/* The attachment works, or was made just now. */
static int ensure_there(struct asked *l, struct outcome *o)
{
	bool made = o->did != DID_ADOPT;
	struct outcome found = {0};
	bool any = false, only_class = true;

	if (open_laws(l))
		return -1;
	if (ensure_attachment(l, &found) || ensure_laws(l, &found) || ensure_meta(l->p, &l->a.about, l->path, &found)) {
		close_laws(l);
		*o = found;
		return -1;
	}
	close_laws(l);
	if (made)
		return 0;
	for (int i = 0; i < PARTS; i++) {
		any |= found.part[i];
		only_class &= !found.part[i] || i == PART_CLASS;
	}
	*o = found;
	o->did = !any ? DID_ADOPT : only_class && !l->had ? DID_ATTACH : DID_REPLACE;
	return 0;
}

/* Adopts the attachment or makes a new one, and then the laws. `own`: the request without its marks, as the plan has
 * it. */
static int ensure_all(struct asked *l, struct request *own, const struct weir_meta *old, bool works, struct outcome *o)
{
	struct plan *p = l->p;

	p->r = own;
	if (works) { /* where nothing is asked for, what is there is what is asked for */
		if (ensure_check_ends(p, old))
			return -1;
		own->hook = old->hook;
		own->hook_given = true;
		own->whole_tree |= old->whole_tree;
		p->about.shape = old->shape;
	}
	o->part[PART_CLASS] = true; /* should that fail, it is not on */
	if (plan_look(p))
		return -1;
	o->part[PART_CLASS] = false;
	l->wanted = p->classes;
	p->classes = (struct class_list){0};
	if (classes_check_marks(l->r, l->wanted.queues))
		return -1;
	if (!works) {
		o->did = DID_ATTACH;
		o->part[PART_PROGRAM] = true;
		if (own->look)
			return 0;
		if (old->complete && old->slots && plan_carry(p, l->path))
			return -1;
		if (plan_attach(p))
			return -1;
	} else if (!old->slots) {
		if (plan_resolve(p, NULL) || replace_one_law(p, old, l->path, o) || own->look)
			return own->look ? 0 : -1;
	}
	return ensure_there(l, o);
}

int ensure_classes(struct plan *p, const char *path, bool works, struct outcome *o)
{
	struct asked l = {.r = p->r, .p = p, .path = path};
	struct request own = *p->r;
	struct weir_meta old;
	int result;

	own.by_mark = own.others = false; /* they come last, when each class has its law */
	own.ensures = true;
	o->did = DID_ADOPT;
	weir_meta_read(path, &old);
	result = read_gains(p->r, &p->gains, &p->config.coupling) || ensure_all(&l, &own, &old, works, o);
	classes_free(&l.wanted);
	p->r = l.r;
	return result ? -1 : 0;
}
