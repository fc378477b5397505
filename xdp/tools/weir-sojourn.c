/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir-sojourn: how long packets stay in any queue discipline, where both its ends can be seen: a program at a device's
 * clsact egress stamps a packet's entry, one at its peer's clsact ingress its exit. Samples go to a file, one JSON
 * object a line; docs/use/sojourn.md has the format.
 *
 * Nothing blocks but epoll, on a timer and the signals to end: in the exact lab each wake-up has its price.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "net.h"
#include "sojourn.skel.h"
#include "weir/sojourn.h"

#define DRAIN_MS 50
#define SWEEP_NS 1000000000ULL
#define SWEEP_BATCH 4096
#define FILTER_HANDLE 1
#define EGRESS_PRIORITY 65520 /* after every filter that might drop */
#define INGRESS_PRIORITY 1    /* before every filter that might take the packet elsewhere */
#define NAME_LEN 32
#define TICKS_PAST_LOST_MS 2000 /* sweeps, and a drain that comes late */
#define TICKS_MAX (1U << 20)

/* One end of a hop: where a program hangs. */
struct point {
	char dev[IF_NAMESIZE];
	char netns[64]; /* "" or /proc/self/fd/N of the namespace, held open */
	int ifindex;
	int lock; /* held while attached, so that no second sampler replaces our filter */
	bool egress;
	bool attached;
	bool owns_clsact; /* made here, or by a sampler that was killed */
};

/* What was inside at one moment of the --every-ms grid. */
struct tick {
	__u64 bytes;
	__u64 packets;
};

struct hop {
	char name[NAME_LEN];
	struct point entry;
	struct point exit;
	struct sojourn *skeleton;
	__u32 one_in;
	struct tick *ticks; /* ring, indexed by the number of the tick */
	__u64 lost;
	__u64 longest_ns;
	__u64 inside;
};

static struct {
	const char *out_path;
	FILE *out;
	__u64 every_ns; /* 0: no queue lines */
	__u64 lost_after_ns;
	__u32 one_in; /* of the hops named next */
	struct hop hops[SOJOURN_HOPS_MAX];
	int hop_count;
	struct ring_buffer *ring;
	__u64 start_ns;
	__u64 tick_next; /* number of the first tick not written yet */
	__u64 tick_room;
	__u64 swept_ns;
} sampler = {.lost_after_ns = 3000000000ULL, .one_in = 1};

static const char usage[] =
	"usage: weir-sojourn --hop NAME:DEV[@NETNS]:PEER[@NETNS] [--hop ...] --out FILE [--every-ms N]\n"
	"                    [--lost-after-ms N] [--one-in N]\n"
	"  --hop            time packets from DEV's egress to PEER's ingress; NETNS is a path such as /run/netns/r1\n"
	"  --out            where samples go, one JSON object a line; the file is made anew\n"
	"  --every-ms       also a line with the queue's length every N ms\n"
	"  --lost-after-ms  a packet inside for so long is lost; 3000\n"
	"  --one-in         of the hops named after it, time one packet in N, always the same ones; 1\n"
	"Prints \"ready\" when attached; ends on SIGINT and SIGTERM.\n";

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (__u64)now.tv_sec * 1000000000ULL + (__u64)now.tv_nsec;
}

/* --- arguments --- */

static int parse_ms(const char *option, const char *text, __u64 least, __u64 *ns)
{
	char *end;
	unsigned long long ms;

	errno = 0;
	ms = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || ms < least || ms > 3600000)
		return weir_error("%s %s: must be a whole number of milliseconds, %llu .. 3600000", option, text,
				  (unsigned long long)least);
	*ns = ms * 1000000ULL;
	return 0;
}

static int parse_one_in(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || n < 1 || n > 1000)
		return weir_error("--one-in %s: must be a whole number, 1 .. 1000", text);
	sampler.one_in = (__u32)n;
	return 0;
}

/* DEV or DEV@NETNS. Opens the namespace, so that it can be found again when its path is gone. */
static int parse_point(const char *hop, char *text, bool egress, struct point *point)
{
	char *path = strchr(text, '@');
	int back, fd;

	if (path)
		*path++ = '\0';
	if (!*text || strlen(text) >= sizeof(point->dev))
		return weir_error("--hop %s: device \"%s\" must have 1 to %zu characters", hop, text,
				  sizeof(point->dev) - 1);
	snprintf(point->dev, sizeof(point->dev), "%s", text);
	point->egress = egress;
	point->lock = -1;
	if (path) {
		if (weir_netns_enter(path, &back)) /* only to say what is wrong with it, if something is */
			return -1;
		weir_netns_leave(back);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return weir_error("%s: can't open this network namespace: %s", path, weir_reason(errno));
		snprintf(point->netns, sizeof(point->netns), "/proc/self/fd/%d", fd);
	}
	if (weir_netns_enter(point->netns, &back))
		return -1;
	point->ifindex = (int)if_nametoindex(point->dev);
	weir_netns_leave(back);
	if (!point->ifindex)
		return weir_error("--hop %s: no interface %s%s%s", hop, point->dev, path ? " in " : "",
				  path ? path : "");
	return 0;
}

static int parse_hop(const char *text)
{
	static const char right[] = "must be NAME:DEV[@NETNS]:PEER[@NETNS], NAME of letters, digits and _.-";
	struct hop *hop = &sampler.hops[sampler.hop_count];
	char copy[512], *entry, *exit;

	if (sampler.hop_count == SOJOURN_HOPS_MAX)
		return weir_error("--hop %s: more than %d hops", text, SOJOURN_HOPS_MAX);
	if (strlen(text) >= sizeof(copy))
		return weir_error("--hop %s: too long; %s", text, right);
	strcpy(copy, text);
	entry = strchr(copy, ':');
	exit = entry ? strchr(entry + 1, ':') : NULL;
	if (!exit || strchr(exit + 1, ':'))
		return weir_error("--hop %s: %s", text, right);
	*entry++ = '\0';
	*exit++ = '\0';
	if (!*copy || strlen(copy) >= NAME_LEN ||
	    copy[strspn(copy, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")])
		return weir_error("--hop %s: %s, at most %d of them", text, right, NAME_LEN - 1);
	snprintf(hop->name, sizeof(hop->name), "%s", copy);
	if (parse_point(text, entry, true, &hop->entry) || parse_point(text, exit, false, &hop->exit))
		return -1;
	hop->one_in = sampler.one_in;
	sampler.hop_count++;
	return 0;
}

static int parse(int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		const char *option = arguments[i], *value = arguments[i + 1];
		int result;

		if (!strcmp(option, "--help")) {
			fputs(usage, stdout);
			exit(0);
		}
		if (strcmp(option, "--hop") && strcmp(option, "--out") && strcmp(option, "--every-ms") &&
		    strcmp(option, "--lost-after-ms") && strcmp(option, "--one-in"))
			return weir_error("%s: no such option; see --help", option);
		if (!value)
			return weir_error("%s: a value must follow; see --help", option);
		i++;
		if (!strcmp(option, "--hop")) {
			result = parse_hop(value);
		} else if (!strcmp(option, "--every-ms")) {
			result = parse_ms(option, value, 1, &sampler.every_ns);
		} else if (!strcmp(option, "--lost-after-ms")) {
			result = parse_ms(option, value, 1, &sampler.lost_after_ns);
		} else if (!strcmp(option, "--one-in")) {
			result = parse_one_in(value);
		} else {
			sampler.out_path = value;
			result = 0;
		}
		if (result)
			return -1;
	}
	if (!sampler.hop_count)
		return weir_error("no --hop; see --help");
	if (!sampler.out_path)
		return weir_error("no --out; see --help");
	if (sampler.every_ns) {
		sampler.tick_room = (sampler.lost_after_ns + TICKS_PAST_LOST_MS * 1000000ULL) / sampler.every_ns + 2;
		if (sampler.tick_room > TICKS_MAX)
			return weir_error("--every-ms: too short for this --lost-after-ms; at least %" PRIu64 " ms",
					  (uint64_t)(sampler.lost_after_ns / 1000000 / TICKS_MAX + 1));
	}
	return 0;
}

/* --- attaching --- */

static void hook_of(const struct point *point, struct bpf_tc_hook *hook)
{
	memset(hook, 0, sizeof(*hook));
	hook->sz = sizeof(*hook);
	hook->ifindex = point->ifindex;
	hook->attach_point = point->egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
}

/* An address that lives in the device's own namespace and dies with this process, however that ends. */
static int lock_point(struct point *point)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length;

	point->lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (point->lock < 0)
		return weir_error("%s: no Unix socket: %s", point->dev, weir_reason(errno));
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "weir-sojourn/%d/%d", point->ifindex,
			  point->egress);
	if (!bind(point->lock, (struct sockaddr *)&address,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		return 0;
	return weir_error("%s: %s", point->dev,
			  errno == EADDRINUSE ? "another weir-sojourn is at this side of it" : weir_reason(errno));
}

static bool is_ours(__u32 program_id, const char *name)
{
	struct bpf_prog_info info = {0};
	__u32 length = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(program_id), result;

	if (fd < 0)
		return false;
	result = bpf_obj_get_info_by_fd(fd, &info, &length);
	close(fd);
	return !result && !strncmp(info.name, name, BPF_OBJ_NAME_LEN - 1);
}

/* In the device's namespace. */
static int attach_here(struct point *point, const struct bpf_program *program)
{
	struct bpf_tc_hook hook;
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
		    .priority = point->egress ? EGRESS_PRIORITY : INGRESS_PRIORITY);
	LIBBPF_OPTS(bpf_tc_opts, found, .handle = FILTER_HANDLE, .priority = filter.priority);
	int result;

	if (lock_point(point))
		return -1;
	hook_of(point, &hook);
	result = bpf_tc_hook_create(&hook);
	if (result && result != -EEXIST)
		return weir_error("%s: can't add clsact: %s", point->dev, weir_reason(result));
	point->owns_clsact = !result;
	if (!bpf_tc_query(&hook, &found)) {
		if (!is_ours(found.prog_id, bpf_program__name(program)))
			return weir_error("%s: another filter is at %s priority %u, handle %u; remove it", point->dev,
					  point->egress ? "egress" : "ingress", filter.priority, filter.handle);
		filter.flags = BPF_TC_F_REPLACE; /* of a sampler that was killed; the lock says none lives */
		point->owns_clsact = true;	 /* it goes only if nothing else is on it */
	}
	filter.prog_fd = bpf_program__fd(program);
	result = bpf_tc_attach(&hook, &filter);
	if (result)
		return weir_error("%s: can't attach at clsact %s: %s", point->dev, point->egress ? "egress" : "ingress",
				  weir_reason(result));
	point->attached = true;
	return 0;
}

static int attach_point(struct point *point, const struct bpf_program *program)
{
	int back, result;

	if (weir_netns_enter(point->netns, &back))
		return -1;
	result = attach_here(point, program);
	weir_netns_leave(back);
	return result;
}

static void detach_point(struct point *point)
{
	struct bpf_tc_hook hook;
	LIBBPF_OPTS(bpf_tc_opts, filter, .handle = FILTER_HANDLE,
		    .priority = point->egress ? EGRESS_PRIORITY : INGRESS_PRIORITY);
	int back, result;

	if (!point->attached || weir_netns_enter(point->netns, &back))
		return;
	hook_of(point, &hook);
	result = bpf_tc_detach(&hook, &filter);
	if (result && result != -ENODEV && result != -ENOENT && result != -EINVAL) /* the device or clsact is gone */
		weir_error("%s: can't detach: %s", point->dev, weir_reason(result));
	point->attached = false;
	weir_netns_leave(back);
}

/* After all filters are off: a clsact may carry those of two hops, and by now also those of other programs. */
static void drop_clsact(struct point *point)
{
	struct bpf_tc_hook hook;
	int back, netlink;

	if (!point->owns_clsact || weir_netns_enter(point->netns, &back))
		return;
	netlink = weir_netlink_open();
	if (netlink >= 0) {
		hook_of(point, &hook);
		hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
		if (weir_clsact_filters(netlink, point->ifindex) == 0)
			bpf_tc_hook_destroy(&hook);
		close(netlink);
	}
	point->owns_clsact = false;
	weir_netns_leave(back);
}

static void detach_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++)
		detach_point(&sampler.hops[i].entry);
	for (int i = 0; i < sampler.hop_count; i++)
		detach_point(&sampler.hops[i].exit);
	for (int i = 0; i < sampler.hop_count; i++) {
		drop_clsact(&sampler.hops[i].entry);
		drop_clsact(&sampler.hops[i].exit);
	}
}

static int load_hop(int index)
{
	struct hop *hop = &sampler.hops[index];
	struct sojourn *first = sampler.hops[0].skeleton, *s = sojourn__open();
	int result;

	if (!s)
		return weir_error("%s: can't open the programs: %s", hop->name, weir_reason(errno));
	hop->skeleton = s;
	s->rodata->hop = (__u32)index;
	s->rodata->lost_after_ns = sampler.lost_after_ns;
	s->rodata->one_in = hop->one_in;
	if (first && (bpf_map__reuse_fd(s->maps.inside, bpf_map__fd(first->maps.inside)) ||
		      bpf_map__reuse_fd(s->maps.events, bpf_map__fd(first->maps.events)) ||
		      bpf_map__reuse_fd(s->maps.counters, bpf_map__fd(first->maps.counters))))
		return weir_error("%s: can't share maps: %s", hop->name, weir_reason(errno));
	result = sojourn__load(s);
	if (result)
		return weir_error("can't load the programs: %s", weir_reason(result));
	return 0;
}

static int load_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++) {
		if (load_hop(i))
			return -1;
		if (sampler.every_ns) {
			sampler.hops[i].ticks = calloc(sampler.tick_room, sizeof(struct tick));
			if (!sampler.hops[i].ticks)
				return weir_error("no memory for the queue's lengths; use a longer --every-ms");
		}
	}
	return 0;
}

/* Exits first, so that no packet is stamped whose exit would go unseen. */
static int attach_all(void)
{
	for (int i = 0; i < sampler.hop_count; i++)
		if (attach_point(&sampler.hops[i].exit, sampler.hops[i].skeleton->progs.sojourn_exit))
			return -1;
	for (int i = 0; i < sampler.hop_count; i++)
		if (attach_point(&sampler.hops[i].entry, sampler.hops[i].skeleton->progs.sojourn_entry))
			return -1;
	return 0;
}

/* --- samples --- */

static void write_lost(struct hop *hop, __u64 entry_ns, __u32 bytes)
{
	fprintf(sampler.out, "{\"k\":\"lost\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"bytes\":%u}\n",
		(uint64_t)(entry_ns / 1000), hop->name, bytes);
	hop->lost++;
}

/* The packet was inside at each tick from its entry up to, but without, its exit. */
static void count_ticks(const struct hop *hop, __u64 entry_ns, __u64 exit_ns, __u32 bytes)
{
	__u64 from_ns = entry_ns > sampler.start_ns ? entry_ns - sampler.start_ns : 0;
	__u64 number = (from_ns + sampler.every_ns - 1) / sampler.every_ns;

	if (number < sampler.tick_next)
		number = sampler.tick_next;
	for (; sampler.start_ns + number * sampler.every_ns < exit_ns; number++) {
		struct tick *tick = &hop->ticks[number % sampler.tick_room];

		if (number - sampler.tick_next >= sampler.tick_room)
			return; /* can't be: a packet inside for so long has been given up */
		tick->bytes += bytes;
		tick->packets++;
	}
}

static int on_event(void *context, void *data, size_t size)
{
	const struct sojourn_event *event = data;
	struct hop *hop = &sampler.hops[event->hop];
	__u64 sojourn_ns = event->exit_ns - event->entry_ns;

	(void)context;
	(void)size;
	if (!event->exit_ns) {
		write_lost(hop, event->entry_ns, event->bytes);
		return 0;
	}
	fprintf(sampler.out,
		"{\"k\":\"pkt\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"sojourn_us\":%" PRIu64
		",\"bytes\":%u,\"ce\":%u}\n",
		(uint64_t)(event->exit_ns / 1000), hop->name, (uint64_t)(sojourn_ns / 1000), event->bytes, event->ce);
	if (sojourn_ns > hop->longest_ns)
		hop->longest_ns = sojourn_ns;
	if (sampler.every_ns)
		count_ticks(hop, event->entry_ns, event->exit_ns, event->bytes);
	return 0;
}

/* Queue lines of every tick up to a time; whoever calls knows that all packets inside at those ticks are out. */
static void write_ticks(__u64 until_ns)
{
	if (!sampler.every_ns)
		return;
	for (; sampler.start_ns + sampler.tick_next * sampler.every_ns <= until_ns; sampler.tick_next++) {
		__u64 at_ns = sampler.start_ns + sampler.tick_next * sampler.every_ns;

		for (int i = 0; i < sampler.hop_count; i++) {
			struct hop *hop = &sampler.hops[i];
			struct tick *tick = &hop->ticks[sampler.tick_next % sampler.tick_room];

			fprintf(sampler.out,
				"{\"k\":\"queue\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"backlog_bytes\":%" PRIu64
				",\"backlog_packets\":%" PRIu64 "}\n",
				(uint64_t)(at_ns / 1000), hop->name, (uint64_t)tick->bytes, (uint64_t)tick->packets);
			memset(tick, 0, sizeof(*tick));
		}
	}
}

struct left {
	struct sojourn_key key;
	struct sojourn_stamp stamp;
};

static int by_entry(const void *a, const void *b)
{
	const struct left *x = a, *y = b;

	if (x->stamp.entry_ns != y->stamp.entry_ns)
		return x->stamp.entry_ns < y->stamp.entry_ns ? -1 : 1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Everything that is inside now, oldest first. The number of them, or -1 with a message. */
static int list_inside(struct left **list)
{
	static struct sojourn_key keys[SWEEP_BATCH];
	static struct sojourn_stamp stamps[SWEEP_BATCH];
	int map = bpf_map__fd(sampler.hops[0].skeleton->maps.inside), result, total = 0;
	struct left *all = malloc(SOJOURN_INSIDE_MAX * sizeof(*all));
	__u64 position;
	bool first = true;

	if (!all)
		return weir_error("no memory to look for lost packets");
	do {
		__u32 count = SWEEP_BATCH;

		result = bpf_map_lookup_batch(map, first ? NULL : &position, &position, keys, stamps, &count, NULL);
		if (result && result != -ENOENT) { /* which is its way to say "and that was all" */
			free(all);
			return weir_error("can't look for lost packets: %s", weir_reason(result));
		}
		first = false;
		for (__u32 i = 0; i < count && total < SOJOURN_INSIDE_MAX; i++, total++)
			all[total] = (struct left){.key = keys[i], .stamp = stamps[i]};
	} while (!result);
	qsort(all, (size_t)total, sizeof(*all), by_entry);
	*list = all;
	return total;
}

/* Gives up packets that are inside for too long. At the end: all but those that may still be on their way. */
static int sweep(__u64 now, bool end)
{
	struct left *list = NULL;
	int total = list_inside(&list);

	if (total < 0)
		return -1;
	for (int i = 0; i < total; i++) {
		struct hop *hop = &sampler.hops[list[i].key.hop];
		__u64 entry_ns = list[i].stamp.entry_ns;
		__u64 patience_ns = sampler.lost_after_ns;

		if (end && hop->longest_ns < patience_ns)
			patience_ns = hop->longest_ns;
		if (entry_ns < now && now - entry_ns > patience_ns) {
			/* gone by now: it came out between our look and this */
			if (!bpf_map_delete_elem(bpf_map__fd(hop->skeleton->maps.inside), &list[i].key))
				write_lost(hop, entry_ns, list[i].stamp.bytes);
		} else {
			hop->inside++;
		}
	}
	free(list);
	return 0;
}

static int drain(void)
{
	__u64 before_ns = now_ns();
	int result = ring_buffer__consume(sampler.ring);

	if (result < 0)
		return weir_error("can't read the ring buffer: %s", weir_reason(result));
	if (before_ns - sampler.swept_ns >= SWEEP_NS) {
		sampler.swept_ns = before_ns;
		for (int i = 0; i < sampler.hop_count; i++)
			sampler.hops[i].inside = 0;
		if (sweep(before_ns, false))
			return -1;
		/* A packet inside at such a tick has come out and been drained, or been given up at this sweep. */
		if (before_ns > sampler.lost_after_ns + SWEEP_NS)
			write_ticks(before_ns - sampler.lost_after_ns - 1);
	}
	if (ferror(sampler.out))
		return weir_error("%s: can't write: %s", sampler.out_path, weir_reason(errno));
	return 0;
}

static int finish(void)
{
	__u64 end_ns = now_ns();
	int result = drain();

	for (int i = 0; i < sampler.hop_count; i++)
		sampler.hops[i].inside = 0;
	if (!result)
		result = sweep(end_ns, true);
	write_ticks(end_ns);
	for (int i = 0; i < sampler.hop_count && !result; i++) {
		struct hop *hop = &sampler.hops[i];
		struct sojourn_counters n;

		if (bpf_map_lookup_elem(bpf_map__fd(hop->skeleton->maps.counters), &i, &n)) {
			result = weir_error("%s: can't read the counters: %s", hop->name, weir_reason(errno));
			break;
		}
		fprintf(sampler.out,
			"{\"k\":\"sampler\",\"t_us\":%" PRIu64 ",\"hop\":\"%s\",\"stamped\":%" PRIu64
			",\"matched\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"inside\":%" PRIu64 ",\"collisions\":%" PRIu64
			",\"full\":%" PRIu64 ",\"strays\":%" PRIu64 ",\"ring_drops\":%" PRIu64 "}\n",
			(uint64_t)(end_ns / 1000), hop->name, (uint64_t)n.stamped, (uint64_t)n.matched,
			(uint64_t)hop->lost, (uint64_t)hop->inside, (uint64_t)n.collisions, (uint64_t)n.full,
			(uint64_t)n.strays, (uint64_t)n.ring_drops);
	}
	return result;
}

/* --- running --- */

static int add_to(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int run(const sigset_t *ends)
{
	struct itimerspec period = {.it_interval.tv_nsec = DRAIN_MS * 1000000L,
				    .it_value.tv_nsec = DRAIN_MS * 1000000L};
	int epoll = epoll_create1(EPOLL_CLOEXEC), signals = signalfd(-1, ends, SFD_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (epoll < 0 || signals < 0 || timer < 0 || add_to(epoll, signals) || add_to(epoll, timer) ||
	    timerfd_settime(timer, 0, &period, NULL))
		return weir_error("no timer: %s", weir_reason(errno));
	for (;;) {
		struct epoll_event event;
		uint64_t expired;
		int count = epoll_wait(epoll, &event, 1, -1);

		if (count < 0 && errno != EINTR)
			return weir_error("epoll: %s", weir_reason(errno));
		if (count < 1)
			continue;
		if (event.data.fd == signals)
			return 0;
		if (read(timer, &expired, sizeof(expired)) < 0 && errno != EINTR)
			return weir_error("timer: %s", weir_reason(errno));
		if (drain())
			return -1;
	}
}

static int silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level != LIBBPF_DEBUG && getenv("WEIR_LIBBPF")) /* libbpf's own words, when ours don't explain enough */
		return vfprintf(stderr, format, arguments);
	return 0;
}

int main(int count, char **arguments)
{
	sigset_t ends;
	int result;

	libbpf_set_print(silent);
	if (parse(count, arguments))
		return 2;
	/* From here on a signal to end waits until it finds us ready to clean up. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (load_all())
		return 1;
	sampler.ring = ring_buffer__new(bpf_map__fd(sampler.hops[0].skeleton->maps.events), on_event, NULL, NULL);
	if (!sampler.ring) {
		weir_error("no ring buffer: %s", weir_reason(errno));
		return 1;
	}
	sampler.start_ns = sampler.swept_ns = now_ns();
	result = attach_all();
	if (!result) { /* not before: a sampler that could not attach leaves no file */
		sampler.out = fopen(sampler.out_path, "we");
		if (!sampler.out)
			result = weir_error("--out %s: %s", sampler.out_path, strerror(errno));
		else
			setvbuf(sampler.out, NULL, _IOFBF, 1 << 20);
	}
	if (!result) {
		puts("ready");
		fflush(stdout);
		result = run(&ends);
	}
	detach_all();
	if (!result)
		result = finish();
	if (sampler.out && fclose(sampler.out))
		result = weir_error("%s: can't write: %s", sampler.out_path, strerror(errno));
	return result ? 1 : 0;
}
