/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/view/view.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/hooks.h"
#include "signal/judge.h"
#include "signal/signals.h"
#include "undo.h"

/* Interval of checks of the tree under the interface; the root at each sample. */
#define TREE_CHECK_NS 2000000000ULL

/* Of the bytes a queue took the law may miss so many, for what is counted otherwise (headers of segments, overhead). */
#define MISSED_SHARE 0.25
#define MISSED_MIN_BYTES 100000

bool can_reach(const struct weir_place *place, const char *netns)
{
	struct weir_place here;
	char why[256];
	int back;
	bool same = false;

	weir_error_into(why, sizeof(why));
	if (!weir_netns_enter(netns, &back)) {
		weir_place_here(&here);
		weir_netns_leave(back);
		same = weir_place_same_netns(&here, place);
	}
	weir_error_into(NULL, 0);
	return same;
}

/* Whether an attachment is in the namespace a command is about; that of --netns, else ours. */
static bool is_here(const struct request *r, const struct weir_meta *about)
{
	struct weir_place place = weir_place_of(about);

	return can_reach(&place, r->netns);
}

void label(const struct request *r, const struct weir_meta *about, char *text, size_t size)
{
	bool plain = !*about->netns || is_here(r, about);
	char now[IF_NAMESIZE];
	const char *name = weir_place_name_now(about, r->netns, now) > 0 ? now : about->dev;

	snprintf(text, size, "%s%s%s%s", name, weir_hook_is_ingress(about->hook) ? WEIR_INGRESS_SUFFIX : "",
		 plain ? "" : "@", plain ? "" : about->netns);
}

bool is_elsewhere(const struct request *r, const struct weir_meta *about)
{
	return !is_here(r, about) && (*r->netns || !*about->netns);
}

void view_close(struct view *v)
{
	weir_attachment_close(&v->a);
	if (v->netlink >= 0)
		close(v->netlink);
}

bool view_is_on(const struct view *v, const struct request *r)
{
	const struct weir_meta *about = &v->a.about;
	const struct weir_hook_row *row = weir_hook_of(about);
	struct weir_place place = weir_place_of(about);
	char name[IF_NAMESIZE] = "", why[256];
	int back;
	bool on;

	if (row && row->by_link) /* a link knows, whatever namespace it is in */
		return weir_hook_is_on(about, v->a.path, name);
	weir_error_into(why, sizeof(why));
	on = !weir_reach(&place, *r->netns ? r->netns : about->netns, &back, name);
	weir_error_into(NULL, 0);
	if (on) {
		on = weir_hook_is_on(about, v->a.path, name);
		weir_netns_leave(back);
	}
	return on;
}

int view_open(struct view *v, const struct request *r, const char *asked, const char *path)
{
	const struct weir_meta *about = &v->a.about;
	struct weir_place place;
	char name[IF_NAMESIZE];
	int back, found;
	struct stat st;

	v->netlink = -1;
	*v->ahead = 0;
	v->tree_ns = 0;
	found = weir_attachment_open(&v->a, path, asked ? asked : strrchr(path, '/') + 1);
	if (found)
		return found;
	v->attach_id = v->folder_id = stat(v->a.path, &st) ? 0 : st.st_ino;
	v->class = (struct weir_class){0};
	place = weir_place_of(about);
	if (asked)
		snprintf(v->label, sizeof(v->label), "%s", asked);
	else
		label(r, about, v->label, sizeof(v->label));
	memcpy(v->place, v->label, sizeof(v->place));
	found = weir_reach(&place, *r->netns ? r->netns : about->netns, &back, name);
	if (found < 0) {
		weir_attachment_close(&v->a);
		return -1;
	}
	v->gone = found > 0;
	if (!found) {
		v->gone = !weir_hook_is_on(about, v->a.path, name);
		v->netlink = weir_netlink_open();
		if (v->netlink >= 0 && !v->gone)
			weir_hook_ahead(about, v->a.path, v->netlink, v->ahead, sizeof(v->ahead));
		weir_netns_leave(back);
		if (v->netlink < 0) {
			weir_error("%s: no netlink socket: %s", v->label, strerror(-v->netlink));
			view_close(v);
			return -1;
		}
	}
	return 0;
}

void view_set_class(struct view *v, const struct weir_class *class)
{
	int length = (int)strcspn(v->place, "@");
	char name[WEIR_CLASS_LEN];

	v->class = *class;
	if (!class->handle)
		return;
	v->attach_id = class->serial << 32 | (v->folder_id & 0xffffffff);
	weir_class_name(name, sizeof(name), class->handle);
	snprintf(v->label, sizeof(v->label), "%.*s/%s%s", length, v->place, name, v->place + length);
}

int view_of_class(struct view *v, __u32 handle)
{
	struct weir_class class;

	if (weir_class_find(&v->a, handle, &class))
		return -1;
	view_set_class(v, &class);
	return 0;
}

bool view_has_law(const struct view *v)
{
	struct weir_class class;

	return !v->class.handle || (!bpf_map_lookup_elem(v->a.class, &v->a.slot, &class) &&
				    class.state == WEIR_CLASS_READY && class.serial == v->class.serial);
}

/*
 * Share of the root qdisc's bytes since the attach that bypassed the law, as a sentence; "" if it saw (nearly) all.
 * sent_bytes: by the qdisc, since the attach; passed_bytes: by the law.
 */
static void say_bypassed(__u64 sent_bytes, __u64 passed_bytes, char *text, size_t size)
{
	*text = 0;
	if (sent_bytes > passed_bytes + MISSED_MIN_BYTES &&
	    (double)(sent_bytes - passed_bytes) > MISSED_SHARE * (double)sent_bytes)
		snprintf(text, size, "of what the queue sent since the attach, %.0f %% never reached the law",
			 100 * (double)(sent_bytes - passed_bytes) / (double)sent_bytes);
}

void view_count_bypassed(struct view *v, const struct weir_sample *s)
{
	const struct weir_counters *n = &s->counters;
	__u64 before_bytes = v->class.handle ? v->class.sent_bytes : v->a.about.sent_bytes;
	size_t length = strlen(v->ahead);
	char text[128] = "";

	/* frames are larger than the packets that the law sees */
	if (!v->gone && *s->root.kind && !s->root.framed && s->root.sent_bytes >= before_bytes)
		say_bypassed(s->root.sent_bytes - before_bytes,
			     n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes, text, sizeof(text));
	if (*text)
		snprintf(v->ahead + length, sizeof(v->ahead) - length, "%s%s", length ? "; " : "", text);
}

static void class_trouble(const struct view *v, const struct weir_sample *s, char *trouble, size_t size)
{
	enum weir_class_objection objection = s->root.handle ? s->queue.poll_unusable : WEIR_CLASS_MISSING;
	char why[256];

	if (v->class.handle && weir_class_say(objection, v->class.handle, why, sizeof(why)))
		snprintf(trouble, size, "the law lets all packets pass: %s", why);
}

int view_sample(struct view *v, struct weir_sample *s, char *trouble, size_t size)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_signal_row *row = weir_signal_of(m->signal);
	struct weir_tree tree;

	*trouble = 0;
	if (weir_sample_take(&v->a, v->netlink, s))
		return -1;
	if (v->gone) { /* nobody decides anything there */
		s->dq_time_q8_us = s->tau_us = 0;
		s->drop_probability = 0;
		return 0;
	}
	if (!row || row->queue_elsewhere)
		return 0;
	if (m->slots > 1) {
		class_trouble(v, s, trouble, size);
		return 0;
	}
	if ((!v->tree_ns || s->now_ns - v->tree_ns >= TREE_CHECK_NS ||
	     (*s->root.kind && (s->root.handle != v->tree.handle || strcmp(s->root.kind, v->tree.kind)))) &&
	    !weir_tree_read(v->netlink, (int)m->ifindex, &tree)) {
		v->tree = tree;
		v->tree_ns = s->now_ns;
	}
	if (!v->tree_ns) /* it could not be read yet */
		return 0;
	if (row->reads_root) { /* the sample's own look at the root is the newer one */
		memcpy(v->tree.kind, s->root.kind, sizeof(v->tree.kind));
		v->tree.handle = s->root.handle;
	}
	if (!weir_tree_trouble(&v->tree, &s->config, m->whole_tree, trouble, size))
		return 0;
	if (!row->reads_root && !*v->tree.kind) /* the rate is that of a shaper that is gone */
		s->dq_time_q8_us = s->tau_us = 0;
	return 0;
}

int find_asked(const struct request *r, char *path)
{
	char dev[VIEW_LABEL_LEN];

	snprintf(dev, sizeof(dev), "%s%s", r->dev, r->classes && !strchr(r->dev, '/') ? WEIR_EGRESS_SUFFIX : "");
	return weir_place_find(r->pins, dev, r->netns, path);
}
