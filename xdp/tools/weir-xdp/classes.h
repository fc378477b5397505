/* SPDX-License-Identifier: Apache-2.0 */
/* Laws of classes: which ones a request means, and putting them into the maps of an attachment. */
#ifndef WEIR_XDP_CLASSES_H
#define WEIR_XDP_CLASSES_H

#include <net/if.h>

#include "pins/classes.h"
#include "weir-xdp/request.h"

/* Name of a request's interface and class: eth0/1:10, eth0/1:, or eth0 where there is not one class. */
#define CLASSES_NAME_LEN (IF_NAMESIZE + 1 + WEIR_CLASS_LEN)
void classes_name(const char *dev, __u32 handle, char name[CLASSES_NAME_LEN]);

struct class_list {
	struct weir_class *list;
	__u32 *slot; /* of each */
	__u32 count;
	__u32 there;  /* so many classes that packets wait in are under the interface */
	__u32 queues; /* where they are queues of mq: how many packets are spread over; 0: they are classes of htb */
};

/* Functions return 0, or -1 after one line. */

/* Whether the options go together. */
int classes_check(const struct request *r);
/* Whether those about marks do, with classes of htb or with queues of mq. */
int classes_check_marks(const struct request *r, bool queues);

/*
 * The classes that are asked for, as they are under the interface; an error if one is not there, or a law can't go by
 * it. there: the attachment that has laws already, NULL none: of those that have one all of `1:` are left out, and to
 * ask for one by its number is an error. netlink: in the interface's namespace.
 */
int classes_resolve(const struct request *r, int netlink, int ifindex, struct weir_attachment *there,
		    struct class_list *list);
void classes_free(struct class_list *list);

/* Number of slots of an attachment: twice the classes there are, so that others can come. */
__u32 classes_room(__u32 there);

/* Free slots for all of the list, in an attachment that has laws already. */
int classes_find_room(const struct weir_class_maps *m, const char *dev, struct class_list *list);

/* The maps of an attachment that a law's state is in; path: of the pins. */
struct class_store {
	struct weir_class_maps maps;
	int config, queue, counters;
	const char *path;
};

/*
 * Puts all of the list into its slots, with the same configuration and the first state of `queue`. Killed in between,
 * it leaves those that are not finished to weir_class_sweep.
 */
int classes_put(const struct class_store *store, const struct request *r, struct class_list *list,
		const struct weir_config *config, const struct weir_queue *queue);
/* The same of one class, in its steps: what another class has left in its slot goes. */
int classes_clear_slot(const struct class_store *store, __u32 slot, const struct weir_queue *queue);

/*
 * Makes the marks that a request has for its one class lead to a slot that has a law, and the other packets (--others),
 * unless it only looks; *differs: they did not. A mark of another class is an error, but not if the daemon asks: its
 * configuration has the marks of all its classes.
 */
int classes_tell(const struct weir_class_maps *maps, const struct request *r, __u32 slot, bool *differs);

/* The same of the number of queues of mq that packets are spread over; 0: there is no mq. */
int classes_tell_queues(const struct weir_class_maps *maps, __u32 queues, bool look, bool *differs);

/* Slots that get new configurations, those with the same one at once. */
struct class_run {
	struct weir_config config;
	__u32 *slot, count, room;
};
/* Of the slot of an attachment. */
int class_run_add(struct class_run *run, const struct weir_attachment *a, const struct weir_config *config);
/* Additions that are not in place yet. */
int class_run_put(struct class_run *run, const struct weir_attachment *a);

#endif /* WEIR_XDP_CLASSES_H */
