/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal `poll` for many classes: one dump of all classes of the interface each interval, and a step of each one's law.
 * Its cost is bounded: the process takes at most a fifth of a CPU, and polls less often where that is not enough.
 */
#include "signal/poll/law.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "net/classes.h"
#include "net/net.h"
#include "net/tree.h"
#include "signal/judge.h"
#include "signal/poll/step.h"

/* From the beginning of a round to that of the next it takes at least so many times the CPU time it took. */
#define ROUNDS_APART 5

/* The table of classes and their configurations are read when they have changed, and once in so many rounds: their
 * writer may have been killed before its notice. */
#define TABLE_ROUNDS 64

/* The content of each class is asked once in so many rounds, a part of them in each, because each takes a request. */
#define LEAF_ROUNDS 64

/* A class that has been idle since it was last written is written again after so long, as a sign of life. */
#define IDLE_WRITE_NS 1000000000ULL

/* One class with a law. */
struct served {
	struct weir_class class;
	struct weir_attachment a; /* with its slot: for its configuration */
	struct weir_config config;
	struct weir_polled polled;
	struct weir_class_now now; /* as this round has found it; handle 0: not at all */
	__u32 leaf;		   /* the qdisc that was asked about last */
	bool asked, inner, missed; /* missed: by the last round */
	struct weir_tree in_it;
};

struct server {
	struct weir_attachment *a;
	int netlink;
	struct served **list; /* in the order of their handles */
	size_t count;
	__u64 serial;		   /* of the table as it was read */
	struct weir_config config; /* of the first slot */
	__u32 round;
	struct weir_polled pulse; /* the first slot's: that the process lives */
};

static int compare_handles(const void *a, const void *b)
{
	__u32 one = (*(struct served *const *)a)->class.handle, other = (*(struct served *const *)b)->class.handle;

	return one < other ? -1 : one > other;
}

static struct served *find(const struct server *server, __u32 handle)
{
	size_t low = 0, high = server->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (server->list[middle]->class.handle < handle)
			low = middle + 1;
		else
			high = middle;
	}
	return low < server->count && server->list[low]->class.handle == handle ? server->list[low] : NULL;
}

/* A class of the table: as it is served already, or anew. NULL: out of memory, or it can't be read. */
static struct served *serve(const struct server *server, const struct weir_class *class, __u32 slot)
{
	struct served *s = find(server, class->handle);

	if (s && s->a.slot == slot && s->class.serial == class->serial)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->class = *class;
	s->a = *server->a;
	s->a.slot = slot;
	if (bpf_map_lookup_elem_flags(server->a->queue, &slot, &s->polled.queue, BPF_F_LOCK)) {
		free(s);
		return NULL;
	}
	return s;
}

/* Frees those of the one list that the other does not have. */
static void release(struct served **list, size_t count, struct served *const *kept, size_t kept_count)
{
	for (size_t i = 0; i < count; i++) {
		const struct served *const *found =
			kept_count ? bsearch(&list[i], kept, kept_count, sizeof(*kept), compare_handles) : NULL;

		if (!found || *found != list[i])
			free(list[i]);
	}
	free(list);
}

/* Reads the classes that have a law now. 0 or an errno. */
static int read_table(struct server *server)
{
	struct served **list = calloc(server->a->about.slots, sizeof(*list));
	struct weir_class class;
	size_t count = 0;

	if (!list)
		return ENOMEM;
	for (__u32 slot = 1; slot < server->a->about.slots; slot++) {
		if (bpf_map_lookup_elem(server->a->class, &slot, &class))
			return errno; /* the end of the process, and of all its memory */
		if (class.state != WEIR_CLASS_READY)
			continue;
		list[count] = serve(server, &class, slot);
		if (!list[count++])
			return ENOMEM;
	}
	qsort(list, count, sizeof(*list), compare_handles);
	release(server->list, server->count, list, count);
	server->list = list;
	server->count = count;
	return 0;
}

/* The table and the configurations, if they may have changed. 0 or an errno. */
static int refresh(struct server *server)
{
	static const __u32 none = WEIR_SLOT_NONE;
	struct weir_class first;
	int error;

	if (bpf_map_lookup_elem(server->a->class, &none, &first))
		return errno;
	if (server->round % TABLE_ROUNDS && first.serial == server->serial)
		return 0;
	server->serial = first.serial;
	error = read_table(server);
	if (!error && weir_config_read(server->a, &server->config))
		error = errno;
	for (size_t i = 0; !error && i < server->count; i++)
		if (weir_config_read(&server->list[i]->a, &server->list[i]->config))
			error = errno;
	return error;
}

static void take(const struct weir_class_now *now, void *context)
{
	struct server *server = context;
	struct served *s = find(server, now->handle);

	if (s)
		s->now = *now;
	s = find(server, now->parent);
	if (s)
		s->inner = true;
}

/* Polls the classes' content, a part of them in each round, and into changed ones at once. 0 or an errno. */
static int look_inside(struct server *server)
{
	for (size_t i = 0; i < server->count; i++) {
		struct served *s = server->list[i];
		int error;

		if (s->asked && s->leaf == s->now.leaf && i % LEAF_ROUNDS != server->round % LEAF_ROUNDS)
			continue;
		memset(&s->in_it, 0, sizeof(s->in_it));
		error = weir_leaf_read(server->netlink, (int)server->a->about.ifindex, &s->now, &s->in_it);
		if (error)
			return -error;
		s->leaf = s->now.leaf;
		s->asked = true;
	}
	return 0;
}

/* A class in which nothing moves and nothing is left to move need not be written each time. */
static bool is_idle(const struct weir_polled *before, const struct weir_polled *p)
{
	const struct weir_queue *q = &p->queue;

	return before->sent_bytes == p->sent_bytes && before->queue.poll_unusable == q->poll_unusable &&
	       !q->backlog_bytes && !q->law.u_q40 && !q->law.u_ecn_q40 && q->law.started &&
	       q->poll_ns - before->queue.poll_ns < IDLE_WRITE_NS;
}

static int step_one(struct server *server, struct served *s, const struct weir_polled_look *round)
{
	struct weir_polled before = s->polled;
	struct weir_polled_look look = *round;
	bool missed = s->missed;

	/* a dump beside which others come and go may leave one out; one that is gone stays away */
	s->missed = !s->now.handle;
	if (s->missed && !missed && before.queue.law.started)
		return 0;
	look.backlog_bytes = s->now.backlog_bytes;
	look.sent_bytes = s->now.sent_bytes;
	look.unusable = weir_class_judge(&s->now, s->inner, &s->in_it, server->a->about.whole_tree);
	weir_polled_step(&s->polled, &s->config, &look);
	if (!is_idle(&before, &s->polled))
		return weir_polled_store(&s->polled, server->a->queue, s->a.slot);
	s->polled.queue.poll_ns = before.queue.poll_ns; /* as it is in the map */
	return 0;
}

/* One poll of all classes, and their steps. *interval_us: the shortest that one of them has. 0 or an errno. */
static int round_of(struct server *server, __u64 due_ns, __u32 *interval_us)
{
	static const __u32 none = WEIR_SLOT_NONE;
	struct weir_polled_look look = {.due_ns = due_ns};
	int error = refresh(server);

	if (error)
		return error;
	*interval_us = server->count ? WEIR_TAU_MAX_US : server->config.law.interval_us;
	for (size_t i = 0; i < server->count; i++) {
		struct served *s = server->list[i];

		s->now = (struct weir_class_now){0};
		s->inner = false;
		if (s->config.law.interval_us < *interval_us)
			*interval_us = s->config.law.interval_us;
	}
	error = weir_classes_each(server->netlink, (int)server->a->about.ifindex, take, server);
	look.now_ns = weir_now_ns();
	error = error ? -error : look_inside(server);
	for (size_t i = 0; !error && i < server->count; i++)
		error = step_one(server, server->list[i], &look);
	server->pulse.queue.poll_ns = look.now_ns;
	server->pulse.queue.law.started = 1;
	if (!error && bpf_map_update_elem(server->a->queue, &none, &server->pulse.queue, BPF_F_LOCK))
		error = errno;
	server->round++;
	return error;
}

static __u64 cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (__u64)ts.tv_sec * 1000000000ULL + (__u64)ts.tv_nsec;
}

int weir_poll_run_classes(struct weir_attachment *a, int netlink, int ready)
{
	struct server server = {.a = a, .netlink = netlink};
	__u64 due_ns = weir_now_ns(), begun_ns, begun_cpu_ns, next_ns, now_ns;
	struct weir_qdisc root;
	__u32 interval_us = 0;
	int error;

	for (;;) {
		error = weir_poll_wait(due_ns);
		if (error)
			return error;
		if (server.round % WEIR_POLL_PIN_CHECK_INTERVALS == 0) {
			if (!weir_attachment_is_there(a))
				return 0; /* detached */
			error = weir_qdisc_read(netlink, (int)a->about.ifindex, &root);
			if (error) /* a dump of no interface would just be empty */
				return -error;
		}
		begun_ns = weir_now_ns();
		begun_cpu_ns = cpu_ns();
		error = round_of(&server, due_ns, &interval_us);
		if (error)
			return error;
		if (server.round == 1 && write(ready, "", 1) != 1)
			return errno;

		/* on the grid, unless we came too late for the next point of it, or this one was too dear */
		next_ns = begun_ns + ROUNDS_APART * (cpu_ns() - begun_cpu_ns);
		now_ns = weir_now_ns();
		due_ns += interval_us * 1000ULL;
		if (due_ns < now_ns)
			due_ns = now_ns + interval_us * 1000ULL;
		if (due_ns < next_ns)
			due_ns = next_ns;
	}
}
