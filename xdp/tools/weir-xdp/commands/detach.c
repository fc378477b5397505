/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/qdisc.h"
#include "pins/slots.h"
#include "pins/folder.h"
#include "pins/leaf_aqm.h"
#include "pins/lock.h"
#include "pins/place.h"
#include "remains.h"
#include "signal/poll/process.h"
#include "undo.h"
#include "weir-xdp/view/view.h"

/* The locks of what is pinned there. A namespace that can't be entered can't be changed by us either: undoing says so.
 */
static int lock_pinned(const struct request *r, const char *path, struct weir_locks *locks)
{
	struct weir_place place = {0}, peer;
	struct weir_meta about;
	const char *netns;
	unsigned long long netns_id;

	*locks = WEIR_LOCKS_NONE;
	if (weir_meta_read(path, &about)) {
		place = weir_place_of(&about);
	} else { /* at work, or cut short before it wrote down anything: the name of the folder says where */
		weir_place_look(r->dev, r->netns, &place);
		if (sscanf(strrchr(path, '/') + 1, "%llu-%u", &netns_id, &place.ifindex) != 2 ||
		    netns_id != (place.netns_cookie ? place.netns_cookie : place.netns_inum))
			return 0;
		snprintf(place.name, sizeof(place.name), "%.*s",
			 (int)strcspn(r->dev, "/") < IF_NAMESIZE ? (int)strcspn(r->dev, "/") : IF_NAMESIZE - 1, r->dev);
	}
	netns = *r->netns ? r->netns : about.netns;
	if (!can_reach(&place, netns))
		return 0;
	peer = weir_place_of_peer(&about);
	return weir_locks_take(locks, r->pins, &place, netns,
			       peer.ifindex && can_reach(&peer, about.peer_netns) ? &peer : NULL, about.peer_netns,
			       WEIR_LOCK_WAIT_MS);
}

/* An `ensure` that was killed as it replaced what is attached: first that has to come to its end. */
static int finish_replacement(const struct request *r, const struct weir_place *asked)
{
	struct weir_place place = *asked;
	struct weir_locks locks;
	int result;

	if (!weir_replacement_is_open(r->pins, &place))
		return 0;
	if (weir_locks_take(&locks, r->pins, &place, r->netns, NULL, "", WEIR_LOCK_WAIT_MS))
		return -1;
	result = weir_finish_replacement(r->pins, &place, r->netns);
	weir_locks_drop(&locks);
	return result;
}

static int finish_replacements(const struct request *r)
{
	struct weir_place place;

	if (r->pins_only || weir_place_look(r->dev, r->netns, &place))
		return 0;
	if (strchr(r->dev, '/'))
		return finish_replacement(r, &place);
	for (int i = 0; i < 2; i++) { /* without a direction either one can be meant */
		place.ingress = i;
		if (finish_replacement(r, &place))
			return -1;
	}
	return 0;
}

struct removal {
	const struct request *r;
	unsigned int removed, left;
	__u32 *class; /* those removed */
};

static int remove_one(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct removal *removal = context;
	const struct request *r = removal->r;

	if (r->rest ? !class->kept || (r->classes && wants_class(r, class->handle)) : !wants_class(r, class->handle)) {
		removal->left++;
		return 0;
	}
	removal->class[removal->removed++] = class->handle;
	return weir_slot_remove(a, a->slot);
}

static bool leaf_goes(__u32 class, const void *context)
{
	const struct removal *removal = context;

	for (unsigned int i = 0; i < removal->removed; i++)
		if (removal->class[i] == class)
			return true;
	return false;
}

/* The laws of some classes; with the last one everything goes. 0, CHANGED of the rest, or -1. */
static int detach_classes(const struct request *r, const struct weir_meta *about, const char *path)
{
	struct removal removal = {.r = r};
	struct weir_attachment a;
	struct weir_class class;
	int result = 0;

	if (weir_attachment_open(&a, path, r->dev))
		return -1;
	removal.class = calloc(a.about.slots, sizeof(*removal.class));
	if (!removal.class)
		result = weir_error("out of memory");
	for (unsigned int i = 0; !result && !r->rest && i < r->classes; i++) /* before anything is taken away */
		if (r->class[i] & 0xffff || a.about.slots == 1)
			result = weir_class_find(&a, r->class[i], &class);
	if (!result)
		result = weir_slots_sweep(&a) || weir_law_each(&a, remove_one, &removal) ||
			 (removal.removed && weir_slots_changed(&a));
	if (!result && !removal.removed && !r->rest)
		result = weir_error("%s: none of these classes has a law", r->dev);
	weir_attachment_close(&a);
	if (!result && removal.removed)
		result = weir_undo_leaves(about, path, *r->netns ? r->netns : about->netns, leaf_goes, &removal);
	free(removal.class);
	if (!result && !removal.left)
		result = weir_undo(about, path, *r->netns ? r->netns : about->netns);
	return result ? -1 : r->rest && removal.removed ? CHANGED : 0;
}

/* A law at ingress that was found by DEV alone, though that is not its name: DEV is the law at egress. */
static int check_name(const struct request *r, const char *path)
{
	struct weir_meta about;

	if (strchr(r->dev, '/') || !weir_meta_read(path, &about) || !about.by_direction ||
	    !strcmp(r->dev, strrchr(path, '/') + 1))
		return 0;
	return weir_error("nothing is attached to %s at egress; `weir-xdp detach %s" WEIR_INGRESS_SUFFIX
			  "%s%s` removes the law of received packets",
			  r->dev, r->dev, *r->netns ? "@" : "", r->netns);
}

/* DEV has been the name of this law at egress: one at ingress is DEV/ingress alone from now on. */
static int leave_ingress(const struct request *r, const struct weir_meta *egress)
{
	struct weir_place place = weir_place_of(egress);
	struct weir_meta about;
	char path[PATH_MAX];

	if (strchr(r->dev, '/') || r->classes || place.ingress)
		return 0;
	place.ingress = true; /* made by the same command, it goes, too */
	if (weir_place_path(r->pins, &place, path))
		return -1;
	if (!weir_meta_read(path, &about) || about.by_direction || about.both)
		return 0;
	about.by_direction = 1;
	return weir_meta_store(path, &about);
}

/* The other direction's attachment. False if there is none, or it can't be read. */
static bool read_other(const struct request *r, const struct weir_meta *about, char *path, struct weir_meta *other)
{
	struct weir_place place = weir_place_of(about);

	place.ingress = !place.ingress;
	return !weir_place_path(r->pins, &place, path) && weir_meta_read(path, other);
}

/* The law at egress is alone from now on. */
static int leave_egress(const struct request *r, const struct weir_meta *ingress)
{
	struct weir_meta other;
	char path[PATH_MAX];

	if (!weir_place_of(ingress).ingress || !read_other(r, ingress, path, &other) || !other.both)
		return 0;
	other.both = 0;
	return weir_meta_store(path, &other);
}

/* Whether received packets have a law, or the leftovers of one, that was made by the same command. */
static bool has_pair(const struct request *r, const struct weir_meta *about)
{
	struct weir_meta other = {0};
	char path[PATH_MAX];

	if (strchr(r->dev, '/') || r->classes || r->rest || r->pins_only || weir_place_of(about).ingress)
		return false;
	return (read_other(r, about, path, &other) && other.both) || (about->both && !access(path, F_OK));
}

/* Results of a detach beside its exit status. */
struct detached {
	bool pair;	   /* detach the law of received packets, too */
	bool shaped;	   /* the record named a shaper: removed, or kept for a change by another tool */
	char nothing[512]; /* the error where there are no pins */
};

/* Remains at DEV. Returns their number, or -1 after one line. */
static int clear_remains(const struct request *r, const struct detached *d)
{
	enum weir_direction direction;
	struct weir_locks locks = WEIR_LOCKS_NONE;
	struct weir_place place;
	char dev[VIEW_LABEL_LEN], why[512];
	unsigned int what = WEIR_REMAINS_EGRESS | WEIR_REMAINS_PEER | (d->shaped ? 0 : WEIR_REMAINS_SHAPER);
	bool has_pins;
	int count;

	snprintf(dev, sizeof(dev), "%s", r->dev);
	direction = weir_direction_split(dev);
	if (r->pins_only || r->classes || r->rest || weir_place_look(r->dev, r->netns, &place))
		return 0;
	place.ingress = false;
	what = direction == WEIR_INGRESS ? WEIR_REMAINS_XDP : direction ? what : what | WEIR_REMAINS_XDP_UNNAMED;
	weir_error_into(why, sizeof(why));
	has_pins = !weir_pins_check(r->pins);
	weir_error_into(NULL, 0);
	/* without a BPF file system nobody can attach meanwhile */
	if (has_pins && weir_locks_take(&locks, r->pins, &place, r->netns, NULL, "", WEIR_LOCK_WAIT_MS))
		return -1;
	count = weir_remains_clear(r->pins, &place, r->netns, what, false);
	weir_locks_drop(&locks);
	return count;
}

/* The attachment. 0, an exit status, or NO_PINS with the line in `nothing`. */
#define NO_PINS (-1)
static int detach(const struct request *r, struct detached *d)
{
	struct weir_locks locks;
	struct weir_meta about;
	char path[PATH_MAX], name[PATH_MAX + 32];
	int meta, result, found;
	bool known;

	if (access(r->pins, X_OK) && errno == EACCES)
		return weir_error("can't look at %s: %s", r->pins, weir_reason(errno)), 1;
	if (finish_replacements(r))
		return 1;
	weir_error_into(d->nothing, sizeof(d->nothing));
	found = find_asked(r, path);
	weir_error_into(NULL, 0);
	if (found == WEIR_NOTHING)
		return NO_PINS;
	if (found)
		return weir_error("%s", d->nothing), 1;
	if (check_name(r, path))
		return 1;
	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0 && errno != ENOENT)
		return weir_error("%s: %s", name, weir_reason(errno)), 1;
	if (meta >= 0)
		close(meta);
	if (!r->pins_only && weir_meta_is_foreign(path))
		return weir_foreign_error(r->dev), 1;
	if (r->pins_only && r->classes)
		return weir_error("--pins-only takes all pins of an interface away: leave the class out"), USAGE_ERROR;
	if (r->pins_only) {
		if (weir_meta_read(path, &about) && (leave_ingress(r, &about) || weir_qdisc_forget(&about)))
			return 1;
		weir_poll_end(&about);
		if (weir_leaf_aqm_any(path))
			weir_note("%s: the AQMs that attach disabled stay disabled", r->dev);
		result = weir_remove_pins(path);
	} else {
		if (lock_pinned(r, path, &locks))
			return 1;
		/* not before: the process that had the lock may have changed everything */
		known = weir_meta_read(path, &about) ||
			(weir_pins_restore(path, false) && weir_meta_read(path, &about));
		if (access(path, F_OK))
			result = weir_error("nothing is attached to %s any more: it was detached just now", r->dev);
		else if (known && (leave_ingress(r, &about) || leave_egress(r, &about)))
			result = -1;
		else if (r->classes || r->rest)
			result = detach_classes(r, &about, path);
		else
			result = weir_undo(&about, path, *r->netns ? r->netns : about.netns);
		d->pair = known && !result && has_pair(r, &about);
		d->shaped |= known && about.shape.handle;
		if (!known && !result)
			result = weir_error("%s: its pins were removed, but there was no record of an attachment in "
					    "%s: `tc filter show dev DEV egress` and `ip link` show what is left",
					    r->dev, path);
		weir_locks_drop(&locks);
	}
	return result == CHANGED ? CHANGED : result ? 1 : 0;
}

int command_detach(const struct request *r)
{
	char dev[IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX)];
	struct detached d = {0};
	struct request other = *r;
	int result = detach(r, &d), remains;

	if (!result && d.pair) {
		snprintf(dev, sizeof(dev), "%.*s" WEIR_INGRESS_SUFFIX, IF_NAMESIZE, r->dev);
		other.dev = dev;
		result = detach(&other, &d);
	}
	if (result == NO_PINS || !result) {
		remains = clear_remains(r, &d);
		if (result == NO_PINS && !remains)
			weir_error("%s", d.nothing);
		result = remains < 0 || (result == NO_PINS && !remains);
	}
	weir_pins_tidy(r->pins);
	return result;
}
