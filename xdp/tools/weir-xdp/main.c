/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: puts the law on an interface, changes its gains, shows what it does, takes it away. */
#include <net/if.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "error.h"
#include "output.h"
#include "gains/ahead.h"
#include "gains/coupling.h"
#include "gains/gains.h"
#include "pins/attachment.h"
#include "pins/slots.h"
#include "pins/place.h"
#include "printable.h"
#include "version.h"
#include "weir-xdp/commands/commands.h"
#include "weir-xdp/options.h"
#include "weir-xdp/values.h"

static const struct command {
	const char *name;
	enum command_bit bit;
	int (*run)(const struct request *);
	bool needs_dev, words; /* words: arguments after DEV */
	bool many_devs;	       /* and they are interfaces too */
	bool classes;	       /* DEV/CLASS is the law of a class */
	bool places;	       /* makes an attachment: the direction after DEV is a wish, not the name of one */
	const char *usage, *help;
} commands[] = {
	{"attach", ATTACH, command_attach, .needs_dev = true, .words = true, .classes = true, .places = true,
	 .usage = "DEV[/ingress] [--profile PROFILE] [KEY=VALUE ...] [OPTIONS]", .help = "put the law on DEV"},
	{"ensure", ENSURE, command_ensure, .needs_dev = true, .words = true, .classes = true, .places = true,
	 .usage = "DEV[/CLASS|/ingress] [KEY=VALUE ...] [OPTIONS of attach]",
	 .help = "attach, or adopt what is attached and fits, or replace it in place; say which"},
	{"daemon", DAEMON, command_daemon, .usage = "[--config FILE]",
	 .help = "keep what a configuration asks for, whatever comes and goes"},
	{"adopt", ADOPT, command_adopt, .needs_dev = true, .words = true, .places = true,
	 .usage = "DEV --rate RATE [--profile PROFILE] [KEY=VALUE ...]",
	 .help = "configure a weir_ingress that xdp-loader or bpftool put on DEV"},
	{"detach", DETACH, command_detach, .needs_dev = true, .classes = true, .usage = "DEV[/CLASS|/ingress]",
	 .help = "remove the law, and all that attach made"},
	{"status", STATUS, command_status, .classes = true, .usage = "[DEV[/CLASS|/ingress]] [--json]",
	 .help = "what is attached, its queue, counters and gains"},
	{"flows", FLOWS, command_flows, .classes = true, .usage = "[DEV[/ingress]] [--json]",
	 .help = "delay, drops and marks by kind of packet, and by flow with --flow-records"},
	{"set", SET, command_set, .needs_dev = true, .words = true, .classes = true,
	 .usage = "DEV[/CLASS|/ingress] KEY=VALUE ...", .help = "change gains, all of them at once"},
	{"watch", WATCH, command_watch, .words = true, .many_devs = true,
	 .usage = "DEV[/CLASS|/ingress] ... [--every TIME] [--count N] [--out FILE]",
	 .help = "print a row a sample on a terminal, else one JSON line a sample"},
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static const char signals_help[] =
	"Where packets wait (--signal):\n"
	"  backlog  the qdisc's own counters, read by the program; needs BTF (" KERNEL_BTF ") and the JIT\n"
	"  poll     the qdisc's counters, read every interval by a process of ours; any kernel\n"
	"  veth     bytes in at DEV, bytes out at the other end (--peer DEV[@NETNS]); any kernel\n"
	"  virtual  a queue drained at --rate, for a bottleneck elsewhere; XDP at ingress, or --hook tc\n"
	"  auto     veth with --peer, virtual with --rate, else backlog, else poll (default)\n"
	"\n";

static const char examples[] =
	"Examples:\n"
	"  weir-xdp attach eth0 --shape 95mbit      # slightly less than the link, so that the queue is here\n"
	"  weir-xdp attach eth0                     # where a shaper (htb) is there already\n"
	"  weir-xdp set eth0 target=5ms ecn=off\n"
	"  weir-xdp watch eth0 --every 500ms\n"
	"  weir-xdp attach eth0 --class 1:10 target=5ms               # one class of a tree; DEV/1:10 from then on\n"
	"  weir-xdp attach eth0 --class 1:                            # each class that packets wait in\n"
	"  weir-xdp attach wan0/ingress --rate 47mbit                 # received packets; beside a law at egress, too\n"
	"  weir-xdp attach r-eth1 --profile paper --peer sink-eth0@/run/netns/sink --limit-packets 1000\n"
	"  weir-xdp attach eth0 --shape 95mbit --coupled              # L4S packets ahead, coupled with the others\n";

static int help(bool expert)
{
	printf("weir-xdp: PID-Delay queue control on an interface, as tc or XDP eBPF.\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  weir-xdp %s %s\n      %s\n", commands[i].name, commands[i].usage, commands[i].help);
	printf("\nAn interface can have one law in each direction: DEV or DEV/egress is the one of packets that leave, "
	       "DEV/ingress\nthat of packets that arrive (signal virtual). Where only that one is attached DEV finds "
	       "it, but\n`detach DEV` leaves a law named DEV/ingress.\n\n%s",
	       signals_help);
	options_help(stdout);
	printf("\nKEY=VALUE:\n");
	weir_gains_user_help(stdout);
	printf("\nWith --coupled there are also:\n");
	weir_coupling_help(stdout);
	printf("\nWith --bands there are also:\n");
	weir_ahead_help(stdout);
	printf("\nA key in _us is also taken without it and with a unit (target=5ms). `set` also takes rate, "
	       "limit_packets and limit_bytes.\n\n");
	if (expert) {
		printf("Keys of a profile:\n");
		weir_gains_help(stdout);
		printf("\n");
	} else {
		printf("Profiles have more keys, which KEY=VALUE takes with --expert: `weir-xdp --expert --help`.\n\n");
	}
	printf("%s", examples);
	return 0;
}

static int version(void)
{
	printf("weir-xdp %s\n", weir_version);
	return 0;
}

static const struct command *find_command(const char *name)
{
	char names[128] = "";
	size_t length = 0;

	if (name && *name == '-') {
		weir_error("%s: options follow the command: weir-xdp COMMAND ... %s", name, name);
		return NULL;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (name && !strcmp(name, commands[i].name))
			return &commands[i];
		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
					   !i		      ? ""
					   : i + 1 < COMMANDS ? ", "
							      : " or ",
					   commands[i].name);
	}
	weir_error("%s%s: must be %s; --help shows how", name ? "no command " : "no command given", name ? name : "",
		   names);
	return NULL;
}

/* DEV, DEV/CLASS or DEV/DIRECTION; each with @NETNS behind it */
static int check_name(const char *option, const char *text)
{
	char dev[IF_NAMESIZE + 1 + WEIR_CLASS_LEN + WEIR_PATH_LEN], *class;
	__u32 handle;

	snprintf(dev, sizeof(dev), "%s", text);
	weir_netns_split(dev);
	if (!*option)
		weir_direction_split(dev);
	class = weir_class_split(dev);
	if (class && (!weir_class_parse(&class, &handle) || *class || !(handle & 0xffff)))
		return weir_error("%s%s: must be DEV, or DEV/CLASS with a class as tc has it, DEV/1:10", option, text);
	return weir_name_check(option, dev);
}

/* Reads the command line after its options: DEV, and the command's other arguments. */
static int read_arguments(struct request *r, const struct command *command, int argc, char **argv)
{
	char *netns, *class;

	if (argc) { /* cut into its parts below; ps shows the words of a poll process */
		r->dev = strdup(argv[0]);
		if (!r->dev)
			return weir_error("out of memory");
	}
	r->word = argv + (argc > 0);
	r->words = argc - (argc > 0);
	if (!r->dev && command->needs_dev)
		return weir_error("%s: which interface? `weir-xdp %s DEV ...`", command->name, command->name);
	if (r->dev && command->bit == DAEMON)
		return weir_error("daemon: %s is one argument too many; interfaces are in its configuration", r->dev);
	if (r->words && !command->words)
		return weir_error("%s: %s is one argument too many", command->name, *r->word);
	netns = r->dev && !command->many_devs ? weir_netns_split(r->dev) : NULL;
	if (netns && (*r->netns || strlen(netns) >= WEIR_PATH_LEN))
		return weir_error("%s@%s: %s", r->dev, netns,
				  *r->netns ? "the namespace is given twice, with --netns" : "path too long");
	if (netns)
		r->netns = netns;
	if (r->dev && command->places)
		r->direction = weir_direction_split(r->dev);
	class = r->dev && command->classes ? weir_class_split(r->dev) : NULL;
	if (class && read_class(r, class))
		return -1;
	if (r->dev && check_name("", r->dev))
		return -1;
	if (r->dev && !command->classes && !command->many_devs && strchr(r->dev, '/'))
		return weir_error("%s: %s knows no laws of classes", r->dev, command->name);
	for (int i = 0; command->many_devs && i < r->words; i++)
		if (check_name("", r->word[i]))
			return -1;
	if (!command->many_devs && check_words(r, command->bit == SET))
		return -1;
	return r->peer ? check_name("--peer ", r->peer) : 0;
}

static bool verbose;

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	return verbose && level != LIBBPF_DEBUG ? weir_print_lines(stderr, format, args) : 0;
}

static int run(int argc, char **argv)
{
	struct request r = {.peer_netns = "",
			    .netns = "",
			    .pins = WEIR_PINS,
			    .name = "bottleneck",
			    .every_ms = 100,
			    .config_file = "/etc/weir/xdp.toml"};
	const struct command *command;
	int asked;

	while (argc > 1 && !strcmp(argv[1], "--expert")) { /* before the command */
		r.expert = true;
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")))
		return help(r.expert || (argc > 2 && !strcmp(argv[2], "--expert")));
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return version();
	command = find_command(argc > 1 ? argv[1] : NULL);
	if (!command)
		return USAGE_ERROR;
	asked = read_options(&r, command->bit, argc - 1, argv + 1);
	if (asked > 0)
		return asked == ASKED_HELP ? help(r.expert) : version();
	if (asked < 0 || read_arguments(&r, command, argc - 1 - optind, argv + 1 + optind))
		return USAGE_ERROR;
	verbose = r.verbose;
	libbpf_set_print(print_libbpf);
	return command->run(&r);
}

int main(int argc, char **argv)
{
	weir_output_begin();
	return weir_output_end(run(argc, argv));
}
