/* SPDX-License-Identifier: Apache-2.0 */
/* An attachment as user space sees it: its pinned maps, what they say, and changing its configuration. */
#ifndef WEIR_ATTACHMENT_H
#define WEIR_ATTACHMENT_H

#include <limits.h>
#include <stdbool.h>

#include "net/classes.h"
#include "weir/maps.h"

#define WEIR_PINS "/sys/fs/bpf/weir"

struct weir_attachment {
	char path[PATH_MAX];			  /* of the pins */
	__u64 folder_id;			  /* inode of that folder */
	int config, queue, counters, drain, meta; /* drain: -1 where there is none (XDP) */
	int class, minors, tells, telling;	  /* of classes; -1 where there is one law for the interface */
	__u32 slot;				  /* whose values are meant */
	const struct weir_class_list
		*classes; /* as they were just read, for many samples; NULL: each asks for its own */
	struct weir_meta about;
	__u32 config_id; /* of the inner map `cached` was read from; 0 none yet */
	struct weir_config cached;
};

#define WEIR_ATTACHMENT_NONE                                                                                           \
	((struct weir_attachment){.config = -1,                                                                        \
				  .queue = -1,                                                                         \
				  .counters = -1,                                                                      \
				  .drain = -1,                                                                         \
				  .meta = -1,                                                                          \
				  .class = -1,                                                                         \
				  .minors = -1,                                                                        \
				  .tells = -1,                                                                         \
				  .telling = -1})

/* Functions return 0, or -1 after one line on standard error. */

/*
 * Opens the pins of a folder (weir_place_find); dev: what they are called in messages. WEIR_INCOMPLETE, with a message
 * too: an attach is at work or was cut short.
 */
#define WEIR_INCOMPLETE 1
int weir_attachment_open(struct weir_attachment *a, const char *path, const char *dev);
/* Whether the pin of a map is missing that no command can do without. No line. */
bool weir_attachment_lacks_map(const char *path, const struct weir_meta *about);
/* Signal backlog: whether the link is missing that holds the program at the tracepoint of departures. No line. */
bool weir_attachment_lacks_departures(const char *path, const struct weir_meta *about);
/* Pins the configuration of the present slot where that pin is missing; dry: only counts it. 1 if it was. */
unsigned int weir_config_restore(const struct weir_attachment *a, const struct weir_config *config, bool dry);
/* Whether its folder is still there; one that was made to take another's place may have its name by now. */
bool weir_attachment_is_there(struct weir_attachment *a);
void weir_attachment_close(struct weir_attachment *a);

/* The folder of its pins locked until the descriptor is closed: no two changes of gains get between each other. -1: no.
 */
int weir_folder_lock(const char *path);

/* The configuration of the present slot, from the map itself only if that is another one than last time. */
int weir_config_read(struct weir_attachment *a, struct weir_config *config);
/*
 * Puts a whole new configuration in place, the same one in each of the slots; on return every packet sees it. path: of
 * the pins. For many slots at once, because the kernel waits for all packets under way each time.
 */
int weir_config_replace(int outer, const char *path, const __u32 *slots, __u32 count, const struct weir_config *config);

#endif /* WEIR_ATTACHMENT_H */
