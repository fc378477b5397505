/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/daemon/keep.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "output.h"
#include "printable.h"

#define SOON_MS 50	/* for what comes together: a script's tc commands, an interface's first messages */
#define APART_MS 500	/* between two looks, whatever messages come */
#define CHECKS_APART 10 /* from one look at all tables to the next it takes so many times the CPU time of one */
#define RETRY_MS 1000	/* after a failure, and after a change of our own; doubled each time, */
#define RETRY_MOST 6	/* so many times */

bool kept_is_known(const struct kept *k, unsigned int ifindex)
{
	return k->attached && k->ifindex == ifindex;
}

/* Counts the parts that differ from the configuration. */
static void count_drift(struct kept *k, bool changed, const struct outcome *o)
{
	bool any = false;

	for (int i = 0; i < PARTS; i++) {
		if (o->part[i] && !k->part[i])
			k->drift[i]++;
		any |= o->part[i];
		k->part[i] = o->part[i] && !changed;
	}
	k->mended += any && changed;
}

/* A look that failed, or has to be looked after. */
static void again(struct kept *k, __u64 now_ms)
{
	k->due_ms = now_ms + ((__u64)RETRY_MS << k->failed);
	k->failed += k->failed < RETRY_MOST;
}

__u64 kept_check_ms(const struct kept *list, size_t count, const struct daemon_config *c)
{
	__u64 round_us = 0;

	for (size_t i = 0; i < count; i++)
		round_us += list[i].cost_us;
	round_us *= CHECKS_APART;
	return round_us / 1000 > (__u64)c->check_ms ? round_us / 1000 : (__u64)c->check_ms;
}

bool wanted_concerns(const struct wanted *w, __u32 class)
{
	__u32 major = class & 0xffff0000;

	return !w->class || w->class == class || w->class == major ||
	       (class == major && (w->class & 0xffff0000) == major);
}

void kept_take(struct kept *k, __u64 check_ms, unsigned int ifindex, int result, bool changed, const struct outcome *o,
	       __u64 now_ms)
{
	k->last_ms = now_ms;
	k->looks++;
	k->due_ms = now_ms + check_ms;
	if (!ifindex) { /* a message will say that it is there */
		k->attached = k->off = false;
		k->ifindex = 0;
		k->failed = 0;
		memset(k->part, 0, sizeof(k->part));
		return;
	}
	k->off = result && ((o->did == DID_ATTACH && o->part[PART_PROGRAM]) || o->part[PART_CLASS]);
	if (result) {
		k->failures++;
		again(k, now_ms);
		return;
	}
	/* a first attach mends nothing; what an earlier daemon left may have drifted while none was there */
	if (!k->apply && (kept_is_known(k, ifindex) || o->did != DID_ATTACH))
		count_drift(k, changed, o);
	else
		memset(k->part, 0, sizeof(k->part));
	if (o->did == DID_ATTACH && changed)
		k->attaches++;
	if (o->did == DID_ADOPT || !changed) {
		k->failed = 0;
	} else { /* no message reports others' changes meanwhile: looks until there is nothing to mend */
		again(k, now_ms);
		if (k->due_ms > now_ms + check_ms)
			k->due_ms = now_ms + check_ms;
	}
	k->ifindex = ifindex;
	k->raised = o->raised;
	k->attached = true;
	k->apply = false;
}

void kept_touch(struct kept *k, __u64 now_ms)
{
	__u64 soon = now_ms + SOON_MS, apart = k->last_ms + APART_MS;

	if (k->last_ms && apart > soon)
		soon = apart;
	if (soon < k->due_ms)
		k->due_ms = soon;
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP weir_xdp_%s %s\n# TYPE weir_xdp_%s %s\n", name, help, name, type);
}

/* A label's value: interfaces' names may hold anything but a slash and space. */
static void label(FILE *out, const char *name)
{
	char printable[4 * sizeof(((struct kept *)NULL)->name) + 1];

	for (const char *text = weir_printable(printable, sizeof(printable), name); *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
}

static void line(FILE *out, const char *name, const struct kept *k, const char *part, __u64 value)
{
	fprintf(out, "weir_xdp_%s{dev=\"", name);
	label(out, k->name);
	if (part)
		fprintf(out, "\",part=\"%s", part);
	fprintf(out, "\"} %llu\n", value);
}

static bool is_on(const struct kept *k)
{
	return k->attached && !k->off && !k->part[PART_PROGRAM] && !k->part[PART_CLASS];
}

static void print(FILE *out, const struct kept *list, size_t count, __u64 removed, __u64 check_ms)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} counters[] = {
		{"mended_total", "times that drift was mended", offsetof(struct kept, mended)},
		{"attaches_total", "times that the law was put on the interface", offsetof(struct kept, attaches)},
		{"failures_total", "looks that ended with an error", offsetof(struct kept, failures)},
		{"looks_total", "times that the interface was looked at", offsetof(struct kept, looks)},
	};

	head(out, "attached", "gauge", "1 if the law is on, 0 if not or if there is no interface or class");
	for (size_t i = 0; i < count; i++)
		line(out, "attached", &list[i], NULL, is_on(&list[i]));
	head(out, "target_raised", "gauge", "1 while the target is higher than asked for: two packets take that long");
	for (size_t i = 0; i < count; i++)
		line(out, "target_raised", &list[i], NULL, is_on(&list[i]) && list[i].raised);
	head(out, "drift_total", "counter", "times that something was not as configured although it had been");
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < PARTS; k++)
			line(out, "drift_total", &list[i], part_names[k], list[i].drift[k]);
	head(out, "drift_left", "gauge", "1 while something differs and is left so");
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < PARTS; k++)
			line(out, "drift_left", &list[i], part_names[k], list[i].part[k]);
	for (size_t c = 0; c < sizeof(counters) / sizeof(*counters); c++) {
		head(out, counters[c].name, "counter", counters[c].help);
		for (size_t i = 0; i < count; i++)
			line(out, counters[c].name, &list[i], NULL,
			     *(const __u64 *)((const char *)&list[i] + counters[c].at));
	}
	head(out, "removed_total", "counter", "attachments taken away that no configuration asks for any more");
	fprintf(out, "weir_xdp_removed_total %llu\n", removed);
	head(out, "check_seconds", "gauge", "time between two looks at what no message tells of");
	fprintf(out, "weir_xdp_check_seconds %llu.%03llu\n", check_ms / 1000, check_ms % 1000);
}

int metrics_write(const char *path, const struct kept *list, size_t count, __u64 removed, __u64 check_ms)
{
	char draft[WEIR_DRAFT_LEN];
	FILE *out = weir_draft_open(path, draft);
	bool failed;
	int error;

	if (!out)
		return weir_error("metrics: %s: %s", draft, strerror(errno));
	print(out, list, count, removed, check_ms);
	failed = ferror(out);
	failed |= fclose(out) != 0;
	if (!failed && !rename(draft, path))
		return 0;
	error = errno;
	unlink(draft);
	return weir_error("metrics: %s: %s", path, strerror(error));
}
