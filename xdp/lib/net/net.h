/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces, interfaces and queue disciplines, by netlink. */
#ifndef WEIR_NET_H
#define WEIR_NET_H

#include <stdbool.h>
#include <stddef.h>
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

/* A qdisc or a class. */
struct weir_qdisc {
	char kind[16]; /* "htb"; "" if the interface has no root that counts (noqueue) */
	__u32 handle;  /* 0x10000 is what tc calls 1:, 0x1000a the class 1:a */
	__u32 parent;  /* a class or a qdisc */
	__u32 leaf;    /* of a class: the qdisc in it; 0 if that is the kernel's own (a fifo that tc does not show) */
	__u32 prio;    /* of a class of htb: lower is served first; 0 for other kinds */
	__u64 ceil_bit_s;    /* of a class of htb: its limit; 0 for other kinds */
	__u64 sent_bytes;    /* since its start; of an inner class by all below it */
	__u32 backlog_bytes; /* now, of a qdisc with all below it; an inner class has none */
	__u32 backlog_packets;
	__u64 drops;
	bool framed; /* its bytes are those of a size table (stab) */
};

/* An attribute of a message about traffic control, or of those in another one; NULL: there is none. */
struct rtattr;
const struct rtattr *weir_tc_attribute(const struct nlmsghdr *message, unsigned short type);
const struct rtattr *weir_nested(const struct rtattr *outer, unsigned short type);
/* Its content; false, and nothing, if it is not there or shorter. */
bool weir_payload(const struct rtattr *a, void *to, size_t size);
/* Kind, numbers and counters from a message about a qdisc or a class. */
void weir_qdisc_parse(const struct nlmsghdr *message, struct weir_qdisc *qdisc);

/* A netlink route socket, or -errno. */
int weir_netlink_open(void);
/* The same after weir_netns_enter; -1 after one line, and out of the namespace. */
int weir_netlink_in(const char *netns, int *back);

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
