/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <limits.h>
#include <stdio.h>

#include "hooks/hooks.h"
#include "pins/place.h"
#include "printable.h"
#include "signal/signals.h"
#include "undo.h"
#include "weir-xdp/directions.h"
#include "weir-xdp/leaves.h"
#include "weir-xdp/plan.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/report.h"

/* Whether the request is about single classes without a law: those that have one go on, by another poll process. */
static bool is_about_others(const struct request *r, const char *path)
{
	struct weir_attachment a;
	struct weir_class class;
	bool others = true;
	__u32 slot;

	if (weir_attachment_open(&a, path, r->dev))
		return false;
	for (unsigned int i = 0; others && i < r->classes; i++)
		others = r->class[i] & 0xffff && !weir_class_look(&a, r->class[i], &slot, &class) &&
			 slot == WEIR_SLOT_NONE;
	weir_attachment_close(&a);
	return others;
}

/* Whether the interface has laws of classes, to which others can be added; then path is that of its pins. */
static bool has_laws_of_classes(const struct request *r, const struct weir_place *place, char *path)
{
	struct weir_meta about;

	if (!r->classes || weir_place_path(r->pins, place, path) || !weir_meta_read(path, &about) || about.slots == 1 ||
	    weir_off_reason(path, &about, r->netns))
		return false;
	return !weir_dead_reason(path, &about, r->netns) || is_about_others(r, path);
}

static int say_attached(const struct request *r, const struct plan *p, unsigned int *printed)
{
	char name[WEIR_CLASS_LEN];

	if (r->json)
		return print_status(r, r->dev, p->path, printed) ? 1 : 0;
	if (!r->classes) {
		weir_print(stdout, "attached to %s%s by %s: signal %s (%s)\n", p->about.dev,
			   p->ingress ? WEIR_INGRESS_SUFFIX : "", weir_hook_name(p->about.hook),
			   weir_signal_name(p->about.signal), p->about.why);
		return 0;
	}
	if (!p->laws.count)
		weir_print(stdout, "%s: each of its classes has a law already\n", p->about.dev);
	for (__u32 i = 0; i < p->laws.count; i++) {
		if (!p->laws.list[i].class.handle)
			continue;
		weir_class_name(name, sizeof(name), p->laws.list[i].class.handle);
		weir_print(stdout, "attached to %s/%s by %s: signal %s\n", p->about.dev, name,
			   weir_hook_name(p->about.hook), weir_signal_name(p->about.signal));
	}
	return 0;
}

/*
 * holder: the plan of the other direction, which has the lock, or NULL. Begins the plan where *begun is true then.
 * 0, -1, or the exit status of a wrong KEY=VALUE.
 */
static int attach(const struct request *r, struct plan *p, const struct plan *holder, bool *begun)
{
	struct weir_coupling coupling;
	struct weir_gains gains;
	char path[PATH_MAX];
	int result = read_gains(r, &gains, &coupling);

	*begun = false;
	if (result)
		return result;
	if (holder ? plan_begin_beside(p, r, holder) : plan_begin(p, r))
		return -1;
	*begun = true;
	p->gains = gains;
	p->config.coupling = coupling;
	result = has_laws_of_classes(r, &p->dev.place, path) ? plan_add(p, path) : plan_attach(p);
	if (!result) {
		warn_of_bypass(r, p->path);
		leaves_advise(r, p->dev.ifindex);
	}
	return result;
}

/* Both directions, packets that leave first; of a failure nothing is left. */
static int attach_both(const struct directions *d)
{
	struct plan egress, ingress;
	bool begun, begun_in = false;
	unsigned int printed = 0;
	int result = attach(&d->egress, &egress, NULL, &begun);

	if (!result) {
		result = attach(&d->ingress, &ingress, &egress, &begun_in);
		if (result)
			weir_undo(&egress.about, egress.path, d->egress.netns);
	}
	if (!result) {
		fputs(d->egress.json ? "[" : "", stdout);
		result = say_attached(&d->egress, &egress, &printed) || say_attached(&d->ingress, &ingress, &printed);
		fputs(d->egress.json ? "]\n" : "", stdout);
	}
	if (begun_in)
		plan_end(&ingress);
	if (begun)
		plan_end(&egress);
	return result;
}

static int attach_one(const struct request *r)
{
	unsigned int printed = 0;
	struct plan p;
	bool begun;
	int result = attach(r, &p, NULL, &begun);

	if (!result)
		result = say_attached(r, &p, &printed);
	if (begun)
		plan_end(&p);
	return result;
}

int command_attach(const struct request *r)
{
	struct directions d;
	int result = directions_of(r, &d);

	d.egress.bands = request_has_bands(&d.egress);
	if (!result)
		result = d.has_egress && d.has_ingress ? attach_both(&d)
						       : attach_one(d.has_egress ? &d.egress : &d.ingress);
	directions_free(&d);
	return result < 0 ? 1 : result;
}
