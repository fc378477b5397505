/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "signal/bands.h"
#include "clock.h"
#include "error.h"
#include "output.h"
#include "pins/slots.h"
#include "pins/place.h"
#include "printable.h"
#include "signal/signals.h"
#include "weir-xdp/view/json.h"
#include "weir-xdp/view/row.h"
#include "weir-xdp/view/view.h"

#define ATTACH_MS 1000 /* pins without an attachment are no longer taken for one at work */

/* One interface of a watch. */
struct watched {
	char dev[VIEW_LABEL_LEN];      /* as given, or as first found */
	enum weir_direction direction; /* of the law that was first found: one name never changes to the other law */
	char path[PATH_MAX];	       /* --all: of its pins, else "": to be found by its name */
	__u32 class;		       /* --all: whose law it is; 0: the interface's */
	bool open, listed;	       /* it has a queue of ours; --all: its pins are there */
	long failed;		       /* looks in a row that found pins but no attachment */
	__u32 config_id;	       /* as last printed */
	struct view v;
	char why[512]; /* as last printed: why there is no queue */
	struct row_before before;
};

struct watch {
	const struct request *r;
	FILE *out;
	struct watched **list;
	size_t count;
	const char *naming; /* the interface whose laws are being listed */
	bool text;	    /* for people, not JSON */
	size_t rows;	    /* printed since the columns' names were */
	__u64 sample_ns;    /* time of the last sample */
	long tick;
};

#define ROWS_A_HEAD 20

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void line_head(const struct watch *w, const char *kind, __u64 now_ns, const struct watched *d)
{
	fprintf(w->out, "{\"k\":\"%s\",\"t_us\":%llu", kind, now_ns / 1000);
	if (d)
		json_member(w->out, ",", "dev", "", d->dev);
}

static void print_gains(const struct watch *w, struct watched *d, const struct weir_params *params)
{
	d->config_id = d->v.a.config_id;
	fprintf(w->out, ",\"config_id\":%u,", d->config_id);
	json_gains(w->out, "", params);
	fputs("}\n", w->out);
}

/* No queue any more, or still none. With --follow that is printed once; else it is the end: -1. */
static int without(const struct watch *w, struct watched *d, const char *why)
{
	if (d->open)
		view_close(&d->v);
	d->open = false;
	if (!w->r->follow)
		return weir_error("%s", why);
	if (strcmp(d->why, why)) {
		snprintf(d->why, sizeof(d->why), "%s", why);
		if (w->text) {
			weir_print(w->out, "%-16s %s\n", d->dev, why);
			return 0;
		}
		line_head(w, "gone", weir_now_ns(), d);
		json_member(w->out, ",", "why", "", d->why);
		fputs("}\n", w->out);
	}
	return 0;
}

/* The law of a class, if one is meant. 0, or WEIR_NOTHING. */
static int open_class(struct watched *d, __u32 handle)
{
	int result = 0;

	if (handle)
		result = view_of_class(&d->v, handle);
	else if (d->v.a.about.slots > 1)
		result = weir_error("%s has laws of classes: say which one, %s/1:10", d->dev, d->dev);
	if (!result)
		return 0;
	view_close(&d->v);
	return WEIR_NOTHING;
}

/* 0, -1, WEIR_INCOMPLETE or WEIR_NOTHING. */
static int watched_open(const struct watch *w, struct watched *d)
{
	char path[PATH_MAX], dev[sizeof(d->dev)], found[sizeof(dev) + sizeof(WEIR_INGRESS_SUFFIX)], *netns = NULL,
												    *class;
	__u32 handle = 0;
	int result;

	if (*d->path) {
		if (access(d->path, F_OK))
			return WEIR_NOTHING;
		result = view_open(&d->v, w->r, NULL, d->path);
		if (!result)
			result = open_class(d, d->class);
		if (!result)
			snprintf(d->dev, sizeof(d->dev), "%s", d->v.label);
		return result;
	}
	snprintf(dev, sizeof(dev), "%s", d->dev);
	netns = weir_netns_split(dev);
	class = weir_class_split(dev);
	if (class && !weir_class_parse(&class, &handle))
		return weir_error("%s: no such class", d->dev);
	snprintf(found, sizeof(found), "%s%s", dev,
		 strchr(dev, '/')			 ? ""
		 : handle || d->direction == WEIR_EGRESS ? WEIR_EGRESS_SUFFIX
		 : d->direction				 ? WEIR_INGRESS_SUFFIX
							 : "");
	result = weir_place_find(w->r->pins, found, netns ? netns : w->r->netns, path);
	if (!result)
		result = view_open(&d->v, w->r, dev, path);
	if (!result)
		d->direction = weir_place_of(&d->v.a.about).ingress ? WEIR_INGRESS : WEIR_EGRESS;
	return result ? result : open_class(d, handle);
}

/* Opens what is attached now. 0, or what `without` returns. */
static int look_for(const struct watch *w, struct watched *d)
{
	struct weir_config config;
	char why[sizeof(d->why)] = "";
	int result;

	weir_error_into(why, sizeof(why));
	result = watched_open(w, d);
	if (!result && weir_config_read(&d->v.a, &config)) {
		view_close(&d->v);
		result = -1;
	}
	weir_error_into(NULL, 0);
	if (result) {
		/* an attach at work gets some time before it is called cut short */
		d->failed = result == WEIR_INCOMPLETE ? d->failed + 1 : 0;
		if (w->r->follow && d->failed && d->failed * w->r->every_ms < ATTACH_MS)
			return 0;
		if (*d->why && result == WEIR_NOTHING) /* still nothing */
			return 0;
		return without(w, d, why);
	}
	d->failed = 0;
	d->open = true;
	if (d->v.gone) {
		snprintf(why, sizeof(why), "%s is gone; `weir-xdp detach %s` cleans up", d->dev, d->dev);
		return without(w, d, why);
	}
	*d->why = 0;
	d->config_id = d->v.a.config_id;
	d->before = (struct row_before){0};
	if (w->r->follow && !w->text) {
		const struct weir_meta *about = &d->v.a.about;

		line_head(w, "new", weir_now_ns(), d);
		json_member(w->out, ",", "netns", "", about->netns);
		fprintf(w->out, ",\"netns_inode\":%llu,\"signal\":\"%s\",\"attach_id\":%llu", about->netns_inum,
			weir_signal_name(about->signal), d->v.attach_id);
		print_gains(w, d, &config.law);
	}
	return 0;
}

/* Notices what was detached, attached, or lost its interface since the last look. */
static int look_after(const struct watch *w, struct watched *d)
{
	long looks_a_second = w->r->every_ms < 1000 ? 1000 / w->r->every_ms : 1;
	char why[sizeof(d->why)];
	struct stat st;

	if (d->open) {
		if (stat(d->v.a.path, &st) || st.st_ino != d->v.folder_id || !view_has_law(&d->v))
			snprintf(why, sizeof(why), "%s was detached", d->dev);
		else if (w->tick % looks_a_second == 0 && !view_is_on(&d->v, w->r))
			snprintf(why, sizeof(why), "%s is gone; `weir-xdp detach %s` cleans up", d->dev, d->dev);
		else
			return 0;
		if (without(w, d, why))
			return -1;
	}
	return d->listed ? look_for(w, d) : 0;
}

static void sample_row(struct watch *w, struct watched *d, const struct weir_sample *s, const char *trouble)
{
	if (w->rows % ROWS_A_HEAD == 0)
		row_head(w->out);
	w->rows++;
	row_print(w->out, d->dev, s, trouble, &d->before);
}

static int sample(struct watch *w, struct watched *d)
{
	struct weir_sample s;
	char why[sizeof(d->why)] = "", trouble[1024];
	int result;

	weir_error_into(why, sizeof(why));
	result = view_sample(&d->v, &s, trouble, sizeof(trouble));
	weir_error_into(NULL, 0);
	if (result)
		return without(w, d, why);
	w->sample_ns = s.now_ns;
	if (w->text) {
		sample_row(w, d, &s, trouble);
		return 0;
	}
	if (w->r->follow && s.config_id != d->config_id) {
		line_head(w, "gains", s.now_ns, d);
		print_gains(w, d, &s.config.law);
	}
	line_head(w, "aqm", s.now_ns, d);
	json_member(w->out, ",", "hop", "", w->r->name);
	fprintf(w->out, ",\"backlog_bytes\":%llu,", s.backlog_bytes);
	if (s.has_packets)
		fprintf(w->out, "\"backlog_packets\":%llu,", s.backlog_packets);
	fprintf(w->out,
		"\"tau_us\":%u,\"u\":%.9g,\"drop_probability\":%.9g,\"dq_rate_bit_s\":%.0f,\"seen\":%llu,"
		"\"passed_bytes\":%llu,\"marks\":%llu,\"drops_aqm\":%llu,\"drops_limit\":%llu,\"row\":%u,"
		"\"config_id\":%u",
		s.tau_us, s.u, s.drop_probability, weir_rate_bit_s(s.dq_time_q8_us, &s.config.law),
		s.counters.seen_packets,
		s.counters.seen_bytes - s.counters.dropped_aqm_bytes - s.counters.dropped_limit_bytes,
		s.counters.marked_packets, s.counters.dropped_aqm_packets, s.counters.dropped_limit_packets,
		s.queue.law.row, s.config_id);
	if (s.config.coupled || weir_has_bands(&s.config))
		json_bands(w->out, &s, "");
	json_ages(w->out, &s, trouble, "");
	fputs("}\n", w->out);
	return 0;
}

/* An interface by its name, or what is pinned in a folder. */
static int watched_add(struct watch *w, const char *dev, const char *path, __u32 class)
{
	struct watched **list = realloc(w->list, (w->count + 1) * sizeof(*list)), *d = calloc(1, sizeof(*d));

	if (list)
		w->list = list;
	if (!list || !d) {
		free(d);
		return weir_error("out of memory");
	}
	snprintf(d->dev, sizeof(d->dev), "%s", dev);
	snprintf(d->path, sizeof(d->path), "%s", path);
	d->class = class;
	d->listed = true;
	w->list[w->count++] = d;
	return 0;
}

static int add_class(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct view v = {.a = {.about = a->about}};
	struct watch *w = context;

	snprintf(v.place, sizeof(v.place), "%s", w->naming);
	snprintf(v.label, sizeof(v.label), "%s", w->naming);
	view_set_class(&v, class);
	return watched_add(w, v.label, "", 0);
}

/* DEV/CLASS, or DEV; where that has laws of classes, each of those that it has now. */
static int watched_add_named(struct watch *w, const char *name)
{
	char path[PATH_MAX], dev[VIEW_LABEL_LEN], why[512], *netns;
	struct weir_attachment a;
	int result = -1;

	snprintf(dev, sizeof(dev), "%s", name);
	netns = weir_netns_split(dev);
	weir_error_into(why, sizeof(why));
	if (!weir_class_split(dev) && !weir_place_find(w->r->pins, dev, netns ? netns : w->r->netns, path))
		result = weir_attachment_open(&a, path, dev);
	weir_error_into(NULL, 0);
	if (result)
		return watched_add(w, name, "", 0); /* it reports the fault, or waits */
	w->naming = name;
	result = weir_law_each(&a, add_class, w);
	weir_attachment_close(&a);
	return result;
}

static int compare_watched(const void *a, const void *b)
{
	const struct watched *one = *(struct watched *const *)a, *other = *(struct watched *const *)b;
	int order = strcmp(one->path, other->path);

	return order ? order : one->class < other->class ? -1 : one->class > other->class;
}

struct refresh {
	struct watch *w;
	size_t known;
};

/* One law: the interface's, or that of a class. */
static int refresh_law(struct refresh *refresh, const char *path, __u32 class)
{
	struct watch *w = refresh->w;
	struct watched key, *key_at = &key, **found = NULL;
	struct weir_meta about;
	char dev[sizeof(key.dev)];

	snprintf(key.path, sizeof(key.path), "%s", path);
	key.class = class;
	if (refresh->known)
		found = bsearch(&key_at, w->list, refresh->known, sizeof(*w->list), compare_watched);
	if (found) {
		(*found)->listed = true;
		return 0;
	}
	snprintf(dev, sizeof(dev), "%s", strrchr(path, '/') + 1);
	if (weir_meta_read(path, &about)) {
		if (is_elsewhere(w->r, &about))
			return 0;
		label(w->r, &about, dev, sizeof(dev));
	}
	return watched_add(w, dev, path, class);
}

struct refresh_class {
	struct refresh *refresh;
	const char *path;
};

static int refresh_class(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	const struct refresh_class *c = context;

	return refresh_law(c->refresh, c->path, class->handle);
}

static int refresh_one(const char *path, void *context)
{
	struct refresh_class c = {context, path};
	struct weir_attachment a;
	struct weir_meta about;
	char why[256];
	int result;

	if (!weir_meta_read(path, &about) || about.slots == 1)
		return refresh_law(context, path, 0);
	weir_error_into(why, sizeof(why)); /* one that is being made or taken away has no law yet or any more */
	result = weir_attachment_open(&a, path, about.dev);
	if (!result) {
		result = weir_law_each(&a, refresh_class, &c);
		weir_attachment_close(&a);
	} else {
		result = 0;
	}
	weir_error_into(NULL, 0);
	return result;
}

/* --all: the list becomes what there are pins of, in their order, and what was there until now. */
static int watched_refresh(struct watch *w)
{
	struct refresh refresh = {w, w->count};
	size_t kept = 0;

	for (size_t i = 0; i < refresh.known; i++)
		w->list[i]->listed = false;
	if (weir_place_each(w->r->pins, refresh_one, &refresh))
		return -1;
	for (size_t i = 0; i < w->count; i++) {
		if (w->list[i]->listed || w->list[i]->open)
			w->list[kept++] = w->list[i];
		else
			free(w->list[i]);
	}
	w->count = kept;
	qsort(w->list, w->count, sizeof(*w->list), compare_watched);
	return 0;
}

/* The classes of an interface are read once in a round for all its laws; of: whose they are. */
static void read_classes(struct watched *d, struct weir_class_list *classes, __u64 *of)
{
	d->v.a.classes = NULL;
	if (!d->v.class.handle || d->v.netlink < 0)
		return;
	if (*of != d->v.folder_id) {
		free(classes->list);
		*of = weir_classes_read(d->v.netlink, (int)d->v.a.about.ifindex, classes) ? 0 : d->v.folder_id;
	}
	d->v.a.classes = *of ? classes : NULL; /* else each asks for its own, and says what is wrong */
}

static int watch_once(struct watch *w)
{
	struct weir_class_list classes = {0};
	__u64 of = 0;
	bool any = false;

	if (w->r->all && watched_refresh(w))
		return -1;
	for (size_t i = 0; i < w->count; i++)
		if (look_after(w, w->list[i]))
			return -1;
	for (size_t i = 0; i < w->count; i++) {
		if (!w->list[i]->open)
			continue;
		any = true;
		read_classes(w->list[i], &classes, &of);
		if (sample(w, w->list[i])) {
			free(classes.list);
			return -1;
		}
	}
	free(classes.list);
	if (!any && !w->text) { /* so that a reader can distinguish it from a watch that hangs */
		line_head(w, "idle", weir_now_ns(), NULL);
		fputs("}\n", w->out);
	}
	return 0;
}

/* Ten descriptors a queue, and the usual soft limit is 1024. */
static void allow_many_files(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files); /* where it can't be, opening says "too many open files" */
	}
}

/* A round each every_ms until somebody stops us, the count is reached, or a round fails. */
static int watch_all(struct watch *w)
{
	__u64 due_ns = weir_now_ns();
	int result = 0;

	for (; !stop && (!w->r->count || w->tick < w->r->count); w->tick++) {
		struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};
		struct pollfd reader = {.fd = fileno(w->out)};

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			continue;
		result = watch_once(w);
		if (fflush(w->out))
			result = weir_error("%s: %s", w->r->out ? w->r->out : "standard output", strerror(errno));
		else if (poll(&reader, 1, 0) == 1 &&
			 reader.revents & POLLERR) /* with no line to write for it to show */
			result = weir_error("standard output: %s", strerror(EPIPE));
		if (result)
			break;
		due_ns += (__u64)w->r->every_ms * 1000000;
		if (w->sample_ns > due_ns) /* we were stopped or starved: no burst of samples to make up for it */
			due_ns = w->sample_ns;
	}
	return result;
}

int command_watch(const struct request *r)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct watch w = {.r = r, .out = stdout};
	struct stat st;
	int result;

	if (r->all == (r->dev != NULL))
		return weir_error("watch: which interfaces? `weir-xdp watch DEV ...` or --all"), USAGE_ERROR;
	if (r->json && r->text)
		return weir_error("watch: --json or --text, not both"), USAGE_ERROR;
	w.text = r->text || (!r->json && !r->out && isatty(STDOUT_FILENO));
	if (r->all && *r->netns && stat(r->netns, &st))
		return weir_error("%s: %s", r->netns, weir_reason(errno)), 1;
	if (r->dev && watched_add_named(&w, r->dev))
		return 1;
	for (int i = 0; i < r->words; i++)
		if (watched_add_named(&w, r->word[i]))
			return 1;
	allow_many_files();
	if (r->out && !(w.out = weir_output_open(r->out)))
		return weir_error("%s: %s", r->out, strerror(errno)), 1;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	result = watch_all(&w);
	if (w.out != stdout && fclose(w.out) && !result)
		result = weir_error("%s: %s", r->out, strerror(errno));
	for (size_t i = 0; i < w.count; i++) {
		if (w.list[i]->open)
			view_close(&w.list[i]->v);
		free(w.list[i]);
	}
	free(w.list);
	return result ? 1 : 0;
}
