/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "pins/lock.h"
#include "pins/place.h"
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

	locks->fd[0] = locks->fd[1] = -1;
	if (weir_meta_read(path, &about)) {
		place = weir_place_of(&about);
	} else { /* at work, or cut short before it wrote down anything: the name of the folder says where */
		weir_place_look(r->dev, r->netns, &place);
		if (sscanf(strrchr(path, '/') + 1, "%llu-%u", &netns_id, &place.ifindex) != 2 ||
		    netns_id != (place.netns_cookie ? place.netns_cookie : place.netns_inum))
			return 0;
		snprintf(place.name, sizeof(place.name), "%.*s", IF_NAMESIZE - 1, r->dev);
	}
	netns = *r->netns ? r->netns : about.netns;
	if (!can_reach(&place, netns))
		return 0;
	peer = weir_place_of_peer(&about);
	return weir_locks_take(locks, &place, netns, peer.ifindex && can_reach(&peer, about.peer_netns) ? &peer : NULL,
			       about.peer_netns, WEIR_LOCK_WAIT_MS);
}

/* An `ensure` that was killed as it replaced what is attached: first that has to come to its end. */
static int finish_replacement(const struct request *r)
{
	struct weir_locks locks;
	struct weir_place place;
	int result;

	if (r->pins_only || weir_place_look(r->dev, r->netns, &place) || !weir_replacement_is_open(r->pins, &place))
		return 0;
	if (weir_locks_take(&locks, &place, r->netns, NULL, "", WEIR_LOCK_WAIT_MS))
		return -1;
	result = weir_finish_replacement(r->pins, &place, r->netns);
	weir_locks_drop(&locks);
	return result;
}

int command_detach(const struct request *r)
{
	struct weir_locks locks;
	struct weir_meta about;
	char path[PATH_MAX], name[PATH_MAX + 32];
	int meta, result;

	if (access(r->pins, X_OK) && errno == EACCES)
		return weir_error("can't look at %s: %s", r->pins, weir_reason(errno)), 1;
	if (finish_replacement(r) || weir_place_find(r->pins, r->dev, r->netns, path))
		return 1;
	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0 && errno != ENOENT)
		return weir_error("%s: %s", name, weir_reason(errno)), 1;
	if (meta >= 0)
		close(meta);
	if (!r->pins_only && weir_meta_is_foreign(path))
		return weir_foreign_error(r->dev), 1;
	if (r->pins_only) {
		weir_meta_read(path, &about);
		weir_poll_end(&about);
		result = weir_remove_pins(path);
	} else {
		if (lock_pinned(r, path, &locks))
			return 1;
		weir_meta_read(path, &about); /* not before: whoever had the lock may have changed everything */
		if (access(path, F_OK))
			result = weir_error("nothing is attached to %s any more: it was detached just now", r->dev);
		else
			result = weir_undo(&about, path, *r->netns ? r->netns : about.netns);
		weir_locks_drop(&locks);
	}
	rmdir(r->pins);
	return result ? 1 : 0;
}
