/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of an attachment, one a queue: which ones a request means, and putting them into the maps. */
#ifndef WEIR_XDP_LAWS_H
#define WEIR_XDP_LAWS_H

#include "pins/slots.h"
#include "weir-xdp/request.h"

struct law {
	struct weir_class class; /* handle 0: of the interface; with laws of classes, of what no law has */
	struct weir_config config;
	__u32 slot;
	__u32 from;	      /* its slot in the attachment that it is carried over from */
	bool carried, others; /* others: packets that nothing else tells are of it */
};

struct laws {
	struct law *list;
	__u32 count;
	__u32 there;  /* so many classes that packets wait in are under the interface */
	__u32 queues; /* where they are queues of mq: how many packets are spread over; 0: they are classes of htb */
	bool carries; /* some are carried over, and with them: */
	struct weir_telling carried;
};

/* Functions return 0, or -1 after one line. */

/* Whether options about marks go with classes of htb, or with queues of mq. */
int laws_check_marks(const struct request *r, bool queues);

/*
 * The classes that are asked for, as they are under the interface; an error if one is not there, or a law can't go by
 * it. there: the attachment that has laws already, NULL none: of those that have one all of `1:` are left out, and to
 * ask for one by its number is an error. netlink: in the interface's namespace.
 */
int laws_resolve(const struct request *r, int netlink, int ifindex, struct weir_attachment *there, struct laws *laws);
void laws_free(struct laws *laws);
int laws_append(struct laws *laws, const struct law *law);
bool laws_have(const struct laws *laws, __u32 handle);

/*
 * Appends all laws of an attachment, to go on in another one. netlink, ifindex: those that the daemon keeps and whose
 * class is not there any more are left out.
 */
int laws_carry(struct laws *laws, struct weir_attachment *from, int netlink, int ifindex);

/* Number of slots of an attachment: twice the classes there are, so that others can come. */
__u32 laws_room(__u32 there);
/* Free slots for all of the list, in an attachment that has laws already. */
int laws_find_room(const struct weir_attachment *a, struct laws *laws);

/*
 * Puts all of the list into its slots, with the first state of a queue, or where the law stood in `from`; counters
 * begin anew. Killed in between, it leaves those that are not finished to weir_slots_sweep.
 */
int laws_put(struct weir_attachment *a, const struct request *r, struct laws *laws, const struct weir_queue *first,
	     const struct weir_attachment *from);

/*
 * Makes the marks that a request has for its one class lead to a slot that has a law, and the other packets (--others),
 * unless it only looks; *differs: they did not. A mark of another class is an error, but not if the daemon asks: its
 * configuration has the marks of all its classes.
 */
int laws_tell(const struct weir_attachment *a, const struct request *r, __u32 slot, bool *differs);

/* The same of the number of queues of mq that packets are spread over; 0: there is no mq. */
int laws_tell_queues(const struct weir_attachment *a, __u32 queues, bool look, bool *differs);

/* Slots that get new configurations, those with the same one at once. */
struct run {
	struct weir_config config;
	__u32 *slot, count, room;
};
/* Of the slot of an attachment. */
int run_add(struct run *run, const struct weir_attachment *a, const struct weir_config *config);
/* Additions that are not in place yet, if the result so far is 0, and the end of the run. */
int run_end(struct run *run, const struct weir_attachment *a, int result);

#endif /* WEIR_XDP_LAWS_H */
