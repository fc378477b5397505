/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_POLL_H
#define WEIR_POLL_H

#include <stdbool.h>

#include "pins/lock.h"
#include "weir/maps.h"

/*
 * Starts the poll process and waits for its first step; `about` then knows it, and so does the meta map. path: of the
 * pins. It drops the locks itself, once it is in the map. 0, or -1 after one line.
 */
int weir_poll_start(struct weir_meta *about, int meta, const char *path, const char *netns, struct weir_locks *locks);

/* Ends it, if it is still the one that `about` names. */
void weir_poll_end(const struct weir_meta *about);

/*
 * Whether the poll process lives. Its number says so only in the PID namespace it was started in, so what it writes
 * counts as well: one that has just died lives a little longer.
 */
bool weir_poll_lives(const struct weir_meta *about, const struct weir_config *config, __u64 silent_ns);
/* The same, looked up; false also where what is pinned can't be read. */
bool weir_poll_lives_at(const char *path, const struct weir_meta *about);

#endif /* WEIR_POLL_H */
