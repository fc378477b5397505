/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings any present state to the requested one. An attachment that works and fits is adopted; a configuration that
 * differs is replaced as `set` does it; another program takes the old one's place at its hook.
 */
#include "weir-xdp/ensure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "gains/floor.h"
#include "hooks/hooks.h"
#include "net/shape.h"
#include "pins/attachment.h"
#include "remains.h"
#include "signal/bands.h"
#include "signal/poll/process.h"
#include "signal/signals.h"
#include "signal/virtual.h"
#include "undo.h"
#include "weir-xdp/directions.h"
#include "weir-xdp/interface.h"
#include "weir-xdp/leaves.h"
#include "weir-xdp/plan.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/report.h"

const char *const part_names[PARTS] = {"program", "signal", "process", "shaper",   "queue", "gains",
				       "limits",  "class",  "marks",   "leaf_aqm", "name",  "pins"};
const char *const did_names[] = {"attached", "adopted", "replaced"};

/* Checks the settings that can't be changed while the law stays on. */
static int check_ends(const struct plan *p, const struct weir_meta *old)
{
	const struct request *r = p->r;
	const struct weir_hook_row *row = weir_hook_of(old);
	bool hook_fits = !r->hook_given || r->hook == old->hook || (r->hook == WEIR_HOOK_TC && row && row->is_tc);
	struct weir_place peer = weir_place_of_peer(old);

	if (!hook_fits)
		return weir_error("%s: it is attached at hook %s, and can't go to another one in place: detach first",
				  r->dev, weir_hook_name(old->hook));
	if (r->peer ? peer.ifindex != p->peer.place.ifindex || !weir_place_same_netns(&peer, &p->peer.place)
		    : r->signal && peer.ifindex)
		return weir_error("%s: it is attached %s %s, and can't go to another other end in place: detach first",
				  r->dev, peer.ifindex ? "with the other end" : "without another end", old->peer);
	if (r->shape_bit_s > 0 && old->signal == WEIR_SIGNAL_VIRTUAL)
		return weir_error(
			"%s: its law is of a virtual queue, and can't go by a shaper here in place: detach first",
			r->dev);
	if (r->rate_bit_s > 0 && !weir_signal_takes_rate(old->signal))
		return weir_error(
			"%s: it is attached with signal %s, and can't become a virtual queue in place: detach "
			"first",
			r->dev, weir_signal_name(old->signal));
	return 0;
}

/* The shaper that is asked for. A shaper that weir-xdp made before it may make again; another tool's it rejects. */
static int ensure_shape(struct plan *p, const struct weir_meta *old, const char *path, struct outcome *o)
{
	const struct request *r = p->r;
	struct weir_framing framing = old->shape.framing;
	struct weir_shape wanted;
	struct weir_qdisc root = {0};
	int back, netlink, is;
	bool regains;

	if (!(r->shape_bit_s > 0))
		return 0;
	netlink = weir_netlink_in(r->netns, &back);
	if (netlink < 0)
		return -1;
	if (request_frames(r))
		framing = request_framing(r, interface_l2_bytes(weir_link_type(p->dev.place.name)));
	wanted = weir_shape_of(r->shape_bit_s, request_shape(r), r->flows, &framing);
	is = weir_qdisc_read(netlink, (int)old->ifindex, &root);
	if (!is)
		is = weir_shape_is(netlink, (int)old->ifindex, &wanted, true);
	close(netlink);
	weir_netns_leave(back);
	if (is < 0)
		return weir_error("%s: can't read its shaper: %s", r->dev, weir_reason(is));
	regains = !old->shape.handle && weir_remains_is_root(&p->dev.place, &root);
	if (!old->shape.handle && !regains && interface_root_is_free(r, &root))
		return -1;
	if (is && old->shape.handle && !memcmp(&wanted, &old->shape, sizeof(wanted)))
		return 0;
	o->part[PART_SHAPER] = true;
	if (!r->look) {
		struct weir_meta about = *old;

		p->about.shape = about.shape = wanted;
		if (weir_meta_store(path, &about))
			return -1;
		if (plan_shape(p, old->shape.handle || regains)) { /* nobody may take for ours what was not made */
			weir_meta_store(path, old);
			return -1;
		}
	}
	return 0;
}

/* The gains that are asked for, in the place of those in force: what is not asked for stays. */
static int put_gains(const struct request *r, double rate_bit_s, struct weir_config *config)
{
	struct weir_gains gains;

	if (!r->gains_file && !r->words && !config->target_asked_us &&
	    config->law.target_us >= weir_target_least_us(rate_bit_s))
		return 0;
	weir_gains_asked(&gains, config);
	if ((r->gains_file || r->words) && merge_gains(r, &gains, &config->coupling))
		return -1;
	weir_gains_apply(&gains, rate_bit_s, config);
	if (config->frozen) { /* a test aid: no delay may add to what it hits */
		config->law.delay_bound_us = 0;
		config->law.delay_limit_us = 0;
	}
	return 0;
}

/* The configuration that is asked for, from the one in force: what is not asked for stays. */
static int wanted_config(const struct plan *p, const struct weir_config *old, __u32 signal, struct weir_config *wanted)
{
	const struct request *r = p->r;
	double rate_bit_s = plan_shaped_bit_s(p);

	*wanted = *old;
	if (r->classes) /* a class has nothing else of its own */
		return put_gains(r, 0, wanted);
	if (weir_signal_takes_rate(signal))
		rate_bit_s = r->rate_bit_s > 0 ? r->rate_bit_s : (double)old->rate_bit_s;
	if (r->coupled && !old->coupled) { /* gains of one queue do not give classic flows their share */
		struct weir_gains gains;

		if (read_gains(r, &gains, &wanted->coupling))
			return -1;
		weir_gains_apply(&gains, rate_bit_s, wanted);
	} else if (put_gains(r, rate_bit_s, wanted)) {
		return -1;
	}
	wanted->signal = signal;
	wanted->ifindex = p->config.ifindex;
	wanted->netns_inum = p->config.netns_inum;
	wanted->l2_bytes = p->config.l2_bytes;
	wanted->coarse_lag_ns = p->config.coarse_lag_ns;
	wanted->root_handle = p->config.root_handle;
	memcpy(wanted->root_kind, p->config.root_kind, sizeof(wanted->root_kind));
	if (r->bands) {
		wanted->flow_bands = weir_has_bands(old) ? old->flow_bands : p->config.flow_bands;
		memcpy(wanted->band_class, p->config.band_class, sizeof(wanted->band_class));
		if (read_bands(r, &wanted->flow_bands))
			return -1;
	} else if (weir_has_bands(old)) {
		memset(&wanted->flow_bands, 0, sizeof(wanted->flow_bands));
		memset(wanted->band_class, 0, sizeof(wanted->band_class));
	}
	if (r->coupled) {
		wanted->coupled = 1;
		memcpy(wanted->band_class, p->config.band_class, sizeof(wanted->band_class));
	}
	wanted->flow_records = r->flow_records;
	wanted->hosts = r->hosts;
	wanted->host_mask = r->host_mask;
	wanted->dscp = r->dscp;
	wanted->advice = r->advice;
	wanted->advice.line_bit_s = p->config.advice.line_bit_s;
	if (r->limit_packets)
		wanted->limit_packets = r->limit_packets;
	if (r->limit_bytes)
		wanted->limit_bytes = r->limit_bytes;
	if (weir_signal_takes_rate(signal))
		weir_virtual_set_rate(wanted, rate_bit_s);
	if (weir_signal_takes_rate(signal) && request_frames(r))
		wanted->framing = request_framing(r, p->config.l2_bytes);
	return 0;
}

static void compare(const struct weir_config *old, const struct weir_config *wanted, struct outcome *o)
{
	o->part[PART_QUEUE] |= old->root_handle != wanted->root_handle ||
			       strncmp(old->root_kind, wanted->root_kind, sizeof(old->root_kind)) ||
			       old->l2_bytes != wanted->l2_bytes || old->ifindex != wanted->ifindex ||
			       old->netns_inum != wanted->netns_inum;
	o->raised = wanted->target_asked_us != 0;
	o->part[PART_GAINS] |=
		memcmp(&old->law, &wanted->law, sizeof(old->law)) || old->target_asked_us != wanted->target_asked_us ||
		memcmp(&old->coupling, &wanted->coupling, sizeof(old->coupling)) ||
		memcmp(&old->flow_bands, &wanted->flow_bands, sizeof(old->flow_bands)) ||
		memcmp(old->band_class, wanted->band_class, sizeof(old->band_class)) || old->hosts != wanted->hosts ||
		old->host_mask != wanted->host_mask || old->dscp != wanted->dscp;
	o->part[PART_LIMITS] |= old->limit_bytes != wanted->limit_bytes ||
				old->limit_packets != wanted->limit_packets || old->rate_bit_s != wanted->rate_bit_s ||
				memcmp(&old->framing, &wanted->framing, sizeof(old->framing)) ||
				old->advice.kind != wanted->advice.kind ||
				old->advice.rate_bit_s != wanted->advice.rate_bit_s;
}

/* Data for reporting and undoing, and the name that the interface has now. */
static int put_meta(const struct plan *p, const struct weir_meta *old, const char *path, struct outcome *o)
{
	struct weir_meta about = *old;

	memset(about.dev, 0, sizeof(about.dev));
	snprintf(about.dev, sizeof(about.dev), "%s", p->dev.place.name);
	about.whole_tree |= request_sums(p->r);
	about.kept |= p->r->kept;
	about.by_direction = p->r->direction == WEIR_INGRESS;
	about.both |= p->r->both;
	about.shape = p->about.shape;
	o->part[PART_NAME] = strcmp(about.dev, old->dev) != 0;
	if (p->r->look || !memcmp(&about, old, sizeof(about)))
		return 0;
	return weir_meta_store(path, &about);
}

/* A request, and the attachment that it is about. */
struct work {
	const struct request *r; /* with its marks, which come last, when each class has its law */
	struct request own; /* where nothing is asked for, what is there is what is asked for; as the plan has it */
	struct plan *p;
	const char *path;
	struct weir_meta old;
	struct weir_attachment a;
	struct laws laws; /* the requested ones, each with its slot; WEIR_SLOT_NONE: the class has none */
	__u32 missing;	  /* of these */
};

/* Requested signal; without a request the present one. */
static __u32 wanted_signal(const struct request *r, __u32 old)
{
	if (request_signal(r))
		return request_signal(r);
	/* signal backlog reads both bands as one queue */
	return (r->bands || r->coupled) && old == WEIR_SIGNAL_BACKLOG ? WEIR_SIGNAL_POLL : old;
}

/* Of an attachment that works. */
static int fill_in(struct work *w)
{
	const struct weir_meta *old = &w->old;
	struct request *r = &w->own;
	struct weir_config config;

	r->hook = old->hook;
	r->hook_given = true;
	r->sums |= old->whole_tree;
	r->flows |= old->shape.flows != 0;
	w->p->about.shape = old->shape;
	if (r->classes)
		return 0;
	if (weir_config_read(&w->a, &config))
		return -1;
	r->coupled |= config.coupled;
	r->bands |= weir_has_bands(&config) && !r->no_bands;
	r->flow_records = (r->flow_records || config.flow_records) && !r->no_flow_records;
	if (!r->hosts_given && r->bands) {
		r->hosts = config.hosts;
		r->host_mask = config.host_mask;
	}
	if (!r->dscp_given && r->bands)
		r->dscp = config.dscp;
	if (!r->advises)
		r->advice = config.advice;
	r->signal = wanted_signal(w->r, old->signal);
	if (config.coupled && !r->band_class[WEIR_BAND_L])
		memcpy(r->band_class, config.band_class, sizeof(r->band_class));
	if (old->peer_ifindex) {
		r->peer = old->peer;
		r->peer_netns = old->peer_netns;
	}
	if (weir_signal_takes_rate(r->signal) && !(r->rate_bit_s > 0))
		r->rate_bit_s = (double)config.rate_bit_s;
	weir_gains_asked(&w->p->gains, &config);
	return 0;
}

/* Finds the laws that are asked for. */
static int find_laws(struct work *w)
{
	struct weir_class class;

	w->missing = 0;
	for (__u32 i = 0; w->own.classes && i < w->laws.count; i++) {
		if (weir_class_look(&w->a, w->laws.list[i].class.handle, &w->laws.list[i].slot, &class))
			return -1;
		w->missing += !w->laws.list[i].slot;
	}
	return 0;
}

/* Whether there is a slot for each class that has no law yet; what was cut short is room, too. */
static int has_room(const struct work *w, bool *has)
{
	struct weir_class class;
	__u32 room = 0;

	for (__u32 slot = 1; room < w->missing && slot < w->a.about.slots; slot++) {
		if (weir_slot_read(&w->a, slot, &class))
			return -1;
		room += class.state != WEIR_CLASS_READY;
	}
	*has = room == w->missing;
	return 0;
}

/* The same attachment with the same laws, made anew in its place; those that are missing come with it. */
static int make_anew(struct work *w)
{
	struct plan *p = w->p;

	p->about.kept |= w->a.about.kept;
	if (plan_resolve(p, NULL) || plan_carry(p, w->path) || plan_replace(p, &w->a.about, w->path))
		return -1;
	weir_attachment_close(&w->a);
	return weir_attachment_open(&w->a, w->path, w->r->dev) || find_laws(w) ? -1 : 0;
}

/* The process, with what it goes by from its start. */
static int restart(struct work *w)
{
	w->a.about.whole_tree |= request_sums(&w->own);
	return plan_restart(w->p, w->path, &w->a.about);
}

/* One law: the configuration that is asked for, with its queue, as far as the attachment has to be made anew for it. */
static int look_at_queue(struct work *w, struct outcome *o)
{
	struct weir_config config, wanted;
	struct plan *p = w->p;

	if (ensure_shape(p, &w->old, w->path, o) || plan_look(p) ||
	    (!(w->r->look && o->part[PART_SHAPER]) && interface_check_queue(p->r, &p->dev, p->r->signal)) ||
	    weir_config_read(&w->a, &config) || wanted_config(p, &config, p->r->signal, &wanted))
		return -1;
	compare(&config, &wanted, o);
	o->part[PART_SIGNAL] = p->r->signal != w->old.signal || wanted.coupled != config.coupled ||
			       weir_has_bands(&wanted) != weir_has_bands(&config);
	o->part[PART_PROGRAM] |= wanted.flow_records != config.flow_records || !wanted.hosts != !config.hosts;
	/* a program without advice has no code for it */
	o->part[PART_PROGRAM] |= config.advice.kind == WEIR_ADVISE_OFF && wanted.advice.kind != WEIR_ADVISE_OFF;
	p->config = wanted;
	return 0;
}

/* Program, process and the laws that are missing. *had: one of them had a law before. */
static int ensure_attachment(struct work *w, struct outcome *o, bool *had)
{
	const struct weir_meta *about = &w->a.about;
	bool has = true, queues = false, polls = about->signal == WEIR_SIGNAL_POLL, whole_tree;

	if (find_laws(w) || has_room(w, &has) || laws_tell_queues(&w->a, w->laws.queues, w->r->look, &queues))
		return -1;
	*had = w->missing < w->laws.count;
	o->part[PART_PROGRAM] |= about->owner != WEIR_OWNER_OTHER &&
				 about->build != object_build(w->own.classes ? WEIR_SIGNAL_POLL : w->own.signal,
							      about->hook, plan_object(&w->own));
	o->part[PART_PROGRAM] |= weir_attachment_lacks_departures(w->path, about);
	o->part[PART_PROCESS] = polls && !weir_poll_lives_at(w->path, about);
	whole_tree = polls && request_sums(w->r) & ~about->whole_tree;
	o->part[PART_QUEUE] |= whole_tree || queues;
	o->part[PART_CLASS] = w->missing;
	if (w->r->look)
		return 0;
	if (o->part[PART_PROGRAM] || o->part[PART_SIGNAL] || !has)
		return make_anew(w);
	if ((o->part[PART_PROCESS] || whole_tree) && restart(w))
		return -1;
	return w->missing && (plan_add(w->p, w->path) || find_laws(w)) ? -1 : 0;
}

/* Configurations, all of the same one at once. */
static int ensure_configs(struct work *w, struct outcome *o)
{
	struct weir_config before = {0}, after = {0}, config;
	struct run run = {0};
	bool any = false;
	int result = 0;

	if (w->r->classes && !w->r->gains_file && !w->r->words)
		return 0;
	for (__u32 i = 0; !result && i < w->laws.count; i++) {
		w->a.slot = w->laws.list[i].slot;
		if (w->r->classes && !w->a.slot)
			continue;
		result = weir_config_read(&w->a, &config);
		if (!result && memcmp(&before, &config, sizeof(config))) { /* else the outcome is the same again */
			before = config;
			result = wanted_config(w->p, &config, w->own.signal, &after);
			compare(&config, &after, o);
		}
		if (result || !memcmp(&config, &after, sizeof(config)))
			continue;
		any = true;
		if (!w->r->look)
			result = run_add(&run, &w->a, &after);
	}
	result = run_end(&run, &w->a, result);
	w->a.slot = WEIR_SLOT_NONE;
	return result || (any && !w->r->look && weir_slots_changed(&w->a)) ? -1 : 0;
}

/* From now on the daemon's own, which goes when its table does. */
static int keep_all(const struct work *w)
{
	struct weir_class class;

	for (__u32 i = 0; w->r->classes && w->r->kept && !w->r->look && i < w->laws.count; i++) {
		__u32 slot = w->laws.list[i].slot;

		if (!slot || weir_slot_read(&w->a, slot, &class))
			return -1;
		if (class.kept)
			continue;
		class.kept = 1;
		if (weir_slot_write(&w->a, slot, &class, class.state))
			return -1;
	}
	return 0;
}

static int ensure_laws(struct work *w, struct outcome *o)
{
	int folder = weir_folder_lock(w->path), result = folder < 0; /* against a `set` */

	if (!result)
		result = ensure_configs(w, o);
	if (!result && (w->r->by_mark || w->r->others) && w->laws.list[0].slot)
		result = laws_tell(&w->a, w->r, w->laws.list[0].slot, &o->part[PART_MARKS]);
	if (!result)
		result = keep_all(w);
	if (folder >= 0)
		close(folder);
	return result ? -1 : 0;
}

/* The attachment works, and has been found, or was made just now. */
static int ensure_there(struct work *w, struct outcome *o)
{
	struct outcome found = {.did = DID_ADOPT, .ingress = o->ingress, .part[PART_PINS] = o->part[PART_PINS]};
	bool made = o->did != DID_ADOPT, any = false, only_class = true, had = false;

	if ((!w->own.classes && look_at_queue(w, &found)) || ensure_attachment(w, &found, &had) ||
	    ensure_laws(w, &found) ||
	    leaves_ensure(w->r, (int)w->a.about.ifindex, w->path, &found.part[PART_LEAF_AQM]) ||
	    put_meta(w->p, &w->a.about, w->path, &found)) {
		*o = found;
		return -1;
	}
	if (made)
		return 0;
	for (int i = 0; i < PARTS; i++) {
		any |= found.part[i];
		only_class &= !found.part[i] || i == PART_CLASS;
	}
	*o = found;
	o->did = !any ? DID_ADOPT : only_class && !had ? DID_ATTACH : DID_REPLACE;
	return 0;
}

/* The laws that are asked for, by the classes under the interface, or that of the interface. */
static int resolve(struct work *w, struct outcome *o)
{
	static const struct law first = {.slot = 0};

	if (!w->own.classes)
		return laws_append(&w->laws, &first);
	o->part[PART_CLASS] = true; /* should that fail, it is not on */
	if (plan_look(w->p))
		return -1;
	o->part[PART_CLASS] = false;
	w->laws = w->p->laws;
	w->p->laws = (struct laws){0};
	return laws_check_marks(w->r, w->laws.queues);
}

/* Nothing that works is attached. */
static int attach(struct work *w, struct outcome *o)
{
	struct plan *p = w->p;

	o->did = DID_ATTACH;
	o->part[PART_PROGRAM] = true;
	if (w->r->look)
		return 0;
	if (!w->own.classes && read_gains(&w->own, &p->gains, &p->config.coupling))
		return -1;
	if ((w->old.complete && w->old.slots > 1 && !weir_attachment_lacks_map(w->path, &w->old) &&
	     plan_carry(p, w->path)) ||
	    plan_attach(p))
		return -1;
	o->raised = p->config.target_asked_us != 0;
	return 0;
}

/* One law for the interface makes room for laws of its classes, with no packet passing between them. */
static int replace_one_law(struct work *w, struct outcome *o)
{
	if (w->old.peer_ifindex)
		return weir_error("%s: it is attached with the other end, and can't get laws of classes in place: "
				  "detach first",
				  w->r->dev);
	o->part[PART_SIGNAL] = o->part[PART_CLASS] = true;
	o->did = DID_REPLACE;
	if (w->r->look)
		return 0;
	return plan_resolve(w->p, NULL) || plan_replace(w->p, &w->old, w->path) ? -1 : 0;
}

/* Adopts the attachment, or makes a new one, and then sees to its laws. */
static int ensure_all(struct work *w, bool works, struct outcome *o)
{
	bool one = works && w->old.slots == 1;
	int result;

	if (works && (check_ends(w->p, &w->old) ||
		      (!w->own.classes && weir_attachment_open(&w->a, w->path, w->r->dev)) || fill_in(w)))
		return -1;
	if (!works)
		w->own.bands = request_has_bands(&w->own);
	if (resolve(w, o))
		return -1;
	result = !works ? attach(w, o) : one && w->own.classes ? replace_one_law(w, o) : 0;
	if (result || (o->did != DID_ADOPT && (w->r->look || !w->own.classes)))
		return result;
	if (w->own.classes && weir_attachment_open(&w->a, w->path, w->r->dev))
		return -1;
	return ensure_there(w, o);
}

/* A poll process alone that died is no reason to take everything off. */
static bool works(const struct weir_meta *about, const char *path, const char *netns)
{
	return !weir_off_reason(path, about, netns);
}

struct restoring {
	bool look;
	unsigned int count;
};

static int restore_config(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct restoring *restoring = context;
	struct weir_config config;

	if (weir_config_read(a, &config))
		return -1;
	restoring->count += weir_config_restore(a, &config, restoring->look);
	return 0;
}

/* Missing pins, and remains. */
static int put_pins(const struct plan *p, const char *path, struct outcome *o)
{
	const struct request *r = p->r;
	struct restoring restoring = {.look = r->look};
	struct weir_attachment a;
	char why[512];
	int remains = plan_clear_remains(p, r->look);

	if (remains < 0)
		return -1;
	o->part[PART_PINS] = remains > 0;
	if (access(path, F_OK))
		return 0;
	restoring.count = weir_pins_restore(path, r->look);
	weir_error_into(why, sizeof(why)); /* later steps report what is wrong with it */
	if (!weir_attachment_open(&a, path, r->dev)) {
		if (!restore_config(&a, NULL, &restoring))
			weir_law_each(&a, restore_config, &restoring);
		weir_attachment_close(&a);
	}
	weir_error_into(NULL, 0);
	o->part[PART_PINS] |= restoring.count > 0;
	return 0;
}

static int ensure(struct plan *p, struct outcome *o)
{
	const struct request *r = p->r;
	struct work w = {.r = r, .own = *r, .p = p, .a = WEIR_ATTACHMENT_NONE};
	char path[PATH_MAX];
	bool there;
	int result;

	if (weir_place_path(r->pins, &p->dev.place, path))
		return -1;
	if (!r->look && !access(r->pins, F_OK) && weir_finish_replacement(r->pins, &p->dev.place, r->netns))
		return -1;
	if (weir_meta_is_foreign(path))
		return weir_foreign_error(r->dev);
	if (put_pins(p, path, o))
		return -1;
	there = weir_meta_read(path, &w.old);
	if (r->look && o->part[PART_PINS] && !access(path, F_OK) &&
	    (!there || weir_attachment_lacks_map(path, &w.old))) { /* no more can be compared */
		o->did = DID_REPLACE;
		return 0;
	}
	there = there && works(&w.old, path, r->netns);
	if (!r->classes && w.old.slots > 1)
		return weir_error("%s has laws of classes: say which one, %s/1:10, or all of htb 1: by --class 1:; "
				  "`detach` takes them off",
				  r->dev, r->dev);
	w.path = path;
	w.own.by_mark = w.own.others = false;
	w.own.ensures = true;
	p->r = &w.own;
	o->did = DID_ADOPT;
	result = (r->classes && read_gains(r, &p->gains, &p->config.coupling)) || ensure_all(&w, there, o);
	laws_free(&w.laws);
	weir_attachment_close(&w.a);
	snprintf(p->path, sizeof(p->path), "%s", path);
	p->r = r;
	return result ? -1 : 0;
}

/* One direction; holder: the plan of the other one, which has the lock. The plan is begun where *begun is true then. */
static int ensure_one(const struct request *r, struct plan *p, const struct plan *holder, bool *begun,
		      struct outcome *o)
{
	int result;

	*o = (struct outcome){0};
	*begun = !(holder ? plan_begin_beside(p, r, holder) : plan_begin(p, r));
	if (!*begun)
		return -1;
	o->ingress = p->ingress;
	result = ensure(p, o);
	if (!result && !r->look && !(r->kept && o->did == DID_ADOPT)) /* the daemon has said it */
		warn_of_bypass(r, p->path);
	return result;
}

static void add_outcome(struct outcome *o, const struct outcome *other)
{
	for (int i = 0; i < PARTS; i++)
		o->part[i] |= other->part[i];
	o->raised |= other->raised;
	o->did = o->did == other->did ? o->did : DID_REPLACE;
}

int ensure_run(const struct request *r, struct outcome *o)
{
	struct plan egress, ingress;
	bool begun = false, begun_in = false;
	struct outcome in;
	struct directions d;
	int result = directions_of(r, &d);

	*o = (struct outcome){0};
	if (!result)
		result = ensure_one(d.has_egress ? &d.egress : &d.ingress, &egress, NULL, &begun, o);
	if (!result && d.has_egress && d.has_ingress) {
		result = ensure_one(&d.ingress, &ingress, &egress, &begun_in, &in);
		add_outcome(o, &in);
	}
	if (begun_in)
		plan_end(&ingress);
	if (begun)
		plan_end(&egress);
	directions_free(&d);
	return result;
}
