/* SPDX-License-Identifier: Apache-2.0 */
#include "undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "attachment.h"
#include "error.h"
#include "hooks.h"
#include "lock.h"
#include "net.h"

#define POLL_END_MS 2000
#define SET_WAIT_MS 5000

void weir_end_poll(const struct weir_meta *about)
{
	int pidfd, tries;

	if (!about->poll_pid || weir_process_start(about->poll_pid) != about->poll_start_ticks)
		return;
	pidfd = (int)syscall(SYS_pidfd_open, about->poll_pid, 0);
	/* asked again: between the two looks the number could have gone to another process, from here on it can't */
	for (tries = 0; pidfd >= 0 && tries < 2 && weir_process_start(about->poll_pid) == about->poll_start_ticks;
	     tries++) {
		struct pollfd gone = {.fd = pidfd, .events = POLLIN};

		syscall(SYS_pidfd_send_signal, pidfd, tries ? SIGKILL : SIGTERM, NULL, 0);
		poll(&gone, 1, POLL_END_MS);
	}
	if (pidfd >= 0)
		close(pidfd);
}

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
	/* what we know of it goes last, so that one who is killed here leaves it to the next */
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

/* Takes a filter off, and clsact if it is the one we made: not that of another device which got the number. */
static int off_clsact(const struct weir_side *side, __u32 prog_id, bool made_clsact, const char *dev, const char *path)
{
	bool ours = !strcmp(side->name, dev) || weir_is_at_clsact(side, prog_id);

	return weir_off_clsact(side, prog_id, made_clsact && ours, path);
}

/* Pins stay while anything else does, so that it can be tried again. */
int weir_undo(const struct weir_meta *about, const char *path, const char *netns)
{
	struct weir_place dev = weir_place_of(about);
	struct weir_place peer = {
		.netns_cookie = about->peer_netns_cookie,
		.netns_inum = about->peer_netns_inum,
		.ifindex = about->peer_ifindex,
	};
	char name[IF_NAMESIZE];
	int result = 0, back = -1, found = 0;

	snprintf(peer.name, sizeof(peer.name), "%s", about->peer);
	weir_end_poll(about);
	/* a link needs no interface to be found, and what was cut short may have one pinned that `about` does not know
	 */
	result = weir_off_tcx(about->dev, path, BPF_TC_EGRESS) | weir_off_tcx(about->peer, path, BPF_TC_INGRESS);
	if (about->prog_id || about->made_clsact || about->peer_prog_id || about->peer_made_clsact || about->owner) {
		found = weir_reach(&dev, netns, &back, name);
		if (found < 0)
			return -1;
	}
	if (!found && (about->prog_id || about->made_clsact || about->owner)) {
		struct weir_side egress = {name, (int)about->ifindex, BPF_TC_EGRESS};

		if (about->hook == WEIR_HOOK_XDP)
			result |= weir_off_xdp(name, about, path);
		else
			result |= off_clsact(&egress, about->prog_id, about->made_clsact, about->dev, path);
	}
	if (!found)
		weir_netns_leave(back);
	/* a veth's ends go together: without this one the peer is gone too */
	if (!found && (about->peer_prog_id || about->peer_made_clsact)) {
		found = weir_reach(&peer, about->peer_netns, &back, name);
		if (found < 0)
			return -1;
		if (!found) {
			struct weir_side ingress = {name, (int)about->peer_ifindex, BPF_TC_INGRESS};

			result |= off_clsact(&ingress, about->peer_prog_id, about->peer_made_clsact, about->peer, path);
			weir_netns_leave(back);
		}
	}
	return result ? result : weir_remove_pins(path);
}

const char *weir_dead_reason(const char *path, const struct weir_meta *about, const char *netns)
{
	struct weir_place place = weir_place_of(about);
	char pin[PATH_MAX + 32], name[IF_NAMESIZE], why[256];
	int back, found, link;
	bool on;

	if (!about->complete)
		return "it was cut short";
	weir_error_into(why, sizeof(why));
	found = weir_reach(&place, netns, &back, name);
	weir_error_into(NULL, 0);
	if (found)
		return found > 0 ? "its interface is gone" : NULL;
	weir_link_pin(pin, sizeof(pin), path, BPF_TC_EGRESS);
	link = about->hook == WEIR_HOOK_TCX ? bpf_obj_get(pin) : -1;
	on = weir_program_is_on(about, link, name);
	if (link >= 0)
		close(link);
	weir_netns_leave(back);
	if (!on)
		return "its program was taken off";
	if (about->signal == WEIR_SIGNAL_POLL && !weir_poll_lives_at(path, about))
		return "its poll process is dead";
	return NULL;
}

static int clear(const char *path, const struct weir_meta *about, const char *dev, const char *netns)
{
	const char *why = weir_dead_reason(path, about, netns);

	if (!why)
		return 0;
	if (weir_undo(about, path, netns))
		return -1;
	weir_note("removed what was left of an earlier attach to %s: %s", dev, why);
	return 0;
}

struct sweep {
	const struct weir_place *place;
	const char *netns;
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
	result = weir_locks_take(&locks, &place, s->netns, NULL, "", 0);
	if (result) /* somebody is at work on it, and will clear it */
		return result < 0 ? -1 : 0;
	result = weir_meta_read(path, &about) ? clear(path, &about, place.name, s->netns) : 0;
	weir_locks_drop(&locks);
	return result;
}

int weir_clear_leftovers(const char *pins, const struct weir_place *place, const char *netns)
{
	struct sweep sweep = {.place = place, .netns = netns};
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
