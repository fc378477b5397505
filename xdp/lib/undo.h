/* SPDX-License-Identifier: Apache-2.0 */
/* Taking an attachment away, whole or what is left of one. */
#ifndef WEIR_UNDO_H
#define WEIR_UNDO_H

#include "pins/place.h"

/*
 * Enters the namespace an interface was attached in and says what it is called now. Returns 0 there (leave with *back),
 * 1 if the interface was removed, -1 after one line if that can't be determined.
 */
int weir_reach(const struct weir_place *place, const char *netns, int *back, char *name);

/* Takes away everything `about` says there is; netns: where the interface is. 0, or -1 after one line. */
int weir_undo(const struct weir_meta *about, const char *path, const char *netns);
int weir_remove_pins(const char *path);
/* Restores AQMs that attach disabled; wanted: of these classes, NULL: all. 0, or -1 after one line. */
int weir_undo_leaves(const struct weir_meta *about, const char *path, const char *netns,
		     bool (*wanted)(__u32 class, const void *context), const void *context);

/*
 * Why what is pinned there works no more and never will again ("its interface is gone"), or NULL if it is alive or
 * that can't be determined. The caller holds the interface's lock, so no attach is under way.
 */
const char *weir_dead_reason(const char *path, const struct weir_meta *about, const char *netns);
/* The same without its poll process, which can be started again. */
const char *weir_off_reason(const char *path, const struct weir_meta *about, const char *netns);

/*
 * Takes away what is dead of earlier attachments to this interface and to others of its name in its namespace, and says
 * so in one line each. The caller holds the lock of the interface. 0, or -1 after one line.
 */
int weir_clear_leftovers(const char *pins, const struct weir_place *place, const char *netns);

/*
 * Puts an attachment, whose pins are in NEXT and whose program is at its hook, in the place of the one at path, and
 * takes the pins of that away. 0, or -1 after one line.
 */
int weir_promote(const char *path);

/*
 * Ends what a replacement that was cut short has begun, forward where the new program is at its hook, else backward;
 * the law was on all the time. Also takes away what is left of those whose interface is gone. The caller holds the lock
 * of the interface. 0, or -1 after one line.
 */
int weir_finish_replacement(const char *pins, const struct weir_place *place, const char *netns);
/* Whether there is one to end. */
bool weir_replacement_is_open(const char *pins, const struct weir_place *place);

#endif /* WEIR_UNDO_H */
