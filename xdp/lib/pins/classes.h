/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of an attachment that have a law: its table, pinned as the map `class`, and the keys of packets.
 */
#ifndef WEIR_PINS_CLASSES_H
#define WEIR_PINS_CLASSES_H

#include <stdbool.h>
#include <stddef.h>

#include "pins/attachment.h"

#define WEIR_CLASS_LEN 12 /* "ffff:ffff" */

/* A class as tc writes it: 1:10, in hexadecimal; 1: is 0x10000. Moves *text behind it. False if it is none. */
bool weir_class_parse(char **text, __u32 *handle);
/* "1:10" */
void weir_class_name(char *name, size_t size, __u32 handle);

/* DEV/MAJOR:MINOR: cuts the class off and returns it as text; NULL: there is none. No name of a DEV has a slash. */
char *weir_class_split(char *dev);

/* Functions return 0, or -1 after one line, unless they say otherwise. */

/* Sets a->slot to that of a class that has a law, and reads its entry; an error if it has none, or the law is the whole
 * interface's. */
int weir_class_find(struct weir_attachment *a, __u32 handle, struct weir_class *class);

/* Calls for each class with a law, a->slot being its slot, until one returns other than 0. In the order of slots. */
typedef int weir_law_each_f(struct weir_attachment *a, const struct weir_class *class, void *context);
int weir_law_each(struct weir_attachment *a, weir_law_each_f *each, void *context);

/* Maps needed to change the table; the caller holds the lock of the interface. */
struct weir_class_maps {
	int class, tells, telling, minors;
	__u32 slots;
};
int weir_class_maps_open(struct weir_class_maps *m, const struct weir_attachment *a);
void weir_class_maps_close(struct weir_class_maps *m);

/*
 * Puts a class into its slot in two steps, between which its queue and its configuration are written: half, then ready.
 * From the second on packets meet its law. others: so do those without a key.
 */
int weir_class_begin(const struct weir_class_maps *m, __u32 slot, const struct weir_class *class);
int weir_class_finish(const struct weir_class_maps *m, __u32 slot, const struct weir_class *class, bool others);

/* The slot of a class that has a law, and its entry; WEIR_SLOT_NONE: it has none. */
int weir_class_look(const struct weir_class_maps *m, __u32 handle, __u32 *slot, struct weir_class *class);
/* The entry of a slot. */
int weir_class_entry(const struct weir_class_maps *m, __u32 slot, struct weir_class *class);

/* Keys in use for packets, and the slot that a mark leads to; WEIR_SLOT_NONE: to none. */
int weir_telling_read(const struct weir_class_maps *m, struct weir_telling *telling);
int weir_class_mark_slot(const struct weir_class_maps *m, __u32 mark, __u32 *slot);
/* Of a class with a law: packets with this mark are of it from now on, and of no other; none with another one is. */
int weir_class_set_mark(const struct weir_class_maps *m, __u32 slot, __u32 mark, __u32 mask);
/* Packets without a key are of it. */
int weir_class_set_others(const struct weir_class_maps *m, __u32 slot);
/* From now on the daemon keeps its law. */
int weir_class_keep(const struct weir_class_maps *m, __u32 slot);

/* Takes the law of a class away, whole or what is left of one that was cut short. */
int weir_class_remove(const struct weir_class_maps *m, __u32 slot);
/* All of them that were cut short. */
int weir_class_sweep(const struct weir_class_maps *m);

/* The number of changes to the table, and one more. */
int weir_class_serial(const struct weir_class_maps *m, __u64 *serial);
int weir_class_changed(const struct weir_class_maps *m);

#endif /* WEIR_PINS_CLASSES_H */
