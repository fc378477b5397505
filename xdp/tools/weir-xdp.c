/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: puts the law on an interface, changes its gains, shows what it does, takes it away. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <math.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "ahead.h"
#include "attachment.h"
#include "error.h"
#include "gains.h"
#include "hooks.h"
#include "libxdp.h"
#include "lock.h"
#include "net.h"
#include "place.h"
#include "tcx.h"
#include "tree.h"
#include "undo.h"
#include "weir/maps.h"

#include "weir_backlog.skel.h"
#include "weir_tc.skel.h"
#include "weir_xdp.skel.h"

#define USAGE_ERROR 2
#define CHANGED 3
#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define L2_ETHERNET_BYTES 14
#define RATE_MIN_BIT_S 8000.0 /* below it the rate's fixed point (2^-32 byte/ns) is coarser than 2e-4 */
#define RATE_MAX_BIT_S 1e12
#define POLL_START_MS 5000
/* watch: how often what stands under the interface is looked at; the root at each sample */
#define TREE_CHECK_NS 2000000000ULL
#define ATTACH_MS 1000 /* watch: pins without an attachment are no longer taken for one at work */

static const char help[] =
	"weir-xdp: PID-Delay queue control on an interface, as tc or XDP eBPF.\n"
	"\n"
	"  weir-xdp attach DEV --gains FILE [KEY=VALUE ...] [OPTIONS]   put the law on DEV\n"
	"  weir-xdp adopt DEV --gains FILE --rate RATE [KEY=VALUE ...]  configure a weir_ingress that another\n"
	"                                                               loader (xdp-loader, bpftool) put on DEV\n"
	"  weir-xdp set DEV KEY=VALUE ...                               change gains, all at once\n"
	"  weir-xdp status [DEV] [--json]                               what is attached, and how it does\n"
	"  weir-xdp watch DEV ... [--every-ms 100] [--count N] [--out FILE] one JSON line a sample\n"
	"  weir-xdp detach DEV                                          take it away, leaving nothing\n"
	"\n"
	"Where packets wait (--signal):\n"
	"  backlog  the qdisc's own counters, read by the program; needs BTF (" KERNEL_BTF ") and the JIT\n"
	"  poll     the qdisc's counters, read every interval by a process of ours; any kernel\n"
	"  veth     bytes in at DEV, bytes out at the other end (--peer DEV[@NETNS]); any kernel\n"
	"  virtual  a queue drained at --rate, for a bottleneck elsewhere; XDP at ingress, or --hook tc\n"
	"  auto     veth with --peer, virtual with --rate, else backlog, else poll (default)\n"
	"\n"
	"Options of attach:\n"
	"  --gains FILE          a profile: every key below, one `key = value` a line\n"
	"  --peer DEV[@NETNS]    veth: the other end, NETNS as a path (/run/netns/NAME, /proc/PID/ns/net)\n"
	"  --rate RATE           virtual: 8kbit .. 1000gbit\n"
	"  --hook tc|xdp         at egress (default), or at ingress (virtual only, its default); tc takes\n"
	"                        `tcx` where the kernel has it (Linux 6.6), else `clsact`, and so can you\n"
	"  --limit-packets N     veth: the queue's limit; the qdisc's own must be larger\n"
	"  --limit-bytes N       veth, virtual\n"
	"  --whole-tree          one law over all classes and flows of DEV, which goes by their sum\n"
	"  --fixed-probability P a test aid: U stays P, whatever the queue does\n"
	"Options of all:\n"
	"  --netns PATH          DEV is in this network namespace\n"
	"  --pins FOLDER         where the maps are pinned (default " WEIR_PINS ")\n"
	"  --json                attach, status, set: one JSON document on standard output\n"
	"  --expect ID           set: only if this configuration (config_id) is in force; else exit status 3\n"
	"  --name NAME           watch: the \"hop\" of its lines (default bottleneck)\n"
	"  --follow              watch: when a queue is detached or attached anew say so and go on\n"
	"  --all                 watch: whatever is attached, with --follow (--netns: only what is there)\n"
	"  --pins-only           detach: only forget it (its interface can't be reached any more)\n"
	"  --verbose             what libbpf and the kernel's verifier say\n"
	"\n"
	"Keys: target_us interval_us kp ki kd (per second) z1 z2 z3 m1_us m2_us integral (\"drop\", \"keep\", "
	"intervals)\n"
	"  probability (\"linear\", \"squared\") burst_us idle_halflife_us min_backlog_bytes min_delay_share "
	"ecn_bound\n"
	"  dq_shift dq_weight_shift schedule_shift schedule_weight_shift; `set` also takes rate, limit_packets, "
	"limit_bytes\n"
	"\n"
	"Examples:\n"
	"  tc qdisc replace dev eth0 root handle 1: htb default 1     # slightly less than the link, so that\n"
	"  tc class add dev eth0 parent 1: classid 1:1 htb rate 95mbit  # the queue is here\n"
	"  weir-xdp attach eth0 --gains tuned.toml\n"
	"  weir-xdp set eth0 target_us=5000 kp=4\n"
	"  weir-xdp watch eth0 --every-ms 500\n"
	"  weir-xdp attach wan0 --gains tuned.toml --rate 20mbit      # ingress, behind a modem\n"
	"  weir-xdp attach r-eth1 --gains paper.toml --peer sink-eth0@/run/netns/sink --limit-packets 1000\n";

struct request {
	char *dev;
	const char *peer, *peer_netns, *netns, *pins, *gains_file, *name, *out;
	__u32 signal, hook;
	bool hook_given, fixed_given, json, verbose, pins_only, follow, all, whole_tree, adopt;
	__u32 expect; /* 0: whatever is in force */
	double rate_bit_s, fixed;
	__u64 limit_packets, limit_bytes;
	long every_ms, count; /* count 0: for ever */
	int words;	      /* after DEV: KEY=VALUE, or more interfaces */
	char **word;
};

static const __u32 first = 0;

/* ---- reading arguments ---- */

static int parse_rate(const char *text, double *bit_s)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
	char number[32] = "";
	size_t digits = strspn(text, "0123456789.");
	double factor = 0;

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcasecmp(text + digits, units[i].unit))
			factor = units[i].factor;
	if (digits < sizeof(number))
		memcpy(number, text, digits);
	if (factor == 0 || !weir_number(number, bit_s) || *bit_s * factor < RATE_MIN_BIT_S ||
	    *bit_s * factor > RATE_MAX_BIT_S)
		return weir_error("rate %s: must be a number with its unit, 8kbit .. 1000gbit (bit, kbit, mbit, gbit)",
				  text);
	*bit_s *= factor;
	return 0;
}

static int parse_whole(const char *what, const char *text, double least, double most, double *value)
{
	if (!weir_number(text, value) || *value != floor(*value) || *value < least || *value > most)
		return weir_error("%s %s: must be a whole number, %.0f .. %.0f", what, text, least, most);
	return 0;
}

static int parse_limit(const char *what, const char *text, __u64 *limit)
{
	/* beyond these the pairs of maps.h, or the virtual queue, would overflow */
	double value, most = strstr(what, "packets") ? (1 << 24) - 1 : INT32_MAX;

	if (parse_whole(what, text, 1, most, &value))
		return -1;
	*limit = (__u64)value;
	return 0;
}

static int parse_signal(const char *text, __u32 *signal)
{
	for (*signal = 0; *signal <= WEIR_SIGNAL_VIRTUAL; ++*signal)
		if (!strcmp(text, weir_signal_name(*signal)))
			return 0;
	return weir_error("--signal %s: must be auto, backlog, poll, veth or virtual", text);
}

static void set_virtual_rate(struct weir_config *c, double bit_s)
{
	double bytes_per_ns = bit_s / 8e9;

	c->rate_bit_s = (__u64)rint(bit_s);
	c->drain_q32_bytes_per_ns = (__u64)rint(bytes_per_ns * 0x1p32);
	/* in this time 2^31 bytes leave, more than the queue may hold; and the product stays below 2^63 */
	c->drain_full_ns = (__u64)ceil(0x1p31 / bytes_per_ns);
	c->drain_q8_us =
		(__u64)fmax(1, fmin(rint((double)(1U << c->law.dq_shift) / bytes_per_ns / 1e3 * 256), 0x1p32 - 1));
}

/* One KEY=VALUE argument: a gain, or (with a config) what else can be set on a running queue. */
static int apply_pair(const char *pair, struct weir_gains *gains, struct weir_config *config, double *rate_bit_s)
{
	const char *equals = strchr(pair, '='), *value = equals ? equals + 1 : "";
	char key[64] = "";

	if (!equals || equals == pair || (size_t)(equals - pair) >= sizeof(key))
		return weir_error("argument %s: must be KEY=VALUE", pair);
	memcpy(key, pair, (size_t)(equals - pair));
	if (config && !strcmp(key, "rate")) {
		if (config->signal != WEIR_SIGNAL_VIRTUAL)
			return weir_error("rate: only a virtual queue has one; this one's signal is %s",
					  weir_signal_name(config->signal));
		return parse_rate(value, rate_bit_s);
	}
	if (config && (!strcmp(key, "limit_packets") || !strcmp(key, "limit_bytes"))) {
		bool packets = !strcmp(key, "limit_packets");

		if (config->signal != WEIR_SIGNAL_VETH && (packets || config->signal != WEIR_SIGNAL_VIRTUAL))
			return weir_error("%s: not with signal %s; set the qdisc's own limit", key,
					  weir_signal_name(config->signal));
		return parse_limit(key, value, packets ? &config->limit_packets : &config->limit_bytes);
	}
	return weir_gains_put(gains, "argument", key, value);
}

/* ---- attach ---- */

struct loaded {
	struct bpf_object *object; /* NULL: another loader's (adopt) */
	int config, queue, counters, meta;
};

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

static int map_of(const struct loaded *l, const char *name)
{
	return bpf_object__find_map_fd_by_name(l->object, name);
}

/* Loads the object a signal needs. 0 or -errno; says nothing, because `auto` may have another one to try. */
static int load(__u32 signal, __u32 hook, struct loaded *l)
{
	const void *bytes;
	size_t size;
	int error;

	if (signal == WEIR_SIGNAL_BACKLOG)
		bytes = weir_backlog__elf_bytes(&size);
	else if (hook == WEIR_HOOK_XDP)
		bytes = weir_xdp__elf_bytes(&size);
	else
		bytes = weir_tc__elf_bytes(&size);
	l->object = bpf_object__open_mem(bytes, size, NULL);
	if (!l->object)
		return -errno;
	error = bpf_object__load(l->object);
	if (error) {
		bpf_object__close(l->object);
		l->object = NULL;
		return error;
	}
	l->config = map_of(l, "config");
	l->queue = map_of(l, "queue");
	l->meta = map_of(l, "meta");
	return 0;
}

/* Why a qdisc can't serve as a signal, or NULL. */
static const char *qdisc_objection(const struct weir_qdisc *qdisc)
{
	static const char *const without_sum[] = {"mq",		"mqprio", "taprio", "cake_mq",
						  "pfifo_fast", "clsact", "ingress"};

	if (!*qdisc->kind)
		return "it has no queue; put a shaper on it first (htb at slightly less than the link), or attach to "
		       "the device below where this is a bridge, bond or VLAN; see --help";
	for (size_t i = 0; i < sizeof(without_sum) / sizeof(*without_sum); i++)
		if (!strcmp(qdisc->kind, without_sum[i]))
			return "its root qdisc keeps no backlog we could read; put a shaper there (htb), see --help";
	return NULL;
}

static int pin(const struct loaded *l, const char *path)
{
	struct bpf_map *map;
	struct bpf_program *prog;
	char name[PATH_MAX + 64];

	bpf_object__for_each_map(map, l->object)
	{
		if (bpf_map__is_internal(map) || !strcmp(bpf_map__name(map), "meta"))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, bpf_map__name(map));
		if (bpf_map__pin(map, name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	bpf_object__for_each_program(prog, l->object)
	{
		snprintf(name, sizeof(name), "%s/prog_%s", path, bpf_program__name(prog));
		if (bpf_program__pin(prog, name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	return 0;
}

/* The poll process: keeps DEV's netlink socket and the pinned maps, and nothing else of ours. */
static _Noreturn void be_poll(struct weir_meta *about, int meta, const char *path, const char *netns,
			      struct weir_locks *locks, int ready)
{
	struct weir_attachment a;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), netlink, back, error;

	setsid();
	signal(SIGPIPE, SIG_IGN);
	about->poll_pid = getpid();
	about->poll_start_ticks = weir_process_start(about->poll_pid);
	about->complete = 1; /* or it could not be opened */
	if (null < 0 || chdir("/") || bpf_map_update_elem(meta, &first, about, BPF_ANY) ||
	    weir_attachment_open(&a, path, about->dev) || weir_netns_enter(netns, &back))
		_exit(1);
	netlink = weir_netlink_open();
	if (netlink < 0)
		_exit(1);
	weir_locks_drop(locks); /* not before: should the attach be killed, the next one shall find us in the map */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	error = weir_poll_run(&a, netlink, ready);
	a.about.poll_errno = error;
	bpf_map_update_elem(a.meta, &first, &a.about, BPF_ANY);
	_exit(error != 0);
}

/* Starts it and waits for its first step; `about` then knows it. */
static int start_poll(struct weir_meta *about, int meta, const char *path, const char *netns, struct weir_locks *locks)
{
	struct pollfd ready = {.events = POLLIN};
	int ends[2], result = 0;
	pid_t middle;
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		return weir_error("can't make a pipe: %s", strerror(errno));
	fflush(NULL);
	middle = fork();
	if (!middle) { /* forks once more and ends, so that the poll process is nobody's child to wait for */
		pid_t child = fork();

		if (!child)
			be_poll(about, meta, path, netns, locks, ends[1]);
		_exit(child < 0);
	}
	close(ends[1]);
	ready.fd = ends[0];
	if (middle < 0 || waitpid(middle, NULL, 0) != middle || poll(&ready, 1, POLL_START_MS) != 1 ||
	    read(ends[0], &byte, 1) != 1)
		result = -1;
	close(ends[0]);
	if (bpf_map_lookup_elem(meta, &first, about))
		return weir_error("can't read the meta map: %s", weir_reason(errno));
	if (result)
		weir_error("%s: the poll process did not start: %s", about->dev,
			   about->poll_errno ? weir_reason(about->poll_errno) : "no first step within 5 s");
	return result;
}

/* The folder of the pins: in a BPF file system, and not taken by what is alive. The caller holds the lock. */
static int claim(const char *pins, const struct weir_place *place, const char *netns, char *path)
{
	char parent[PATH_MAX];
	struct weir_meta about;
	struct statfs fs;
	struct stat st;
	char *slash;

	snprintf(parent, sizeof(parent), "%s", pins);
	slash = strrchr(parent, '/');
	if (stat(pins, &st) && errno == ENOENT && slash && slash != parent)
		*slash = 0;
	if (statfs(parent, &fs))
		return weir_error("%s: %s", parent, weir_reason(errno));
	if (fs.f_type != BPF_FS_MAGIC)
		return weir_error("%s is in no BPF file system: mount -t bpf bpf /sys/fs/bpf", parent);
	if (weir_place_path(pins, place, path) || weir_clear_leftovers(pins, place, netns))
		return -1;
	/* again: who detaches the last one takes the folder of all away when it is empty */
	for (int tries = 0; tries < 100; tries++) {
		if (mkdir(pins, 0700) && errno != EEXIST)
			return weir_error("%s: %s", pins, weir_reason(errno));
		if (!mkdir(path, 0700))
			return 0;
		if (errno != ENOENT)
			break;
	}
	if (errno != EEXIST)
		return weir_error("%s: %s", path, weir_reason(errno));
	weir_meta_read(path, &about);
	return weir_error("already attached to %s (signal %s); `weir-xdp set` changes gains, `weir-xdp detach %s` "
			  "comes first for anything else",
			  place->name, weir_signal_name(about.signal), place->name);
}

/* An interface of a namespace as attach needs to know it. */
struct interface {
	struct weir_place place;
	int ifindex, type;
	struct weir_qdisc qdisc;
	struct weir_tree tree;
};

static int look_at(const char *dev, const char *netns, struct interface *i)
{
	int back, netlink, error;

	if (weir_place_look(dev, netns, &i->place) < 0 || weir_netns_enter(netns, &back))
		return -1;
	i->ifindex = (int)i->place.ifindex;
	i->type = i->ifindex ? weir_link_type(i->place.name) : -ENODEV;
	netlink = weir_netlink_open();
	error = netlink < 0 ? netlink : i->ifindex ? weir_qdisc_read(netlink, i->ifindex, &i->qdisc) : 0;
	if (!error && i->ifindex)
		error = weir_tree_read(netlink, i->ifindex, &i->tree);
	if (netlink >= 0)
		close(netlink);
	weir_netns_leave(back);
	if (!i->ifindex)
		return weir_error("no interface %s%s%s", dev, *netns ? " in network namespace " : "", netns);
	if (i->type < 0 || error)
		return weir_error("%s: can't ask about it: %s", dev, weir_reason(i->type < 0 ? i->type : error));
	return 0;
}

/* TCX or clsact, where that was left open. */
static int choose_hook(const struct request *r, const struct loaded *l, struct weir_meta *about)
{
	int has;

	if (about->hook != WEIR_HOOK_TC && about->hook != WEIR_HOOK_TCX)
		return 0;
	has = weir_tcx_probe(bpf_program__fd(bpf_object__find_program_by_name(l->object, "weir_egress")));
	if (has < 0)
		return weir_error("%s: can't tell whether this kernel has TCX: %s", r->dev, weir_reason(has));
	if (!has && about->hook == WEIR_HOOK_TCX)
		return weir_error("--hook tcx: this kernel lacks it (Linux 6.6, CONFIG_NET_XGRESS); clsact works here");
	about->hook = has ? WEIR_HOOK_TCX : WEIR_HOOK_CLSACT;
	return 0;
}

static int attach_tc(const char *netns, const struct weir_side *side, const struct loaded *l, const char *program,
		     struct weir_meta *about, const char *path)
{
	bool egress = side->point == BPF_TC_EGRESS;
	__u32 *prog_id = egress ? &about->prog_id : &about->peer_prog_id;
	__u32 *made_clsact = egress ? &about->made_clsact : &about->peer_made_clsact;
	struct bpf_program *prog = bpf_object__find_program_by_name(l->object, program);
	int back, result, netlink, there;

	if (!prog)
		return weir_error("the object has no program %s", program);
	if (weir_netns_enter(netns, &back))
		return -1;
	if (about->hook == WEIR_HOOK_TCX) {
		result = weir_at_tcx(side, bpf_program__fd(prog), path);
		weir_netns_leave(back);
		return result;
	}
	netlink = weir_netlink_open();
	there = netlink < 0 ? netlink : weir_clsact_is_there(netlink, side->ifindex);
	if (netlink >= 0)
		close(netlink);
	*prog_id = weir_prog_id(bpf_program__fd(prog));
	*made_clsact = !there;
	if (there < 0)
		result = weir_error("%s: can't ask for clsact: %s", side->name, weir_reason(there));
	else if (!*prog_id || bpf_map_update_elem(l->meta, &first, about, BPF_ANY))
		result = weir_error("%s: can't write down what is attached: %s", side->name, weir_reason(errno));
	else
		result = weir_at_clsact(side, bpf_program__fd(prog), made_clsact);
	weir_netns_leave(back);
	return bpf_map_update_elem(l->meta, &first, about, BPF_ANY) ? -1 : result;
}

static int xdp_is_taken(const struct request *r, const struct weir_meta *about)
{
	char name[BPF_OBJ_NAME_LEN] = "";
	int back;

	if (!weir_netns_enter(r->netns, &back)) {
		weir_xdp_name((int)about->ifindex, name, sizeof(name));
		weir_netns_leave(back);
	}
	if (!strcmp(name, "weir_ingress"))
		return weir_error("%s: another loader's weir_ingress is on it: `weir-xdp adopt %s` gives it its "
				  "configuration",
				  r->dev, r->dev);
	if (!strcmp(name, "xdp_dispatcher"))
		return weir_error("%s: libxdp's dispatcher is on it (`xdp-loader status %s`) and ours can't join it by "
				  "itself: load weir_xdp.bpf.o with xdp-loader, then `weir-xdp adopt %s`",
				  r->dev, r->dev, r->dev);
	return weir_error("%s: another XDP program is on it%s%s%s: one alone can be there, unless xdp-loader loads all "
			  "of them; or take it off (`ip link set dev %s xdp off`)",
			  r->dev, *name ? " (" : "", name, *name ? ")" : "", r->dev);
}

/* In libxdp's dispatcher where there is libxdp and the kernel lets it work, else as the only one. */
static int attach_xdp(const struct request *r, const struct loaded *l, struct weir_meta *about)
{
	int prog = bpf_program__fd(bpf_object__find_program_by_name(l->object, "weir_ingress")), back, error;
	int ifindex = (int)about->ifindex;
	char name[BPF_OBJ_NAME_LEN];
	size_t size, length = strlen(about->why);
	const void *bytes = weir_xdp__elf_bytes(&size);

	about->prog_id = weir_prog_id(prog);
	about->config_map_id = weir_map_id(l->config);
	about->owner = WEIR_OWNER_DISPATCHER;
	if (!about->prog_id || bpf_map_update_elem(l->meta, &first, about, BPF_ANY))
		return weir_error("%s: can't write down what is attached: %s", r->dev, weir_reason(errno));
	if (weir_netns_enter(r->netns, &back))
		return -1;
	error = weir_libxdp_attach(bytes, size, l->object, ifindex, r->verbose);
	weir_xdp_name(ifindex, name, sizeof(name));
	if (!error &&
	    strcmp(name, "xdp_dispatcher")) { /* where its dispatcher does not work it loads a program alone */
		about->owner = WEIR_OWNER_LOADER;
		error = bpf_xdp_query_id(ifindex, 0, &about->prog_id);
		snprintf(about->why + length, sizeof(about->why) - length,
			 "; alone: no libxdp dispatcher on this kernel");
	} else if (error && error != -EBUSY && error != -EEXIST) {
		if (error != -ENOSYS)
			snprintf(about->why + length, sizeof(about->why) - length, "; alone: libxdp's dispatcher: %s",
				 strerror(-error));
		about->owner = WEIR_OWNER_LOADER;
		if (bpf_map_update_elem(l->meta, &first, about, BPF_ANY))
			error = -errno;
		else
			error = bpf_xdp_attach(ifindex, prog, XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	}
	weir_netns_leave(back);
	if (error == -EBUSY || error == -EEXIST)
		return xdp_is_taken(r, about);
	if (error)
		return weir_error("%s: can't attach XDP: %s", r->dev, weir_reason(error));
	return bpf_map_update_elem(l->meta, &first, about, BPF_ANY)
		       ? weir_error("can't write the meta map: %s", weir_reason(errno))
		       : 0;
}

/* Our program where another loader put it: its maps, as load() leaves them. */
static int load_adopted(const struct request *r, const struct weir_meta *about, struct loaded *l)
{
	static const char *const names[] = {"config", "queue", "counters"};
	static const __u32 sizes[] = {sizeof(__u32), sizeof(struct weir_queue), sizeof(struct weir_counters)};
	int *const maps[] = {&l->config, &l->queue, &l->counters};
	__u32 inner;
	int prog, back;

	if (weir_netns_enter(r->netns, &back))
		return -1;
	prog = weir_xdp_find((int)about->ifindex, 0, "weir_ingress");
	weir_netns_leave(back);
	if (prog < 0)
		return weir_error("%s: %s%s", r->dev,
				  prog == -ENOENT
					  ? "no XDP program weir_ingress is on it; load weir_xdp.bpf.o first, or "
					    "let `weir-xdp attach` do it all"
					  : "can't look at its XDP program: ",
				  prog == -ENOENT ? "" : weir_reason(prog));
	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		struct bpf_map_info info = {0};
		__u32 size = sizeof(info);

		*maps[i] = weir_prog_map(prog, names[i]);
		if (*maps[i] < 0 || bpf_obj_get_info_by_fd(*maps[i], &info, &size) || info.value_size != sizes[i]) {
			close(prog);
			return weir_error("%s: its weir_ingress is of another version: its map %s is not as we know it",
					  r->dev, names[i]);
		}
	}
	close(prog);
	if (!bpf_map_lookup_elem(l->config, &first, &inner))
		return weir_error("%s: its weir_ingress has a configuration: it is attached, with pins in another "
				  "folder (--pins)",
				  r->dev);
	/* no program reads it, so none keeps the one of its object alive */
	l->meta = bpf_map_create(BPF_MAP_TYPE_ARRAY, "meta", sizeof(__u32), sizeof(struct weir_meta), 1, NULL);
	return l->meta < 0 ? weir_error("can't create a map: %s", weir_reason(errno)) : 0;
}

static int pin_adopted(const struct loaded *l, const char *path)
{
	const struct {
		const char *name;
		int map;
	} pins[] = {{"config", l->config}, {"queue", l->queue}, {"counters", l->counters}};
	char name[PATH_MAX + 32];

	for (size_t i = 0; i < sizeof(pins) / sizeof(*pins); i++) {
		snprintf(name, sizeof(name), "%s/%s", path, pins[i].name);
		if (bpf_obj_pin(pins[i].map, name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	return 0;
}

/* The tracepoint's link lives by its pin. */
static int attach_departures(const struct loaded *l, const char *path)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(l->object, "weir_departures");
	struct bpf_link *link = bpf_program__attach(prog);
	char name[PATH_MAX + 32];
	int error;

	if (!link)
		return weir_error("can't attach to the qdisc_dequeue tracepoint: %s", weir_reason(errno));
	snprintf(name, sizeof(name), "%s/link_departures", path);
	error = bpf_link__pin(link, name);
	bpf_link__disconnect(link);
	bpf_link__destroy(link);
	return error ? weir_error("%s: can't pin: %s", name, weir_reason(error)) : 0;
}

/* Which signal, and why. 0, or -1 with the objection to the one asked for. */
static int choose(const struct request *r, const struct interface *dev, struct weir_meta *about, struct loaded *l)
{
	const char *objection = qdisc_objection(&dev->qdisc);
	char why[512];
	int error;

	about->signal = r->signal	    ? r->signal
			: r->peer	    ? WEIR_SIGNAL_VETH
			: r->rate_bit_s > 0 ? WEIR_SIGNAL_VIRTUAL
					    : 0;
	snprintf(about->why, sizeof(about->why), "%s",
		 r->signal ? "asked for"
		 : r->peer ? "--peer given"
			   : "--rate given");
	if ((!about->signal || about->signal == WEIR_SIGNAL_BACKLOG || about->signal == WEIR_SIGNAL_POLL) && objection)
		return weir_error("%s: %s%s", r->dev, objection, about->signal ? "" : "; or give --peer or --rate");
	if (weir_tree_objection(&dev->tree, about->signal ? about->signal : WEIR_SIGNAL_BACKLOG, r->whole_tree, why,
				sizeof(why)))
		return weir_error("%s: %s", r->dev, why);
	if (!about->signal || about->signal == WEIR_SIGNAL_BACKLOG) {
		if (access(KERNEL_BTF, R_OK))
			error = -ENOENT;
		else
			error = load(WEIR_SIGNAL_BACKLOG, about->hook, l);
		if (!error && !about->signal)
			snprintf(about->why, sizeof(about->why), "the kernel has BTF and took the program");
		if (!error) {
			about->signal = WEIR_SIGNAL_BACKLOG;
			return 0;
		}
		if (error == -EPERM || error == -EACCES)
			return weir_error("%s: can't load the program: %s", r->dev, weir_reason(error));
		if (about->signal)
			return weir_error("signal backlog: %s; signal poll works here",
					  error == -ENOENT ? "this kernel has no BTF (" KERNEL_BTF ")"
							   : weir_reason(error));
		snprintf(about->why, sizeof(about->why), "no signal backlog: %s",
			 error == -ENOENT ? "this kernel has no BTF" : weir_reason(error));
		about->signal = WEIR_SIGNAL_POLL;
	}
	error = load(about->signal, about->hook, l);
	if (error)
		return weir_error("%s: can't load the program: %s", r->dev,
				  error == -ENOSYS ? "this kernel has no bpf() (CONFIG_BPF_SYSCALL)"
						   : weir_reason(error));
	return 0;
}

static int check_request(const struct request *r)
{
	bool veth = r->signal == WEIR_SIGNAL_VETH || (!r->signal && r->peer);
	bool virtual = r->signal == WEIR_SIGNAL_VIRTUAL || (!r->signal && !r->peer && r->rate_bit_s > 0);

	if (veth && !r->peer)
		return weir_error("signal veth needs the other end: --peer DEV[@NETNS]");
	if (r->peer && !veth)
		return weir_error("--peer goes with signal veth only");
	if (virtual && r->rate_bit_s <= 0)
		return weir_error("signal virtual needs the rate its queue drains at: --rate 10mbit");
	if (r->rate_bit_s > 0 && !virtual)
		return weir_error("--rate goes with signal virtual only");
	if (r->hook == WEIR_HOOK_XDP && !virtual)
		return weir_error("--hook xdp goes with signal virtual only; the others are at tc egress");
	if (r->limit_packets && !veth)
		return weir_error(
			"--limit-packets goes with signal veth only (a virtual queue takes --limit-bytes, a qdisc has "
			"its own limit)");
	if (r->whole_tree && virtual)
		return weir_error("--whole-tree: a virtual queue goes by no tree; without it");
	if (r->limit_bytes && !veth && !virtual)
		return weir_error("--limit-bytes goes with signals veth and virtual only; a qdisc has its own limit");
	return 0;
}

static int read_gains(const struct request *r, struct weir_gains *gains)
{
	double unused;

	*gains = (struct weir_gains){0};
	if (r->gains_file && weir_gains_read(gains, r->gains_file))
		return -1;
	for (int i = 0; i < r->words; i++)
		if (apply_pair(r->word[i], gains, NULL, &unused))
			return -1;
	return weir_gains_check(gains);
}

/* First state of the queue, before any packet can see it. */
static int prime(const struct request *r, const struct interface *dev, const struct weir_meta *about,
		 const struct loaded *l, const struct weir_config *config, const char *path)
{
	struct weir_queue q = {0};

	if (about->signal == WEIR_SIGNAL_VETH) /* what waits already will come out, too */
		q.in = WEIR_PAIR(dev->qdisc.backlog_packets, dev->qdisc.backlog_bytes);
	if (config->frozen) {
		q.law.started = 1;
		q.law.u_q40 = (__u64)rint(r->fixed * (double)WEIR_U_ONE_Q40);
	}
	q.virtual_ns = q.poll_ns = weir_now_ns();
	if (bpf_map_update_elem(l->queue, &first, &q, BPF_F_LOCK))
		return weir_error("can't write the queue's state: %s", weir_reason(errno));
	return weir_config_replace(l->config, path, config);
}

static int attach_all(const struct request *r, const struct interface *dev, const struct interface *peer,
		      struct weir_config *config, struct weir_meta *about, struct loaded *l, const char *path,
		      struct weir_locks *locks)
{
	struct weir_side egress = {r->dev, dev->ifindex, BPF_TC_EGRESS};
	char name[PATH_MAX + 32];

	if (r->adopt) {
		about->signal = WEIR_SIGNAL_VIRTUAL;
		about->owner = WEIR_OWNER_OTHER;
		snprintf(about->why, sizeof(about->why), "another loader's program");
		if (load_adopted(r, about, l))
			return -1;
		about->config_map_id = weir_map_id(l->config);
	} else if (choose(r, dev, about, l) || choose_hook(r, l, about)) {
		return -1;
	}
	config->signal = about->signal;
	/* the meta map first: should we be killed, it knows what to take away */
	snprintf(name, sizeof(name), "%s/meta", path);
	if (bpf_map_update_elem(l->meta, &first, about, BPF_ANY))
		return weir_error("can't write the meta map: %s", weir_reason(errno));
	if (bpf_obj_pin(l->meta, name))
		return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	if (r->adopt ? pin_adopted(l, path) || prime(r, dev, about, l, config, path)
		     : prime(r, dev, about, l, config, path) || pin(l, path))
		return -1;

	/* the far end before the near one: what goes in has to be seen coming out */
	if (about->signal == WEIR_SIGNAL_VETH) {
		struct weir_side ingress = {r->peer, peer->ifindex, BPF_TC_INGRESS};

		if (attach_tc(r->peer_netns, &ingress, l, "weir_peer", about, path))
			return -1;
	}
	if (about->signal == WEIR_SIGNAL_BACKLOG && attach_departures(l, path))
		return -1;
	if (r->adopt			   ? 0
	    : about->hook == WEIR_HOOK_XDP ? attach_xdp(r, l, about)
					   : attach_tc(r->netns, &egress, l, "weir_egress", about, path))
		return -1;
	if (about->signal == WEIR_SIGNAL_POLL && start_poll(about, l->meta, path, r->netns, locks))
		return -1;
	about->complete = 1;
	if (bpf_map_update_elem(l->meta, &first, about, BPF_ANY))
		return weir_error("can't write the meta map: %s", weir_reason(errno));
	return 0;
}

static int print_status(const struct request *r, const char *dev, const char *path, bool first_of_list);
static void warn_of_bypass(const struct request *r, const char *path);

static int attach(const struct request *r)
{
	struct interface dev = {0}, peer = {0};
	struct weir_meta about = {0};
	struct weir_config config = {0};
	struct weir_gains gains;
	struct loaded l = {0};
	struct weir_locks locks;
	struct timespec tick;
	char path[PATH_MAX];
	int result;

	if (check_request(r) || read_gains(r, &gains) || look_at(r->dev, r->netns, &dev) ||
	    (r->peer && look_at(r->peer, r->peer_netns, &peer)))
		return 1;
	if (r->peer && dev.ifindex == peer.ifindex && weir_place_same_netns(&dev.place, &peer.place))
		return weir_error("--peer %s: must be the other end, not %s itself", r->peer, r->dev), 1;

	about.hook = r->hook_given ? r->hook : r->rate_bit_s > 0 ? WEIR_HOOK_XDP : WEIR_HOOK_TC;
	about.ifindex = (__u32)dev.ifindex;
	about.peer_ifindex = (__u32)peer.ifindex;
	about.whole_tree = r->whole_tree;
	about.netns_inum = dev.place.netns_inum;
	about.netns_cookie = dev.place.netns_cookie;
	about.sent_bytes = dev.qdisc.sent_bytes;
	about.peer_netns_inum = peer.place.netns_inum;
	about.peer_netns_cookie = peer.place.netns_cookie;
	snprintf(about.dev, sizeof(about.dev), "%s", dev.place.name);
	snprintf(about.peer, sizeof(about.peer), "%s", peer.place.name);
	snprintf(about.netns, sizeof(about.netns), "%s", r->netns);
	snprintf(about.peer_netns, sizeof(about.peer_netns), "%s", r->peer_netns);

	weir_gains_to_params(&gains, &config.law);
	config.limit_packets = r->limit_packets;
	config.limit_bytes = r->limit_bytes;
	config.frozen = r->fixed_given;
	config.ifindex = about.ifindex;
	config.netns_inum = (__u32)dev.place.netns_inum;
	config.root_handle = dev.qdisc.handle;
	memcpy(config.root_kind, dev.qdisc.kind, sizeof(config.root_kind));
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	/* it moves once a tick, and only by whole ticks: what was left over then comes on top */
	config.coarse_lag_ns = 2 * ((__u64)tick.tv_sec * 1000000000ULL + (__u64)tick.tv_nsec);
	if (r->rate_bit_s > 0)
		set_virtual_rate(&config, r->rate_bit_s);
	switch (dev.type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
		config.l2_bytes = L2_ETHERNET_BYTES;
		break;
	case ARPHRD_NONE:
	case ARPHRD_PPP:
	case ARPHRD_RAWIP:
		if (about.hook != WEIR_HOOK_XDP)
			break;
		/* fall through */
	default:
		return weir_error("%s: its link layer (type %d) is not one we read; %s", r->dev, dev.type,
				  about.hook == WEIR_HOOK_XDP ? "XDP takes Ethernet only"
							      : "Ethernet or plain IP (tun, ppp) is"),
		       1;
	}

	if (weir_locks_take(&locks, &dev.place, r->netns, r->peer ? &peer.place : NULL, r->peer_netns,
			    WEIR_LOCK_WAIT_MS))
		return 1;
	if (claim(r->pins, &dev.place, r->netns, path)) {
		rmdir(r->pins); /* goes only if nothing is attached */
		weir_locks_drop(&locks);
		return 1;
	}
	result = attach_all(r, &dev, &peer, &config, &about, &l, path, &locks);
	if (result)
		weir_undo(&about, path, r->netns);
	if (l.object)
		bpf_object__close(l.object);
	if (result)
		rmdir(r->pins);
	weir_locks_drop(&locks);
	if (result)
		return 1;
	warn_of_bypass(r, path);
	if (r->json)
		return print_status(r, r->dev, path, true) ? 1 : 0;
	printf("attached to %s by %s: signal %s (%s)\n", about.dev, weir_hook_name(about.hook),
	       weir_signal_name(about.signal), about.why);
	return 0;
}

/* For a weir_ingress that xdp-loader, bpftool or ip put on DEV, which does nothing until it has a configuration. */
static int adopt(const struct request *r)
{
	struct request own = *r;

	own.adopt = own.hook_given = true;
	own.signal = WEIR_SIGNAL_VIRTUAL;
	own.hook = WEIR_HOOK_XDP;
	return attach(&own);
}

/* ---- detach ---- */

/* Whether a namespace can be entered, and is the one that place is in. */
static bool can_reach(const struct weir_place *place, const char *netns)
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

/* The locks of what is pinned there. A namespace that can't be entered can't be changed by us either: undoing says so.
 */
static int lock_pinned(const struct request *r, const char *path, struct weir_locks *locks)
{
	struct weir_place place = {0}, peer = {0};
	struct weir_meta about;
	const char *netns;
	unsigned long long netns_id;

	locks->fd[0] = locks->fd[1] = -1;
	if (weir_meta_read(path, &about)) {
		place = weir_place_of(&about);
	} else { /* at work, or cut short before it wrote down anything: the name of the folder says where */
		weir_place_look(r->dev, r->netns, &place);
		if (sscanf(strrchr(path, '/') + 1, "%llu-%u", &netns_id, &place.ifindex) != 2 ||
		    netns_id != (place.netns_cookie ? place.netns_cookie : place.netns_inum))
			return 0;
		snprintf(place.name, sizeof(place.name), "%.*s", IF_NAMESIZE - 1, r->dev);
	}
	netns = *r->netns ? r->netns : about.netns;
	if (!can_reach(&place, netns))
		return 0;
	peer.netns_cookie = about.peer_netns_cookie;
	peer.netns_inum = about.peer_netns_inum;
	peer.ifindex = about.peer_ifindex;
	snprintf(peer.name, sizeof(peer.name), "%s", about.peer);
	return weir_locks_take(locks, &place, netns, peer.ifindex && can_reach(&peer, about.peer_netns) ? &peer : NULL,
			       about.peer_netns, WEIR_LOCK_WAIT_MS);
}

static int detach(const struct request *r)
{
	struct weir_locks locks;
	struct weir_meta about;
	char path[PATH_MAX], name[PATH_MAX + 32];
	int meta, result;

	if (access(r->pins, X_OK) && errno == EACCES)
		return weir_error("can't look at %s: %s", r->pins, weir_reason(errno)), 1;
	if (weir_place_find(r->pins, r->dev, r->netns, path))
		return 1;
	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0 && errno != ENOENT)
		return weir_error("%s: %s", name, weir_reason(errno)), 1;
	if (meta >= 0)
		close(meta);
	if (!r->pins_only && weir_meta_is_foreign(path))
		return weir_foreign_error(r->dev), 1;
	if (r->pins_only) {
		weir_meta_read(path, &about);
		weir_end_poll(&about);
		result = weir_remove_pins(path);
	} else {
		if (lock_pinned(r, path, &locks))
			return 1;
		weir_meta_read(path, &about); /* not before: whoever had the lock may have changed everything */
		if (access(path, F_OK))
			result = weir_error("nothing is attached to %s any more: it was detached just now", r->dev);
		else
			result = weir_undo(&about, path, *r->netns ? r->netns : about.netns);
		weir_locks_drop(&locks);
	}
	rmdir(r->pins);
	return result ? 1 : 0;
}

/* ---- status, set, watch ---- */

static void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			fprintf(out, "\\u%04x", (unsigned)*text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

/* An attachment with a netlink socket in DEV's namespace. */
struct view {
	struct weir_attachment a;
	char label[IF_NAMESIZE + 1 + WEIR_PATH_LEN]; /* what to call it: DEV, or DEV@NETNS if it is not in ours */
	int netlink, link;			     /* link: ours at egress, TCX only */
	__u64 attach_id;       /* another one after each attach: the inode of the folder of its pins */
	bool gone;	       /* the interface is, or our program on it */
	char ahead[512];       /* what keeps packets from the law, as far as it can be told; "" nothing */
	struct weir_tree tree; /* under the interface, as last looked at */
	__u64 tree_ns;	       /* and when; 0 never */
};

static void view_close(struct view *v)
{
	weir_attachment_close(&v->a);
	if (v->netlink >= 0)
		close(v->netlink);
	if (v->link >= 0)
		close(v->link);
}

/* Whether it is so still; also false where it can't be told. */
static bool view_is_on(const struct view *v, const struct request *r)
{
	const struct weir_meta *about = &v->a.about;
	struct weir_place place = weir_place_of(about);
	char name[IF_NAMESIZE] = "", why[256];
	int back;
	bool on;

	if (about->hook == WEIR_HOOK_TCX) /* a link knows, whatever namespace it is in */
		return weir_program_is_on(about, v->link, name);
	weir_error_into(why, sizeof(why));
	on = !weir_reach(&place, *r->netns ? r->netns : about->netns, &back, name);
	weir_error_into(NULL, 0);
	if (on) {
		on = weir_program_is_on(about, v->link, name);
		weir_netns_leave(back);
	}
	return on;
}

/* Whether an attachment is in the namespace a command is about; that of --netns, else ours. */
static bool is_here(const struct request *r, const struct weir_meta *about)
{
	struct weir_place place = weir_place_of(about);

	return can_reach(&place, r->netns);
}

/* DEV where the command is about its namespace, else DEV@NETNS: by either it can be asked for, and told from others. */
static void label(const struct request *r, const struct weir_meta *about, char *text, size_t size)
{
	bool plain = !*about->netns || is_here(r, about);

	snprintf(text, size, "%s%s%s", about->dev, plain ? "" : "@", plain ? "" : about->netns);
}

/* Of a list: one that the command is not about, or that can't be seen from here. */
static bool is_elsewhere(const struct request *r, const struct weir_meta *about)
{
	return !is_here(r, about) && (*r->netns || !*about->netns);
}

/* What is pinned in a folder; asked: the name it was asked for by, NULL if it was found. 0, -1, or WEIR_INCOMPLETE. */
static int view_open(struct view *v, const struct request *r, const char *asked, const char *path)
{
	const struct weir_meta *about = &v->a.about;
	struct weir_place place;
	char name[IF_NAMESIZE];
	int back, found;
	struct stat st;

	v->netlink = v->link = -1;
	*v->ahead = 0;
	v->tree_ns = 0;
	found = weir_attachment_open(&v->a, path, asked ? asked : strrchr(path, '/') + 1);
	if (found)
		return found;
	v->attach_id = stat(v->a.path, &st) ? 0 : st.st_ino;
	place = weir_place_of(about);
	if (asked)
		snprintf(v->label, sizeof(v->label), "%s", asked);
	else
		label(r, about, v->label, sizeof(v->label));
	found = weir_reach(&place, *r->netns ? r->netns : about->netns, &back, name);
	if (found < 0) {
		weir_attachment_close(&v->a);
		return -1;
	}
	v->gone = found > 0;
	if (!found) {
		char pin[PATH_MAX + 32];

		weir_link_pin(pin, sizeof(pin), v->a.path, BPF_TC_EGRESS);
		if (about->hook == WEIR_HOOK_TCX)
			v->link = bpf_obj_get(pin);
		v->gone = !weir_program_is_on(about, v->link, name);
		v->netlink = weir_netlink_open();
		if (v->netlink >= 0 && !v->gone)
			weir_ahead(about, v->netlink, v->link, v->ahead, sizeof(v->ahead));
		weir_netns_leave(back);
		if (v->netlink < 0) {
			weir_error("%s: no netlink socket: %s", v->label, strerror(-v->netlink));
			view_close(v);
			return -1;
		}
	}
	return 0;
}

/* Adds what the counters show of packets that took another way. */
static void view_count_bypassed(struct view *v, const struct weir_sample *s)
{
	const struct weir_counters *n = &s->counters;
	size_t length = strlen(v->ahead);
	char text[128] = "";

	if (!v->gone && *s->root.kind && s->root.sent_bytes >= v->a.about.sent_bytes)
		weir_bypassed(s->root.sent_bytes - v->a.about.sent_bytes,
			      n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes, text, sizeof(text));
	if (*text)
		snprintf(v->ahead + length, sizeof(v->ahead) - length, "%s%s", length ? "; " : "", text);
}

/* A sample, and in `trouble` what is wrong with the queue it is of ("" nothing). */
static int view_sample(struct view *v, struct weir_sample *s, char *trouble, size_t size)
{
	const struct weir_meta *m = &v->a.about;
	struct weir_tree tree;

	*trouble = 0;
	if (weir_sample_take(&v->a, v->netlink, s))
		return -1;
	if (v->gone) { /* nobody decides anything there */
		s->dq_time_q8_us = s->tau_us = 0;
		s->drop_probability = 0;
		return 0;
	}
	if (m->signal == WEIR_SIGNAL_VIRTUAL)
		return 0;
	if ((!v->tree_ns || s->now_ns - v->tree_ns >= TREE_CHECK_NS ||
	     (*s->root.kind && (s->root.handle != v->tree.handle || strcmp(s->root.kind, v->tree.kind)))) &&
	    !weir_tree_read(v->netlink, (int)m->ifindex, &tree)) {
		v->tree = tree;
		v->tree_ns = s->now_ns;
	}
	if (!v->tree_ns) /* it could not be read yet */
		return 0;
	if (m->signal != WEIR_SIGNAL_VETH) { /* the sample's own look at the root is the newer one */
		memcpy(v->tree.kind, s->root.kind, sizeof(v->tree.kind));
		v->tree.handle = s->root.handle;
	}
	if (!weir_tree_trouble(&v->tree, &s->config, m->whole_tree, trouble, size))
		return 0;
	if (m->signal == WEIR_SIGNAL_VETH && !*v->tree.kind) /* the rate is that of a shaper that is gone */
		s->dq_time_q8_us = s->tau_us = 0;
	return 0;
}

/* Members of a JSON object, each with a comma before it. `space`: after commas and colons. */
static void json_ages(FILE *out, const struct weir_sample *s, const char *trouble, const char *space)
{
	fprintf(out, ",%s\"age_us\":%s%llu", space, space, s->age_ns / 1000);
	if (s->dq_time_q8_us)
		fprintf(out, ",%s\"rate_age_us\":%s%llu", space, space, s->rate_age_ns / 1000);
	if (*trouble) {
		fprintf(out, ",%s\"trouble\":%s", space, space);
		json_string(out, trouble);
	}
}

static void status_json(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_counters *n = &s->counters;
	struct weir_gains gains;

	weir_gains_from_params(&gains, &s->config.law);
	printf("{\"dev\": ");
	json_string(stdout, v->label);
	printf(", \"netns\": ");
	json_string(stdout, m->netns);
	printf(", \"pins\": ");
	json_string(stdout, v->a.path);
	printf(", \"netns_inode\": %llu, \"attach_id\": %llu, \"config_id\": %u", m->netns_inum, v->attach_id,
	       s->config_id);
	printf(", \"hook\": \"%s\", \"signal\": \"%s\", \"why\": ", weir_hook_name(m->hook),
	       weir_signal_name(m->signal));
	json_string(stdout, m->why);
	printf(", \"gone\": %s, \"fixed\": %s", v->gone ? "true" : "false", s->config.frozen ? "true" : "false");
	if (m->signal == WEIR_SIGNAL_VETH) {
		printf(", \"peer\": ");
		json_string(stdout, m->peer);
		printf(", \"peer_netns\": ");
		json_string(stdout, m->peer_netns);
	}
	if (m->hook == WEIR_HOOK_XDP)
		printf(", \"xdp_owner\": \"%s\"", m->owner == WEIR_OWNER_OTHER	      ? "another loader"
						  : m->owner == WEIR_OWNER_DISPATCHER ? "libxdp"
										      : "weir-xdp");
	if (m->signal == WEIR_SIGNAL_VIRTUAL)
		printf(", \"rate_bit_s\": %llu", s->config.rate_bit_s);
	if (m->signal == WEIR_SIGNAL_POLL)
		printf(", \"poll\": {\"pid\": %d, \"alive\": %s, \"silent_us\": %llu, \"errno\": %d}", m->poll_pid,
		       weir_poll_lives(m, &s->config, s->silent_ns) ? "true" : "false", s->silent_ns / 1000,
		       m->poll_errno);
	printf(", \"limit_packets\": %llu, \"limit_bytes\": %llu", s->config.limit_packets, s->config.limit_bytes);
	printf(", \"gains\": {");
	weir_gains_print(&gains, stdout, true);
	printf("}, \"backlog_bytes\": %llu", s->backlog_bytes);
	if (s->has_packets)
		printf(", \"backlog_packets\": %llu", s->backlog_packets);
	printf(", \"tau_us\": %u, \"dq_rate_bit_s\": %.0f, \"u\": %.9g, \"drop_probability\": %.9g, \"row\": %u",
	       s->tau_us, weir_rate_bit_s(s->dq_time_q8_us, &s->config.law), s->u, s->drop_probability,
	       s->queue.law.row);
	json_ages(stdout, s, trouble, " ");
	if (*v->ahead) {
		printf(", \"bypass\": ");
		json_string(stdout, v->ahead);
	}
	printf(", \"counters\": {\"seen_packets\": %llu, \"seen_bytes\": %llu, \"passed_packets\": %llu, "
	       "\"passed_bytes\": %llu, "
	       "\"marked_packets\": %llu, \"marked_bytes\": %llu, \"dropped_aqm_packets\": %llu, "
	       "\"dropped_aqm_bytes\": %llu, "
	       "\"dropped_limit_packets\": %llu, \"dropped_limit_bytes\": %llu, \"non_ip_packets\": %llu, "
	       "\"non_ip_bytes\": %llu, \"updates\": %llu, \"missed_intervals\": %llu, "
	       "\"rows\": [%llu, %llu, %llu, %llu, %llu], \"resyncs\": %llu, \"strays\": %llu, \"stale\": %llu, "
	       "\"unusable\": %llu}}",
	       n->seen_packets, n->seen_bytes, n->seen_packets - n->dropped_aqm_packets - n->dropped_limit_packets,
	       n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes, n->marked_packets, n->marked_bytes,
	       n->dropped_aqm_packets, n->dropped_aqm_bytes, n->dropped_limit_packets, n->dropped_limit_bytes,
	       n->non_ip_packets, n->non_ip_bytes, n->steps.updates, n->steps.missed_intervals, n->steps.rows[0],
	       n->steps.rows[1], n->steps.rows[2], n->steps.rows[3], n->steps.rows[4], n->resyncs, s->drain.strays,
	       n->stale, n->unusable);
}

static void status_text(const struct view *v, const struct weir_sample *s, const char *trouble)
{
	const struct weir_meta *m = &v->a.about;
	const struct weir_counters *n = &s->counters;
	struct weir_gains gains;

	printf("%s%s%s: %s (%s), signal %s (%s)%s\n", m->dev, *m->netns ? " in " : "", m->netns,
	       m->hook == WEIR_HOOK_XDP ? "ingress" : "egress", weir_hook_name(m->hook), weir_signal_name(m->signal),
	       m->why, v->gone ? " -- GONE: the interface or our program on it is; detach cleans up" : "");
	if (*trouble)
		printf("  TROUBLE: %s\n", trouble);
	if (*v->ahead)
		printf("  BYPASS: %s\n", v->ahead);
	printf("  pinned in %s\n", v->a.path);
	if (m->owner)
		printf("  %s\n", m->owner == WEIR_OWNER_DISPATCHER
					 ? "in libxdp's dispatcher, beside other XDP programs"
					 : "put there by another loader, which may take it off");
	if (m->signal == WEIR_SIGNAL_VETH)
		printf("  peer %s%s%s\n", m->peer, *m->peer_netns ? " in " : "", m->peer_netns);
	if (m->signal == WEIR_SIGNAL_VIRTUAL)
		printf("  drains at %llu bit/s\n", s->config.rate_bit_s);
	if (m->signal == WEIR_SIGNAL_POLL) {
		bool alive = weir_poll_lives(m, &s->config, s->silent_ns);

		printf("  poll process %d %s%s%s\n", m->poll_pid,
		       alive ? "runs" : "is DEAD, U decays; detach and attach anew", m->poll_errno ? ": " : "",
		       m->poll_errno ? weir_reason(m->poll_errno) : "");
	}
	printf("  queue %llu bytes", s->backlog_bytes);
	if (s->has_packets)
		printf(" in %llu packets", s->backlog_packets);
	if (!s->dq_time_q8_us)
		printf(", rate unknown");
	else if (m->signal == WEIR_SIGNAL_VIRTUAL)
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
	printf("  seen %llu packets, %llu bytes; marked %llu, dropped by the law %llu, by the limit %llu; not IP "
	       "%llu\n",
	       n->seen_packets, n->seen_bytes, n->marked_packets, n->dropped_aqm_packets, n->dropped_limit_packets,
	       n->non_ip_packets);
	printf("  steps %llu, intervals missed %llu, rows of Algorithm 1: %llu %llu %llu %llu %llu\n", n->steps.updates,
	       n->steps.missed_intervals, n->steps.rows[0], n->steps.rows[1], n->steps.rows[2], n->steps.rows[3],
	       n->steps.rows[4]);
	if (m->signal == WEIR_SIGNAL_VETH)
		printf("  counts started anew %llu, strays %llu\n", n->resyncs, s->drain.strays);
	if (m->signal == WEIR_SIGNAL_POLL)
		printf("  decided while the poll process was silent: %llu\n", n->stale);
	if (n->unusable)
		printf("  looks at a queue the law can't go by: %llu\n", n->unusable);
	if (s->config.limit_packets)
		printf("  limit_packets = %llu\n", s->config.limit_packets);
	if (s->config.limit_bytes)
		printf("  limit_bytes = %llu\n", s->config.limit_bytes);
	weir_gains_from_params(&gains, &s->config.law);
	weir_gains_print(&gains, stdout, false);
}

static int print_status(const struct request *r, const char *dev, const char *path, bool first_of_list)
{
	struct weir_sample sample;
	char trouble[1024];
	struct view v;
	int result;

	if (view_open(&v, r, dev, path))
		return -1;
	result = view_sample(&v, &sample, trouble, sizeof(trouble));
	if (!result)
		view_count_bypassed(&v, &sample);
	if (!result && r->json) {
		fputs(first_of_list ? "" : ",\n ", stdout);
		status_json(&v, &sample, trouble);
		fputs(r->dev ? "\n" : "", stdout);
	} else if (!result) {
		status_text(&v, &sample, trouble);
	}
	view_close(&v);
	return result;
}

static void warn_of_bypass(const struct request *r, const char *path)
{
	struct view v;

	if (view_open(&v, r, r->dev, path))
		return;
	if (*v.ahead)
		weir_note("%s: attached, but %s", r->dev, v.ahead);
	view_close(&v);
}

/* While all are listed. */
struct listing {
	const struct request *r;
	unsigned int seen, printed;
	int result;
};

static int status_one(const char *path, void *context)
{
	struct listing *list = context;
	struct weir_meta about;

	if (weir_meta_read(path, &about) && is_elsewhere(list->r, &about)) {
		if (*list->r->netns)
			return 0;
		list->seen++;
		if (!list->r->json)
			printf("%s in another network namespace (inode %llu): ask there, or with --netns PATH; pinned "
			       "in "
			       "%s\n",
			       about.dev, about.netns_inum, path);
		return 0;
	}
	list->seen++;
	if (print_status(list->r, NULL, path, !list->printed))
		list->result = 1;
	else
		list->printed++;
	return 0;
}

static int status(const struct request *r)
{
	struct listing list = {.r = r};
	char path[PATH_MAX];

	if (r->dev)
		return weir_place_find(r->pins, r->dev, r->netns, path) || print_status(r, r->dev, path, true) ? 1 : 0;
	if (r->json)
		printf("[");
	if (weir_place_each(r->pins, status_one, &list))
		list.result = 1;
	else if (!r->json && !list.seen)
		printf("nothing is attached\n");
	if (r->json)
		printf("]\n");
	return list.result;
}

/* The folder of an attachment's pins locked until the descriptor is closed: no two changes get between each other. */
static int lock_folder(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0 || flock(folder, LOCK_EX)) {
		weir_error("%s: can't lock it: %s", path, weir_pin_reason(errno));
		if (folder >= 0)
			close(folder);
		return -1;
	}
	return folder;
}

static void print_gains(FILE *out, const struct weir_params *params)
{
	struct weir_gains gains;

	weir_gains_from_params(&gains, params);
	fputs("\"gains\":{", out);
	weir_gains_print(&gains, out, true);
	fputc('}', out);
}

static int set_locked(const struct request *r, struct weir_attachment *a)
{
	struct weir_config config;
	struct weir_gains gains;
	double rate_bit_s = 0;

	if (weir_config_read(a, &config))
		return 1;
	if (r->expect && r->expect != a->config_id)
		return weir_error("%s: its gains were changed: configuration %u is in force, not %u", r->dev,
				  a->config_id, r->expect),
		       CHANGED;
	if (config.signal == WEIR_SIGNAL_VIRTUAL)
		rate_bit_s = (double)config.rate_bit_s;
	weir_gains_from_params(&gains, &config.law);
	for (int i = 0; i < r->words; i++)
		if (apply_pair(r->word[i], &gains, &config, &rate_bit_s))
			return 1;
	if (weir_gains_check(&gains))
		return 1;
	weir_gains_to_params(&gains, &config.law);
	if (config.signal == WEIR_SIGNAL_VIRTUAL)
		set_virtual_rate(&config, rate_bit_s);
	if (weir_config_replace(a->config, a->path, &config))
		return 1;
	if (r->json) {
		if (weir_config_read(a, &config))
			return 1;
		printf("{\"dev\":");
		json_string(stdout, r->dev);
		printf(",\"config_id\":%u,", a->config_id);
		print_gains(stdout, &config.law);
		printf("}\n");
	}
	return 0;
}

static int set(const struct request *r)
{
	struct weir_attachment a;
	char path[PATH_MAX];
	int result = 1, folder;

	if (!r->words)
		return weir_error("set %s: nothing to set; give KEY=VALUE, see --help", r->dev), USAGE_ERROR;
	if (weir_place_find(r->pins, r->dev, r->netns, path) || weir_attachment_open(&a, path, r->dev))
		return 1;
	folder = lock_folder(path);
	if (folder >= 0 && access(path, F_OK)) {
		weir_error("%s was detached just now", r->dev);
		close(folder);
	} else if (folder >= 0) {
		result = set_locked(r, &a);
		close(folder);
	}
	weir_attachment_close(&a);
	return result;
}

/* ---- watch ---- */

/* One interface of a watch. */
struct watched {
	char dev[IF_NAMESIZE + 1 + WEIR_PATH_LEN]; /* as given, or as first found */
	char path[PATH_MAX];			   /* --all: of its pins, else "": to be found by its name */
	bool open, listed;			   /* it has a queue of ours; --all: its pins are there */
	long failed;				   /* looks in a row that found pins but no attachment */
	__u32 config_id;			   /* as last told */
	struct view v;
	char why[512]; /* as last told: why there is no queue */
};

struct watch {
	const struct request *r;
	FILE *out;
	struct watched **list;
	size_t count;
	__u64 sample_ns; /* time of the last sample */
	long tick;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void line_head(const struct watch *w, const char *kind, __u64 now_ns, const struct watched *d)
{
	fprintf(w->out, "{\"k\":\"%s\",\"t_us\":%llu", kind, now_ns / 1000);
	if (d) {
		fprintf(w->out, ",\"dev\":");
		json_string(w->out, d->dev);
	}
}

static void tell_gains(const struct watch *w, struct watched *d, const struct weir_params *params)
{
	d->config_id = d->v.a.config_id;
	fprintf(w->out, ",\"config_id\":%u,", d->config_id);
	print_gains(w->out, params);
	fputs("}\n", w->out);
}

/* No queue any more, or still none. To one who follows it is told once; else it is the end: -1. */
static int without(const struct watch *w, struct watched *d, const char *why)
{
	if (d->open)
		view_close(&d->v);
	d->open = false;
	if (!w->r->follow)
		return weir_error("%s", why);
	if (strcmp(d->why, why)) {
		snprintf(d->why, sizeof(d->why), "%s", why);
		line_head(w, "gone", weir_now_ns(), d);
		fputs(",\"why\":", w->out);
		json_string(w->out, d->why);
		fputs("}\n", w->out);
	}
	return 0;
}

/* 0, -1, WEIR_INCOMPLETE or WEIR_NOTHING. */
static int watched_open(const struct watch *w, struct watched *d)
{
	char path[PATH_MAX], dev[sizeof(d->dev)], *netns = NULL;
	int result;

	if (*d->path) {
		if (access(d->path, F_OK))
			return WEIR_NOTHING;
		result = view_open(&d->v, w->r, NULL, d->path);
		if (!result)
			snprintf(d->dev, sizeof(d->dev), "%s", d->v.label);
		return result;
	}
	snprintf(dev, sizeof(dev), "%s", d->dev);
	netns = weir_netns_split(dev);
	result = weir_place_find(w->r->pins, dev, netns ? netns : w->r->netns, path);
	return result ? result : view_open(&d->v, w->r, d->dev, path);
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
	if (w->r->follow) {
		const struct weir_meta *about = &d->v.a.about;

		line_head(w, "new", weir_now_ns(), d);
		fputs(",\"netns\":", w->out);
		json_string(w->out, about->netns);
		fprintf(w->out, ",\"netns_inode\":%llu,\"signal\":\"%s\",\"attach_id\":%llu", about->netns_inum,
			weir_signal_name(about->signal), d->v.attach_id);
		tell_gains(w, d, &config.law);
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
		if (stat(d->v.a.path, &st) || st.st_ino != d->v.attach_id)
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
	if (w->r->follow && s.config_id != d->config_id) {
		line_head(w, "gains", s.now_ns, d);
		tell_gains(w, d, &s.config.law);
	}
	line_head(w, "aqm", s.now_ns, d);
	fputs(",\"hop\":", w->out);
	json_string(w->out, w->r->name);
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
	json_ages(w->out, &s, trouble, "");
	fputs("}\n", w->out);
	return 0;
}

/* An interface by its name, or what is pinned in a folder. */
static int watched_add(struct watch *w, const char *dev, const char *path)
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
	d->listed = true;
	w->list[w->count++] = d;
	return 0;
}

static int compare_watched(const void *a, const void *b)
{
	return strcmp((*(struct watched *const *)a)->path, (*(struct watched *const *)b)->path);
}

struct refresh {
	struct watch *w;
	size_t known;
};

static int refresh_one(const char *path, void *context)
{
	struct refresh *refresh = context;
	struct watch *w = refresh->w;
	struct watched key, *key_at = &key, **found = NULL;
	struct weir_meta about;
	char dev[sizeof(key.dev)];

	snprintf(key.path, sizeof(key.path), "%s", path);
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
	return watched_add(w, dev, path);
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

static int watch_once(struct watch *w)
{
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
		if (sample(w, w->list[i]))
			return -1;
	}
	if (!any) { /* so that one who follows can tell it from a watch that hangs */
		line_head(w, "idle", weir_now_ns(), NULL);
		fputs("}\n", w->out);
	}
	return 0;
}

/* Seven descriptors a queue, and the usual soft limit is 1024. */
static void allow_many_files(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files); /* where it can't be, opening says "too many open files" */
	}
}

static int watch(const struct request *r)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct watch w = {.r = r, .out = stdout};
	struct stat st;
	__u64 due_ns = weir_now_ns();
	int result = 0;

	if (r->all == (r->dev != NULL))
		return weir_error("watch: which interfaces? `weir-xdp watch DEV ...` or --all"), USAGE_ERROR;
	if (r->all && *r->netns && stat(r->netns, &st))
		return weir_error("%s: %s", r->netns, weir_reason(errno)), 1;
	if (r->dev && watched_add(&w, r->dev, ""))
		return 1;
	for (int i = 0; i < r->words; i++)
		if (watched_add(&w, r->word[i], ""))
			return 1;
	allow_many_files();
	if (r->out && !(w.out = fopen(r->out, "we")))
		return weir_error("%s: %s", r->out, strerror(errno)), 1;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (; !stop && (!r->count || w.tick < r->count); w.tick++) {
		struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};
		struct pollfd reader = {.fd = fileno(w.out)};

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			continue;
		result = watch_once(&w);
		if (fflush(w.out))
			result = weir_error("%s: %s", r->out ? r->out : "standard output", strerror(errno));
		else if (poll(&reader, 1, 0) == 1 &&
			 reader.revents & POLLERR) /* with no line to write for it to show */
			result = weir_error("standard output: %s", strerror(EPIPE));
		if (result)
			break;
		due_ns += (__u64)r->every_ms * 1000000;
		if (w.sample_ns > due_ns) /* we were stopped or starved: no burst of samples to make up for it */
			due_ns = w.sample_ns;
	}
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

/* ---- main ---- */

enum option_id {
	O_GAINS = 256,
	O_SIGNAL,
	O_PEER,
	O_RATE,
	O_HOOK,
	O_LIMIT_PACKETS,
	O_LIMIT_BYTES,
	O_NETNS,
	O_PINS,
	O_FIXED,
	O_JSON,
	O_NAME,
	O_EVERY,
	O_OUT,
	O_COUNT,
	O_PINS_ONLY,
	O_EXPECT,
	O_FOLLOW,
	O_ALL,
	O_WHOLE_TREE,
	O_VERBOSE,
	O_HELP
};

static const struct option options[] = {
	{"gains", required_argument, NULL, O_GAINS},
	{"signal", required_argument, NULL, O_SIGNAL},
	{"peer", required_argument, NULL, O_PEER},
	{"rate", required_argument, NULL, O_RATE},
	{"hook", required_argument, NULL, O_HOOK},
	{"limit-packets", required_argument, NULL, O_LIMIT_PACKETS},
	{"limit-bytes", required_argument, NULL, O_LIMIT_BYTES},
	{"netns", required_argument, NULL, O_NETNS},
	{"pins", required_argument, NULL, O_PINS},
	{"fixed-probability", required_argument, NULL, O_FIXED},
	{"json", no_argument, NULL, O_JSON},
	{"name", required_argument, NULL, O_NAME},
	{"every-ms", required_argument, NULL, O_EVERY},
	{"out", required_argument, NULL, O_OUT},
	{"count", required_argument, NULL, O_COUNT},
	{"pins-only", no_argument, NULL, O_PINS_ONLY},
	{"expect", required_argument, NULL, O_EXPECT},
	{"follow", no_argument, NULL, O_FOLLOW},
	{"all", no_argument, NULL, O_ALL},
	{"whole-tree", no_argument, NULL, O_WHOLE_TREE},
	{"verbose", no_argument, NULL, O_VERBOSE},
	{"help", no_argument, NULL, O_HELP},
	{NULL, 0, NULL, 0},
};

/* One bit per option_id that a command takes. */
#define BIT(id) (1U << ((id)-O_GAINS))
#define COMMON (BIT(O_NETNS) | BIT(O_PINS) | BIT(O_VERBOSE) | BIT(O_HELP))

static const struct command {
	const char *name;
	int (*run)(const struct request *);
	unsigned int options;
	bool needs_dev, words;
} commands[] = {
	{"attach", attach,
	 COMMON | BIT(O_GAINS) | BIT(O_SIGNAL) | BIT(O_PEER) | BIT(O_RATE) | BIT(O_HOOK) | BIT(O_LIMIT_PACKETS) |
		 BIT(O_LIMIT_BYTES) | BIT(O_FIXED) | BIT(O_JSON) | BIT(O_WHOLE_TREE),
	 true, true},
	{"adopt", adopt, COMMON | BIT(O_GAINS) | BIT(O_RATE) | BIT(O_LIMIT_BYTES) | BIT(O_JSON), true, true},
	{"detach", detach, COMMON | BIT(O_PINS_ONLY), true, false},
	{"status", status, COMMON | BIT(O_JSON), false, false},
	{"set", set, COMMON | BIT(O_JSON) | BIT(O_EXPECT), true, true},
	{"watch", watch, COMMON | BIT(O_NAME) | BIT(O_EVERY) | BIT(O_OUT) | BIT(O_COUNT) | BIT(O_FOLLOW) | BIT(O_ALL),
	 false, true},
};

static int parse_option(struct request *r, int id, char *value)
{
	double number;
	char *at;

	switch (id) {
	case O_GAINS:
		r->gains_file = value;
		return 0;
	case O_SIGNAL:
		return parse_signal(value, &r->signal);
	case O_PEER:
		at = strchr(value, '@');
		if (at) {
			*at = 0;
			r->peer_netns = at + 1;
		}
		r->peer = value;
		return strlen(value) && strlen(value) < IF_NAMESIZE && strlen(r->peer_netns) < WEIR_PATH_LEN
			       ? 0
			       : weir_error("--peer %s: must be DEV or DEV@NETNS", value);
	case O_RATE:
		return parse_rate(value, &r->rate_bit_s);
	case O_HOOK:
		r->hook_given = true;
		return weir_hook_parse(value, &r->hook);
	case O_LIMIT_PACKETS:
		return parse_limit("--limit-packets", value, &r->limit_packets);
	case O_LIMIT_BYTES:
		return parse_limit("--limit-bytes", value, &r->limit_bytes);
	case O_NETNS:
		r->netns = value;
		return strlen(value) < WEIR_PATH_LEN ? 0 : weir_error("--netns %s: path too long", value);
	case O_PINS:
		r->pins = value;
		return *value == '/' ? 0 : weir_error("--pins %s: must be an absolute path", value);
	case O_FIXED:
		r->fixed_given = true;
		return weir_number(value, &r->fixed) && r->fixed >= 0 && r->fixed <= 1
			       ? 0
			       : weir_error("--fixed-probability %s: must be 0 .. 1", value);
	case O_JSON:
		r->json = true;
		return 0;
	case O_NAME:
		r->name = value;
		return 0;
	case O_EVERY:
		if (parse_whole("--every-ms", value, 1, 86400e3, &number))
			return -1;
		r->every_ms = (long)number;
		return 0;
	case O_OUT:
		r->out = value;
		return 0;
	case O_COUNT:
		if (parse_whole("--count", value, 1, INT32_MAX, &number))
			return -1;
		r->count = (long)number;
		return 0;
	case O_PINS_ONLY:
		r->pins_only = true;
		return 0;
	case O_EXPECT:
		if (parse_whole("--expect", value, 1, UINT32_MAX, &number))
			return -1;
		r->expect = (__u32)number;
		return 0;
	case O_ALL:
		r->all = true;
		/* fall through */
	case O_FOLLOW:
		r->follow = true;
		return 0;
	case O_WHOLE_TREE:
		r->whole_tree = true;
		return 0;
	case O_VERBOSE:
		r->verbose = true;
		return 0;
	default:
		return -1;
	}
}

/* DEV or DEV@NETNS */
static int check_name(const char *option, const char *text)
{
	char dev[IF_NAMESIZE + 1 + WEIR_PATH_LEN];

	snprintf(dev, sizeof(dev), "%s", text);
	weir_netns_split(dev);
	return weir_name_check(option, dev);
}

int main(int argc, char **argv)
{
	struct request r = {.peer_netns = "", .netns = "", .pins = WEIR_PINS, .name = "bottleneck", .every_ms = 100};
	const struct command *command = NULL;
	int id, index;

	opterr = 0;
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		fputs(help, stdout);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			command = &commands[i];
	if (!command)
		return weir_error("%s%s: must be attach, adopt, detach, status, set or watch; --help shows how",
				  argc > 1 ? "no command " : "no command given", argc > 1 ? argv[1] : ""),
		       USAGE_ERROR;
	argc--;
	argv++;
	while ((id = getopt_long(argc, argv, ":", options, &index)) != -1) {
		if (id == O_HELP) {
			fputs(help, stdout);
			return 0;
		}
		if (id == ':')
			return weir_error("%s: needs a value", argv[optind - 1]), USAGE_ERROR;
		if (id == '?')
			return weir_error("%s: no such option; --help lists them", argv[optind - 1]), USAGE_ERROR;
		if (!(command->options & BIT(id)))
			return weir_error("--%s: not an option of %s", options[index].name, command->name), USAGE_ERROR;
		if (parse_option(&r, id, optarg))
			return USAGE_ERROR;
	}
	if (optind < argc)
		r.dev = argv[optind++];
	r.word = argv + optind;
	r.words = argc - optind;
	if (!r.dev && command->needs_dev)
		return weir_error("%s: which interface? `weir-xdp %s DEV ...`", command->name, command->name),
		       USAGE_ERROR;
	if (r.words && !command->words)
		return weir_error("%s: %s is too much", command->name, *r.word), USAGE_ERROR;
	if (r.dev && command->run != watch) {
		char *netns = weir_netns_split(r.dev);

		if (netns && (*r.netns || strlen(netns) >= WEIR_PATH_LEN))
			return weir_error("%s@%s: %s", r.dev, netns,
					  *r.netns ? "the namespace is given twice, with --netns" : "path too long"),
			       USAGE_ERROR;
		if (netns)
			r.netns = netns;
	}
	if (r.dev && check_name("", r.dev))
		return USAGE_ERROR;
	for (int i = 0; command->run == watch && i < r.words; i++)
		if (check_name("", r.word[i]))
			return USAGE_ERROR;
	if (r.peer && check_name("--peer ", r.peer))
		return USAGE_ERROR;
	if (!r.verbose)
		libbpf_set_print(quiet);
	return command->run(&r);
}
