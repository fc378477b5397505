/* SPDX-License-Identifier: Apache-2.0 */
/* A netlink message about traffic control, put together attribute by attribute. */
#ifndef WEIR_QUESTION_H
#define WEIR_QUESTION_H

#include <stddef.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/types.h>

/* Large enough for a size table (net/framing.h). */
struct weir_question {
	struct nlmsghdr head;
	struct tcmsg tc;
	char attributes[8192];
};

/* type: RTM_NEWQDISC, ...; flags beside those of each request. */
void weir_question_begin(struct weir_question *q, __u16 type, __u16 flags, int ifindex, __u32 parent, __u32 handle);
void weir_question_put(struct weir_question *q, unsigned short type, const void *data, size_t size);
void weir_question_put_kind(struct weir_question *q, const char *kind);
/* An attribute that holds the following ones, until it is closed. */
struct rtattr *weir_question_nest(struct weir_question *q, unsigned short type);
void weir_question_close(struct weir_question *q, struct rtattr *nest);

#endif /* WEIR_QUESTION_H */
