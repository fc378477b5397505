/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "net/net.h"
#include "output.h"
#include "version.h"

#define TICKS_PAST_LOST_MS 2000 /* sweeps, and a drain that comes late */
#define TICKS_MAX (1U << 20)

static const char usage[] =
	"usage: weir-sojourn --hop NAME:DEV[@NETNS]:PEER[@NETNS] [--hop ...] --out FILE [--every-ms N]\n"
	"                    [--lost-after-ms N] [--one-in N]\n"
	"  --hop            time packets from DEV's egress to PEER's ingress; NETNS is a path such as /run/netns/r1\n"
	"  --out            where samples go, one JSON object a line; an old file is overwritten\n"
	"  --every-ms       every N ms also a line with the queue's length\n"
	"  --lost-after-ms  a packet inside for so long counts as lost; 3000\n"
	"  --one-in         for the hops named after it: time one packet in N, the same ones at every hop; 1\n"
	"  --version        print the version and end\n"
	"Prints \"ready\" when attached; ends on SIGINT, SIGTERM and SIGHUP.\n";

static int parse_ms(const char *option, const char *text, __u64 least, __u64 *ns)
{
	char *end;
	unsigned long long ms;

	errno = 0;
	ms = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || ms < least || ms > 3600000)
		return weir_error("%s %s: must be a whole number of milliseconds, %llu .. 3600000", option, text,
				  (unsigned long long)least);
	*ns = ms * 1000000ULL;
	return 0;
}

static int parse_one_in(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || n < 1 || n > 1000)
		return weir_error("--one-in %s: must be a whole number, 1 .. 1000", text);
	sampler.one_in = (__u32)n;
	return 0;
}

/* DEV or DEV@NETNS. Opens the namespace, so that it can be found again when its path is gone. */
static int parse_point(const char *hop, char *text, bool egress, struct point *point)
{
	char *path = strchr(text, '@');
	int back, fd;

	if (path)
		*path++ = '\0';
	if (!*text || strlen(text) >= sizeof(point->dev))
		return weir_error("--hop %s: device \"%s\" must have 1 to %zu characters", hop, text,
				  sizeof(point->dev) - 1);
	snprintf(point->dev, sizeof(point->dev), "%s", text);
	point->egress = egress;
	point->lock.fd = -1;
	if (path) {
		if (weir_netns_enter(path, &back)) /* only to say what is wrong with it, if something is */
			return -1;
		weir_netns_leave(back);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return weir_error("%s: can't open this network namespace: %s", path, weir_reason(errno));
		snprintf(point->netns, sizeof(point->netns), "/proc/self/fd/%d", fd);
	}
	if (weir_netns_enter(point->netns, &back))
		return -1;
	point->ifindex = (int)if_nametoindex(point->dev);
	weir_netns_leave(back);
	if (!point->ifindex)
		return weir_error("--hop %s: no interface %s%s%s", hop, point->dev, path ? " in " : "",
				  path ? path : "");
	return 0;
}

static int parse_hop(const char *text)
{
	static const char right[] = "must be NAME:DEV[@NETNS]:PEER[@NETNS], NAME of letters, digits and _.-";
	struct hop *hop = &sampler.hops[sampler.hop_count];
	char copy[512], *entry, *exit;

	if (sampler.hop_count == SOJOURN_HOPS_MAX)
		return weir_error("--hop %s: more than %d hops", text, SOJOURN_HOPS_MAX);
	if (strlen(text) >= sizeof(copy))
		return weir_error("--hop %s: too long; %s", text, right);
	strcpy(copy, text);
	entry = strchr(copy, ':');
	exit = entry ? strchr(entry + 1, ':') : NULL;
	if (!exit || strchr(exit + 1, ':'))
		return weir_error("--hop %s: %s", text, right);
	*entry++ = '\0';
	*exit++ = '\0';
	if (!*copy || strlen(copy) >= NAME_LEN ||
	    copy[strspn(copy, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")])
		return weir_error("--hop %s: %s, at most %d of them", text, right, NAME_LEN - 1);
	snprintf(hop->name, sizeof(hop->name), "%s", copy);
	if (parse_point(text, entry, true, &hop->entry) || parse_point(text, exit, false, &hop->exit))
		return -1;
	hop->one_in = sampler.one_in;
	sampler.hop_count++;
	return 0;
}

int parse(int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		const char *option = arguments[i], *value = arguments[i + 1];
		int result;

		if (!strcmp(option, "--help")) {
			fputs(usage, stdout);
			exit(weir_output_end(0));
		}
		if (!strcmp(option, "--version")) {
			printf("weir-sojourn %s\n", weir_version);
			exit(weir_output_end(0));
		}
		if (strcmp(option, "--hop") && strcmp(option, "--out") && strcmp(option, "--every-ms") &&
		    strcmp(option, "--lost-after-ms") && strcmp(option, "--one-in"))
			return weir_error("%s: no such option; see --help", option);
		if (!value)
			return weir_error("%s: a value must follow; see --help", option);
		i++;
		if (!strcmp(option, "--hop")) {
			result = parse_hop(value);
		} else if (!strcmp(option, "--every-ms")) {
			result = parse_ms(option, value, 1, &sampler.every_ns);
		} else if (!strcmp(option, "--lost-after-ms")) {
			result = parse_ms(option, value, 1, &sampler.lost_after_ns);
		} else if (!strcmp(option, "--one-in")) {
			result = parse_one_in(value);
		} else {
			sampler.out_path = value;
			result = 0;
		}
		if (result)
			return -1;
	}
	if (!sampler.hop_count)
		return weir_error("no --hop; see --help");
	if (!sampler.out_path)
		return weir_error("no --out; see --help");
	if (sampler.every_ns) {
		sampler.tick_room = (sampler.lost_after_ns + TICKS_PAST_LOST_MS * 1000000ULL) / sampler.every_ns + 2;
		if (sampler.tick_room > TICKS_MAX)
			return weir_error("--every-ms: too short for this --lost-after-ms; at least %" PRIu64 " ms",
					  (uint64_t)(sampler.lost_after_ns / 1000000 / TICKS_MAX + 1));
	}
	return 0;
}
