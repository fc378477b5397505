/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/options.h"

#include <getopt.h>
#include <math.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/units.h"
#include "hooks/hooks.h"
#include "pins/attachment.h"
#include "pins/slots.h"
#include "signal/signals.h"
#include "weir-xdp/values.h"

static int read_signal(struct request *r, char *value)
{
	return weir_signal_parse(value, &r->signal);
}

static int read_peer(struct request *r, char *value)
{
	size_t length = strcspn(value, "@");

	if (value[length])
		r->peer_netns = value + length + 1;
	if (!length || length >= IF_NAMESIZE || strlen(r->peer_netns) >= WEIR_PATH_LEN)
		return weir_error("--peer %s: must be DEV or DEV@NETNS", value);
	free((char *)r->peer);
	r->peer = strndup(value, length); /* the daemon reads the same words at each look */
	return r->peer ? 0 : weir_error("out of memory");
}

static int read_rate(struct request *r, char *value)
{
	return parse_rate("--rate", value, &r->rate_bit_s);
}

static int read_shape(struct request *r, char *value)
{
	return parse_rate("--shape", value, &r->shape_bit_s);
}

static int read_advise(struct request *r, char *value)
{
	r->advises = true;
	return parse_advice("--advise", value, &r->advice);
}

static int read_ingress(struct request *r, char *value)
{
	return parse_rate("--ingress", value, &r->ingress_bit_s);
}

int read_class(struct request *r, char *value)
{
	__u32 *list = realloc(r->class, (r->classes + 1) * sizeof(*list));
	char *rest = value;

	if (!list)
		return weir_error("out of memory");
	r->class = list;
	if (!weir_class_parse(&rest, &r->class[r->classes]) || *rest)
		return weir_error("--class %s: must be a class as tc has it, 1:10, or 1: for all of htb 1:", value);
	r->classes++;
	return 0;
}

/* Reads 5, 0x1f or 0x10/0xff0. */
static int read_mark(struct request *r, char *value)
{
	unsigned long long mark, mask = UINT32_MAX;
	char *end;

	mark = strtoull(value, &end, 0);
	if (*end == '/')
		mask = strtoull(end + 1, &end, 0);
	if (*end || !strchr("0123456789", *value) || mark > UINT32_MAX || mask > UINT32_MAX || !mask || mark & ~mask)
		return weir_error("--mark %s: must be a mark as iptables and nft set it, 0x10, or with the mask that "
				  "tells it, 0x10/0xff",
				  value);
	r->by_mark = true;
	r->mark = (__u32)mark;
	r->mark_mask = (__u32)mask;
	return 0;
}

static bool read_leaf(char **text, __u32 *handle)
{
	return weir_class_parse(text, handle) && *handle & 0xffff;
}

#define OVERHEAD_LEAST (-64)
#define OVERHEAD_MOST 256
#define MPU_MOST 256

static int put_line(struct request *r, enum weir_line line)
{
	if (r->framing.line != WEIR_LINE_PLAIN && r->framing.line != line)
		return weir_error("--atm and --ptm: a line has one of them; leave one out");
	r->framing.line = (__u8)line;
	return 0;
}

/* Words that tc-cake(8) has for common lines. */
static int read_overhead(struct request *r, char *value)
{
	static const struct {
		const char *word;
		__s32 overhead_bytes;
		__u16 mpu_bytes;
		enum weir_line line;
	} words[] = {
		{"docsis", 18, 64, WEIR_LINE_PLAIN},	 {"ethernet", 38, 84, WEIR_LINE_PLAIN},
		{"pppoe-ptm", 30, 0, WEIR_LINE_PTM},	 {"bridged-ptm", 22, 0, WEIR_LINE_PTM},
		{"pppoe-vcmux", 32, 0, WEIR_LINE_ATM},	 {"pppoe-llcsnap", 40, 0, WEIR_LINE_ATM},
		{"bridged-vcmux", 24, 0, WEIR_LINE_ATM}, {"bridged-llcsnap", 32, 0, WEIR_LINE_ATM},
		{"pppoa-vcmux", 10, 0, WEIR_LINE_ATM},	 {"pppoa-llc", 14, 0, WEIR_LINE_ATM},
		{"ipoa-vcmux", 8, 0, WEIR_LINE_ATM},	 {"ipoa-llcsnap", 16, 0, WEIR_LINE_ATM},
		{"conservative", 48, 0, WEIR_LINE_ATM},
	};
	double bytes;

	r->framing.counts_ip = 1;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strcmp(value, words[i].word))
			continue;
		r->framing.extra_bytes = words[i].overhead_bytes;
		if (!r->mpu_given)
			r->framing.mpu_bytes = words[i].mpu_bytes;
		return words[i].line == WEIR_LINE_PLAIN ? 0 : put_line(r, words[i].line);
	}
	if (!weir_number(value, &bytes) || bytes != floor(bytes) || bytes < OVERHEAD_LEAST || bytes > OVERHEAD_MOST)
		return weir_error("--overhead %s: must be bytes a packet beside its IP packet, %d .. %d, or a word of "
				  "tc-cake(8) for a line: docsis, ethernet, pppoe-ptm, pppoe-llcsnap, ...",
				  value, OVERHEAD_LEAST, OVERHEAD_MOST);
	r->framing.extra_bytes = (__s32)bytes;
	return 0;
}

static int read_mpu(struct request *r, char *value)
{
	double bytes;

	if (parse_whole("--mpu", value, 0, MPU_MOST, &bytes))
		return -1;
	r->mpu_given = true;
	r->framing.mpu_bytes = (__u16)bytes;
	return 0;
}

static int read_atm(struct request *r, char *value)
{
	return put_line(r, WEIR_LINE_ATM);
}

static int read_ptm(struct request *r, char *value)
{
	return put_line(r, WEIR_LINE_PTM);
}

static int read_leaf_aqm(struct request *r, char *value)
{
	bool off = !strcmp(value, "off");

	if (!off && strcmp(value, "on"))
		return weir_error("--leaf-aqm %s: must be off (disabled until detach) or on (restored)", value);
	r->leaf_aqm = off ? LEAF_AQM_OFF : LEAF_AQM_ON;
	return 0;
}

/* Also the words of tc-cake(8). */
static int read_hosts(struct request *r, char *value)
{
	static const struct {
		const char *word;
		enum weir_hosts hosts;
	} words[] = {
		{"src", WEIR_HOSTS_SOURCE},	     {"dst", WEIR_HOSTS_DESTINATION},
		{"dual-srchost", WEIR_HOSTS_SOURCE}, {"dual-dsthost", WEIR_HOSTS_DESTINATION},
		{"mark", WEIR_HOSTS_MARK},	     {"off", WEIR_HOSTS_NONE},
	};
	size_t length = strcspn(value, "/");
	unsigned long long mask = UINT32_MAX;
	char *end = "";

	if (value[length])
		mask = strtoull(value + length + 1, &end, 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strlen(words[i].word) != length || strncmp(words[i].word, value, length) ||
		    (value[length] && (words[i].hosts != WEIR_HOSTS_MARK || *end || !mask || mask > UINT32_MAX)))
			continue;
		r->hosts_given = true;
		r->hosts = words[i].hosts;
		r->host_mask = r->hosts == WEIR_HOSTS_MARK ? (__u32)mask : 0;
		return 0;
	}
	return weir_error("--hosts %s: must be src, dst, mark, mark/MASK (mark/0xff) or off", value);
}

static int read_dscp(struct request *r, char *value)
{
	r->dscp_given = true;
	r->dscp = !strcmp(value, "on");
	return r->dscp || !strcmp(value, "off") ? 0 : weir_error("--dscp %s: must be on or off", value);
}

static int read_coupled(struct request *r, char *value)
{
	char *rest = value;

	r->coupled = true;
	if (!value)
		return 0;
	if (!read_leaf(&rest, &r->band_class[WEIR_BAND_L]) || *rest++ != ',' ||
	    !read_leaf(&rest, &r->band_class[WEIR_BAND_C]) || *rest)
		return weir_error("--coupled %s: must be the two classes, of band L and of band C: 1:10,1:20", value);
	if (r->band_class[WEIR_BAND_L] == r->band_class[WEIR_BAND_C])
		return weir_error("--coupled %s: must be two classes", value);
	return 0;
}

static int read_hook(struct request *r, char *value)
{
	r->hook_given = true;
	return weir_hook_parse(value, &r->hook);
}

static int read_limit_packets(struct request *r, char *value)
{
	return parse_limit("--limit-packets", value, &r->limit_packets);
}

static int read_limit_bytes(struct request *r, char *value)
{
	return parse_limit("--limit-bytes", value, &r->limit_bytes);
}

static int read_fixed(struct request *r, char *value)
{
	r->fixed_given = true;
	return weir_number(value, &r->fixed) && r->fixed >= 0 && r->fixed <= 1
		       ? 0
		       : weir_error("--fixed-probability %s: must be 0 .. 1", value);
}

static int read_netns(struct request *r, char *value)
{
	r->netns = value;
	return strlen(value) < WEIR_PATH_LEN ? 0 : weir_error("--netns %s: path too long", value);
}

static int read_pins(struct request *r, char *value)
{
	r->pins = value;
	return *value == '/' ? 0 : weir_error("--pins %s: must be an absolute path", value);
}

static int read_whole(const char *option, const char *text, double most, long *value)
{
	double number;

	if (parse_whole(option, text, 1, most, &number))
		return -1;
	*value = (long)number;
	return 0;
}

static int read_every(struct request *r, char *value)
{
	return read_whole("--every-ms", value, 86400e3, &r->every_ms);
}

static int read_every_time(struct request *r, char *value)
{
	double us;

	if (!weir_time_us(value, &us) || us < 1e3 || us > 86400e6)
		return weir_error("--every %s: must be a time with its unit, 1ms .. 86400s", value);
	r->every_ms = (long)rint(us / 1e3);
	return 0;
}

static int read_count(struct request *r, char *value)
{
	return read_whole("--count", value, INT32_MAX, &r->count);
}

static int read_expect(struct request *r, char *value)
{
	return read_whole("--expect", value, UINT32_MAX, &r->expect);
}

static int read_all(struct request *r, char *value)
{
	r->all = r->follow = true;
	return 0;
}

/* A row without a name is a heading of the help. `set` or, for what is taken as it comes, a member of the request. */
#define MEMBER(member) .at = offsetof(struct request, member)
static const struct row {
	const char *name, *value; /* value NULL: a switch */
	unsigned int commands;
	int (*set)(struct request *r, char *value);
	size_t at; /* of a const char *, or a bool for a switch */
	const char *help;
} rows[] = {
	{.help = "Options of attach and ensure:"},
	{"profile", "FILE", ATTACH | ENSURE | ADOPT, NULL, MEMBER(gains_file),
	 "a file of `key = value` lines, or one that is built in: tuned (default), paper,\n"
	 "coupled (default with --coupled)"},
	{"gains", "FILE", ATTACH | ENSURE | ADOPT, NULL, MEMBER(gains_file), "the same"},
	{"signal", "SIGNAL", ATTACH | ENSURE, read_signal, .help = "where packets wait, see above"},
	{"peer", "DEV[@NETNS]", ATTACH | ENSURE, read_peer,
	 .help = "veth: the other end, NETNS as a path (/run/netns/NAME, /proc/PID/ns/net)"},
	{"shape", "RATE", ATTACH | ENSURE, read_shape,
	 .help = "make the shaper too, an htb with two bands (--no-bands: one queue); detach takes it away, unless\n"
		 "somebody changed it"},
	{"ingress", "RATE", ATTACH | ENSURE, read_ingress,
	 .help = "received packets, too: a virtual queue at RATE, slightly less than the line carries, as\n"
		 "DEV/ingress --rate RATE makes it; without --shape or another option of sent packets\n"
		 "these alone; detach DEV takes both away"},
	{"flows", NULL, ATTACH | ENSURE, NULL, MEMBER(flows),
	 "with --shape: flow queues (fq_codel without CoDel) of bulk below the law; --no-bands: of all"},
	{"rate", "RATE", ATTACH | ENSURE | ADOPT, read_rate, .help = "virtual: 8kbit .. 1000gbit"},
	{"overhead", "BYTES|LINE", ATTACH | ENSURE, read_overhead,
	 .help = "with --shape or --rate: bytes on the line beside each IP packet, -64 .. 256; or a line by its\n"
		 "word in tc-cake(8): docsis, ethernet, pppoe-ptm, bridged-ptm, pppoe-llcsnap, ..."},
	{"mpu", "BYTES", ATTACH | ENSURE, read_mpu, .help = "and at least so many with the overhead, 0 .. 256"},
	{"atm", NULL, ATTACH | ENSURE, read_atm, .help = "in cells of 53 bytes for 48 (ADSL)"},
	{"ptm", NULL, ATTACH | ENSURE, read_ptm, .help = "65 bytes for 64 (VDSL2)"},
	{"hook", "tc|xdp|qdisc", ATTACH | ENSURE, read_hook,
	 .help = "at egress (default), or at ingress (virtual only, its default; on links without a header, as\n"
		 "ppp, a filter at tc's ingress takes its place); tc takes\n"
		 "`tcx` where the kernel has it (Linux 6.6), else `clsact`; either can be asked for;\nqdisc: flow "
		 "queues in BPF as the root (Linux 6.16), shaped by --rate"},
	{"limit-packets", "N", ATTACH | ENSURE, read_limit_packets,
	 .help = "veth: the queue's limit; the qdisc's own must be larger"},
	{"limit-bytes", "N", ATTACH | ENSURE | ADOPT, read_limit_bytes, .help = "veth, virtual"},
	{"whole-tree", NULL, ATTACH | ENSURE, NULL, MEMBER(whole_tree),
	 "one law over the sum of all classes and flows of DEV"},
	{"leaf-aqm", "off|on", ATTACH | ENSURE, read_leaf_aqm,
	 .help = "off: disable the AQM of the qdiscs below the law (fq_codel, codel, fq_pie, pie, cake, fq)\n"
		 "and keep their flow queues; detach restores it; on: restore it"},
	{"coupled", "[L,C]", ATTACH | ENSURE, read_coupled,
	 .help = "two bands for L4S, by the two classes of an htb or prio (with --shape: made here): ECT(1) and CE\n"
		 "into class L, all else into class C; takes signal poll or veth; without L,C the class that is\n"
		 "served first is L"},
	{"bands", NULL, ATTACH | ENSURE, NULL, MEMBER(bands),
	 "two bands: sparse and young flows ahead of bulk, by the two classes of an htb or prio; default\n"
	 "with --shape, which makes the classes; takes signal poll or veth"},
	{"no-bands", NULL, ATTACH | ENSURE, NULL, MEMBER(no_bands), "one queue; ensure: also in the place of bands"},
	{"hosts", "src|dst|mark[/MASK]|off", ATTACH | ENSURE, read_hosts,
	 .help = "with two bands: each host has a fair share of bulk, and each flow of its host's: hosts by source or\n"
		 "destination address (dual-srchost, dual-dsthost of tc-cake(8)), or by the mark, which nft sets\n"
		 "before NAT"},
	{"dscp", "on|off", ATTACH | ENSURE, read_dscp,
	 .help = "with two bands: packets marked EF or VOICE-ADMIT (DSCP 46, 44) go ahead, up to a fifth of a busy "
		 "line"},
	{"flow-records", NULL, ATTACH | ENSURE, NULL, MEMBER(flow_records),
	 "record each flow's addresses, packets, delay, drops and marks, for `flows` and `weir top --by`:\n"
	 "4096 flows, one packet in 16; addresses are personal data, and only the owner of the pins reads them"},
	{"no-flow-records", NULL, ENSURE, NULL, MEMBER(no_flow_records), "ensure: no records any more"},
	{"advise", "RATE|share|off", ATTACH | ENSURE, read_advise,
	 .help = "throughput advice in SCONE packets of QUIC: a rate (100kbit .. 199gbit), or the line's rate over\n"
		 "the number of active flows; not with --class or --coupled"},
	{"class", "CLASS", ATTACH | ENSURE | DETACH | STATUS | SET, read_class,
	 .help = "the law of one class of htb or queue of mq (1:10), or of each that packets wait in (1:);\n"
		 "any number of times; DEV/1:10 is the same; takes signal poll"},
	{"mark", "MARK[/MASK]", ATTACH | ENSURE, read_mark,
	 .help = "with one --class: packets with this mark are of the class, beside those whose\n"
		 "priority is its number"},
	{"others", NULL, ATTACH | ENSURE, NULL, MEMBER(others),
	 "with one --class: and so are packets that no priority and no mark tells"},
	{"fixed-probability", "P", ATTACH, read_fixed,
	 .help = "attach: a test aid: U stays P, whatever the queue does, and there are no bounds in time"},
	{"look", NULL, ENSURE, NULL, MEMBER(look),
	 "ensure: say what would be done, change nothing; exit status 3 if there is something"},
	{.help = "Options of other commands (adopt takes --profile, --rate and --limit-bytes of those above):"},
	{"json", NULL, ATTACH | ENSURE | ADOPT | STATUS | SET | WATCH | FLOWS, NULL, MEMBER(json),
	 "attach, ensure, adopt, status, set, flows: one JSON document on standard output; watch: a line a sample"},
	{"expect", "ID", SET, read_expect,
	 .help = "set: only if this configuration (config_id) is in force; else exit status 3"},
	{"text", NULL, WATCH, NULL, MEMBER(text), "watch: a table for people, as on a terminal"},
	{"every", "TIME", WATCH, read_every_time, .help = "watch: the time between two samples (default 100ms)"},
	{"every-ms", "N", WATCH, read_every, .help = "watch: the same in milliseconds"},
	{"count", "N", WATCH, read_count, .help = "watch: end after N samples"},
	{"out", "FILE", WATCH, NULL, MEMBER(out), "watch: write there instead of to standard output"},
	{"name", "NAME", WATCH, NULL, MEMBER(name), "watch: the \"hop\" of its lines (default bottleneck)"},
	{"follow", NULL, WATCH, NULL, MEMBER(follow),
	 "watch: report when a queue is detached or attached again, and go on"},
	{"all", NULL, WATCH, read_all,
	 .help = "watch: every queue, with --follow (with --netns: only those in that namespace)"},
	{"config", "FILE", DAEMON, NULL, MEMBER(config_file), "daemon: what to keep (default /etc/weir/xdp.toml)"},
	{"pins-only", NULL, DETACH, NULL, MEMBER(pins_only),
	 "detach: only remove the pins (the interface can't be reached any more)"},
	{.help = "Options of all commands:"},
	{"expert", NULL, ALL, NULL, MEMBER(expert),
	 "KEY=VALUE takes every key of a profile; with --help: the list of them"},
	{"netns", "PATH", ALL & ~DAEMON, read_netns, .help = "DEV is in this network namespace"},
	{"pins", "FOLDER", ALL, read_pins, .help = "where the maps are pinned (default " WEIR_PINS ")"},
	{"verbose", NULL, ALL, NULL, MEMBER(verbose), "print the messages of libbpf and the kernel's verifier"},
	{"help", NULL, ALL, .help = "this text"},
	{"version", NULL, ALL, .help = "which version this is"},
};

#define ROWS (sizeof(rows) / sizeof(*rows))
#define FIRST 256 /* getopt_long's value for the first row */

static int read_option(struct request *r, const struct row *row, char *value)
{
	char *member = (char *)r + row->at;

	if (row->set)
		return row->set(r, value);
	if (row->value)
		*(const char **)member = value;
	else
		*(bool *)member = true;
	return 0;
}

/* An option whose value may be left out has it in brackets. */
static bool is_optional(const struct row *row)
{
	return row->value && *row->value == '[';
}

/* Whether a word is the value of --coupled, not an interface or KEY=VALUE. */
static bool is_classes(const char *word)
{
	return *word != '-' && strchr(word, ':') && !strpbrk(word, "/=");
}

int read_options(struct request *r, enum command_bit command, int argc, char **argv)
{
	struct option options[ROWS + 1] = {0};
	int id, index, asked = 0;
	char *value;

	for (size_t i = 0, n = 0; i < ROWS; i++)
		if (rows[i].name)
			options[n++] = (struct option){rows[i].name,
						       !rows[i].value	       ? no_argument
						       : is_optional(&rows[i]) ? optional_argument
									       : required_argument,
						       NULL, FIRST + (int)i};
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", options, &index)) != -1) {
		const struct row *row;

		if (id == ':')
			return weir_error("%s: needs a value", argv[optind - 1]);
		if (id == '?')
			return weir_error("%s: no such option; --help lists them", argv[optind - 1]);
		row = &rows[id - FIRST];
		if (!strcmp(row->name, "help")) {
			asked = ASKED_HELP;
			continue;
		}
		if (!strcmp(row->name, "version"))
			return ASKED_VERSION;
		if (!(row->commands & command))
			return weir_error("--%s: not an option of %s", row->name, argv[0]);
		value = optarg;
		if (!value && is_optional(row) && optind < argc && is_classes(argv[optind]))
			value = argv[optind++];
		if (read_option(r, row, value))
			return asked ? asked : -1;
	}
	return asked;
}

void options_help(FILE *out)
{
	for (size_t i = 0; i < ROWS; i++) {
		const char *line = rows[i].help;
		int width = 0;

		if (!rows[i].name) {
			fprintf(out, "%s\n", line);
			continue;
		}
		width = fprintf(out, "  --%s%s%s", rows[i].name, rows[i].value ? " " : "",
				rows[i].value ? rows[i].value : "");
		for (; line; width = 0) { /* one row of the help a line of its text */
			const char *end = strchr(line, '\n');

			fprintf(out, "%*s%.*s\n", width < 26 ? 26 - width : 1, "",
				end ? (int)(end - line) : (int)strlen(line), line);
			line = end ? end + 1 : NULL;
		}
	}
}
