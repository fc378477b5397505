/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces, interfaces and queue disciplines, by netlink. */
#ifndef WEIR_NET_H
#define WEIR_NET_H

#include <stdbool.h>
#include <linux/netlink.h>
#include <linux/types.h>

/* Enters the namespace a path names ("": stays). 0 with the way back in *back, or -1 with a message. */
int weir_netns_enter(const char *path, int *back);
void weir_netns_leave(int back);

/* Number of the namespace we are in, the inode of /proc/self/ns/net. */
__u32 weir_netns_inum(void);

/* Hardware type (ARPHRD_*) of an interface, or -errno. */
int weir_link_type(const char *dev);

/* Some kernels' name for the lack of a root qdisc, where others don't answer. */
#define WEIR_NO_QDISC "noqueue"

struct weir_qdisc {
	char kind[16];	     /* "" if the interface has none that counts (noqueue) */
	__u32 handle;	     /* 0x10000 is what tc calls 1: */
	__u64 sent_bytes;    /* since its start */
	__u32 backlog_bytes; /* now, with all below it */
	__u32 backlog_packets;
	__u64 drops;
};

/* From TCA_STATS2, of a qdisc or a class: what was sent, what waits, what was dropped. */
struct rtattr;
void weir_stats_read(const struct rtattr *stats, struct weir_qdisc *qdisc);

/* A netlink route socket, or -errno. */
int weir_netlink_open(void);

typedef void weir_answer_f(const struct nlmsghdr *message, void *context);

/*
 * Sends our message and hands each one of the answer on, until that ends (a dump) or is acknowledged (NLM_F_ACK).
 * answer: NULL where there is none. 0 or -errno.
 */
int weir_netlink_talk(int netlink, struct nlmsghdr *question, weir_answer_f *answer, void *context);

/*
 * Asks about traffic control (type RTM_GETQDISC, ...) and hands each message of the answer on. parent or handle may be
 * 0. 0 or -errno.
 */
int weir_netlink_ask(int netlink, __u16 type, __u16 flags, int ifindex, __u32 parent, __u32 handle,
		     weir_answer_f *answer, void *context);

/* The root queue discipline of an interface. 0 or -errno. */
int weir_qdisc_read(int netlink, int ifindex, struct weir_qdisc *qdisc);

/* The qdisc that filters before and behind the queue hang on. `ingress` takes the place of clsact, but all its filters
 * run on received packets: it has one block, whatever class a filter names. */
enum weir_filter_qdisc { WEIR_FILTER_QDISC_NONE, WEIR_FILTER_QDISC_CLSACT, WEIR_FILTER_QDISC_INGRESS };

/* Kind of the one that the interface has, or -errno. */
int weir_filter_qdisc_read(int netlink, int ifindex);
/* The same with a socket of its own. */
int weir_filter_qdisc_of(int ifindex);
/* The line that rejects `ingress` where a filter at egress is asked for, with the remedy; returns -1. */
int weir_ingress_qdisc_error(const char *dev, const char *other_remedy);

/* Number of filters on the interface's clsact, both sides, or -errno. */
int weir_clsact_filters(int netlink, int ifindex);

#endif /* WEIR_NET_H */
