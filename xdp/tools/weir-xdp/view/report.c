/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/view/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/pkt_sched.h>

#include "signal/bands.h"
#include "gains/ahead.h"
#include "error.h"
#include "gains/coupling.h"
#include "gains/gains.h"
#include "gains/units.h"
#include "hooks/hooks.h"
#include "net/tree.h"
#include "pins/leaf_aqm.h"
#include "pins/lock.h"
#include "printable.h"
#include "signal/poll/process.h"
#include "signal/signals.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/json.h"
#include "weir-xdp/view/view.h"
#include "weir/scone.h"

static void counters_json(const struct weir_sample *s)
{
	const struct weir_counters *n = &s->counters;

	printf(", \"counters\": {\"seen_packets\": %llu, \"seen_bytes\": %llu, \"passed_packets\": %llu, "
	       "\"passed_bytes\": %llu, "
	       "\"marked_packets\": %llu, \"marked_bytes\": %llu, \"dropped_aqm_packets\": %llu, "
	       "\"dropped_aqm_bytes\": %llu, "
	       "\"dropped_limit_packets\": %llu, \"dropped_limit_bytes\": %llu, \"non_ip_packets\": %llu, "
	       "\"non_ip_bytes\": %llu, \"updates\": %llu, \"missed_intervals\": %llu, "
	       "\"rows\": [%llu, %llu, %llu, %llu, %llu], \"resyncs\": %llu, \"strays\": %llu, \"stale\": %llu, "
	       "\"unusable\": %llu, \"advised\": %llu}}",
	       n->seen_packets, n->seen_bytes, n->seen_packets - n->dropped_aqm_packets - n->dropped_limit_packets,
	       n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes, n->marked_packets, n->marked_bytes,
	       n->dropped_aqm_packets, n->dropped_aqm_bytes, n->dropped_limit_packets, n->dropped_limit_bytes,
	       n->non_ip_packets, n->non_ip_bytes, n->steps.updates, n->steps.missed_intervals, n->steps.rows[0],
	       n->steps.rows[1], n->steps.rows[2], n->steps.rows[3], n->steps.rows[4], n->resyncs, s->drain.strays,
	       n->stale, n->unusable, n->advised);
}

static void advice_json(const struct weir_advice *a)
{
	if (a->kind == WEIR_ADVISE_RATE)
		printf(", \"advise\": {\"rate_bit_s\": %llu, \"signal\": %u, \"signal_bit_s\": %llu}", a->rate_bit_s,
		       a->signal, weir_scone_rate_bit_s(a->signal));
	else if (a->kind == WEIR_ADVISE_SHARE)
		printf(", \"advise\": \"share\"");
}

static void advice_text(const struct weir_advice *a, const struct weir_counters *n)
{
	char rate[24] = "the fair share";

	if (a->kind == WEIR_ADVISE_OFF)
		return;
	if (a->kind == WEIR_ADVISE_RATE)
		weir_say_rate(rate, sizeof(rate), (double)weir_scone_rate_bit_s(a->signal));
	printf("  advises %s in SCONE packets: %llu rewritten\n", rate, n->advised);
}

/* Qdiscs below the law whose AQM attach disabled, while they are printed. */
struct leaf_listing {
	const struct view *v;
	unsigned int count;
};

static bool is_below(const struct leaf_listing *list, const struct weir_leaf_aqm *leaf)
{
	return !list->v->class.handle || list->v->class.handle == leaf->parent;
}

static void leaf_json(__u32 handle, const struct weir_leaf_aqm *leaf, void *context)
{
	struct leaf_listing *list = context;
	char name[WEIR_TREE_NAME_LEN], class[WEIR_CLASS_LEN] = "";

	if (!is_below(list, leaf))
		return;
	weir_qdisc_name(name, sizeof(name), leaf->kind, handle);
	if (leaf->parent != TC_H_ROOT)
		weir_class_name(class, sizeof(class), leaf->parent);
	fputs(list->count++ ? ", " : ", \"leaf_aqm_off\": [", stdout);
	json_member(stdout, "{", "qdisc", " ", name);
	json_member(stdout, ", ", "class", " ", class);
	fputc('}', stdout);
}

static void leaf_text(__u32 handle, const struct weir_leaf_aqm *leaf, void *context)
{
	struct leaf_listing *list = context;
	char name[WEIR_TREE_NAME_LEN], before[96];

	if (!is_below(list, leaf))
		return;
	weir_qdisc_name(name, sizeof(name), leaf->kind, handle);
	weir_aqm_say(leaf->kind, leaf->before, leaf->off, before, sizeof(before));
	weir_print(stdout, "  AQM of %s is disabled until detach (was %s)\n", name, before);
}

static const char *line_name(const struct weir_framing *f)
{
	return f->line == WEIR_LINE_ATM ? "atm" : f->line == WEIR_LINE_PTM ? "ptm" : "plain";
}

/* Of the line, whether the queue is here or elsewhere. */
static const struct weir_framing *framing_of(const struct view *v, const struct weir_sample *s)
{
	return v->a.about.shape.handle ? &v->a.about.shape.framing : &s->config.framing;
}

static bool is_framed(const struct weir_framing *f)
{
	return f->counts_ip || f->extra_bytes || f->mpu_bytes || f->line != WEIR_LINE_PLAIN;
}

static int overhead_bytes(const struct weir_framing *f, const struct weir_sample *s)
{
	return f->extra_bytes + (f->counts_ip ? (int)s->config.l2_bytes : 0);
}

static void framing_json(const struct view *v, const struct weir_sample *s)
{
	const struct weir_framing *f = framing_of(v, s);

	if (!is_framed(f))
		return;
	printf(", \"framing\": {\"line\": \"%s\", \"mpu_bytes\": %u", line_name(f), f->mpu_bytes);
	if (f->counts_ip)
		printf(", \"overhead_bytes\": %d", overhead_bytes(f, s));
	putchar('}');
}

static void framing_text(const struct view *v, const struct weir_sample *s)
{
	const struct weir_framing *f = framing_of(v, s);

	if (!is_framed(f))
		return;
	printf("  frames of the line: %s", line_name(f));
	if (f->counts_ip)
		printf(", overhead %d bytes beside an IP packet", overhead_bytes(f, s));
	if (f->mpu_bytes)
		printf(", at least %u bytes", f->mpu_bytes);
	putchar('\n');
}

static void class_json(const struct view *v)
{
	char name[WEIR_CLASS_LEN];

	weir_class_name(name, sizeof(name), v->class.handle);
	json_member(stdout, ", ", "class", " ", name);
	if (v->class.by_mark)
		printf(", \"mark\": %u", v->class.mark);
}

static void status_json(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_signal_row *signal = weir_signal_of(m->signal);
	struct weir_hook_description hook = weir_hook_of(m)->describe();
	struct leaf_listing leaves = {.v = v};

	json_member(stdout, "{", "dev", " ", v->label);
	if (v->class.handle)
		class_json(v);
	json_member(stdout, ", ", "netns", " ", m->netns);
	json_member(stdout, ", ", "pins", " ", v->a.path);
	printf(", \"netns_inode\": %llu, \"attach_id\": %llu, \"config_id\": %u", m->netns_inum, v->attach_id,
	       s->config_id);
	json_member(stdout, ", ", "hook", " ", weir_hook_name(m->hook));
	json_member(stdout, ", ", "signal", " ", signal->name);
	json_member(stdout, ", ", "why", " ", m->why);
	printf(", \"gone\": %s, \"fixed\": %s", v->gone ? "true" : "false", s->config.frozen ? "true" : "false");
	if (signal->needs_peer) {
		json_member(stdout, ", ", "peer", " ", m->peer);
		json_member(stdout, ", ", "peer_netns", " ", m->peer_netns);
	}
	if (hook.owner)
		json_member(stdout, ", ", "xdp_owner", " ", hook.owner);
	if (m->shape.handle)
		printf(", \"shape_bit_s\": %llu, \"flow_queues\": %s", m->shape.rate_bit_s,
		       m->shape.flows ? "true" : "false");
	framing_json(v, s);
	weir_leaf_aqm_each(v->a.path, leaf_json, &leaves);
	fputs(leaves.count ? "]" : "", stdout);
	if (s->config.rate_bit_s)
		printf(", \"rate_bit_s\": %llu", s->config.rate_bit_s);
	if (m->signal == WEIR_SIGNAL_POLL)
		printf(", \"poll\": {\"pid\": %d, \"alive\": %s, \"silent_us\": %llu, \"errno\": %d}", m->poll_pid,
		       weir_poll_lives(m, &s->config, s->silent_ns) ? "true" : "false", s->silent_ns / 1000,
		       m->poll_errno);
	if (s->config.target_asked_us)
		printf(", \"target_asked_us\": %u", s->config.target_asked_us);
	printf(", \"limit_packets\": %llu, \"limit_bytes\": %llu", s->config.limit_packets, s->config.limit_bytes);
	printf(", ");
	json_gains(stdout, " ", &s->config.law);
	if (s->config.coupled) {
		json_coupling(stdout, " ", &s->config);
		json_bands(stdout, s, " ");
	}
	if (weir_has_bands(&s->config)) {
		json_flow_bands(stdout, " ", &s->config);
		json_bands(stdout, s, " ");
	}
	if (s->config.flow_records)
		printf(", \"flow_records\": true");
	advice_json(&s->config.advice);
	printf(", \"backlog_bytes\": %llu", s->backlog_bytes);
	if (s->has_packets)
		printf(", \"backlog_packets\": %llu", s->backlog_packets);
	printf(", \"tau_us\": %u, \"dq_rate_bit_s\": %.0f, \"u\": %.9g, \"drop_probability\": %.9g, \"row\": %u",
	       s->tau_us, weir_rate_bit_s(s->dq_time_q8_us, &s->config.law), s->u, s->drop_probability,
	       s->queue.law.row);
	json_ages(stdout, s, trouble, " ");
	if (*v->ahead)
		json_member(stdout, ", ", "bypass", " ", v->ahead);
	counters_json(s);
}

/* Attachment, its place, and its faults. */
static void place_text(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_signal_row *signal = weir_signal_of(m->signal);
	struct weir_hook_description hook = weir_hook_of(m)->describe();
	struct leaf_listing leaves = {.v = v};
	char rate[24], class[WEIR_CLASS_LEN] = "";

	if (v->class.handle)
		weir_class_name(class, sizeof(class), v->class.handle);
	weir_print(stdout, "%s%s%s%s%s: %s (%s), signal %s (%s)%s\n", m->dev, *class ? "/" : "", class,
		   *m->netns ? " in " : "", m->netns, hook.direction, weir_hook_name(m->hook),
		   weir_signal_name(m->signal), m->why,
		   v->gone ? " -- GONE: the interface or our program on it was removed; detach cleans up" : "");
	if (*trouble)
		weir_print(stdout, "  TROUBLE: %s\n", trouble);
	if (*v->ahead)
		weir_print(stdout, "  BYPASS: %s\n", v->ahead);
	weir_print(stdout, "  pinned in %s\n", v->a.path);
	if (hook.owner_line)
		weir_print(stdout, "  %s\n", hook.owner_line);
	if (signal->needs_peer)
		weir_print(stdout, "  peer %s%s%s\n", m->peer, *m->peer_netns ? " in " : "", m->peer_netns);
	if (m->shape.handle) {
		weir_say_rate(rate, sizeof(rate), (double)m->shape.rate_bit_s);
		printf("  shaped to %s by htb %x: of weir-xdp%s\n", rate, m->shape.handle >> 16,
		       m->shape.flows ? ", with flow queues" : "");
	}
	weir_leaf_aqm_each(v->a.path, leaf_text, &leaves);
	if (s->config.rate_bit_s) {
		weir_say_rate(rate, sizeof(rate), (double)s->config.rate_bit_s);
		printf("  drains at %s\n", rate);
	}
	framing_text(v, s);
	if (s->config.target_asked_us)
		printf("  target raised from %u to %u us: two packets take so long at this rate\n",
		       s->config.target_asked_us, s->config.law.target_us);
	if (m->signal == WEIR_SIGNAL_POLL) {
		bool alive = weir_poll_lives(m, &s->config, s->silent_ns);

		printf("  poll process %d %s%s%s", m->poll_pid, alive ? "runs" : "is DEAD, U decays",
		       m->poll_errno ? ": " : "", m->poll_errno ? weir_reason(m->poll_errno) : "");
		if (alive)
			putchar('\n');
		else
			weir_print(stdout, "; `weir-xdp ensure %s%s` starts another\n", v->label,
				   m->slots > 1 && !v->class.handle ? "/CLASS" : "");
	}
}

static void queue_text(const struct view *v, const struct weir_sample *s)
{
	const struct weir_meta *m = &v->a.about;

	printf("  queue %llu bytes", s->backlog_bytes);
	if (s->has_packets)
		printf(" in %llu packets", s->backlog_packets);
	if (!s->dq_time_q8_us)
		printf(", rate unknown");
	else if (weir_signal_takes_rate(m->signal))
		printf(", %.3f ms", s->tau_us / 1e3);
	else
		printf(", %.3f ms at %.3f Mbit/s (measured %.1f s ago)", s->tau_us / 1e3,
		       weir_rate_bit_s(s->dq_time_q8_us, &s->config.law) / 1e6, (double)s->rate_age_ns / 1e9);
	printf("; U %.6f%s, drop probability %.6f, row %u; ", s->u, s->config.frozen ? " (fixed)" : "",
	       s->drop_probability, s->queue.law.row);
	if (s->queue.law.row)
		printf("last step %.1f s ago\n", (double)s->age_ns / 1e9);
	else
		printf("no step yet\n");
}

static void bands_text(const struct weir_sample *s)
{
	for (int i = 0; i < WEIR_BANDS; i++) {
		const struct weir_band_sample *b = &s->band[i];
		const struct weir_counters *n = &b->counters;

		printf("  band %s, class %x:%x: %llu bytes in %llu packets, %.3f ms, probability %.6f; seen %llu, "
		       "marked "
		       "%llu, dropped by the law %llu, by the limit %llu\n",
		       weir_has_bands(&s->config) ? (i == WEIR_BAND_AHEAD ? "A" : "B")
		       : i == WEIR_BAND_L	  ? "L"
						  : "C",
		       s->config.band_class[i] >> 16, s->config.band_class[i] & 0xffff, b->backlog_bytes,
		       b->backlog_packets, b->tau_us / 1e3, b->probability, n->seen_packets, n->marked_packets,
		       n->dropped_aqm_packets, n->dropped_limit_packets);
	}
}

static void status_text(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_counters *n = &s->counters;
	struct weir_gains gains;

	place_text(v, s, trouble);
	queue_text(v, s);
	if (s->config.coupled || weir_has_bands(&s->config))
		bands_text(s);
	printf("  seen %llu packets, %llu bytes; marked %llu, dropped by the law %llu, by the limit %llu; not IP "
	       "%llu\n",
	       n->seen_packets, n->seen_bytes, n->marked_packets, n->dropped_aqm_packets, n->dropped_limit_packets,
	       n->non_ip_packets);
	printf("  steps %llu, intervals missed %llu, rows of Algorithm 1: %llu %llu %llu %llu %llu\n", n->steps.updates,
	       n->steps.missed_intervals, n->steps.rows[0], n->steps.rows[1], n->steps.rows[2], n->steps.rows[3],
	       n->steps.rows[4]);
	if (m->signal == WEIR_SIGNAL_VETH)
		printf("  count restarted %llu, strays %llu\n", n->resyncs, s->drain.strays);
	if (m->signal == WEIR_SIGNAL_POLL)
		printf("  decided while the poll process was silent: %llu\n", n->stale);
	if (n->unusable)
		printf("  reads of a queue that the law can't use: %llu\n", n->unusable);
	if (s->config.flow_records)
		printf("  flows are recorded (--flow-records): weir-xdp flows\n");
	advice_text(&s->config.advice, n);
	if (s->config.limit_packets)
		printf("  limit_packets = %llu\n", s->config.limit_packets);
	if (s->config.limit_bytes)
		printf("  limit_bytes = %llu\n", s->config.limit_bytes);
	weir_gains_from_params(&gains, &s->config.law);
	weir_gains_print(&gains, stdout, false);
	if (s->config.coupled)
		weir_coupling_print(&s->config.coupling, stdout, false, "");
	if (weir_has_bands(&s->config))
		weir_ahead_print(&s->config.flow_bands, stdout, false, "");
	if (s->config.hosts == WEIR_HOSTS_MARK)
		printf("  hosts = mark/%#x\n", s->config.host_mask);
	else if (s->config.hosts)
		printf("  hosts = %s\n", weir_hosts_names[s->config.hosts]);
	if (s->config.dscp)
		printf("  dscp = on\n");
}

static int print_one(struct view *v, const struct request *r, unsigned int *printed)
{
	struct weir_sample sample;
	char trouble[1024];

	if (view_sample(v, &sample, trouble, sizeof(trouble)))
		return -1;
	view_count_bypassed(v, &sample);
	if (r->json) {
		fputs((*printed)++ ? ",\n " : "", stdout);
		status_json(v, &sample, trouble);
	} else {
		status_text(v, &sample, trouble);
	}
	return 0;
}

/* While all laws of an interface are printed. */
struct laws_listing {
	const struct request *r;
	struct view *v;
	unsigned int *printed;
};

/* A class in one line. */
static void class_text(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_counters *n = &s->counters;
	char name[WEIR_CLASS_LEN], rate[24] = "unknown";

	weir_class_name(name, sizeof(name), v->class.handle);
	if (s->dq_time_q8_us)
		weir_say_rate(rate, sizeof(rate), weir_rate_bit_s(s->dq_time_q8_us, &s->config.law));
	printf("  class %s", name);
	if (v->class.by_mark)
		printf(", mark %#x", v->class.mark);
	printf(": target %.3f ms; %llu bytes in %llu packets, %.3f ms, departs at %s; drop probability %.6f; seen "
	       "%llu, "
	       "marked %llu, dropped %llu\n",
	       s->config.law.target_us / 1e3, s->backlog_bytes, s->backlog_packets, s->tau_us / 1e3, rate,
	       s->drop_probability, n->seen_packets, n->marked_packets, n->dropped_aqm_packets);
	if (*trouble)
		weir_print(stdout, "    TROUBLE: %s\n", trouble);
	if (*v->ahead)
		weir_print(stdout, "    BYPASS: %s\n", v->ahead);
}

static int print_law(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct laws_listing *list = context;
	struct view *v = list->v;
	struct weir_sample sample;
	char trouble[1024], ahead[sizeof(v->ahead)];
	int result = 0;

	if (!wants_class(list->r, class->handle))
		return 0;
	view_set_class(v, class);
	memcpy(ahead, v->ahead, sizeof(ahead));
	if (list->r->json || list->r->classes || !class->handle) {
		result = print_one(v, list->r, list->printed);
	} else {
		*v->ahead = 0; /* it is the interface's, and said of that */
		result = view_sample(v, &sample, trouble, sizeof(trouble));
		if (!result) {
			view_count_bypassed(v, &sample);
			class_text(v, &sample, trouble);
		}
	}
	memcpy(v->ahead, ahead, sizeof(ahead));
	return result;
}

/* Those that are asked for; where each of several classes has a law and none is asked for, all of them in a line each.
 */
static int print_laws(struct view *v, const struct request *r, unsigned int *printed)
{
	bool table = v->a.about.slots > 1,
	     list_of_one = table && r->json && r->dev && !(r->classes == 1 && r->class[0] & 0xffff);
	struct laws_listing list = {r, v, printed};
	struct weir_class_list classes = {0};
	struct weir_sample sample;
	char trouble[1024];
	int result;

	if (table && !r->json && !r->classes) {
		if (view_sample(v, &sample, trouble, sizeof(trouble)))
			return -1;
		place_text(v, &sample, trouble);
		printf("  packets of no law: %llu\n", sample.counters.seen_packets);
	}
	for (unsigned int i = 0; i < r->classes; i++)
		if ((r->class[i] & 0xffff || !table) && view_of_class(v, r->class[i]))
			return -1;
	if (table && v->netlink >= 0 && !weir_classes_read(v->netlink, (int)v->a.about.ifindex, &classes))
		v->a.classes = &classes;
	fputs(list_of_one ? "[" : "", stdout);
	result = weir_law_each(&v->a, print_law, &list);
	fputs(list_of_one ? "]\n" : "", stdout);
	v->a.classes = NULL;
	free(classes.list);
	return result;
}

int print_status(const struct request *r, const char *dev, const char *path, unsigned int *printed)
{
	const char *name = dev ? dev : strrchr(path, '/') + 1;
	struct weir_meta about;
	char why[1024];
	struct view v;
	int result;

	if (!dev && weir_meta_read(path, &about))
		name = about.dev;
	if (weir_lock_await(path, name))
		return -1;
	weir_error_into(why, sizeof(why));
	result = view_open(&v, r, dev, path);
	weir_error_into(NULL, 0);
	if (result)
		return strstr(why, name) ? weir_error("%s", why) : weir_error("%s: %s", name, why);
	result = print_laws(&v, r, printed);
	view_close(&v);
	return result;
}

void warn_of_bypass(const struct request *r, const char *path)
{
	struct view v;

	if (view_open(&v, r, r->dev, path))
		return;
	if (*v.ahead)
		weir_note("%s: attached, but %s", r->dev, v.ahead);
	view_close(&v);
}
