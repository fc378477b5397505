/* SPDX-License-Identifier: Apache-2.0 */
#include "attachment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "place.h"
#include "tree.h"

/* The inner map in force, pinned, and the one that will be. */
#define CONFIG_NOW "config_now"
#define CONFIG_NEXT "config_next"

/* A poll process that wrote no longer ago than this, or than twice what its program takes for silence, lives. */
#define POLL_LIVES_NS 1000000000ULL

static const __u32 first = 0;

__u64 weir_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (__u64)ts.tv_sec * 1000000000ULL + (__u64)ts.tv_nsec;
}

const char *weir_signal_name(__u32 signal)
{
	static const char *const names[] = {"auto", "backlog", "poll", "veth", "virtual"};

	return signal < sizeof(names) / sizeof(*names) ? names[signal] : "unknown";
}

__u64 weir_process_start(int pid)
{
	char path[64], text[1024], *after_name, state;
	unsigned long long start = 0;
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = 0;
	after_name = strrchr(text, ')'); /* proc(5): fields 3 and 22, after a name that may hold anything */
	if (!after_name ||
	    sscanf(after_name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

static int get(const char *path, const char *name)
{
	char pin[PATH_MAX + 32];

	snprintf(pin, sizeof(pin), "%s/%s", path, name);
	return bpf_obj_get(pin);
}

int weir_attachment_open(struct weir_attachment *a, const char *path, const char *dev)
{
	struct stat st;

	*a = (struct weir_attachment){.config = -1, .queue = -1, .counters = -1, .drain = -1, .meta = -1};
	snprintf(a->path, sizeof(a->path), "%s", path);
	if (stat(a->path, &st)) {
		if (errno == ENOENT || errno == ENOTDIR)
			return weir_error("%s was detached", dev);
		return weir_error("%s: %s", a->path, weir_pin_reason(errno));
	}
	a->meta = get(a->path, "meta");
	if (a->meta < 0 && (errno == EPERM || errno == EACCES))
		return weir_error("%s: %s", dev, weir_pin_reason(errno));
	if (a->meta >= 0 && !weir_map_fits(a->meta, sizeof(a->about))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	if (a->meta < 0 || bpf_map_lookup_elem(a->meta, &first, &a->about) || !a->about.complete) {
		weir_attachment_close(a);
		weir_error("%s holds the leftovers of an attach that was cut short; `weir-xdp detach %s` removes them, "
			   "and so does the next attach",
			   a->path, dev);
		return WEIR_INCOMPLETE;
	}
	a->config = get(a->path, "config");
	a->queue = get(a->path, "queue");
	a->counters = get(a->path, "counters");
	if (a->config < 0 || a->queue < 0 || a->counters < 0) {
		int error = errno;

		weir_attachment_close(a);
		return weir_error("%s: a map is missing (%s); `weir-xdp detach %s` cleans up", a->path, strerror(error),
				  dev);
	}
	a->drain = get(a->path, "drain");
	if (!weir_map_fits(a->queue, sizeof(struct weir_queue)) ||
	    !weir_map_fits(a->counters, sizeof(struct weir_counters)) ||
	    (a->drain >= 0 && !weir_map_fits(a->drain, sizeof(struct weir_drain)))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	return 0;
}

void weir_attachment_close(struct weir_attachment *a)
{
	int *const fds[] = {&a->config, &a->queue, &a->counters, &a->drain, &a->meta};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* The map with this number: by its pin, which takes no more than the file's permission, or else by its number. */
static int config_open(const struct weir_attachment *a, __u32 id)
{
	__u32 size = sizeof(struct bpf_map_info);
	struct bpf_map_info info = {0};
	int inner = get(a->path, CONFIG_NOW);

	if (inner >= 0 && !bpf_obj_get_info_by_fd(inner, &info, &size) && info.id == id)
		return inner;
	if (inner >= 0)
		close(inner);
	return bpf_map_get_fd_by_id(id);
}

int weir_config_read(struct weir_attachment *a, struct weir_config *config)
{
	/* A `set` between the look-ups takes the map away that the first one named; the next one is in place then. */
	for (int tries = 0; tries < 100; tries++) {
		__u32 id;
		int inner, result;

		if (bpf_map_lookup_elem(a->config, &first, &id))
			break;
		if (a->config_id && a->config_id == id) { /* nobody writes into a map that is in force */
			*config = a->cached;
			return 0;
		}
		inner = config_open(a, id);
		if (inner < 0 && (errno == ENOENT || errno == EPERM))
			continue; /* without CAP_SYS_ADMIN a number is no use, but the pin will have it in a moment */
		if (inner < 0)
			break;
		if (!weir_map_fits(inner, sizeof(a->cached))) {
			close(inner);
			return weir_foreign_error(a->about.dev);
		}
		result = bpf_map_lookup_elem(inner, &first, &a->cached);
		close(inner);
		a->config_id = result ? 0 : id;
		*config = a->cached;
		if (!result)
			return 0;
		break;
	}
	return weir_error("can't read the configuration: %s", weir_reason(errno));
}

int weir_config_replace(int outer, const char *path, const struct weir_config *config)
{
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "config", sizeof(__u32), sizeof(*config), 1, NULL);
	char now[PATH_MAX + 32], next[PATH_MAX + 32];
	int error = 0;

	if (inner < 0)
		return weir_error("can't create a map for the configuration: %s", weir_reason(errno));
	snprintf(now, sizeof(now), "%s/" CONFIG_NOW, path);
	snprintf(next, sizeof(next), "%s/" CONFIG_NEXT, path);
	unlink(next); /* of one who was killed here */
	/* the kernel returns from the update of the outer one when no packet uses the old configuration any more */
	if (bpf_map_update_elem(inner, &first, config, BPF_ANY) || bpf_obj_pin(inner, next) ||
	    bpf_map_update_elem(outer, &first, &inner, BPF_ANY) || rename(next, now))
		error = errno;
	close(inner);
	return error ? weir_error("can't write the configuration: %s", weir_reason(error)) : 0;
}

double weir_rate_bit_s(__u64 dq_time_q8_us, const struct weir_params *p)
{
	return dq_time_q8_us ? (double)(1U << p->dq_shift) * 8 * 256 * 1e6 / (double)dq_time_q8_us : 0;
}

static int read_counters(int map, struct weir_counters *sum)
{
	int cpus = libbpf_num_possible_cpus();
	struct weir_counters *each;
	int result;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 1)
		return weir_error("can't tell how many CPUs there are");
	each = calloc((size_t)cpus, sizeof(*each));
	if (!each)
		return weir_error("out of memory");
	result = bpf_map_lookup_elem(map, &first, each);
	for (int cpu = 0; !result && cpu < cpus; cpu++)
		for (size_t i = 0; i < sizeof(*sum) / sizeof(__u64); i++)
			((__u64 *)sum)[i] += ((__u64 *)&each[cpu])[i];
	free(each);
	return result ? weir_error("can't read the counters: %s", weir_reason(errno)) : 0;
}

static __u64 since_ns(__u64 now_ns, __u64 then_ns)
{
	return now_ns - then_ns < WEIR_CLOCK_BACK ? now_ns - then_ns : 0;
}

bool weir_poll_lives(const struct weir_meta *about, const struct weir_config *config, __u64 silent_ns)
{
	__u64 patience_ns = 2 * WEIR_POLL_SILENT_INTERVALS * config->law.interval_us * 1000ULL;

	if (about->poll_errno) /* its last words */
		return false;
	if (about->poll_start_ticks && weir_process_start(about->poll_pid) == about->poll_start_ticks)
		return true;
	return silent_ns < (patience_ns > POLL_LIVES_NS ? patience_ns : POLL_LIVES_NS);
}

bool weir_poll_lives_at(const char *path, const struct weir_meta *about)
{
	struct weir_attachment a;
	struct weir_config config;
	struct weir_queue queue;
	char why[256];
	bool lives = false;

	weir_error_into(why, sizeof(why));
	if (!weir_attachment_open(&a, path, about->dev)) {
		lives = !weir_config_read(&a, &config) &&
			!bpf_map_lookup_elem_flags(a.queue, &first, &queue, BPF_F_LOCK) &&
			weir_poll_lives(about, &config, since_ns(weir_now_ns(), queue.poll_ns));
		weir_attachment_close(&a);
	}
	weir_error_into(NULL, 0);
	return lives;
}

/*
 * U as the next packet would find it. A silent poll process' fades (weir_poll_arrival). Elsewhere a packet that comes
 * after missed intervals takes a step that makes up for them (docs/design/law.md, step 5): the same step on a copy.
 */
static __u64 effective_u_q40(const struct weir_sample *s)
{
	__u64 stretch_ns = s->config.law.interval_us * 1000ULL * WEIR_POLL_SILENT_INTERVALS, halvings;
	struct weir_state law = s->queue.law;

	if (s->config.frozen)
		return law.u_q40;
	if (s->config.signal != WEIR_SIGNAL_POLL) {
		if (s->age_ns >= 2000ULL * s->config.law.interval_us)
			weir_update(&law, &s->config.law, s->now_ns / 1000, s->tau_us);
		return law.u_q40;
	}
	if (s->silent_ns < stretch_ns)
		return law.u_q40;
	halvings = s->silent_ns / stretch_ns;
	return halvings < 64 ? law.u_q40 >> halvings : 0;
}

int weir_sample_take(struct weir_attachment *a, int netlink, struct weir_sample *s)
{
	struct weir_rate rate = {0};
	__u64 pair, measured_us;
	int error;

	memset(s, 0, sizeof(*s));
	if (weir_config_read(a, &s->config) || read_counters(a->counters, &s->counters))
		return -1;
	s->config_id = a->config_id;
	/* what went out before what came in, or the difference could be negative */
	if (a->drain >= 0 && bpf_map_lookup_elem(a->drain, &first, &s->drain))
		return weir_error("can't read the departures: %s", weir_reason(errno));
	if (bpf_map_lookup_elem_flags(a->queue, &first, &s->queue, BPF_F_LOCK))
		return weir_error("can't read the queue: %s", weir_reason(errno));
	s->now_ns = weir_now_ns();
	for (size_t i = 0; i < sizeof(s->counters.steps) / sizeof(__u64); i++)
		((__u64 *)&s->counters.steps)[i] += ((const __u64 *)&s->queue.poll_steps)[i];

	s->has_packets = true;
	s->dq_time_q8_us = s->drain.rate.dq_time_q8_us;
	measured_us = s->drain.rate.dq_start_us;
	/* before the first step: since the attach */
	s->age_ns = since_ns(s->now_ns, s->queue.law.started ? s->queue.law.last_us * 1000 : s->queue.poll_ns);
	switch (s->config.signal) {
	case WEIR_SIGNAL_VETH:
		pair = s->queue.in - s->drain.out;
		s->backlog_bytes = WEIR_PAIR_BYTES(pair);
		s->backlog_packets = WEIR_PAIR_PACKETS(pair);
		break;
	case WEIR_SIGNAL_VIRTUAL: {
		__u64 dt_ns = since_ns(s->now_ns, s->queue.virtual_ns), drained_q16;

		s->has_packets = false;
		s->dq_time_q8_us = s->config.drain_q8_us;
		measured_us = s->now_ns / 1000;
		if (dt_ns < s->config.drain_full_ns) {
			drained_q16 = (dt_ns * s->config.drain_q32_bytes_per_ns) >> 16;
			if (drained_q16 < s->queue.virtual_q16_bytes)
				s->backlog_bytes = (s->queue.virtual_q16_bytes - drained_q16) >> 16;
		}
		break;
	}
	default:
		if (netlink >= 0) { /* else the interface is gone, and its queue with it */
			error = weir_qdisc_read(netlink, (int)a->about.ifindex, &s->root);
			if (error)
				return weir_error("%s: can't read its queue discipline: %s", a->about.dev,
						  weir_reason(error));
			s->backlog_bytes = s->root.backlog_bytes;
			s->backlog_packets = s->root.backlog_packets;
		}
		s->unusable = !weir_root_is(&s->config, s->root.kind, s->root.handle);
		if (s->config.signal == WEIR_SIGNAL_POLL) {
			s->dq_time_q8_us = s->queue.poll_dq_time_q8_us;
			measured_us = s->queue.poll_dq_start_us;
			s->unusable |= s->queue.poll_unusable;
			s->silent_ns = since_ns(s->now_ns, s->queue.poll_ns);
		}
	}
	if (s->unusable) /* the rate is that of a queue that is gone */
		s->dq_time_q8_us = 0;
	s->rate_age_ns = since_ns(s->now_ns, measured_us * 1000);
	rate.dq_time_q8_us = s->dq_time_q8_us;
	s->tau_us = weir_tau_us(&rate, &s->config.law, s->backlog_bytes);
	s->u = (double)effective_u_q40(s) / (double)WEIR_U_ONE_Q40;
	s->drop_probability = s->unusable ? 0 : s->config.law.squared ? s->u * s->u : s->u;
	return 0;
}
