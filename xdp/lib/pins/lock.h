/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One change at a time: a command that attaches to an interface or detaches from it holds the interface's lock. It is
 * an flock on a folder `lock-COOKIE-IFINDEX` beside the pins, where only their owner and root can make one. It ends
 * with its holder.
 */
#ifndef WEIR_LOCK_H
#define WEIR_LOCK_H

#include <sys/types.h>

#include "pins/place.h"

/* Waits so long for another's change to end before it gives up and reports its holder. */
#define WEIR_LOCK_WAIT_MS 30000

struct weir_lock {
	int fd; /* -1: not held */
	char path[PATH_MAX];
};

struct weir_locks {
	struct weir_lock one[2];
	pid_t taker; /* processes that it forks have the locks, too, but do not remove the folders */
};

#define WEIR_LOCKS_NONE ((struct weir_locks){.one = {{.fd = -1}, {.fd = -1}}})

/*
 * Locks an interface, and its peer unless that is NULL, waiting at most wait_ms for each; netns: paths of their
 * namespaces. Makes the folder `pins` if there is none. 0, or -1 after one line. wait_ms 0: 1 and no line where another
 * process holds it.
 */
int weir_locks_take(struct weir_locks *locks, const char *pins, const struct weir_place *dev, const char *netns,
		    const struct weir_place *peer, const char *peer_netns, int wait_ms);
void weir_locks_drop(struct weir_locks *locks);

/*
 * Waits while another process changes an attachment that is not whole; path: of its pins, dev: begins the line. 0, or
 * -1 after one line if that takes long.
 */
int weir_lock_await(const char *path, const char *dev);

/* The same for a folder `name` in any folder, which is made if there is none. about: begins the line. */
int weir_lock_take(struct weir_lock *lock, const char *parent, const char *name, const char *about, int wait_ms);
void weir_lock_drop(struct weir_lock *lock);
/* Whether it is held, and nobody has removed or replaced its folder. */
bool weir_lock_is_there(const struct weir_lock *lock);

/* Removes locks of processes that were killed, and the folder if it is empty and this user's. */
void weir_pins_tidy(const char *pins);

#endif /* WEIR_LOCK_H */
