/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what the configuration asks for. It sleeps until a message of the kernel (links, traffic control), a signal or
 * a look that is due; each look is `ensure` in a process of its own, so that the daemon holds no programs and no maps.
 * It keeps no state that matters: what is attached lies in the pins, and a new daemon adopts it.
 */
#include "weir-xdp/commands/commands.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "net/net.h"
#include "pins/lock.h"
#include "pins/place.h"
#include "weir-xdp/daemon/keep.h"
#include "weir-xdp/daemon/notify.h"
#include "weir-xdp/ensure.h"

#define CHILD_MS 90000	       /* for one look; a lock alone may take 30 s */
#define BUFFER_BYTES (1 << 20) /* of messages; what is lost is made up for by looking at all */

struct keeper {
	const struct request *r;
	struct daemon_config config;
	struct kept list[DAEMON_TABLES_MAX];
	int netlink, signals;
	struct outcome *told; /* shared with the process that is at work */
	struct weir_locks lock;
	sigset_t mask;
	__u64 removed, beat_ms, sweep_ms; /* sweep_ms: when it is tried again; 0: nothing failed */
	long watchdog_ms;
	bool sweep, stop, reload, changed;
};

static __u64 now_ms(void)
{
	return weir_now_ns() / 1000000;
}

static void beat(struct keeper *k)
{
	if (!k->watchdog_ms || now_ms() < k->beat_ms)
		return;
	daemon_notify("WATCHDOG=1");
	k->beat_ms = now_ms() + (__u64)k->watchdog_ms;
}

/*
 * In a process of its own, which shares nothing with the daemon that could outlive it: the outcome comes in memory, for
 * a process of signal `poll` that starts there would hold a pipe open. `o` is what it has written by its end, be that
 * early.
 */
typedef int work_f(const struct keeper *k, const void *what, struct outcome *o);

static int in_child(struct keeper *k, work_f *work, const void *what, struct outcome *o)
{
	int status = 0, pidfd;
	__u64 patience_ms = now_ms() + CHILD_MS;
	pid_t child;

	*k->told = *o;
	fflush(NULL);
	child = fork();
	if (!child) {
		weir_locks_drop(&k->lock); /* a poll process that starts here would hold it */
		close(k->netlink);
		close(k->signals);
		sigprocmask(SIG_SETMASK, &k->mask, NULL);
		_exit(work(k, what, k->told) != 0);
	}
	pidfd = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
	while (child > 0) {
		struct pollfd gone = {.fd = pidfd, .events = POLLIN};

		if (pidfd < 0 || poll(&gone, 1, k->watchdog_ms ? (int)k->watchdog_ms : 1000) == 1)
			break;
		beat(k);
		if (now_ms() > patience_ms) /* in any state, the next one ends it */
			kill(child, SIGKILL);
	}
	if (child > 0)
		waitpid(child, &status, 0);
	if (pidfd >= 0)
		close(pidfd);
	if (child < 0)
		return weir_error("can't fork: %s", strerror(errno));
	*o = *k->told;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

struct look {
	const struct wanted *wanted;
	bool look;
};

static int ensure_one(const struct keeper *k, const void *what, struct outcome *o)
{
	const struct look *look = what;
	struct request r;

	if (daemon_request(&k->config, look->wanted, k->r->pins, &r))
		return -1;
	r.look = look->look;
	return ensure_run(&r, o);
}

/* A name of an attachment to detach; rest: laws of classes that no table asks for, but not those others attached. */
struct removal {
	char *dev;
	bool rest;
};

static int remove_one(const struct keeper *k, const void *what, struct outcome *o)
{
	const struct removal *removal = what;
	struct request r = {
		.dev = removal->dev, .peer_netns = "", .netns = "", .pins = k->r->pins, .rest = removal->rest};
	struct weir_place place;
	int result;

	r.class = calloc(k->config.count + 1, sizeof(*r.class));
	if (!r.class || (r.rest && weir_place_look(r.dev, "", &place)))
		return -1;
	for (size_t i = 0; r.rest && i < k->config.count; i++)
		if (k->config.list[i].class && if_nametoindex(k->config.list[i].dev) == place.ifindex)
			r.class[r.classes++] = k->config.list[i].class;
	result = command_detach(&r);
	o->part[PART_CLASS] = result == CHANGED;
	return result == CHANGED ? 0 : result;
}

static void say(const struct kept *kept, const struct outcome *o, bool looked)
{
	char what[128] = "";
	size_t length = 0;

	for (int i = 0; i < PARTS; i++)
		if (o->part[i])
			length += (size_t)snprintf(what + length, sizeof(what) - length, "%s%s", length ? ", " : "",
						   part_names[i]);
	weir_note("%s: %s%s%s%s", kept->name, looked ? "differs, and is left so" : did_names[o->did],
		  length ? " (" : "", what, length ? ")" : "");
}

static void touch(struct keeper *k, int ifindex, const char *name)
{
	for (size_t i = 0; i < k->config.count; i++)
		if (ifindex < 0 || k->list[i].ifindex == (unsigned int)ifindex ||
		    (name && !strcmp(name, k->list[i].dev)))
			kept_touch(&k->list[i], now_ms());
}

/* One of many classes that comes, goes or gets another qdisc is no reason to look at all others. */
static void touch_class(struct keeper *k, int ifindex, __u32 class)
{
	for (size_t i = 0; i < k->config.count; i++)
		if (k->list[i].ifindex == (unsigned int)ifindex && wanted_concerns(&k->config.list[i], class))
			kept_touch(&k->list[i], now_ms());
}

static void take_tc_message(struct keeper *k, const struct nlmsghdr *m)
{
	const struct tcmsg *tc = NLMSG_DATA(m);
	bool class = m->nlmsg_type == RTM_NEWTCLASS || m->nlmsg_type == RTM_DELTCLASS;
	bool qdisc = m->nlmsg_type == RTM_NEWQDISC || m->nlmsg_type == RTM_DELQDISC;

	bool in_class = TC_H_MIN(tc->tcm_parent) && tc->tcm_parent < TC_H_CLSACT;

	if (!class && !(qdisc && in_class)) { /* a root, clsact, filters */
		touch(k, tc->tcm_ifindex, NULL);
		return;
	}
	touch_class(k, tc->tcm_ifindex, tc->tcm_handle);
	if (in_class)
		touch_class(k, tc->tcm_ifindex, tc->tcm_parent);
}

static void take_message(struct keeper *k, const struct nlmsghdr *m)
{
	const struct ifinfomsg *link = NLMSG_DATA(m);
	int len;

	if (m->nlmsg_type != RTM_NEWLINK && m->nlmsg_type != RTM_DELLINK) {
		if (m->nlmsg_type >= RTM_NEWQDISC && m->nlmsg_type <= RTM_GETTFILTER)
			take_tc_message(k, m);
		return;
	}
	k->sweep = true;
	len = (int)NLMSG_PAYLOAD(m, sizeof(*link));
	for (const struct rtattr *a = IFLA_RTA(link); RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == IFLA_IFNAME)
			touch(k, link->ifi_index, RTA_DATA(a));
}

static void take_messages(struct keeper *k)
{
	static char buffer[65536] __attribute__((aligned(8)));

	for (;;) {
		ssize_t got = recv(k->netlink, buffer, sizeof(buffer), MSG_DONTWAIT);
		int len = (int)got;

		if (got < 0 && errno == ENOBUFS) { /* some were lost */
			touch(k, -1, NULL);
			k->sweep = true;
			continue;
		}
		if (got <= 0)
			return;
		for (const struct nlmsghdr *m = (struct nlmsghdr *)buffer; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len))
			take_message(k, m);
	}
}

static __u64 check_ms(const struct keeper *k)
{
	return kept_check_ms(k->list, k->config.count, &k->config);
}

/* CPU time of all processes that have made looks. */
static __u64 children_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (__u64)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (__u64)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void look_at(struct keeper *k, size_t i)
{
	struct kept *kept = &k->list[i], before = *kept;
	unsigned int ifindex = if_nametoindex(kept->dev);
	struct look look = {&k->config.list[i], !k->config.mend && !kept->apply};
	struct outcome o = {.did = DID_ADOPT};
	__u64 begun_us = children_us();
	int result = ifindex ? in_child(k, ensure_one, &look, &o) : 0;

	if (!result && look.look && o.did == DID_ATTACH && !kept_is_known(kept, ifindex)) { /* new here: no drift */
		look.look = false;
		result = in_child(k, ensure_one, &look, &o);
	}
	/* the kernel has reported its changes by now; read first, that can't bring the next look */
	if (result || (o.did != DID_ADOPT && !look.look))
		take_messages(k);
	kept->cost_us = children_us() - begun_us;
	kept_take(kept, check_ms(k), ifindex, result, !look.look, &o, now_ms());
	if (ifindex && !result && o.did != DID_ADOPT &&
	    (!look.look || memcmp(before.part, kept->part, sizeof(before.part))))
		say(kept, &o, look.look);
	k->changed = true;
}

/* An attachment of ours that no table asks for, or whose interface is gone. */
static int sweep_one(const char *path, void *context)
{
	struct keeper *k = context;
	struct removal removal = {.dev = strrchr(path, '/') + 1};
	struct weir_place here, place;
	struct weir_meta about;
	struct outcome o = {0};
	char name[IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX)];
	bool of_classes;

	if (!weir_meta_read(path, &about) || !about.kept)
		return 0;
	of_classes = about.slots > 1 && about.complete;
	place = weir_place_of(&about);
	weir_place_here(&here);
	if (!weir_place_same_netns(&here, &place))
		return 0;
	if (if_indextoname(about.ifindex, name)) {
		removal = (struct removal){name, of_classes};
		for (size_t i = 0; i < k->config.count; i++)
			if (if_nametoindex(k->config.list[i].dev) == about.ifindex &&
			    (k->config.list[i].ingress == place.ingress || k->config.list[i].both) &&
			    !of_classes) /* by any of its names */
				return 0;
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s",
			 place.ingress ? WEIR_INGRESS_SUFFIX : WEIR_EGRESS_SUFFIX);
	}
	if (in_child(k, remove_one, &removal, &o)) { /* said already */
		k->sweep_ms = now_ms() + (__u64)k->config.check_ms;
		return 0;
	}
	if (removal.rest && !o.part[PART_CLASS]) /* it had nothing to remove */
		return 0;
	weir_note("%s%s: removed%s: %s", about.dev, place.ingress ? WEIR_INGRESS_SUFFIX : "",
		  removal.rest ? " laws of classes" : "",
		  removal.dev == name ? "no table asks for it" : "its interface is gone");
	k->removed++;
	k->changed = true;
	return 0;
}

/* The counters of an interface go on over a change of the configuration. */
static void load(struct keeper *k, const struct daemon_config *fresh, bool again)
{
	static struct kept list[DAEMON_TABLES_MAX];

	memset(list, 0, sizeof(list));
	for (size_t i = 0; i < fresh->count; i++) {
		for (size_t j = 0; j < k->config.count; j++)
			if (!strcmp(k->list[j].name, fresh->list[i].name))
				list[i] = k->list[j];
		snprintf(list[i].dev, sizeof(list[i].dev), "%s", fresh->list[i].dev);
		snprintf(list[i].name, sizeof(list[i].name), "%s", fresh->list[i].name);
		list[i].due_ms = 0;
		list[i].apply = again;
	}
	daemon_config_free(&k->config);
	k->config = *fresh;
	memcpy(k->list, list, sizeof(list));
	k->sweep = k->changed = true;
}

static void take_signals(struct keeper *k)
{
	struct signalfd_siginfo info;

	while (read(k->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			k->reload = true;
		else
			k->stop = true;
	}
}

static void read_again(struct keeper *k)
{
	struct daemon_config fresh;

	k->reload = false;
	if (daemon_config_read(&fresh, k->r->config_file)) {
		weir_note("goes on with the configuration it has");
		return;
	}
	load(k, &fresh, true);
}

/* Time to sleep: to the next look that is due, or to the next sign of life; -1: until something happens. */
static int pause_ms(const struct keeper *k)
{
	__u64 now = now_ms(), next = now + 3600000;

	for (size_t i = 0; i < k->config.count; i++)
		if (k->list[i].due_ms < next)
			next = k->list[i].due_ms;
	if (k->watchdog_ms && k->beat_ms < next)
		next = k->beat_ms;
	if (k->sweep_ms && k->sweep_ms < next)
		next = k->sweep_ms;
	if (k->sweep) /* a look has read of something */
		next = now;
	return next > now ? (int)(next - now) : 0;
}

/* One daemon for the pins of a namespace, by a lock for the number 0, which no interface has. 0, 1: another has it, or
 * -1 after one line. */
static int hold(struct keeper *k)
{
	struct weir_place here;

	weir_place_here(&here);
	snprintf(here.name, sizeof(here.name), "daemon");
	return weir_locks_take(&k->lock, k->r->pins, &here, "", NULL, "", 0);
}

static int say_held(void)
{
	return weir_error("a daemon keeps these pins in this network namespace already");
}

/* The lock goes with its folder when the pins are lost. -1: another daemon took it meanwhile. */
static int hold_on(struct keeper *k)
{
	char why[512];
	int held;

	if (weir_lock_is_there(&k->lock.one[0]))
		return 0;
	if (k->lock.one[0].fd >= 0)
		close(k->lock.one[0].fd);
	k->lock = WEIR_LOCKS_NONE;
	weir_error_into(why, sizeof(why)); /* each check reports it */
	held = hold(k);
	weir_error_into(NULL, 0);
	return held > 0 ? say_held() : 0;
}

static int keep(struct keeper *k)
{
	bool ready = false;

	while (!k->stop) {
		struct pollfd fds[] = {{.fd = k->netlink, .events = POLLIN}, {.fd = k->signals, .events = POLLIN}};

		if (hold_on(k))
			return 1;
		if (k->reload)
			read_again(k);
		if (k->sweep || (k->sweep_ms && k->sweep_ms <= now_ms())) {
			k->sweep = false;
			k->sweep_ms = 0;
			weir_place_each(k->r->pins, sweep_one, k);
		}
		for (size_t i = 0; i < k->config.count && !k->stop; i++) {
			if (k->list[i].due_ms <= now_ms())
				look_at(k, i);
			beat(k);
			take_signals(k);
		}
		if (k->changed && *k->config.metrics)
			metrics_write(k->config.metrics, k->list, k->config.count, k->removed, check_ms(k));
		k->changed = false;
		if (!ready)
			daemon_notify("READY=1");
		ready = true;
		if (!k->stop && !k->reload)
			poll(fds, 2, pause_ms(k));
		beat(k);
		take_signals(k);
		take_messages(k);
	}
	return 0;
}

/*
 * The kernel answers whoever asks for a qdisc (`status`, a poll process at each interval, our own looks) with the
 * message that it sends when one is made, and to everybody. Those are kept from us, or each look would bring the next.
 * Where a qdisc takes the place of another the message begins with that one's end, and comes.
 */
static int ignore_answers(int netlink)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWQDISC), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog filter = {.len = sizeof(code) / sizeof(*code), .filter = code};

	return setsockopt(netlink, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

static int open_all(struct keeper *k)
{
	struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | 1 << (RTNLGRP_TC - 1)};
	int size = BUFFER_BYTES, held;
	sigset_t ends;

	k->told = mmap(NULL, sizeof(*k->told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k->told == MAP_FAILED)
		return weir_error("no memory to share: %s", strerror(errno));
	held = hold(k);
	if (held)
		return held < 0 ? -1 : say_held();
	k->netlink = weir_netlink_open();
	if (k->netlink < 0 || ignore_answers(k->netlink) || bind(k->netlink, (struct sockaddr *)&at, sizeof(at)))
		return weir_error("no netlink socket: %s", strerror(errno));
	setsockopt(k->netlink, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, &k->mask);
	k->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signals < 0 ? weir_error("no signalfd: %s", strerror(errno)) : 0;
}

int command_daemon(const struct request *r)
{
	static struct keeper k;
	struct daemon_config config;
	int result;

	k = (struct keeper){.r = r, .netlink = -1, .signals = -1, .lock = WEIR_LOCKS_NONE};
	if (daemon_config_read(&config, r->config_file))
		return 1;
	k.watchdog_ms = daemon_watchdog_ms();
	if (open_all(&k)) {
		daemon_config_free(&config);
		return 1;
	}
	load(&k, &config, false);
	result = keep(&k);
	daemon_notify("STOPPING=1");
	daemon_config_free(&k.config); /* the law stays on: `detach` takes it off */
	weir_locks_drop(&k.lock);
	weir_pins_tidy(r->pins);
	return result;
}
