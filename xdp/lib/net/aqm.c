/* SPDX-License-Identifier: Apache-2.0 */
#include "net/aqm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "net/classes.h"
#include "net/net.h"
#include "net/question.h"

/* CoDel and PIE keep times in units of 1024 and of 64 ns. */
#define CODEL_UNIT_NS 1024
#define PIE_UNIT_NS 64
/* codel_time_t's largest value, by which the kernel knows that there is no threshold, in us. */
#define CODEL_NEVER_US 2199023255U

/* A time of a qdisc that begins its drops or marks. */
struct knob {
	unsigned short type; /* of the attribute; 0: none */
	__u32 unit_ns;	     /* 0: us are kept as they are */
	__u32 off_us;
};

static const struct row {
	const char *kind;
	struct knob knob[WEIR_AQM_VALUES];
	bool fixed;
} rows[] = {
	{"fq_codel",
	 {{TCA_FQ_CODEL_TARGET, CODEL_UNIT_NS, WEIR_AQM_CODEL_US},
	  {TCA_FQ_CODEL_CE_THRESHOLD, CODEL_UNIT_NS, CODEL_NEVER_US}},
	 false},
	{"codel",
	 {{TCA_CODEL_TARGET, CODEL_UNIT_NS, WEIR_AQM_CODEL_US},
	  {TCA_CODEL_CE_THRESHOLD, CODEL_UNIT_NS, CODEL_NEVER_US}},
	 false},
	{"fq_pie", {{TCA_FQ_PIE_TARGET, PIE_UNIT_NS, WEIR_AQM_PIE_US}}, false},
	{"pie", {{TCA_PIE_TARGET, PIE_UNIT_NS, WEIR_AQM_PIE_US}}, false},
	/* COBALT; its interval stays, because the kernel derives the limit of the queue from it */
	{"cake", {{TCA_CAKE_TARGET, 0, WEIR_AQM_CODEL_US}}, false},
	{"fq", {{TCA_FQ_CE_THRESHOLD, 0, ~0U}}, false},
	{"sfq", {{0}}, false},
	/* their tables, or state, are not reported and could not be restored */
	{"red", {{0}}, true},
	{"gred", {{0}}, true},
	{"sfb", {{0}}, true},
	{"choke", {{0}}, true},
	{"dualpi2", {{0}}, true},
};

static const struct row *row_of(const char *kind)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(kind, rows[i].kind))
			return &rows[i];
	return NULL;
}

/* sfq has an AQM only with RED's thresholds; the kernel has no change of a sfq. */
static void read_sfq(struct weir_aqm *aqm, const struct rtattr *options)
{
	struct tc_sfq_qopt_v1 sfq;

	if (weir_payload(options, &sfq, sizeof(sfq)) && sfq.qth_min)
		aqm->state = WEIR_AQM_FIXED;
}

static void read_knobs(struct weir_aqm *aqm, const struct row *row, const struct rtattr *options)
{
	for (int i = 0; i < WEIR_AQM_VALUES; i++) {
		const struct knob *k = &row->knob[i];

		aqm->off[i] = aqm->value[i] = k->off_us;
		/* a threshold that is not reported is off */
		if (k->type && weir_payload(weir_nested(options, k->type), &aqm->value[i], sizeof(aqm->value[i])) &&
		    aqm->value[i] < k->off_us)
			aqm->state = WEIR_AQM_ON;
	}
}

static void append(const struct nlmsghdr *message, void *context)
{
	const struct rtattr *options = weir_tc_attribute(message, TCA_OPTIONS);
	struct weir_aqm_list *aqms = context;
	struct weir_qdisc q;
	const struct row *row;
	struct weir_aqm *aqm;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return;
	weir_qdisc_parse(message, &q);
	row = row_of(q.kind);
	if (!row)
		return;
	aqm = realloc(aqms->list, (aqms->count + 1) * sizeof(*aqm));
	if (!aqm)
		return; /* as if there were none: its AQM stays as it is */
	aqms->list = aqm;
	aqm += aqms->count++;
	*aqm = (struct weir_aqm){.handle = q.handle, .parent = q.parent};
	memcpy(aqm->kind, q.kind, sizeof(aqm->kind));
	if (row->fixed)
		aqm->state = WEIR_AQM_FIXED;
	else if (!strcmp(row->kind, "sfq"))
		read_sfq(aqm, options);
	else
		read_knobs(aqm, row, options);
	if (aqm->state == WEIR_AQM_ON && !aqm->handle)
		aqm->state = WEIR_AQM_FIXED;
}

/* The qdisc in a class, or the root; handle 0: whatever its number. */
static int ask(int netlink, int ifindex, __u32 parent, __u32 handle, struct weir_aqm_list *aqms)
{
	/* ECHO: see weir_qdisc_read */
	int error =
		weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, parent, handle, append, aqms);

	/* removed or replaced since, or one that the kernel does not report */
	return error == -ENOENT || error == -EINVAL ? 0 : error;
}

int weir_aqm_read(int netlink, int ifindex, struct weir_aqm_list *aqms)
{
	struct weir_class_list classes = {0};
	int error;

	*aqms = (struct weir_aqm_list){0};
	error = ask(netlink, ifindex, TC_H_ROOT, 0, aqms);
	if (!error)
		error = weir_classes_read(netlink, ifindex, &classes);
	for (size_t i = 0; !error && i < classes.count; i++) {
		const struct weir_qdisc *c = &classes.list[i];
		bool unnumbered = !c->leaf && !strcmp(c->kind, "mq");

		/* flows of a qdisc are reported as classes, too */
		if (unnumbered || (c->leaf && !row_of(c->kind)))
			error = ask(netlink, ifindex, c->handle, unnumbered ? 0 : c->leaf, aqms);
	}
	free(classes.list);
	if (error) {
		free(aqms->list);
		*aqms = (struct weir_aqm_list){0};
	}
	return error;
}

int weir_aqm_look(int netlink, int ifindex, __u32 parent, __u32 handle, struct weir_aqm *aqm)
{
	struct weir_aqm_list one = {0};
	int error = ask(netlink, ifindex, parent, handle, &one);

	if (!error && one.count)
		*aqm = one.list[0];
	else if (!error)
		error = -ENOENT;
	free(one.list);
	return error;
}

static __u32 read_back_us(__u32 us, __u32 unit_ns)
{
	return unit_ns ? (__u32)((__u64)us * 1000 / unit_ns * unit_ns / 1000) : us;
}

/* The time to write so that the kernel, which rounds down, reports this one again. */
static __u32 written_us(__u32 us, __u32 unit_ns)
{
	return read_back_us(us, unit_ns) == us ? us : us + 1;
}

int weir_aqm_change(int netlink, int ifindex, const struct weir_aqm *now, const __u32 value[WEIR_AQM_VALUES])
{
	const struct row *row = row_of(now->kind);
	struct weir_question q;
	struct rtattr *nest;

	weir_question_begin(&q, RTM_NEWQDISC, 0, ifindex, now->parent, now->handle);
	weir_question_put_kind(&q, now->kind);
	nest = weir_question_nest(&q, TCA_OPTIONS | NLA_F_NESTED); /* fq_pie insists on the flag */
	for (int i = 0; i < WEIR_AQM_VALUES; i++) {
		const struct knob *k = &row->knob[i];
		/* rounded, CODEL_NEVER_US would be another value */
		__u32 us = value[i] == k->off_us ? value[i] : written_us(value[i], k->unit_ns);

		if (k->type && value[i] != now->value[i])
			weir_question_put(&q, k->type, &us, sizeof(us));
	}
	weir_question_close(&q, nest);
	return weir_netlink_talk(netlink, &q.head, NULL, NULL);
}

void weir_aqm_say(const char *kind, const __u32 value[WEIR_AQM_VALUES], const __u32 other[WEIR_AQM_VALUES], char *text,
		  size_t size)
{
	const struct row *row = row_of(kind);
	size_t length = 0;

	*text = 0;
	for (int i = 0; row && i < WEIR_AQM_VALUES; i++) {
		bool threshold = i > 0 || row->knob[i].type == TCA_FQ_CE_THRESHOLD;

		if (value[i] == other[i] || length >= size)
			continue;
		if (threshold && value[i] == row->knob[i].off_us)
			length += (size_t)snprintf(text + length, size - length, "%sce_threshold none",
						   length ? ", " : "");
		else
			length += (size_t)snprintf(text + length, size - length, "%s%s %u us", length ? ", " : "",
						   threshold ? "ce_threshold" : "target", value[i]);
	}
}
