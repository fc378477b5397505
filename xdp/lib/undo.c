/* SPDX-License-Identifier: Apache-2.0 */
#include "undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/hooks.h"
#include "pins/attachment.h"
#include "pins/leaf_aqm.h"
#include "pins/lock.h"
#include "net/net.h"
#include "net/shape.h"
#include "signal/poll/process.h"

#define SET_WAIT_MS 5000

int weir_reach(const struct weir_place *place, const char *netns, int *back, char *name)
{
	struct weir_place here;

	if (weir_netns_enter(netns, back))
		return -1;
	weir_place_here(&here);
	if (!weir_place_same_netns(&here, place)) {
		weir_netns_leave(*back);
		return weir_error("%s was attached in another network namespace (inode %llu): give it with --netns "
				  "PATH, or `detach --pins-only` if it is gone",
				  place->name, place->netns_inum);
	}
	if (!if_indextoname(place->ifindex, name)) {
		weir_netns_leave(*back);
		return 1;
	}
	return 0;
}

/* The folder locked against a `set` that is putting a new configuration there; one that hangs is not waited for. */
static void lock_folder(int folder)
{
	struct timespec pause = {.tv_nsec = 10000000};

	for (int tries = 0; flock(folder, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && tries < SET_WAIT_MS / 10;
	     tries++)
		nanosleep(&pause, NULL);
}

int weir_remove_pins(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int result = 0;

	if (!folder)
		return errno == ENOENT ? 0 : weir_error("%s: %s", path, weir_reason(errno));
	lock_folder(dirfd(folder));
	/* its record goes last, so that a process killed here leaves it to the next */
	while ((entry = readdir(folder)))
		if (*entry->d_name != '.' && strcmp(entry->d_name, "meta") && unlinkat(dirfd(folder), entry->d_name, 0))
			result = weir_error("%s/%s: %s", path, entry->d_name, weir_reason(errno));
	if (!result && unlinkat(dirfd(folder), "meta", 0) && errno != ENOENT)
		result = weir_error("%s/meta: %s", path, weir_reason(errno));
	if (!result && rmdir(path))
		result = weir_error("%s: %s", path, weir_reason(errno));
	closedir(folder);
	return result;
}

/* Programs that a link holds: it needs no interface to be found. */
struct ends {
	const struct weir_meta *about;
	const char *path;
	struct weir_side near, far;
};

static int detach_by_link(const struct weir_hook_row *row, void *context)
{
	const struct ends *e = context;

	if (!row->by_link)
		return 0;
	return row->detach(&e->near, e->about, e->path) | row->detach(&e->far, e->about, e->path);
}

/* The program at one end. 0, or -1 after one line; `reached`: 1 if the interface was removed, and all that was on
 * it. */
static int detach_end(const struct weir_meta *about, const struct weir_place *place, const char *netns,
		      enum bpf_tc_attach_point point, const char *path, int *reached)
{
	const struct weir_hook_row *row = weir_hook_of(about);
	char name[IF_NAMESIZE];
	int back, result = 0;

	*reached = weir_reach(place, netns, &back, name);
	if (*reached)
		return *reached < 0 ? -1 : 0;
	if (row && !row->by_link) {
		struct weir_side side = {name, (int)place->ifindex, point, false};

		result = row->detach(&side, about, path);
	}
	weir_netns_leave(back);
	return result;
}

/*
 * The shaper that attach made, unless somebody changed it since: then it is his, stays, and is named. In the namespace
 * of the interface. 0, or -1 after one line.
 */
static int remove_shape(const struct weir_meta *about, const char *name)
{
	int netlink = weir_netlink_open(), error = netlink < 0 ? netlink : 0, ours = 0;

	if (!error) {
		ours = weir_shape_is(netlink, (int)about->ifindex, &about->shape, about->complete);
		error = ours < 0 ? ours : 0;
	}
	if (!error && ours)
		error = weir_shape_remove(netlink, (int)about->ifindex, &about->shape);
	if (!error && !ours) {
		struct weir_qdisc root;

		if (!weir_qdisc_read(netlink, (int)about->ifindex, &root) && root.handle)
			weir_note("%s: its root qdisc %s %x: stays: it is not the shaper that attach made, or was "
				  "changed since; `tc qdisc del dev %s root` removes it",
				  name, root.kind, root.handle >> 16, name);
	}
	if (netlink >= 0)
		close(netlink);
	return error ? weir_error("%s: can't remove its shaper: %s", name, weir_reason(error)) : 0;
}

static int detach_shape(const struct weir_meta *about, const struct weir_place *place, const char *netns)
{
	char name[IF_NAMESIZE];
	int back, result = weir_reach(place, netns, &back, name);

	if (result) /* without its interface it is gone as well */
		return result < 0 ? -1 : 0;
	result = remove_shape(about, name);
	weir_netns_leave(back);
	return result;
}

int weir_undo_leaves(const struct weir_meta *about, const char *path, const char *netns,
		     bool (*wanted)(__u32 class, const void *context), const void *context)
{
	struct weir_leaves leaves = {
		.path = path, .ifindex = (int)about->ifindex, .wanted = wanted, .context = context};
	struct weir_place place = weir_place_of(about);
	char name[IF_NAMESIZE];
	int back, result;

	if (!weir_leaf_aqm_any(path))
		return 0;
	result = weir_reach(&place, netns, &back, name);
	if (result) /* without its interface there are none */
		return result < 0 ? -1 : 0;
	leaves.dev = name;
	leaves.netlink = weir_netlink_open();
	if (leaves.netlink < 0)
		result = weir_error("no netlink socket: %s", weir_reason(leaves.netlink));
	else
		result = weir_leaf_aqm_restore(&leaves);
	if (leaves.netlink >= 0)
		close(leaves.netlink);
	weir_netns_leave(back);
	return result;
}

/* Without a configuration the program lets every packet pass. */
static int pass_all(const struct weir_meta *about, const char *path)
{
	static const __u32 first = 0;
	char pin[PATH_MAX + 32];
	int config, error = 0;

	snprintf(pin, sizeof(pin), "%s/config", path);
	config = bpf_obj_get(pin);
	if (config < 0)
		return 0; /* cut short before the program was there */
	if (bpf_map_delete_elem(config, &first) && errno != ENOENT)
		error = weir_error("%s: can't take the configuration away: %s", about->dev, weir_reason(errno));
	close(config);
	return error;
}

/* Pins stay while anything else does, so that it can be tried again. */
int weir_undo(const struct weir_meta *about, const char *path, const char *netns)
{
	struct weir_place dev = weir_place_of(about), peer = weir_place_of_peer(about);
	bool near = about->prog_id || about->made_clsact || about->owner;
	bool far = about->peer_prog_id || about->peer_made_clsact;
	struct ends ends = {
		.about = about,
		.path = path,
		.near = {about->dev, (int)about->ifindex, BPF_TC_EGRESS, false},
		.far = {about->peer, (int)about->peer_ifindex, BPF_TC_INGRESS, false},
	};
	int result, reached = 0;

	weir_poll_end(about);
	/* at any hook: an attach cut short can have pinned a link that `about` does not know */
	result = weir_hook_each(detach_by_link, &ends);
	if (near || far) {
		result |= detach_end(about, &dev, netns, BPF_TC_EGRESS, path, &reached);
		if (reached < 0)
			return -1;
	}
	/* a veth's ends go together: without this one the peer is removed too */
	if (!reached && far) {
		result |= detach_end(about, &peer, about->peer_netns, BPF_TC_INGRESS, path, &reached);
		if (reached < 0)
			return -1;
	}
	if (reached > 0 && dev.ingress && !result) /* in another namespace by now, perhaps, with the program on it */
		result = pass_all(about, path);
	result |= weir_undo_leaves(about, path, netns, NULL, NULL);
	if (about->shape.handle)
		result |= detach_shape(about, &dev, netns);
	return result ? result : weir_remove_pins(path);
}

/*
 * A veth's other end without its program: nothing that goes in is seen to come out. Not asked where a replacement was
 * cut short between the ends (see doubt), which `ensure` makes again in place.
 */
static bool far_is_off(const char *path, const struct weir_meta *about)
{
	struct weir_place peer = weir_place_of_peer(about);
	char name[IF_NAMESIZE], why[256];
	int back, found;
	bool off;

	if (!about->peer_ifindex || !about->build)
		return false;
	weir_error_into(why, sizeof(why));
	found = weir_reach(&peer, about->peer_netns, &back, name);
	weir_error_into(NULL, 0);
	if (found) /* where it is now nobody can tell from here */
		return false;
	off = !weir_hook_is_on_far(about, path, name);
	weir_netns_leave(back);
	return off;
}

const char *weir_off_reason(const char *path, const struct weir_meta *about, const char *netns)
{
	struct weir_place place = weir_place_of(about);
	char name[IF_NAMESIZE], why[256];
	int back, found;
	bool on;

	if (!about->complete)
		return "it was cut short";
	weir_error_into(why, sizeof(why));
	found = weir_reach(&place, netns, &back, name);
	weir_error_into(NULL, 0);
	if (found)
		return found > 0 ? "its interface is gone" : NULL;
	on = weir_hook_is_on(about, path, name);
	weir_netns_leave(back);
	if (!on)
		return "its program was taken off";
	if (far_is_off(path, about))
		return "the program at its other end was taken off";
	if (weir_attachment_lacks_map(path, about))
		return "the pin of one of its maps was removed";
	return NULL;
}

const char *weir_dead_reason(const char *path, const struct weir_meta *about, const char *netns)
{
	const char *why = weir_off_reason(path, about, netns);

	if (!why && about->signal == WEIR_SIGNAL_POLL && !weir_poll_lives_at(path, about))
		why = "its poll process is dead";
	return why;
}

/* One command attaches to both directions, packets that leave first. */
static bool lacks_ingress(const char *path, const struct weir_meta *about)
{
	struct weir_meta other;
	char beside[PATH_MAX];

	if (!about->both || weir_place_of(about).ingress)
		return false;
	snprintf(beside, sizeof(beside), "%s-ingress", path);
	return !weir_meta_read(beside, &other) || !other.complete;
}

static int clear(const char *path, const struct weir_meta *about, const char *dev, const char *netns)
{
	const char *why = weir_dead_reason(path, about, netns);

	if (!why && lacks_ingress(path, about))
		why = "it was cut short";
	if (!why)
		return 0;
	if (weir_undo(about, path, netns))
		return -1;
	weir_note("removed what was left of an earlier attach to %s: %s", dev, why);
	return 0;
}

struct sweep {
	const struct weir_place *place;
	const char *pins, *netns;
};

static int clear_namesake(const char *path, void *context)
{
	const struct sweep *s = context;
	struct weir_locks locks;
	struct weir_place place;
	struct weir_meta about;
	int result;

	if (!weir_meta_read(path, &about))
		return 0;
	place = weir_place_of(&about);
	if (!weir_place_same_netns(&place, s->place) || place.ifindex == s->place->ifindex ||
	    strcmp(place.name, s->place->name))
		return 0;
	result = weir_locks_take(&locks, s->pins, &place, s->netns, NULL, "", 0);
	if (result) /* somebody is at work on it, and will clear it */
		return result < 0 ? -1 : 0;
	result = weir_meta_read(path, &about) ? clear(path, &about, place.name, s->netns) : 0;
	weir_locks_drop(&locks);
	return result;
}

int weir_clear_leftovers(const char *pins, const struct weir_place *place, const char *netns)
{
	struct sweep sweep = {.place = place, .pins = pins, .netns = netns};
	struct weir_meta about;
	char path[PATH_MAX];

	if (weir_place_path(pins, place, path))
		return -1;
	if (access(pins, R_OK | X_OK)) /* not there yet; or not ours, which making a folder in it will say */
		return 0;
	if (!access(path, F_OK)) {
		if (weir_meta_is_foreign(path))
			return weir_foreign_error(place->name);
		weir_meta_read(path, &about); /* if there is none it was cut short before anything was attached */
		if (clear(path, &about, place->name, netns))
			return -1;
	}
	return weir_place_each(pins, clear_namesake, &sweep);
}

/* Removes an attachment that is at no hook any more: its process and its pins. */
static int retire(const char *path)
{
	struct weir_meta about;

	if (weir_meta_read(path, &about))
		weir_poll_end(&about);
	return weir_remove_pins(path);
}

int weir_promote(const char *path)
{
	char next[PATH_MAX], old[PATH_MAX];

	weir_place_beside(path, WEIR_NEXT, next);
	weir_place_beside(path, WEIR_OLD, old);
	if (!access(old, F_OK) && retire(old))
		return -1;
	if ((rename(path, old) && errno != ENOENT) || rename(next, path))
		return weir_error("%s: can't be renamed: %s", path, weir_reason(errno));
	return retire(old);
}

/* Where one end of a veth may have the program of one attachment and the other end that of another. */
static int doubt(const char *path)
{
	struct weir_meta about;

	if (!weir_meta_read(path, &about) || !about.peer_ifindex)
		return 0;
	about.build = 0; /* no program has it: `ensure` replaces both */
	return weir_meta_store(path, &about);
}

static int finish(const char *path, const struct weir_place *place, const char *netns)
{
	char next[PATH_MAX], old[PATH_MAX], name[IF_NAMESIZE];
	struct weir_meta about;
	bool on = false;
	int back;

	weir_place_beside(path, WEIR_NEXT, next);
	weir_place_beside(path, WEIR_OLD, old);
	if (!access(next, F_OK)) {
		if (weir_meta_read(next, &about) && !weir_reach(place, netns, &back, name)) {
			on = weir_hook_is_on(&about, next, name);
			weir_netns_leave(back);
		}
		if (on) { /* all but the last note of it was written */
			about.complete = 1;
			weir_meta_store(next, &about);
		}
		if ((on ? weir_promote(path) : retire(next)) || doubt(path))
			return -1;
	}
	return access(old, F_OK) ? 0 : retire(old);
}

bool weir_replacement_is_open(const char *pins, const struct weir_place *place)
{
	char path[PATH_MAX], next[PATH_MAX], old[PATH_MAX];

	if (weir_place_path(pins, place, path))
		return false;
	weir_place_beside(path, WEIR_NEXT, next);
	weir_place_beside(path, WEIR_OLD, old);
	return !access(next, F_OK) || !access(old, F_OK);
}

/* Of interfaces of this namespace that were removed nobody will ask again. */
static int sweep_gone(const char *pins, const struct weir_place *place, const char *netns)
{
	DIR *folder = opendir(pins);
	struct dirent *entry;
	int result = 0, back;

	if (!folder)
		return weir_error("%s: %s", pins, weir_pin_reason(errno));
	if (weir_netns_enter(netns, &back)) {
		closedir(folder);
		return -1;
	}
	while ((entry = readdir(folder))) {
		const char *numbers = strchr(entry->d_name, '-');
		unsigned long long netns_id;
		char path[PATH_MAX], name[IF_NAMESIZE];
		unsigned int ifindex;

		if (*entry->d_name != *WEIR_NEXT && *entry->d_name != *WEIR_OLD)
			continue;
		if (!numbers || sscanf(numbers + 1, "%llu-%u", &netns_id, &ifindex) != 2 ||
		    netns_id != (place->netns_cookie ? place->netns_cookie : place->netns_inum) ||
		    if_indextoname(ifindex, name))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", pins, entry->d_name) < PATH_MAX - 64)
			result |= retire(path);
	}
	weir_netns_leave(back);
	closedir(folder);
	return result;
}

int weir_finish_replacement(const char *pins, const struct weir_place *place, const char *netns)
{
	char path[PATH_MAX];

	if (access(pins, R_OK | X_OK)) /* see weir_clear_leftovers */
		return 0;
	return weir_place_path(pins, place, path) || finish(path, place, netns) || sweep_gone(pins, place, netns) ? -1
														  : 0;
}
