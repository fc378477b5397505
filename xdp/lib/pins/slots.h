/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of an attachment. Each has a slot: its place in the maps. One law for the interface has slot 0 and no table;
 * with laws of classes slot 0 is of no class, and the table, pinned as the map `class`, has the others.
 */
#ifndef WEIR_PINS_SLOTS_H
#define WEIR_PINS_SLOTS_H

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

/* Functions return 0, or -1 after one line, unless they say otherwise. Changes take the lock of the interface. */

/* Calls for each queue that has a law, a->slot being its slot, until one returns other than 0. In the order of slots.
 * class->handle 0: the law is the interface's. */
typedef int weir_law_each_f(struct weir_attachment *a, const struct weir_class *class, void *context);
int weir_law_each(struct weir_attachment *a, weir_law_each_f *each, void *context);

/* Sets a->slot to that of a class that has a law, and reads its entry; an error if it has none, or the law is the whole
 * interface's. */
int weir_class_find(struct weir_attachment *a, __u32 handle, struct weir_class *class);
/* The slot of a class that has a law, and its entry; WEIR_SLOT_NONE: it has none. */
int weir_class_look(const struct weir_attachment *a, __u32 handle, __u32 *slot, struct weir_class *class);

/* The entry of a slot; nothing where there is no table. */
int weir_slot_read(const struct weir_attachment *a, __u32 slot, struct weir_class *class);
int weir_slot_write(const struct weir_attachment *a, __u32 slot, const struct weir_class *class, __u32 state);

/*
 * The second of the two steps that put a class into its slot. The first one writes it as half; between them its queue
 * and its configuration are written. From now on packets meet its law. others: so do those without a key.
 */
int weir_slot_finish(const struct weir_attachment *a, __u32 slot, const struct weir_class *class, bool others);
/* Takes the law of a class away, whole or what is left of one that was cut short. */
int weir_slot_remove(const struct weir_attachment *a, __u32 slot);
/* All of them that were cut short. */
int weir_slots_sweep(const struct weir_attachment *a);
/* Counts a change to the table, for those that have read it. */
int weir_slots_changed(const struct weir_attachment *a);

/* Keys in use for packets, and the slot that a mark leads to; WEIR_SLOT_NONE: to none. */
int weir_telling_read(const struct weir_attachment *a, struct weir_telling *telling);
int weir_telling_write(const struct weir_attachment *a, const struct weir_telling *telling);
int weir_mark_slot(const struct weir_attachment *a, __u32 mark, __u32 *slot);
/* Of a class with a law: packets with this mark are of it from now on, and of no other; none with another one is. */
int weir_slot_set_mark(const struct weir_attachment *a, __u32 slot, __u32 mark, __u32 mask);
/* Packets without a key are of it. */
int weir_slot_set_others(const struct weir_attachment *a, __u32 slot);

#endif /* WEIR_PINS_SLOTS_H */
