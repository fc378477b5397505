/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One change at a time: who attaches to an interface or detaches from it holds its lock. It is an abstract UNIX socket
 * of the interface's own network namespace: it needs no folder that can be written, and ends with its holder, whatever
 * kills that.
 */
#ifndef WEIR_LOCK_H
#define WEIR_LOCK_H

#include "pins/place.h"

/* Waits so long for another's change to end before it gives up and says whose it is. */
#define WEIR_LOCK_WAIT_MS 30000

struct weir_locks {
	int fd[2]; /* -1: not held */
};

/*
 * Locks an interface, and its peer unless that is NULL, waiting at most wait_ms for each; netns: paths of their
 * namespaces. 0, or -1 after one line. wait_ms 0: 1 and no line where somebody else holds it.
 */
int weir_locks_take(struct weir_locks *locks, const struct weir_place *dev, const char *netns,
		    const struct weir_place *peer, const char *peer_netns, int wait_ms);
void weir_locks_drop(struct weir_locks *locks);

#endif /* WEIR_LOCK_H */
