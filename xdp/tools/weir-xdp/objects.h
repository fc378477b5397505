/* SPDX-License-Identifier: Apache-2.0 */
/* The maps and programs of an attachment: from an object of ours, or as another loader put them on the interface. */
#ifndef WEIR_XDP_OBJECTS_H
#define WEIR_XDP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

#include "hooks/qdisc.h"
#include "pins/attachment.h"

struct loaded {
	struct bpf_object *object; /* NULL: another loader's (adopt) */
	const void *bytes;	   /* its file */
	size_t size;
	bool flow_records, hosts;	 /* sizes of their maps: all, or one */
	bool advises;			 /* the program writes advice into SCONE packets */
	__u64 build;			 /* as struct weir_meta has it */
	char qdisc[WEIR_QDISC_KIND_LEN]; /* name of the qdisc in it, if it has one */
	struct weir_attachment a;	 /* its maps, and the folder of its pins once there is one */
};

/* Functions return 0, or -1 after one line, unless they say otherwise. */

/* Laws on the interface: one, two coupled bands or two bands of flows of one, or one for each of several classes. */
enum object_kind { OBJECT_ONE, OBJECT_COUPLED, OBJECT_BANDS, OBJECT_CLASSES };

/* Number that distinguishes that object's programs from those of another version. */
__u64 object_build(__u32 signal, __u32 hook, enum object_kind kind);
/*
 * Loads the object a signal needs; slots: the room for queues. 0 or -errno; says nothing,
 * because `auto` may have another one to try.
 */
int load_object(__u32 signal, __u32 hook, enum object_kind kind, __u32 slots, struct loaded *l);
/* Pins its maps but `meta`, and its programs. path: the folder. */
int pin_object(const struct loaded *l, const char *path);
/* Attaches the tracepoint that backlog's departures come from. Its link lives by its pin. */
int attach_departures(const struct loaded *l, const char *path);

/* Our program where another loader put it: its maps, as load_object() leaves them, and a meta map. */
int load_adopted(const char *dev, const char *netns, int ifindex, struct loaded *l);
int pin_adopted(const struct loaded *l, const char *path);

#endif /* WEIR_XDP_OBJECTS_H */
