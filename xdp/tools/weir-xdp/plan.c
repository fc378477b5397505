/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/plan.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "error.h"
#include "gains/ahead.h"
#include "gains/floor.h"
#include "hooks/hooks.h"
#include "hooks/libxdp.h"
#include "net/shape.h"
#include "pins/attachment.h"
#include "pins/folder.h"
#include "pins/leaf_aqm.h"
#include "remains.h"
#include "signal/bands.h"
#include "signal/judge.h"
#include "signal/poll/process.h"
#include "signal/signals.h"
#include "signal/virtual.h"
#include "undo.h"
#include "weir-xdp/leaves.h"
#include "weir-xdp/options.h"
#include "weir-xdp/values.h"

#define LOOK_WAIT_NS 5000000000ULL
#define TRIES_A_DOUBT 50

/* Limits with --hook qdisc, those of fq_codel. */
#define QDISC_LIMIT_PACKETS 10240
#define QDISC_LIMIT_BYTES (32U << 20)

#ifndef ARPHRD_IP6GRE
#define ARPHRD_IP6GRE 823 /* linux/if_arp.h; net/if_arp.h of glibc has none */
#endif

/* Loads the program of signal backlog. 0, an errno that says why it does not work here, or -1 after one line. */
static int try_backlog(const struct request *r, struct weir_meta *about, struct loaded *l)
{
	int error =
		access(KERNEL_BTF, R_OK) ? -ENOENT : load_object(WEIR_SIGNAL_BACKLOG, about->hook, OBJECT_ONE, 1, l);

	if (error == -EPERM || error == -EACCES)
		return weir_error("%s: can't load the program: %s", r->dev, weir_reason(error));
	if (error && about->signal)
		return weir_error("signal backlog: %s; signal poll works here",
				  error == -ENOENT ? "this kernel has no BTF (" KERNEL_BTF ")" : weir_reason(error));
	return abs(error);
}

enum object_kind plan_object(const struct request *r)
{
	return r->classes ? OBJECT_CLASSES : r->coupled ? OBJECT_COUPLED : r->bands ? OBJECT_BANDS : OBJECT_ONE;
}

/* Chooses the signal, with the reason; its program is loaded. 0, or -1 with the objection to the one asked for. */
static int choose(const struct request *r, const struct interface *dev, struct weir_meta *about, struct loaded *l)
{
	const struct weir_signal_row *row;
	int error;

	if (about->hook == WEIR_HOOK_QDISC && weir_hook_choose(about->hook, -1, r->dev, about))
		return -1;
	weir_qdisc_kind(dev->place.netns_inum, (__u32)dev->ifindex, l->qdisc);
	l->flow_records = r->flow_records;
	l->hosts = r->hosts != WEIR_HOSTS_NONE;
	l->advises = r->advice.kind != WEIR_ADVISE_OFF;
	about->signal = r->classes ? WEIR_SIGNAL_POLL : request_signal(r);
	row = weir_signal_of(about->signal);
	snprintf(about->why, sizeof(about->why), "%s",
		 r->signal			      ? "asked for"
		 : about->signal == WEIR_SIGNAL_QDISC ? "--hook qdisc given"
		 : r->classes			      ? "--class given"
		 : r->peer			      ? "--peer given"
						      : "--rate given");
	if (!r->classes && interface_check_queue(r, dev, about->signal))
		return -1;
	if (!row && (r->bands || r->coupled)) {
		snprintf(about->why, sizeof(about->why), r->bands ? "two bands" : "--coupled given");
		about->signal = WEIR_SIGNAL_POLL;
	} else if (!row || row->signal == WEIR_SIGNAL_BACKLOG) {
		error = try_backlog(r, about, l);
		if (error < 0)
			return -1;
		if (!error) {
			if (!row)
				snprintf(about->why, sizeof(about->why), "the kernel has BTF and took the program");
			about->signal = WEIR_SIGNAL_BACKLOG;
			return 0;
		}
		snprintf(about->why, sizeof(about->why), "no signal backlog: %s",
			 error == ENOENT ? "this kernel has no BTF" : weir_reason(error));
		about->signal = WEIR_SIGNAL_POLL;
	}
	error = load_object(about->signal, about->hook, plan_object(r), about->slots, l);
	if (error)
		return weir_error("%s: can't load the program: %s", r->dev,
				  error == -ENOSYS ? "this kernel has no bpf() (CONFIG_BPF_SYSCALL)"
						   : weir_reason(error));
	return 0;
}

/* XDP has been asked for or follows from the signal; which of tc's, the kernel decides. */
static int choose_hook(const struct request *r, const struct loaded *l, struct weir_meta *about)
{
	const char *name = about->hook == WEIR_HOOK_XDP ? "weir_ingress" : "weir_egress";
	const struct weir_side side = {r->dev, (int)about->ifindex, BPF_TC_EGRESS, false};
	int back, result;

	if (weir_hook_choose(about->hook, bpf_program__fd(bpf_object__find_program_by_name(l->object, name)), r->dev,
			     about) ||
	    weir_netns_enter(r->netns, &back))
		return -1;
	result = weir_hook_check(&side, about);
	weir_netns_leave(back);
	return result;
}

static int claim(struct plan *p, const char *path)
{
	const struct request *r = p->r;
	char name[IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX)];
	struct weir_meta about;

	snprintf(name, sizeof(name), "%s%s", p->dev.place.name, p->ingress ? WEIR_INGRESS_SUFFIX : "");
	/* again: who detaches the last one takes the folder of all away when it is empty */
	for (int tries = 0; tries < 100; tries++) {
		if (weir_folder_make(r->pins))
			return -1;
		if (!mkdir(path, 0700)) {
			weir_folder_give(path);
			snprintf(p->path, sizeof(p->path), "%s", path);
			return 0;
		}
		if (errno != ENOENT)
			break;
	}
	if (errno != EEXIST)
		return weir_error("%s: %s", path, weir_reason(errno));
	weir_meta_read(path, &about);
	return weir_error("already attached to %s (signal %s); `weir-xdp set` changes gains, `weir-xdp detach %s` "
			  "comes first for anything else, or `weir-xdp ensure %s`",
			  name, weir_signal_name(about.signal), name, name);
}

static void first_state(const struct request *r, const struct weir_config *config, struct weir_queue *q)
{
	*q = (struct weir_queue){0};
	if (config->frozen) {
		q->law.started = 1;
		q->law.u_q40 = q->law.u_ecn_q40 = (__u64)rint(r->fixed * (double)WEIR_U_ONE_Q40);
	}
	q->virtual_ns = q->poll_ns = weir_now_ns();
}

/* The laws, before any packet can meet them. */
static int fill(struct plan *p)
{
	struct weir_queue q;

	first_state(p->r, &p->config, &q);
	/* packets in the queue will come out, too; with two bands it is of neither */
	if (p->r->peer && !p->r->coupled && !p->r->bands)
		q.in = WEIR_PAIR(p->dev.qdisc.backlog_packets, p->dev.qdisc.backlog_bytes);
	for (__u32 i = 0; i < p->laws.count; i++)
		if (!p->laws.list[i].carried || !p->laws.list[i].class.handle)
			p->laws.list[i].config = p->config;
	return laws_put(&p->l.a, p->r, &p->laws, &q, &p->from);
}

/* Loads, pins and fills what the programs need, so that the first packet finds all of it. */
static int prepare(struct plan *p)
{
	const struct request *r = p->r;
	struct weir_meta *about = &p->about;
	struct loaded *l = &p->l;
	char name[PATH_MAX + 32];

	if (r->adopt) {
		about->signal = WEIR_SIGNAL_VIRTUAL;
		about->owner = WEIR_OWNER_OTHER;
		snprintf(about->why, sizeof(about->why), "another loader's program");
		if (load_adopted(r->dev, r->netns, p->dev.ifindex, l))
			return -1;
		about->config_map_id = weir_map_id(l->a.config);
	} else if (choose(r, &p->dev, about, l) || choose_hook(r, l, about)) {
		return -1;
	}
	p->config.signal = about->signal;
	about->build = l->build;
	snprintf(l->a.path, sizeof(l->a.path), "%s", p->path);
	/* the meta map first: should we be killed, it knows what to take away */
	snprintf(name, sizeof(name), "%s/meta", p->path);
	if (weir_meta_write(l->a.meta, about, r->dev))
		return -1;
	if (weir_pin(l->a.meta, name))
		return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	return (r->adopt ? pin_adopted(l, p->path) || fill(p) : fill(p) || pin_object(l, p->path)) ? -1 : 0;
}

/* One program at the hook of one end, in its namespace; old: in the place of that one's, with its pins at old_path. */
static int put_at_hook(const struct plan *p, const char *netns, const struct weir_side *side, const char *name,
		       struct weir_meta *about, const struct weir_meta *old, const char *old_path)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(p->l.object, name);
	struct weir_program program = {
		.prog = bpf_program__fd(prog),
		.object = p->l.object,
		.bytes = p->l.bytes,
		.size = p->l.size,
		.config = p->l.a.config,
		.meta = p->l.a.meta,
		.path = p->path,
		.verbose = p->r->verbose,
	};
	int back, result;

	if (!prog)
		return weir_error("the object has no program %s", name);
	if (weir_netns_enter(netns, &back))
		return -1;
	result = old ? weir_hook_swap(side, &program, old, old_path, about) : weir_hook_attach(side, &program, about);
	weir_netns_leave(back);
	return result;
}

int plan_shape(const struct plan *p, bool replace)
{
	int back, netlink, error;

	netlink = weir_netlink_in(p->r->netns, &back);
	if (netlink < 0)
		return -1;
	error = weir_shape_make(netlink, (int)p->dev.place.ifindex, &p->about.shape, replace);
	close(netlink);
	weir_netns_leave(back);
	return error ? weir_error("%s: can't shape it: %s", p->r->dev,
				  error != -ENOENT	 ? weir_reason(error)
				  : p->about.shape.flows ? "this kernel lacks htb or fq_codel (CONFIG_NET_SCH_HTB, "
							   "CONFIG_NET_SCH_FQ_CODEL)"
							 : "this kernel lacks htb (CONFIG_NET_SCH_HTB)")
		     : 0;
}

/*
 * The programs at their hooks, and the poll process. old: in the place of that one, with its pins at old_path; then the
 * process comes first, because from the moment its program is there the law goes by what it writes.
 */
static int attach_all(struct plan *p, const struct weir_meta *old, const char *old_path)
{
	const struct request *r = p->r;
	struct weir_meta *about = &p->about;
	const struct weir_side egress = {r->dev, p->dev.ifindex, BPF_TC_EGRESS, false};
	const struct weir_side ingress = {r->peer, p->peer.ifindex, BPF_TC_INGRESS, false};
	const char *program = about->hook == WEIR_HOOK_XDP ? "weir_ingress" : "weir_egress";
	bool polls = about->signal == WEIR_SIGNAL_POLL, differs;

	if (old && weir_leaf_aqm_carry(old_path, p->path))
		return -1;
	if (!old && about->shape.handle && plan_shape(p, p->regains))
		return -1;
	/* the far end before the near one: what goes in has to be seen coming out */
	if (r->peer && put_at_hook(p, r->peer_netns, &ingress, "weir_peer", about, old, old_path))
		return -1;
	if (about->signal == WEIR_SIGNAL_BACKLOG && attach_departures(&p->l, p->path))
		return -1;
	if (old && polls && weir_poll_start(about, p->l.a.meta, p->path, r->netns, &p->locks))
		return -1;
	if (!r->adopt && put_at_hook(p, r->netns, &egress, program, about, old, old_path))
		return -1;
	if (!old && polls && weir_poll_start(about, p->l.a.meta, p->path, r->netns, &p->locks))
		return -1;
	if (leaves_ensure(r, p->dev.ifindex, p->path, &differs))
		return -1;
	about->complete = 1;
	return weir_meta_write(p->l.a.meta, about, r->dev);
}

/* Writes the data for undoing and reporting, as far as they are known before anything is attached. */
static void describe(const struct request *r, const struct interface *dev, const struct interface *peer,
		     struct weir_meta *about)
{
	about->hook = request_hook(r);
	if (about->hook == WEIR_HOOK_XDP && !r->hook_given && !interface_l2_bytes(dev->type))
		about->hook = WEIR_HOOK_TC_INGRESS;
	about->ifindex = (__u32)dev->ifindex;
	about->peer_ifindex = (__u32)peer->ifindex;
	about->whole_tree = request_sums(r) | (about->shape.flows ? WEIR_SUM_FLOWS : 0);
	about->kept = r->kept;
	about->by_direction = r->direction == WEIR_INGRESS;
	about->both = r->both;
	about->netns_inum = dev->place.netns_inum;
	about->netns_cookie = dev->place.netns_cookie;
	about->sent_bytes = dev->qdisc.sent_bytes;
	about->peer_netns_inum = peer->place.netns_inum;
	about->peer_netns_cookie = peer->place.netns_cookie;
	snprintf(about->dev, sizeof(about->dev), "%s", dev->place.name);
	snprintf(about->peer, sizeof(about->peer), "%s", peer->place.name);
	snprintf(about->netns, sizeof(about->netns), "%s", r->netns);
	snprintf(about->peer_netns, sizeof(about->peer_netns), "%s", r->peer_netns);
}

static void configure_law(const struct request *r, const struct weir_gains *gains, double rate_bit_s,
			  struct weir_config *config)
{
	weir_gains_apply(gains, rate_bit_s, config);
	config->frozen = r->fixed_given;
	if (r->fixed_given) { /* nor may a delay add to it */
		config->law.delay_bound_us = 0;
		config->law.delay_limit_us = 0;
	}
}

/* All that the program goes by but the signal. 0, or -1 after one line. */
static int configure(const struct request *r, const struct interface *dev, const struct weir_gains *gains,
		     double shaped_bit_s, __u32 hook, struct weir_config *config)
{
	struct timespec tick;
	char why[512];

	configure_law(r, gains, r->rate_bit_s > 0 ? r->rate_bit_s : shaped_bit_s, config);
	config->limit_packets = r->limit_packets ? r->limit_packets : hook == WEIR_HOOK_QDISC ? QDISC_LIMIT_PACKETS : 0;
	config->limit_bytes = r->limit_bytes ? r->limit_bytes : hook == WEIR_HOOK_QDISC ? QDISC_LIMIT_BYTES : 0;
	config->ifindex = (__u32)dev->ifindex;
	config->netns_inum = (__u32)dev->place.netns_inum;
	/* packets that arrive don't wait there, whatever it is; and --hook qdisc replaces the root */
	if (!dev->place.ingress && hook != WEIR_HOOK_QDISC) {
		config->root_handle = dev->qdisc.handle;
		memcpy(config->root_kind, dev->qdisc.kind, sizeof(config->root_kind));
	}
	config->coupled = r->coupled;
	config->flow_records = r->flow_records;
	config->hosts = r->hosts;
	config->host_mask = r->host_mask;
	config->dscp = r->dscp;
	config->advice = r->advice;
	config->advice.line_bit_s = (__u64)(r->rate_bit_s > 0 ? r->rate_bit_s : shaped_bit_s);
	memcpy(config->band_class, r->band_class, sizeof(config->band_class));
	if (r->coupled) /* a reason is interface_check_queue's, which says it */
		weir_coupled_objection(&dev->tree, r->peer ? WEIR_SIGNAL_VETH : WEIR_SIGNAL_POLL, config->band_class,
				       why, sizeof(why));
	if (r->bands) {
		weir_bands_objection(&dev->tree, WEIR_SIGNAL_POLL, request_sums(r), config->band_class, why,
				     sizeof(why));
		weir_ahead_default(&config->flow_bands);
		if (read_bands(r, &config->flow_bands))
			return -1;
	}
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	/* it moves once a tick, and only by whole ticks: what was left over then comes on top */
	config->coarse_lag_ns = 2 * ((__u64)tick.tv_sec * 1000000000ULL + (__u64)tick.tv_nsec);
	if (r->rate_bit_s > 0)
		weir_virtual_set_rate(config, r->rate_bit_s);
	if (r->rate_bit_s > 0)
		config->framing = request_framing(r, interface_l2_bytes(dev->type));
	config->l2_bytes = interface_l2_bytes(dev->type);
	switch (dev->type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
		break;
	case ARPHRD_NONE:
	case ARPHRD_PPP:
	case ARPHRD_RAWIP:
	case ARPHRD_SIT:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
		if (hook != WEIR_HOOK_XDP)
			break;
		/* fall through */
	default:
		return weir_error("%s: its link layer (type %d) is not supported; %s", r->dev, dev->type,
				  hook == WEIR_HOOK_XDP ? "XDP takes Ethernet only; leave --hook out"
							: "Ethernet and plain IP (tun, ppp, tunnels) are");
	}
	return 0;
}

/* With --shape the law goes by what will be there by then, not by what the kernel put there itself. */
static int foresee_shape(struct plan *p)
{
	const struct request *r = p->r;
	struct interface *dev = &p->dev;
	struct weir_meta *about = &p->about;
	struct weir_framing framing;

	p->regains = weir_remains_is_root(&dev->place, &dev->qdisc);
	if (!p->regains && interface_root_is_free(r, &dev->qdisc))
		return -1;
	framing = request_framing(r, interface_l2_bytes(dev->type));
	about->shape = weir_shape_of(r->shape_bit_s, request_shape(r), r->flows, &framing);
	dev->qdisc = (struct weir_qdisc){.kind = "htb", .handle = about->shape.handle};
	dev->tree = (struct weir_tree){.kind = "htb", .handle = about->shape.handle};
	dev->tree.queues = weir_shape_leaves(&about->shape, dev->tree.leaf);
	return 0;
}

double plan_shaped_bit_s(const struct plan *p)
{
	return (double)(p->about.shape.handle ? p->about.shape.rate_bit_s : p->dev.tree.rate_bit_s);
}

int plan_look(struct plan *p)
{
	const struct request *r = p->r;
	char kind[WEIR_QDISC_KIND_LEN];

	if (interface_look(r->dev, r->netns, !r->classes, &p->dev) ||
	    (r->peer && interface_look(r->peer, r->peer_netns, true, &p->peer)))
		return -1;
	p->dev.place.ingress = p->ingress;
	if (plan_resolve(p, NULL))
		return -1;
	if (leaves_check(r, p->dev.ifindex))
		return -1;
	if (r->shape_bit_s > 0 && !p->about.shape.handle && foresee_shape(p))
		return -1;
	describe(r, &p->dev, &p->peer, &p->about);
	weir_qdisc_kind(p->dev.place.netns_inum, (__u32)p->dev.ifindex, kind);
	if (p->about.hook == WEIR_HOOK_QDISC && strcmp(p->dev.qdisc.kind, kind) &&
	    interface_root_is_free(r, &p->dev.qdisc))
		return -1;
	if (p->filtered && !r->hook_given)
		p->about.hook = WEIR_HOOK_CLSACT;
	return configure(r, &p->dev, &p->gains, plan_shaped_bit_s(p), p->about.hook, &p->config);
}

static int place_of(const char *dev, const char *netns, struct weir_place *place)
{
	int missing = weir_place_look(dev, netns, place);

	return missing > 0 ? weir_error("no interface %s%s%s", dev, *netns ? " in network namespace " : "", netns)
			   : missing;
}

static int begin(struct plan *p, const struct request *r)
{
	struct weir_place *dev = &p->dev.place, *peer = &p->peer.place;

	*p = (struct plan){
		.r = r, .ingress = request_is_ingress(r), .from = WEIR_ATTACHMENT_NONE, .locks = WEIR_LOCKS_NONE};
	p->l.a = WEIR_ATTACHMENT_NONE;
	p->l.a.about.slots = p->about.slots = 1;
	if (request_check(r) || place_of(r->dev, r->netns, dev) || (r->peer && place_of(r->peer, r->peer_netns, peer)))
		return -1;
	dev->ingress = p->ingress;
	if (r->peer && dev->ifindex == peer->ifindex && weir_place_same_netns(dev, peer))
		return weir_error("--peer %s: must be the other end, not %s itself", r->peer, r->dev);
	return 0;
}

int plan_begin(struct plan *p, const struct request *r)
{
	return begin(p, r) || weir_locks_take(&p->locks, r->pins, &p->dev.place, r->netns,
					      r->peer ? &p->peer.place : NULL, r->peer_netns, WEIR_LOCK_WAIT_MS)
		       ? -1
		       : 0;
}

int plan_begin_beside(struct plan *p, const struct request *r, const struct plan *holder)
{
	if (begin(p, r))
		return -1;
	return p->dev.place.ifindex == holder->dev.place.ifindex &&
			       weir_place_same_netns(&p->dev.place, &holder->dev.place)
		       ? 0
		       : weir_error("%s: it was replaced just now", r->dev);
}

int plan_resolve(struct plan *p, struct weir_attachment *there)
{
	int back, netlink, result;

	laws_free(&p->laws);
	if (!p->r->classes)
		return 0;
	netlink = weir_netlink_in(p->r->netns, &back);
	if (netlink < 0)
		return -1;
	result = laws_resolve(p->r, netlink, p->dev.ifindex, there, &p->laws);
	/* filters may give packets their class (skbedit priority), and TCX programs run before all of them */
	p->filtered = weir_clsact_filters(netlink, p->dev.ifindex) > 0;
	close(netlink);
	weir_netns_leave(back);
	return result;
}

int plan_carry(struct plan *p, const char *path)
{
	int back, netlink, result;

	laws_free(&p->carried);
	weir_attachment_close(&p->from);
	if (weir_attachment_open(&p->from, path, p->r->dev))
		return -1;
	if (!p->r->classes)
		return 0;
	netlink = weir_netlink_in(p->r->netns, &back);
	if (netlink < 0)
		return -1;
	result = laws_carry(&p->carried, &p->from, netlink, p->dev.ifindex);
	close(netlink);
	weir_netns_leave(back);
	return result;
}

/*
 * All laws of an attachment that is made, with their slots: those that are carried over, the others that are asked for,
 * and that of the first slot. Room is for these, and for the classes there are.
 */
static int gather(struct plan *p)
{
	const struct law first = {.carried = !p->r->classes && p->from.config >= 0};
	struct laws asked = p->laws, *all = &p->laws;
	__u32 wanted = p->carried.count + asked.count;
	int result = 0;

	*all = p->carried;
	p->carried = (struct laws){0};
	all->queues = asked.queues;
	for (__u32 i = 0; !result && i < asked.count; i++)
		if (!laws_have(all, asked.list[i].class.handle))
			result = laws_append(all, &asked.list[i]);
	for (__u32 i = 0; i < all->count; i++)
		all->list[i].slot = i + 1;
	if (!result)
		result = laws_append(all, &first);
	p->about.slots = p->r->classes ? laws_room(wanted > asked.there ? wanted : asked.there) : 1;
	laws_free(&asked);
	return result;
}

int plan_clear_remains(const struct plan *p, bool dry)
{
	const struct request *r = p->r;
	int near = weir_remains_clear(r->pins, &p->dev.place, r->netns,
				      p->ingress ? WEIR_REMAINS_XDP : WEIR_REMAINS_EGRESS, dry);
	int far = r->peer ? weir_remains_clear(r->pins, &p->peer.place, r->peer_netns, WEIR_REMAINS_PEER, dry) : 0;

	return near < 0 || far < 0 ? -1 : near + far;
}

int plan_attach(struct plan *p)
{
	char path[PATH_MAX];

	if (p->ingress && !(p->r->rate_bit_s > 0))
		return weir_error(
			"%s/ingress: packets that arrive wait in no queue here: give --rate, slightly less than "
			"the line carries",
			p->dev.place.name);
	if (weir_place_path(p->r->pins, &p->dev.place, path) ||
	    weir_finish_replacement(p->r->pins, &p->dev.place, p->r->netns) ||
	    weir_clear_leftovers(p->r->pins, &p->dev.place, p->r->netns) || plan_clear_remains(p, false) < 0 ||
	    claim(p, path))
		return -1;
	if (!p->ingress && !p->r->classes && !(p->r->shape_bit_s > 0) && !(p->r->rate_bit_s > 0) &&
	    weir_remains_shape(&p->dev.place, p->r->netns, &p->about.shape))
		p->regains = true;
	else
		p->about.shape = (struct weir_shape){0};
	if (!plan_look(p) && !gather(p) && !prepare(p) && !attach_all(p, NULL, ""))
		return 0;
	weir_undo(&p->about, p->path, p->r->netns);
	return -1;
}

int plan_replace(struct plan *p, const struct weir_meta *old, const char *path)
{
	char next[PATH_MAX];

	weir_place_beside(path, WEIR_NEXT, next);
	if (claim(p, next))
		return -1;
	if (gather(p) || prepare(p) || attach_all(p, old, path)) {
		/* forward or back, as far as it got */
		weir_finish_replacement(p->r->pins, &p->dev.place, p->r->netns);
		return -1;
	}
	snprintf(p->path, sizeof(p->path), "%s", path);
	return weir_promote(path);
}

int plan_restart(struct plan *p, const char *path, struct weir_meta *about)
{
	char name[PATH_MAX + 32];
	int meta, result;

	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0)
		return weir_error("%s: %s", name, weir_reason(errno));
	weir_poll_end(about);
	about->poll_pid = about->poll_errno = 0;
	about->poll_start_ticks = 0;
	result = weir_poll_start(about, meta, path, p->r->netns, &p->locks);
	close(meta);
	return result;
}

/* Until the poll process has looked at a class. One that died just before still seemed to live: another one starts. */
static int wait_for_look(struct plan *p, int queue, __u32 slot, __u64 since_ns)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	struct weir_queue q;

	for (int tries = 1; weir_now_ns() - since_ns < LOOK_WAIT_NS; tries++) {
		if (bpf_map_lookup_elem_flags(queue, &slot, &q, BPF_F_LOCK))
			return weir_error("can't read the queue's state: %s", weir_reason(errno));
		if (q.poll_ns > since_ns)
			return 0;
		if (tries % TRIES_A_DOUBT == 0 && !weir_poll_lives_at(p->path, &p->about))
			return plan_restart(p, p->path, &p->about);
		nanosleep(&pause, NULL);
	}
	return weir_error("%s: the poll process has not looked at the new class in %llu s; `weir-xdp status %s` shows "
			  "whether it lives",
			  p->r->dev, LOOK_WAIT_NS / 1000000000, p->r->dev);
}

static int add(struct plan *p, struct weir_attachment *a)
{
	struct weir_params law = p->config.law;
	struct weir_queue q;
	int result;

	if (weir_config_read(a, &p->config))
		return -1;
	p->config.law = law;
	p->config.frozen = p->r->fixed_given;
	first_state(p->r, &p->config, &q);
	result = weir_slots_sweep(a) || plan_resolve(p, a) || laws_find_room(a, &p->laws);
	for (__u32 i = 0; i < p->laws.count; i++)
		p->laws.list[i].config = p->config;
	if (!result && p->laws.count)
		result = laws_put(a, p->r, &p->laws, &q, NULL) ||
			 wait_for_look(p, a->queue, p->laws.list[p->laws.count - 1].slot, q.poll_ns);
	if (result) /* those that were not finished */
		weir_slots_sweep(a);
	return result ? -1 : 0;
}

int plan_add(struct plan *p, const char *path)
{
	struct weir_attachment a;
	bool differs;
	int result;

	p->dev.ifindex = (int)p->dev.place.ifindex;
	snprintf(p->path, sizeof(p->path), "%s", path);
	if (weir_attachment_open(&a, path, p->r->dev))
		return -1;
	if (request_sums(p->r) & ~a.about.whole_tree) { /* the process has to know */
		a.about.whole_tree |= request_sums(p->r);
		if (plan_restart(p, path, &a.about)) {
			weir_attachment_close(&a);
			return -1;
		}
	}
	p->about = a.about;
	configure_law(p->r, &p->gains, 0, &p->config);
	if (a.about.build != object_build(WEIR_SIGNAL_POLL, a.about.hook, OBJECT_CLASSES))
		result = weir_error(
			"%s: its laws of classes are of another version of weir-xdp: detach and attach again",
			p->r->dev);
	else if (p->r->hook_given && p->r->hook != WEIR_HOOK_TC && p->r->hook != a.about.hook)
		result = weir_error("%s: its laws of classes are at hook %s, and can't be at another one too",
				    p->r->dev, weir_hook_name(a.about.hook));
	else
		result = add(p, &a) || leaves_ensure(p->r, p->dev.ifindex, path, &differs) ? -1 : 0;
	weir_attachment_close(&a);
	return result;
}

void plan_end(struct plan *p)
{
	if (p->l.object)
		bpf_object__close(p->l.object);
	laws_free(&p->laws);
	laws_free(&p->carried);
	weir_attachment_close(&p->from);
	weir_locks_drop(&p->locks);
	weir_pins_tidy(p->r->pins); /* goes only if nothing is attached */
}
