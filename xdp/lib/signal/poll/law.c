/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal `poll`: the laws in a process. Each interval it asks the kernel for the counters of the queues, steps each law
 * and leaves its state in the map that the program decides by. The queue of one law for the interface is the root
 * qdisc; one dump has the queues of all classes. The cost is bounded: the process takes at most a fifth of a CPU, and
 * polls less often where that is not enough.
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
#include "pins/slots.h"
#include "signal/bands.h"
#include "signal/judge.h"
#include "signal/poll/step.h"
#include "signal/root.h"

/* From the beginning of a round to that of the next it takes at least so many times the CPU time it took. */
#define ROUNDS_APART 5

/* Whether the pins and the interface are still there is asked once in so many rounds. */
#define PIN_ROUNDS 16

/* The table of classes and their configurations are read when they have changed, and once in so many rounds: their
 * writer may have been killed before its notice. */
#define TABLE_ROUNDS 64

/* The content of each class is asked once in so many rounds, a part of them in each, because each takes a request. */
#define LEAF_ROUNDS 64

/* The root is looked at each time, what is below it so often: that takes a question for each class. */
#define TREE_CHECK_NS 1000000000ULL

/* A full Ethernet frame. */
#define FRAME_BYTES 1514

/* A class that has been idle since it was last written is written again after so long, as a sign of life. */
#define IDLE_WRITE_NS 1000000000ULL

/* One queue with a law. */
struct served {
	struct weir_class class;  /* handle 0: the root qdisc */
	struct weir_attachment a; /* with its slot: for its configuration */
	struct weir_config config;
	struct weir_polled polled;
	struct weir_qdisc now;	   /* as this round has found it; handle 0: not at all */
	__u32 leaf;		   /* the qdisc that was asked about last */
	bool asked, inner, missed; /* missed: by the last round */
	struct weir_tree in_it;
	__u64 tree_ns;		 /* root: when the tree was last read, */
	bool objection;		 /* and whether there is something against it */
	struct weir_polled line; /* coupled: rate of both bands together */
};

struct server {
	struct weir_attachment *a;
	int netlink;
	struct served **list; /* in the order of their handles */
	size_t count;
	__u64 serial;		   /* of the table as it was read */
	struct weir_config config; /* of the first slot */
	__u32 round;
	struct weir_polled pulse; /* the first slot's where it is of no class: that the process lives */
};

static bool has_table(const struct server *server)
{
	return server->a->about.slots > 1;
}

static int compare_handles(const void *a, const void *b)
{
	__u32 one = (*(struct served *const *)a)->class.handle, other = (*(struct served *const *)b)->class.handle;

	return one < other ? -1 : one > other;
}

static struct served *find(const struct server *server, __u32 handle)
{
	struct served key, *key_at = &key, **found = NULL;

	key.class.handle = handle;
	if (server->count)
		found = bsearch(&key_at, server->list, server->count, sizeof(*found), compare_handles);
	return found ? *found : NULL;
}

/* A new list of queues, while it is made. */
struct reading {
	struct server *server;
	struct served **list;
	size_t count;
};

/* A queue of the table: as it is served already, or anew. */
static int serve(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct reading *reading = context;
	struct served *s = find(reading->server, class->handle);

	if (!s || s->a.slot != a->slot || s->class.serial != class->serial) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return errno;
		s->class = *class;
		s->a = *a;
		if (bpf_map_lookup_elem_flags(a->queue, &a->slot, &s->polled.queue, BPF_F_LOCK)) {
			free(s);
			return errno;
		}
	}
	reading->list[reading->count++] = s;
	return 0;
}

/* Reads the queues that have a law now. 0 or an errno, which is the end of the process, and of all its memory. */
static int read_table(struct server *server)
{
	struct reading reading = {.server = server, .list = calloc(server->a->about.slots, sizeof(*reading.list))};
	struct served **old = server->list;
	size_t old_count = server->count;
	int error;

	if (!reading.list)
		return ENOMEM;
	error = weir_law_each(server->a, serve, &reading);
	if (error)
		return error < 0 ? EIO : error;
	qsort(reading.list, reading.count, sizeof(*reading.list), compare_handles);
	server->list = reading.list;
	server->count = reading.count;
	for (size_t i = 0; i < old_count; i++)
		if (find(server, old[i]->class.handle) != old[i])
			free(old[i]);
	free(old);
	return 0;
}

/* The table and the configurations, if they may have changed. 0 or an errno. */
static int refresh(struct server *server)
{
	struct weir_class first;
	int error = 0;

	if (weir_slot_read(server->a, WEIR_SLOT_NONE, &first))
		return EIO;
	if (has_table(server) && server->round % TABLE_ROUNDS && first.serial == server->serial)
		return 0;
	server->serial = first.serial;
	if (has_table(server) || !server->round)
		error = read_table(server);
	if (!error && weir_config_read(server->a, &server->config))
		error = errno;
	for (size_t i = 0; !error && i < server->count; i++)
		if (weir_config_read(&server->list[i]->a, &server->list[i]->config))
			error = errno;
	return error;
}

static void take(const struct weir_qdisc *now, void *context)
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

/* Whether the law can go by the root qdisc there is now. A failed reading of the tree is repeated the next time. */
static bool root_fits(const struct server *server, struct served *s, const struct weir_qdisc *root, __u64 now_ns)
{
	const struct weir_meta *about = &server->a->about;
	char why[512];

	if (!weir_root_is(&s->config, root->kind, root->handle))
		return false;
	if ((!s->tree_ns || now_ns - s->tree_ns >= TREE_CHECK_NS) &&
	    !weir_tree_read(server->netlink, (int)about->ifindex, &s->in_it)) {
		s->tree_ns = now_ns;
		s->objection = weir_config_objection(&s->in_it, &s->config, about->whole_tree, why, sizeof(why));
	}
	return !s->objection;
}

/* A class in which nothing moves and nothing is left to move need not be written each time. */
static bool is_idle(const struct weir_polled *before, const struct weir_polled *p)
{
	const struct weir_queue *q = &p->queue;

	return before->sent_bytes == p->sent_bytes && before->queue.poll_unusable == q->poll_unusable &&
	       !q->backlog_bytes && !q->law.u_q40 && !q->law.u_ecn_q40 && q->law.started &&
	       q->poll_ns - before->queue.poll_ns < IDLE_WRITE_NS;
}

static int step_class(struct server *server, struct served *s, struct weir_polled_look look)
{
	struct weir_polled before = s->polled;
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

/* One dump of all classes, and their steps. 0 or an errno. */
static int round_of_classes(struct server *server, struct weir_polled_look *look)
{
	static const __u32 none = WEIR_SLOT_NONE;
	int error;

	for (size_t i = 0; i < server->count; i++) {
		server->list[i]->now = (struct weir_qdisc){0};
		server->list[i]->inner = false;
	}
	error = weir_classes_each(server->netlink, (int)server->a->about.ifindex, take, server);
	look->now_ns = weir_now_ns();
	error = error ? -error : look_inside(server);
	for (size_t i = 0; !error && i < server->count; i++)
		error = step_class(server, server->list[i], *look);
	server->pulse.queue.poll_ns = look->now_ns;
	server->pulse.queue.law.started = 1;
	if (!error && bpf_map_update_elem(server->a->queue, &none, &server->pulse.queue, BPF_F_LOCK))
		error = errno;
	return error;
}

/* Records of flows (weir/sampling.h) take the delay of band A from its backlog. 0 or an errno. */
static int store_ahead(const struct server *server, const struct weir_config *config)
{
	static const __u32 ahead = WEIR_BAND_AHEAD;
	struct weir_qdisc now;
	struct weir_queue q;
	int error = weir_class_read(server->netlink, (int)server->a->about.ifindex, config->band_class[ahead], &now);

	if (error)
		return error == -ENOENT ? 0 : -error;
	if (bpf_map_lookup_elem_flags(server->a->queue, &ahead, &q, BPF_F_LOCK))
		return errno;
	q.backlog_bytes = now.backlog_bytes;
	return bpf_map_update_elem(server->a->queue, &ahead, &q, BPF_F_LOCK) ? errno : 0;
}

/*
 * Band L is served first: its packets leave at the rate of the line. The program adds what arrives until the next
 * round, and the packet on the line, which the class no longer counts. 0 or an errno.
 */
static int store_low(const struct server *server, const struct served *s, const struct weir_polled_look *look,
		     __u64 low_bytes, __u64 before_us, int classic_active)
{
	const struct weir_params *p = &s->config.law;
	const struct weir_state *law = &s->polled.queue.law;
	__u64 least_ns = look->now_ns + 1000ULL * weir_tau_us(&s->line.rate, p, low_bytes);
	__u64 most_ns = look->now_ns + 1000ULL * weir_tau_us(&s->line.rate, p, low_bytes + FRAME_BYTES);
	static const __u32 low = WEIR_BAND_L;
	struct weir_queue q;

	if (bpf_map_lookup_elem_flags(server->a->queue, &low, &q, BPF_F_LOCK))
		return errno;
	q.backlog_bytes = low_bytes;
	q.tau_us = look->tau_least_us;
	q.poll_ns = look->now_ns;
	q.poll_dq_time_q8_us = (__u32)s->line.rate.dq_time_q8_us;
	q.poll_dq_start_us = s->line.rate.dq_start_us;
	if (law->last_us != before_us) /* R, which has the place of U there */
		q.law.u_q40 = weir_follow_q40(q.law.u_q40, law->u_q40, classic_active,
					      look->due_ns / 1000 - before_us >= 2ULL * p->interval_us);
	if (q.low_until_ns < least_ns)
		q.low_until_ns = least_ns;
	else if (q.low_until_ns > most_ns)
		q.low_until_ns = most_ns;
	return bpf_map_update_elem(server->a->queue, &low, &q, BPF_F_LOCK) ? errno : 0;
}

/* Two coupled bands: the law of C by its class, one step for both, and the line's rate for L. 0 or an errno. */
static int step_coupled(struct server *server, struct served *s, const struct weir_qdisc *root,
			struct weir_polled_look *look)
{
	struct weir_qdisc band[WEIR_BANDS] = {0};
	int error = weir_bands_read(server->netlink, (int)server->a->about.ifindex, &s->config, band);
	__u64 before_us;
	int classic_active;

	if (error && error != -ENOENT)
		return -error;
	look->now_ns = weir_now_ns();
	look->unusable = error || !root_fits(server, s, root, look->now_ns);
	look->backlog_bytes = root->backlog_bytes;
	look->sent_bytes = root->sent_bytes;
	weir_polled_rate(&s->line, &s->config, look);
	look->backlog_bytes = band[WEIR_BAND_C].backlog_bytes;
	look->sent_bytes = band[WEIR_BAND_C].sent_bytes;
	look->tau_least_us =
		look->unusable ? 0 : weir_tau_us(&s->line.rate, &s->config.law, band[WEIR_BAND_L].backlog_bytes);
	before_us = s->polled.queue.law.last_us;
	classic_active = look->backlog_bytes || look->sent_bytes != s->polled.sent_bytes;
	weir_polled_step(&s->polled, &s->config, look);
	error = store_low(server, s, look, band[WEIR_BAND_L].backlog_bytes, before_us, classic_active);
	return error ? error : weir_polled_store(&s->polled, server->a->queue, s->a.slot);
}

/* root: as this round has found it; with two bands of flows the law goes by the class of one. 0 or an errno. */
static int step_root(struct server *server, struct served *s, struct weir_qdisc *root, struct weir_polled_look *look)
{
	int error = 0, ahead_error;

	if (s->config.coupled)
		return step_coupled(server, s, root, look);
	if (weir_has_bands(&s->config))
		error = weir_bulk_read(server->netlink, (int)server->a->about.ifindex, &s->config, root);
	if (error && error != -ENOENT)
		return -error;
	ahead_error = weir_has_bands(&s->config) ? store_ahead(server, &s->config) : 0;
	if (ahead_error)
		return ahead_error;
	look->now_ns = weir_now_ns();
	look->backlog_bytes = root->backlog_bytes;
	look->sent_bytes = root->sent_bytes;
	look->unusable = error || !root_fits(server, s, root, look->now_ns);
	weir_polled_step(&s->polled, &s->config, look);
	return weir_polled_store(&s->polled, server->a->queue, s->a.slot);
}

/* One poll of all queues, and their steps. *interval_us: the shortest that one of them has. 0 or an errno. */
static int round_of(struct server *server, __u64 due_ns, __u32 *interval_us)
{
	struct weir_polled_look look = {.due_ns = due_ns};
	struct weir_qdisc root;
	int error = refresh(server);

	if (error)
		return error;
	*interval_us = server->count ? WEIR_TAU_MAX_US : server->config.law.interval_us;
	for (size_t i = 0; i < server->count; i++)
		if (server->list[i]->config.law.interval_us < *interval_us)
			*interval_us = server->list[i]->config.law.interval_us;
	if (!has_table(server) || server->round % PIN_ROUNDS == 0) { /* a dump of no interface would just be empty */
		error = weir_qdisc_read(server->netlink, (int)server->a->about.ifindex, &root);
		if (error)
			return -error;
	}
	error = has_table(server) ? round_of_classes(server, &look) : step_root(server, *server->list, &root, &look);
	server->round++;
	return error;
}

static __u64 cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (__u64)ts.tv_sec * 1000000000ULL + (__u64)ts.tv_nsec;
}

/* Until this time of the clock. 0 or an errno. */
static int wait_until(__u64 due_ns)
{
	struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};
	int error;

	while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL)) == EINTR)
		;
	return error;
}

int weir_poll_run(struct weir_attachment *a, int netlink, int ready)
{
	struct server server = {.a = a, .netlink = netlink};
	__u64 due_ns = weir_now_ns(), begun_ns, begun_cpu_ns, next_ns, now_ns;
	__u32 interval_us = 0;
	int error;

	for (;;) {
		error = wait_until(due_ns);
		if (error)
			return error;
		if (server.round % PIN_ROUNDS == 0 && !weir_attachment_is_there(a))
			return 0; /* detached */
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
