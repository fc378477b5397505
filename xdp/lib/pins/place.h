/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an attachment is: an interface of a network namespace. Pins are kept by the two numbers that no other interface
 * has, not by the name, which another one may have too, at the same time or later. Users see names.
 */
#ifndef WEIR_PLACE_H
#define WEIR_PLACE_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "weir/maps.h"

/* Each direction of an interface can have a law of its own: packets that leave at tc, packets that arrive at XDP. */
enum weir_direction { WEIR_DIRECTION_ANY, WEIR_EGRESS, WEIR_INGRESS };

struct weir_place {
	__u64 netns_cookie; /* never given twice until the next boot; 0 before Linux 5.14 */
	__u64 netns_inum;   /* of /proc/PID/ns/net; given again once the namespace is gone */
	__u32 ifindex;
	char name[IF_NAMESIZE]; /* as the kernel has it now, whatever alternative name was asked for */
	bool ingress;		/* the law of packets that arrive */
};

/* Functions return 0, or -1 after one line on standard error, unless they say otherwise. */

/* Whether text can be an interface's name. If not, the line says why; `option` stands before it ("--peer ", ""). */
int weir_name_check(const char *option, const char *text);

/* DEV[@NETNS]: the path of a namespace begins with a slash, so an "@" in a name is no trouble. NULL: no NETNS. */
char *weir_netns_split(char *dev);

/* DEV/ingress, DEV/egress: cuts the direction off. WEIR_DIRECTION_ANY: there is none. No name of a DEV has a slash. */
#define WEIR_INGRESS_SUFFIX "/ingress"
#define WEIR_EGRESS_SUFFIX "/egress"
enum weir_direction weir_direction_split(char *dev);

/* The namespace we are in. */
void weir_place_here(struct weir_place *place);
bool weir_place_same_netns(const struct weir_place *a, const struct weir_place *b);
/* Place of an attachment by its meta map, and its other end (veth; ifindex 0: there is none). */
struct weir_place weir_place_of(const struct weir_meta *about);
struct weir_place weir_place_of_peer(const struct weir_meta *about);

/*
 * The interface `dev` of the namespace a path names ("": ours), and the direction after its name, egress if there is
 * none. 1, and no line, if there is none of that name.
 */
int weir_place_look(const char *dev, const char *netns, struct weir_place *place);

/*
 * The name that an attachment's interface has now: 1, with the name. 0: the interface was removed. -1: its namespace
 * can't be entered; netns: a further path to it, besides the one it was attached by. No line.
 */
int weir_place_name_now(const struct weir_meta *about, const char *netns, char *name);

/* The folder of its pins, which need not be there: COOKIE-IFINDEX at egress, COOKIE-IFINDEX-ingress at ingress. */
int weir_place_path(const char *pins, const struct weir_place *place, char *path);

/*
 * While one attachment takes the place of another the new one's pins are in the folder NEXT beside it, and the old
 * one's last in OLD. No list shows them. path: the folder of the attachment.
 */
#define WEIR_NEXT "next-"
#define WEIR_OLD "old-"
void weir_place_beside(const char *path, const char *which, char *beside);

/* Reads the pinned meta map of a folder. False if there is none, or it is another version's. */
bool weir_meta_read(const char *path, struct weir_meta *about);

/* The same of an open meta map; other than 0: it can't be read. */
int weir_meta_load(int meta, struct weir_meta *about);

/* Writes it there. */
int weir_meta_store(const char *path, const struct weir_meta *about);

/* Whether a map's values have this size; if not, another version of weir-xdp made it, and to read it would overrun. */
bool weir_map_fits(int map, size_t value_bytes);
/* Whether the pinned meta map of a folder is another version's. */
bool weir_meta_is_foreign(const char *path);
/* The line that says so and what to do; returns -1. */
int weir_foreign_error(const char *dev);

/*
 * Without a direction in `dev` the law at egress is meant; the one at ingress where that is the only one.
 *
 * The folder of the pins of what is attached to `dev`: an interface that has this name now, in the namespace (netns,
 * "": ours); else the leftovers of one that is gone and had this name there; else, with no namespace given, the only
 * one of that name anywhere; else the folder itself, by its name. WEIR_NOTHING, with a line, if nothing is attached.
 */
#define WEIR_NOTHING 2
int weir_place_find(const char *pins, const char *dev, const char *netns, char *path);

/* Calls with the path of every attachment's folder, in the order of their names, until one returns other than 0. */
typedef int weir_each_f(const char *path, void *context);
int weir_place_each(const char *pins, weir_each_f *each, void *context);

#endif /* WEIR_PLACE_H */
