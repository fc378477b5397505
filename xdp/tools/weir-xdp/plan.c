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
#include "signal/bands.h"
#include "signal/judge.h"
#include "signal/poll/process.h"
#include "signal/signals.h"
#include "signal/virtual.h"
#include "undo.h"
#include "weir-xdp/options.h"
#include "weir-xdp/values.h"

#define L2_ETHERNET_BYTES 14
#ifndef ARPHRD_IP6GRE
#define ARPHRD_IP6GRE 823 /* linux/if_arp.h; net/if_arp.h of glibc has none */
#endif

/* tree: whether one law is to go by all that stands there; laws of classes go by their classes alone. */
static int look_at(const char *dev, const char *netns, bool tree, struct interface *i)
{
	int back, netlink, error;

	if (weir_place_look(dev, netns, &i->place) < 0 || weir_netns_enter(netns, &back))
		return -1;
	i->ifindex = (int)i->place.ifindex;
	i->type = i->ifindex ? weir_link_type(i->place.name) : -ENODEV;
	netlink = weir_netlink_open();
	error = netlink < 0 ? netlink : i->ifindex ? weir_qdisc_read(netlink, i->ifindex, &i->qdisc) : 0;
	if (!error && i->ifindex && tree)
		error = weir_tree_read(netlink, i->ifindex, &i->tree);
	if (netlink >= 0)
		close(netlink);
	weir_netns_leave(back);
	if (!i->ifindex)
		return weir_error("no interface %s%s%s", dev, *netns ? " in network namespace " : "", netns);
	if (i->type < 0 || error)
		return weir_error("%s: can't read its state: %s", dev, weir_reason(i->type < 0 ? i->type : error));
	return 0;
}

/* The signal as the command line has it; WEIR_SIGNAL_AUTO if it leaves the choice to what works here. */
static __u32 signal_of(const struct request *r)
{
	if (r->signal)
		return r->signal;
	return r->peer ? WEIR_SIGNAL_VETH : r->rate_bit_s > 0 ? WEIR_SIGNAL_VIRTUAL : WEIR_SIGNAL_AUTO;
}

/* The hook that is asked for, by its name or by the direction; with neither a virtual queue is at XDP. */
static __u32 hook_of(const struct request *r)
{
	if (r->hook_given)
		return r->hook;
	if (r->direction)
		return r->direction == WEIR_INGRESS ? WEIR_HOOK_XDP : WEIR_HOOK_TC;
	return r->rate_bit_s > 0 ? WEIR_HOOK_XDP : WEIR_HOOK_TC;
}

bool plan_is_ingress(const struct request *r)
{
	return hook_of(r) == WEIR_HOOK_XDP;
}

/* A direction after DEV beside the options. */
static int check_direction(const struct request *r, bool rate)
{
	if (r->direction == WEIR_INGRESS && r->hook_given && r->hook != WEIR_HOOK_XDP)
		return weir_error("%s/ingress: only --hook xdp is at ingress: leave one of them out", r->dev);
	if (r->direction == WEIR_EGRESS && r->hook_given && r->hook == WEIR_HOOK_XDP)
		return weir_error("%s/egress: --hook xdp is at ingress: leave one of them out", r->dev);
	if (r->direction == WEIR_INGRESS && (r->signal || r->peer || r->shape_bit_s > 0) && !rate)
		return weir_error("%s/ingress: signal virtual alone (--rate) is for packets that arrive", r->dev);
	return 0;
}

/* A shaper of ours makes a queue here, of one class. */
static int check_shape(const struct request *r)
{
	if (r->rate_bit_s > 0)
		return weir_error("--shape makes the queue here, --rate is for one elsewhere: leave one of them out");
	if (r->coupled)
		return weir_error("--shape makes one class, --coupled needs two: make them with tc");
	return 0;
}

static int check_bands(const struct request *r, __u32 signal)
{
	if (signal && signal != WEIR_SIGNAL_POLL && signal != WEIR_SIGNAL_VETH)
		return weir_error("--bands takes signal poll or veth, not %s", weir_signal_name(signal));
	if (r->coupled)
		return weir_error("--bands and --coupled: leave one of them out");
	if (r->whole_tree)
		return weir_error("--bands and --whole-tree: one law over the sum has no bands; leave one of them out");
	return 0;
}

enum laws plan_laws(const struct request *r)
{
	return r->classes ? LAWS_CLASSES : r->coupled ? LAWS_COUPLED : r->bands ? LAWS_BANDS : LAWS_ONE;
}

int plan_check(const struct request *r)
{
	const struct weir_signal_row *row = weir_signal_of(signal_of(r));
	bool peer = row && row->needs_peer, rate = row && row->needs_rate;

	if (check_direction(r, rate))
		return -1;
	if (r->classes || r->by_mark || r->others)
		return classes_check(r);
	if (r->bands && check_bands(r, signal_of(r)))
		return -1;
	if (peer && !r->peer)
		return weir_error("signal veth needs the other end: --peer DEV[@NETNS]");
	if (r->peer && !peer)
		return weir_error("--peer goes with signal veth only");
	if (rate && r->rate_bit_s <= 0)
		return weir_error("signal virtual needs the rate its queue drains at: --rate 10mbit");
	if (r->rate_bit_s > 0 && !rate)
		return weir_error("--rate goes with signal virtual only");
	if (r->hook == WEIR_HOOK_XDP && !rate)
		return weir_error("--hook xdp goes with signal virtual only; the others are at tc egress");
	if (r->limit_packets && !(row && row->has_limit_packets))
		return weir_error(
			"--limit-packets goes with signal veth only (a virtual queue takes --limit-bytes, a qdisc has "
			"its own limit)");
	if (r->whole_tree && row && row->queue_elsewhere)
		return weir_error(
			"--whole-tree: a virtual queue does not go by the tree under the interface; leave it out");
	if (r->coupled && !peer)
		return weir_error("--coupled needs signal veth, the queue's other end: --peer DEV[@NETNS]");
	if (r->coupled && r->whole_tree)
		return weir_error(
			"--coupled and --whole-tree: one law over the sum has no bands; leave one of them out");
	if (r->limit_bytes && !(row && row->has_limit_bytes))
		return weir_error("--limit-bytes goes with signals veth and virtual only; a qdisc has its own limit");
	return r->shape_bit_s > 0 ? check_shape(r) : 0;
}

/* Loads the program of signal backlog. 0, an errno that says why it does not work here, or -1 after one line. */
static int try_backlog(const struct request *r, struct weir_meta *about, struct loaded *l)
{
	int error = access(KERNEL_BTF, R_OK) ? -ENOENT : load_object(WEIR_SIGNAL_BACKLOG, about->hook, LAWS_ONE, 0, l);

	if (error == -EPERM || error == -EACCES)
		return weir_error("%s: can't load the program: %s", r->dev, weir_reason(error));
	if (error && about->signal)
		return weir_error("signal backlog: %s; signal poll works here",
				  error == -ENOENT ? "this kernel has no BTF (" KERNEL_BTF ")" : weir_reason(error));
	return abs(error);
}

/* Whether a signal (auto: one of those that read the root) can go by what stands there. */
static int check_queue(const struct request *r, const struct interface *dev, __u32 signal)
{
	const struct weir_signal_row *row = weir_signal_of(signal);
	const char *objection = weir_qdisc_objection(&dev->qdisc);
	__u32 band_class[WEIR_BANDS];
	char why[512];

	if ((!row || row->reads_root) && objection)
		return weir_error("%s: %s%s", r->dev, objection, row ? "" : "; or give --peer or --rate");
	if (r->bands	 ? weir_bands_objection(&dev->tree, WEIR_SIGNAL_POLL, band_class, why, sizeof(why))
	    : r->coupled ? weir_coupled_objection(&dev->tree, WEIR_SIGNAL_VETH, r->band_class, why, sizeof(why))
			 : weir_tree_objection(&dev->tree, row ? row->signal : WEIR_SIGNAL_BACKLOG, r->whole_tree, why,
					       sizeof(why)))
		return weir_error("%s: %s", r->dev, why);
	return 0;
}

/* Chooses the signal, with the reason; its program is loaded. 0, or -1 with the objection to the one asked for. */
static int choose(const struct request *r, const struct interface *dev, struct weir_meta *about, struct loaded *l)
{
	const struct weir_signal_row *row;
	int error;

	about->signal = r->classes ? WEIR_SIGNAL_POLL : signal_of(r);
	row = weir_signal_of(about->signal);
	snprintf(about->why, sizeof(about->why), "%s",
		 r->signal    ? "asked for"
		 : r->classes ? "--class given"
		 : r->peer    ? "--peer given"
			      : "--rate given");
	if (!r->classes && check_queue(r, dev, about->signal))
		return -1;
	if (!row && r->bands) {
		snprintf(about->why, sizeof(about->why), "--bands given");
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
	error = load_object(about->signal, about->hook, plan_laws(r), about->slots, l);
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
	const struct weir_side side = {r->dev, (int)about->ifindex, BPF_TC_EGRESS};
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

void plan_first_state(const struct request *r, const struct weir_config *config, struct weir_queue *q)
{
	*q = (struct weir_queue){0};
	if (config->frozen) {
		q->law.started = 1;
		q->law.u_q40 = q->law.u_ecn_q40 = (__u64)rint(r->fixed * (double)WEIR_U_ONE_Q40);
	}
	q->virtual_ns = q->poll_ns = weir_now_ns();
}

static int prime(const struct request *r, const struct interface *dev, const struct weir_meta *about,
		 const struct loaded *l, const struct weir_config *config, const char *path)
{
	static const __u32 first = 0;
	struct weir_queue q;

	plan_first_state(r, config, &q);
	if (r->peer && !r->coupled &&
	    !r->bands) /* packets in the queue will come out, too; with two bands it is of neither */
		q.in = WEIR_PAIR(dev->qdisc.backlog_packets, dev->qdisc.backlog_bytes);
	if (bpf_map_update_elem(l->queue, &first, &q, BPF_F_LOCK))
		return weir_error("can't write the queue's state: %s", weir_reason(errno));
	return weir_config_replace(l->config, path, &first, 1, config);
}

/* Loads, pins and fills what the programs need, so that the first packet finds all of it. */
static int prepare(const struct request *r, const struct interface *dev, struct weir_config *config,
		   struct weir_meta *about, struct loaded *l, const char *path)
{
	char name[PATH_MAX + 32];

	if (r->adopt) {
		about->signal = WEIR_SIGNAL_VIRTUAL;
		about->owner = WEIR_OWNER_OTHER;
		snprintf(about->why, sizeof(about->why), "another loader's program");
		if (load_adopted(r->dev, r->netns, dev->ifindex, l))
			return -1;
		about->config_map_id = weir_map_id(l->config);
	} else if (choose(r, dev, about, l) || choose_hook(r, l, about)) {
		return -1;
	}
	config->signal = about->signal;
	about->build = l->build;
	/* the meta map first: should we be killed, it knows what to take away */
	snprintf(name, sizeof(name), "%s/meta", path);
	if (weir_meta_write(l->meta, about, r->dev))
		return -1;
	if (weir_pin(l->meta, name))
		return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	if (r->adopt ? pin_adopted(l, path) || prime(r, dev, about, l, config, path)
		     : prime(r, dev, about, l, config, path) || pin_object(l, path))
		return -1;
	return 0;
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
		.config = p->l.config,
		.meta = p->l.meta,
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

	if (weir_netns_enter(p->r->netns, &back))
		return -1;
	netlink = weir_netlink_open();
	error = netlink < 0 ? netlink : weir_shape_make(netlink, (int)p->dev.place.ifindex, &p->about.shape, replace);
	if (netlink >= 0)
		close(netlink);
	weir_netns_leave(back);
	return error ? weir_error("%s: can't shape it: %s", p->r->dev,
				  error == -ENOENT ? "this kernel lacks htb (CONFIG_NET_SCH_HTB)" : weir_reason(error))
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
	const struct weir_side egress = {r->dev, p->dev.ifindex, BPF_TC_EGRESS};
	const struct weir_side ingress = {r->peer, p->peer.ifindex, BPF_TC_INGRESS};
	const char *program = about->hook == WEIR_HOOK_XDP ? "weir_ingress" : "weir_egress";
	bool polls = about->signal == WEIR_SIGNAL_POLL;

	if (!old && about->shape.handle && plan_shape(p, false))
		return -1;
	/* the far end before the near one: what goes in has to be seen coming out */
	if (r->peer && put_at_hook(p, r->peer_netns, &ingress, "weir_peer", about, old, old_path))
		return -1;
	if (about->signal == WEIR_SIGNAL_BACKLOG && attach_departures(&p->l, p->path))
		return -1;
	if (old && polls && weir_poll_start(about, p->l.meta, p->path, r->netns, &p->locks))
		return -1;
	if (!r->adopt && put_at_hook(p, r->netns, &egress, program, about, old, old_path))
		return -1;
	if (!old && polls && weir_poll_start(about, p->l.meta, p->path, r->netns, &p->locks))
		return -1;
	about->complete = 1;
	return weir_meta_write(p->l.meta, about, r->dev);
}

/* Writes the data for undoing and reporting, as far as they are known before anything is attached. */
static void describe(const struct request *r, const struct interface *dev, const struct interface *peer,
		     struct weir_meta *about)
{
	about->hook = hook_of(r);
	about->ifindex = (__u32)dev->ifindex;
	about->peer_ifindex = (__u32)peer->ifindex;
	about->whole_tree = r->whole_tree;
	about->kept = r->kept;
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

void plan_configure_law(const struct request *r, const struct weir_gains *gains, double rate_bit_s,
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

	plan_configure_law(r, gains, r->rate_bit_s > 0 ? r->rate_bit_s : shaped_bit_s, config);
	config->limit_packets = r->limit_packets;
	config->limit_bytes = r->limit_bytes;
	config->ifindex = (__u32)dev->ifindex;
	config->netns_inum = (__u32)dev->place.netns_inum;
	if (!dev->place.ingress) { /* packets that arrive don't wait there, whatever it is */
		config->root_handle = dev->qdisc.handle;
		memcpy(config->root_kind, dev->qdisc.kind, sizeof(config->root_kind));
	}
	config->coupled = r->coupled;
	memcpy(config->band_class, r->band_class, sizeof(config->band_class));
	if (r->bands) {
		char why[512]; /* of check_queue, which says it */

		weir_bands_objection(&dev->tree, WEIR_SIGNAL_POLL, config->band_class, why, sizeof(why));
		weir_ahead_default(&config->flow_bands);
		if (read_bands(r, &config->flow_bands))
			return -1;
	}
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	/* it moves once a tick, and only by whole ticks: what was left over then comes on top */
	config->coarse_lag_ns = 2 * ((__u64)tick.tv_sec * 1000000000ULL + (__u64)tick.tv_nsec);
	if (r->rate_bit_s > 0)
		weir_virtual_set_rate(config, r->rate_bit_s);
	switch (dev->type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
		config->l2_bytes = L2_ETHERNET_BYTES;
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
				  hook == WEIR_HOOK_XDP ? "XDP takes Ethernet only"
							: "Ethernet and plain IP (tun, ppp, tunnels) are");
	}
	return 0;
}

int plan_root_is_free(const struct request *r, const struct weir_qdisc *root)
{
	char name[WEIR_TREE_NAME_LEN];

	if (!*root->kind || !root->handle)
		return 0;
	weir_qdisc_name(name, sizeof(name), root->kind, root->handle);
	return weir_error("--shape %s: it has a root qdisc already, %s: leave --shape out to put the law on that, or "
			  "remove it first (tc qdisc del dev %s root)",
			  r->dev, name, r->dev);
}

/* With --shape the law goes by what will be there by then, not by what the kernel put there itself. */
static int foresee_shape(const struct request *r, struct interface *dev, struct weir_meta *about)
{
	if (plan_root_is_free(r, &dev->qdisc))
		return -1;
	about->shape = weir_shape_of(r->shape_bit_s, r->bands);
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

	if (look_at(r->dev, r->netns, !r->classes, &p->dev) ||
	    (r->peer && look_at(r->peer, r->peer_netns, true, &p->peer)))
		return -1;
	p->dev.place.ingress = p->ingress;
	if (r->classes && plan_resolve(p, NULL))
		return -1;
	if (r->shape_bit_s > 0 && !p->about.shape.handle && foresee_shape(r, &p->dev, &p->about))
		return -1;
	describe(r, &p->dev, &p->peer, &p->about);
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

int plan_begin(struct plan *p, const struct request *r)
{
	struct weir_place *dev = &p->dev.place, *peer = &p->peer.place;

	*p = (struct plan){.r = r, .ingress = plan_is_ingress(r)};
	if (plan_check(r) || place_of(r->dev, r->netns, dev) || (r->peer && place_of(r->peer, r->peer_netns, peer)))
		return -1;
	dev->ingress = p->ingress;
	if (r->peer && dev->ifindex == peer->ifindex && weir_place_same_netns(dev, peer))
		return weir_error("--peer %s: must be the other end, not %s itself", r->peer, r->dev);
	return weir_locks_take(&p->locks, r->pins, dev, r->netns, r->peer ? peer : NULL, r->peer_netns,
			       WEIR_LOCK_WAIT_MS);
}

int plan_check_queue(const struct plan *p, __u32 signal)
{
	return check_queue(p->r, &p->dev, signal);
}

/* For the classes there are, and for those that will be carried over or put. */
static void give_room(struct plan *p)
{
	__u32 wanted = p->carried.count + p->classes.count, there = p->classes.there;

	p->about.slots = !p->r->classes ? 0 : classes_room(wanted > there ? wanted : there);
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
	    weir_clear_leftovers(p->r->pins, &p->dev.place, p->r->netns) || claim(p, path))
		return -1;
	if (!plan_look(p)) {
		give_room(p);
		if (!prepare(p->r, &p->dev, &p->config, &p->about, &p->l, p->path) && !plan_put_classes(p) &&
		    !attach_all(p, NULL, ""))
			return 0;
	}
	weir_undo(&p->about, p->path, p->r->netns);
	return -1;
}

/* Where the law stood, for the next program to go on from. Counters start anew, and so do the two ends' counts. */
static int hand_over(const struct plan *p, const char *path)
{
	static const __u32 first = 0;
	struct weir_queue old, q;
	char pin[PATH_MAX + 32];
	int map, error;

	snprintf(pin, sizeof(pin), "%s/queue", path);
	map = bpf_obj_get(pin);
	error = map < 0 || bpf_map_lookup_elem_flags(map, &first, &old, BPF_F_LOCK) ||
		bpf_map_lookup_elem_flags(p->l.queue, &first, &q, BPF_F_LOCK);
	if (!error) {
		q.law = old.law;
		q.tau_us = old.tau_us;
		q.backlog_bytes = old.backlog_bytes;
		q.spacing = old.spacing;
		q.virtual_q16_bytes = old.virtual_q16_bytes;
		q.virtual_ns = old.virtual_ns ? old.virtual_ns : q.virtual_ns;
		error = bpf_map_update_elem(p->l.queue, &first, &q, BPF_F_LOCK);
	}
	if (map >= 0)
		close(map);
	return error ? weir_error("can't hand the queue's state over: %s", weir_reason(errno)) : 0;
}

int plan_replace(struct plan *p, const struct weir_meta *old, const char *path)
{
	char next[PATH_MAX];

	weir_place_beside(path, WEIR_NEXT, next);
	if (claim(p, next))
		return -1;
	give_room(p);
	if (prepare(p->r, &p->dev, &p->config, &p->about, &p->l, p->path) ||
	    (p->r->classes ? plan_put_classes(p) : hand_over(p, path)) || attach_all(p, old, path)) {
		/* forward or back, as far as it got */
		weir_finish_replacement(p->r->pins, &p->dev.place, p->r->netns);
		return -1;
	}
	snprintf(p->path, sizeof(p->path), "%s", path);
	return weir_promote(path);
}

void plan_end(struct plan *p)
{
	if (p->l.object)
		bpf_object__close(p->l.object);
	classes_free(&p->classes);
	carried_free(&p->carried);
	weir_locks_drop(&p->locks);
	weir_pins_tidy(p->r->pins); /* goes only if nothing is attached */
}
