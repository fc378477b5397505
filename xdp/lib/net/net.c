/* SPDX-License-Identifier: Apache-2.0 */
#include "net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "error.h"

#define OWN_NETNS "/proc/self/ns/net"

int weir_netns_enter(const char *path, int *back)
{
	int other, error;

	*back = -1;
	if (!*path)
		return 0;
	*back = open(OWN_NETNS, O_RDONLY | O_CLOEXEC);
	if (*back < 0)
		return weir_error("%s: %s (is /proc mounted?)", OWN_NETNS, weir_reason(errno));
	other = open(path, O_RDONLY | O_CLOEXEC);
	if (other < 0) {
		error = errno;
	} else {
		error = setns(other, CLONE_NEWNET) ? errno : 0;
		close(other);
	}
	if (!error)
		return 0;
	close(*back);
	*back = -1;
	return weir_error("%s: can't enter this network namespace: %s", path,
			  error == EINVAL ? "it is not one" : weir_reason(error));
}

void weir_netns_leave(int back)
{
	if (back < 0)
		return;
	if (setns(back, CLONE_NEWNET)) { /* going on in the wrong namespace would touch another's interfaces */
		weir_error("can't go back to the first network namespace: %s", weir_reason(errno));
		exit(1);
	}
	close(back);
}

__u32 weir_netns_inum(void)
{
	struct stat st;

	return stat(OWN_NETNS, &st) ? 0 : (__u32)st.st_ino;
}

int weir_link_type(const char *dev)
{
	struct ifreq request = {0};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	if (sock < 0)
		sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	strncpy(request.ifr_name, dev, IFNAMSIZ - 1);
	result = ioctl(sock, SIOCGIFHWADDR, &request) ? -errno : request.ifr_hwaddr.sa_family;
	close(sock);
	return result;
}

int weir_netlink_open(void)
{
	struct timeval patience = {.tv_sec = 5};
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (sock < 0)
		return -errno;
	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience))) {
		int error = errno;

		close(sock);
		return -error;
	}
	return sock;
}

int weir_netlink_in(const char *netns, int *back)
{
	int netlink;

	if (weir_netns_enter(netns, back))
		return -1;
	netlink = weir_netlink_open();
	if (netlink >= 0)
		return netlink;
	weir_netns_leave(*back);
	return weir_error("no netlink socket: %s", weir_reason(netlink));
}

int weir_netlink_talk(int netlink, struct nlmsghdr *question, weir_answer_f *answer, void *context)
{
	static __u32 sequence;
	char buffer[32768] __attribute__((aligned(8)));

	question->nlmsg_seq = ++sequence;
	if (send(netlink, question, question->nlmsg_len, 0) < 0)
		return -errno;
	for (;;) {
		ssize_t got = recv(netlink, buffer, sizeof(buffer), 0);
		int len = (int)got;

		if (got < 0)
			return -errno;
		for (struct nlmsghdr *m = (struct nlmsghdr *)buffer; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len)) {
			if (m->nlmsg_seq != question->nlmsg_seq)
				continue;
			if (m->nlmsg_type == NLMSG_DONE)
				return 0;
			if (m->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(m))->error;
			if (answer)
				answer(m, context);
		}
	}
}

int weir_netlink_ask(int netlink, __u16 type, __u16 flags, int ifindex, __u32 parent, __u32 handle,
		     weir_answer_f *answer, void *context)
{
	struct {
		struct nlmsghdr head;
		struct tcmsg tc;
	} question = {
		.head = {.nlmsg_len = sizeof(question),
			 .nlmsg_type = type,
			 .nlmsg_flags = (__u16)(NLM_F_REQUEST | flags)},
		.tc = {.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex, .tcm_parent = parent, .tcm_handle = handle},
	};

	return weir_netlink_talk(netlink, &question.head, answer, context);
}

static const struct rtattr *find(const struct rtattr *a, int len, unsigned short type)
{
	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

const struct rtattr *weir_tc_attribute(const struct nlmsghdr *message, unsigned short type)
{
	const struct tcmsg *tc = NLMSG_DATA(message);

	return find(TCA_RTA(tc), (int)NLMSG_PAYLOAD(message, sizeof(*tc)), type);
}

const struct rtattr *weir_nested(const struct rtattr *outer, unsigned short type)
{
	return outer ? find(RTA_DATA(outer), (int)RTA_PAYLOAD(outer), type) : NULL;
}

bool weir_payload(const struct rtattr *a, void *to, size_t size)
{
	if (!a || RTA_PAYLOAD(a) < size)
		return false;
	memcpy(to, RTA_DATA(a), size);
	return true;
}

void weir_qdisc_parse(const struct nlmsghdr *message, struct weir_qdisc *qdisc)
{
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *kind = weir_tc_attribute(message, TCA_KIND);
	const struct rtattr *stats = weir_tc_attribute(message, TCA_STATS2);
	struct gnet_stats_queue queue;

	*qdisc = (struct weir_qdisc){.handle = tc->tcm_handle, .parent = tc->tcm_parent, .leaf = tc->tcm_info};
	qdisc->framed = weir_tc_attribute(message, TCA_STAB) != NULL;
	if (kind)
		strncpy(qdisc->kind, RTA_DATA(kind), sizeof(qdisc->kind) - 1);
	weir_payload(weir_nested(stats, TCA_STATS_BASIC), &qdisc->sent_bytes, sizeof(qdisc->sent_bytes));
	if (weir_payload(weir_nested(stats, TCA_STATS_QUEUE), &queue, sizeof(queue))) {
		qdisc->backlog_bytes = queue.backlog;
		qdisc->backlog_packets = queue.qlen;
		qdisc->drops = queue.drops;
	}
}

static void read_qdisc(const struct nlmsghdr *message, void *context)
{
	struct weir_qdisc *qdisc = context;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return;
	weir_qdisc_parse(message, qdisc);
	if (!strcmp(qdisc->kind, WEIR_NO_QDISC))
		*qdisc->kind = 0;
}

int weir_qdisc_read(int netlink, int ifindex, struct weir_qdisc *qdisc)
{
	int result;

	memset(qdisc, 0, sizeof(*qdisc));
	/*
	 * The answer counts as a notification, so without ECHO it would go to everybody but the one who asked. For a
	 * built-in one (noqueue) nothing comes but the acknowledgement.
	 */
	result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, TC_H_ROOT, 0, read_qdisc,
				  qdisc);
	return result == -ENOENT ? 0 : result;
}

int weir_filter_qdisc_read(int netlink, int ifindex)
{
	struct weir_qdisc qdisc = {0};
	int result = weir_netlink_ask(netlink, RTM_GETQDISC, NLM_F_ACK | NLM_F_ECHO, ifindex, TC_H_CLSACT, 0,
				      read_qdisc, &qdisc);

	if (result && result != -ENOENT)
		return result;
	return !*qdisc.kind			? WEIR_FILTER_QDISC_NONE
	       : !strcmp(qdisc.kind, "ingress") ? WEIR_FILTER_QDISC_INGRESS
						: WEIR_FILTER_QDISC_CLSACT;
}

int weir_filter_qdisc_of(int ifindex)
{
	int netlink = weir_netlink_open(), found = netlink < 0 ? netlink : weir_filter_qdisc_read(netlink, ifindex);

	if (netlink >= 0)
		close(netlink);
	return found;
}

int weir_ingress_qdisc_error(const char *dev, const char *other_remedy)
{
	return weir_error(
		"%s: it has an ingress qdisc, whose filters see received packets only: replace it by clsact (tc "
		"qdisc del dev %s ingress; tc qdisc add dev %s clsact) and add its filters again at `ingress`%s",
		dev, dev, dev, other_remedy);
}

static void count(const struct nlmsghdr *message, void *context)
{
	if (message->nlmsg_type == RTM_NEWTFILTER)
		++*(int *)context;
}

int weir_clsact_filters(int netlink, int ifindex)
{
	static const __u32 sides[] = {TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
				      TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)};
	int filters = 0, result;

	for (int i = 0; i < 2; i++) {
		result = weir_netlink_ask(netlink, RTM_GETTFILTER, NLM_F_DUMP, ifindex, sides[i], 0, count, &filters);
		if (result)
			return result;
	}
	return filters;
}
