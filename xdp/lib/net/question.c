/* SPDX-License-Identifier: Apache-2.0 */
#include "net/question.h"

#include <string.h>
#include <sys/socket.h>

void weir_question_begin(struct weir_question *q, __u16 type, __u16 flags, int ifindex, __u32 parent, __u32 handle)
{
	q->head = (struct nlmsghdr){.nlmsg_len = NLMSG_LENGTH(sizeof(q->tc)),
				    .nlmsg_type = type,
				    .nlmsg_flags = (__u16)(NLM_F_REQUEST | NLM_F_ACK | flags)};
	q->tc = (struct tcmsg){
		.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex, .tcm_parent = parent, .tcm_handle = handle};
}

/* Where the next attribute begins. */
static struct rtattr *end_of(struct weir_question *q)
{
	return (struct rtattr *)((char *)q + NLMSG_ALIGN(q->head.nlmsg_len));
}

void weir_question_put(struct weir_question *q, unsigned short type, const void *data, size_t size)
{
	struct rtattr *a = end_of(q);

	memset(a, 0, RTA_SPACE(size));
	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(a), data, size);
	q->head.nlmsg_len = (__u32)(NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

void weir_question_put_kind(struct weir_question *q, const char *kind)
{
	weir_question_put(q, TCA_KIND, kind, strlen(kind) + 1);
}

struct rtattr *weir_question_nest(struct weir_question *q, unsigned short type)
{
	struct rtattr *nest = end_of(q);

	weir_question_put(q, type, NULL, 0);
	return nest;
}

void weir_question_close(struct weir_question *q, struct rtattr *nest)
{
	nest->rta_len = (unsigned short)((char *)end_of(q) - (char *)nest);
}
