/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings any present state to the requested one. An attachment that works and fits is adopted; a configuration that
 * differs is replaced as `set` does it; another program takes the old one's place at its hook.
 */
#include "weir-xdp/ensure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "gains/floor.h"
#include "hooks/hooks.h"
#include "net/shape.h"
#include "pins/attachment.h"
#include "signal/bands.h"
#include "signal/poll/process.h"
#include "signal/signals.h"
#include "signal/virtual.h"
#include "undo.h"
#include "weir-xdp/ensure_classes.h"
#include "weir-xdp/plan.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/report.h"

const char *const part_names[PARTS] = {"program", "signal", "process", "shaper", "queue",
				       "gains",	  "limits", "class",   "marks",	 "name"};
const char *const did_names[] = {"attached", "adopted", "replaced"};

int ensure_check_ends(const struct plan *p, const struct weir_meta *old)
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
	if (r->rate_bit_s > 0 && old->signal != WEIR_SIGNAL_VIRTUAL)
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
	struct weir_shape wanted = weir_shape_of(r->shape_bit_s, r->bands);
	struct weir_qdisc root = {0};
	int back, netlink, is;

	if (!(r->shape_bit_s > 0))
		return 0;
	if (weir_netns_enter(r->netns, &back))
		return -1;
	netlink = weir_netlink_open();
	is = netlink < 0 ? netlink : weir_qdisc_read(netlink, (int)old->ifindex, &root);
	if (!is)
		is = weir_shape_is(netlink, (int)old->ifindex, &wanted, true);
	if (netlink >= 0)
		close(netlink);
	weir_netns_leave(back);
	if (is < 0)
		return weir_error("%s: can't read its shaper: %s", r->dev, weir_reason(is));
	if (!old->shape.handle && plan_root_is_free(r, &root))
		return -1;
	if (is && old->shape.handle && !memcmp(&wanted, &old->shape, sizeof(wanted)))
		return 0;
	o->part[PART_SHAPER] = true;
	if (!r->look) {
		struct weir_meta about = *old;

		p->about.shape = about.shape = wanted;
		if (weir_meta_store(path, &about))
			return weir_error("%s: can't write down what is attached: %s", r->dev, weir_reason(errno));
		if (plan_shape(p, old->shape.handle != 0)) { /* nobody may take for ours what was not made */
			if (weir_meta_store(path, old))
				weir_error("%s: can't write down what is attached: %s", r->dev, weir_reason(errno));
			return -1;
		}
	}
	return 0;
}

int ensure_gains(const struct request *r, double rate_bit_s, struct weir_config *config)
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
	if (signal == WEIR_SIGNAL_VIRTUAL)
		rate_bit_s = r->rate_bit_s > 0 ? r->rate_bit_s : (double)old->rate_bit_s;
	if (ensure_gains(r, rate_bit_s, wanted))
		return -1;
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
	}
	if (r->coupled) {
		wanted->coupled = 1;
		memcpy(wanted->band_class, r->band_class, sizeof(wanted->band_class));
	}
	if (r->limit_packets)
		wanted->limit_packets = r->limit_packets;
	if (r->limit_bytes)
		wanted->limit_bytes = r->limit_bytes;
	if (signal == WEIR_SIGNAL_VIRTUAL)
		weir_virtual_set_rate(wanted, rate_bit_s);
	return 0;
}

static void compare(const struct weir_config *old, const struct weir_config *wanted, struct outcome *o)
{
	o->part[PART_QUEUE] = old->root_handle != wanted->root_handle ||
			      strncmp(old->root_kind, wanted->root_kind, sizeof(old->root_kind)) ||
			      old->l2_bytes != wanted->l2_bytes || old->ifindex != wanted->ifindex ||
			      old->netns_inum != wanted->netns_inum;
	o->raised = wanted->target_asked_us != 0;
	o->part[PART_GAINS] = memcmp(&old->law, &wanted->law, sizeof(old->law)) ||
			      old->target_asked_us != wanted->target_asked_us ||
			      memcmp(&old->coupling, &wanted->coupling, sizeof(old->coupling)) ||
			      memcmp(&old->flow_bands, &wanted->flow_bands, sizeof(old->flow_bands)) ||
			      memcmp(old->band_class, wanted->band_class, sizeof(old->band_class));
	o->part[PART_LIMITS] = old->limit_bytes != wanted->limit_bytes || old->limit_packets != wanted->limit_packets ||
			       old->rate_bit_s != wanted->rate_bit_s;
}

/* In place, as `set` does it. */
static int put_config(const struct weir_attachment *a, const struct weir_config *wanted)
{
	int folder = weir_folder_lock(a->path), result = folder < 0;

	if (!result)
		result = weir_config_replace(a->config, a->path, &a->slot, 1, wanted);
	if (folder >= 0)
		close(folder);
	return result ? -1 : 0;
}

int ensure_meta(const struct plan *p, const struct weir_meta *old, const char *path, struct outcome *o)
{
	struct weir_meta about = *old;
	int error;

	memset(about.dev, 0, sizeof(about.dev));
	snprintf(about.dev, sizeof(about.dev), "%s", p->dev.place.name);
	about.whole_tree |= p->r->whole_tree;
	about.kept |= p->r->kept;
	about.shape = p->about.shape;
	o->part[PART_NAME] = strcmp(about.dev, old->dev) != 0;
	if (p->r->look || !memcmp(&about, old, sizeof(about)))
		return 0;
	error = weir_meta_store(path, &about);
	return error ? weir_error("%s: can't write down what is attached: %s", p->r->dev, weir_reason(error)) : 0;
}

/* The signal that is asked for; where none is, the one that is there stays. */
static __u32 signal_wanted(const struct request *r, __u32 old)
{
	if (r->bands && old == WEIR_SIGNAL_BACKLOG) /* signal backlog reads both bands as one queue */
		old = WEIR_SIGNAL_POLL;
	return r->signal ? r->signal : r->peer ? WEIR_SIGNAL_VETH : r->rate_bit_s > 0 ? WEIR_SIGNAL_VIRTUAL : old;
}

/* Something that works is attached: it fits, or becomes what fits. */
static int ensure_there(struct plan *p, struct weir_attachment *a, struct outcome *o)
{
	struct request *r = &(struct request){0};
	struct weir_config config, wanted;
	const struct weir_meta old = a->about;
	__u32 signal = signal_wanted(p->r, old.signal);
	bool any = false;

	if (ensure_check_ends(p, &old))
		return -1;
	*r = *p->r; /* where nothing is asked for, what is there is what is asked for */
	p->r = r;
	r->signal = signal;
	r->hook_given = true;
	r->whole_tree |= old.whole_tree;
	if (weir_config_read(a, &config))
		return -1;
	r->hook = old.hook;
	r->coupled |= config.coupled;
	r->bands |= weir_has_bands(&config);
	if (config.coupled && !r->band_class[WEIR_BAND_L])
		memcpy(r->band_class, config.band_class, sizeof(r->band_class));
	if (old.peer_ifindex) {
		r->peer = old.peer;
		r->peer_netns = old.peer_netns;
	}
	if (signal == WEIR_SIGNAL_VIRTUAL && !(r->rate_bit_s > 0))
		r->rate_bit_s = (double)config.rate_bit_s;
	weir_gains_asked(&p->gains, &config);
	p->about.shape = old.shape;
	if (ensure_shape(p, &old, a->path, o) || plan_look(p) ||
	    (!(r->look && o->part[PART_SHAPER]) && plan_check_queue(p, signal)) ||
	    wanted_config(p, &config, signal, &wanted))
		return -1;
	compare(&config, &wanted, o);
	o->part[PART_SIGNAL] = signal != old.signal || wanted.coupled != config.coupled ||
			       weir_has_bands(&wanted) != weir_has_bands(&config);
	o->part[PART_PROGRAM] =
		old.owner != WEIR_OWNER_OTHER && old.build != object_build(signal, old.hook, plan_laws(r));
	o->part[PART_PROCESS] = old.signal == WEIR_SIGNAL_POLL && !weir_poll_lives_at(a->path, &old);
	if (!r->look && (o->part[PART_SIGNAL] || o->part[PART_PROGRAM] || o->part[PART_PROCESS])) {
		p->config = wanted;
		if (plan_replace(p, &old, a->path))
			return -1;
	} else if (ensure_meta(p, &old, a->path, o) ||
		   (!r->look && memcmp(&config, &wanted, sizeof(config)) && put_config(a, &wanted))) {
		return -1;
	}
	for (int i = 0; i < PARTS; i++)
		any |= o->part[i];
	o->did = any ? DID_REPLACE : DID_ADOPT;
	return 0;
}

/* A poll process alone that died is no reason to take everything off. */
static bool works(const struct weir_meta *about, const char *path, const char *netns)
{
	struct weir_meta without = *about;

	if (!about->complete)
		return false;
	without.signal = about->signal == WEIR_SIGNAL_POLL ? WEIR_SIGNAL_BACKLOG : about->signal;
	return !weir_dead_reason(path, &without, netns);
}

static int ensure(struct plan *p, struct outcome *o)
{
	const struct request *r = p->r;
	struct weir_attachment a;
	struct weir_meta about;
	char path[PATH_MAX];
	bool there;
	int result;

	if (weir_place_path(r->pins, &p->dev.place, path))
		return -1;
	if (!r->look && !access(r->pins, F_OK) && weir_finish_replacement(r->pins, &p->dev.place, r->netns))
		return -1;
	if (weir_meta_is_foreign(path))
		return weir_foreign_error(r->dev);
	there = weir_meta_read(path, &about) && works(&about, path, r->netns);
	snprintf(p->path, sizeof(p->path), "%s", path);
	if (r->classes)
		return ensure_classes(p, path, there, o);
	if (about.slots)
		return weir_error("%s has laws of classes: say which one, %s/1:10, or all of htb 1: by --class 1:; "
				  "`detach` takes them off",
				  r->dev, r->dev);
	if (!there) {
		o->did = DID_ATTACH;
		o->part[PART_PROGRAM] = true;
		if (r->look)
			return 0;
		if (read_gains(r, &p->gains, &p->config.coupling) || plan_attach(p))
			return -1;
		o->raised = p->config.target_asked_us != 0;
		return 0;
	}
	o->did = DID_ADOPT;
	if (weir_attachment_open(&a, path, r->dev))
		return -1;
	result = ensure_there(p, &a, o);
	weir_attachment_close(&a);
	snprintf(p->path, sizeof(p->path), "%s", path);
	p->r = r;
	return result;
}

int ensure_run(const struct request *r, struct outcome *o)
{
	struct plan p;
	int result;

	*o = (struct outcome){0};
	if (plan_begin(&p, r))
		return -1;
	o->ingress = p.ingress;
	result = ensure(&p, o);
	plan_end(&p);
	if (!result && !r->look && !(r->kept && o->did == DID_ADOPT)) /* the daemon has said it */
		warn_of_bypass(r, p.path);
	return result;
}
