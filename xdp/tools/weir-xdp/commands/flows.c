/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <arpa/inet.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "pins/place.h"
#include "printable.h"
#include "signal/bands.h"
#include "signal/records.h"
#include "weir-xdp/view/json.h"
#include "weir-xdp/view/view.h"

#define ROWS 20 /* flows of the text, those with the most bytes */

/* While all are listed. */
struct listing {
	const struct request *r;
	unsigned int printed;
	int result;
};

/* Whether a line of /proc/net/route or of /proc/net/ipv6_route is a default route over the interface. */
static bool is_default_route(const char *line, const char *dev, bool ipv6)
{
	char name[IF_NAMESIZE], destination[40], mask[16]; /* of IPv6 the length of the prefix */
	int read = ipv6 ? sscanf(line, "%39s %15s %*s %*s %*s %*s %*s %*s %*s %15s", destination, mask, name)
			: sscanf(line, "%15s %39s %*s %*s %*s %*s %*s %15s", name, destination, mask);

	return read == 3 && !strcmp(name, dev) && strspn(destination, "0") == strlen(destination) &&
	       strspn(mask, "0") == strlen(mask);
}

static bool has_default_route(const char *dev, bool ipv6)
{
	FILE *routes = fopen(ipv6 ? "/proc/thread-self/net/ipv6_route" : "/proc/thread-self/net/route", "re");
	bool found = false;
	char line[512];

	while (routes && !found && fgets(line, sizeof(line), routes))
		found = is_default_route(line, dev, ipv6);
	if (routes)
		fclose(routes);
	return found;
}

/* Whether a default route leads over the interface: hosts are then behind the other ones. */
static bool is_uplink(const struct request *r, const struct view *v)
{
	char dev[IF_NAMESIZE];
	bool found = false;
	int back;

	if (weir_netns_enter(*r->netns ? r->netns : v->a.about.netns, &back))
		return false;
	if (if_indextoname(v->a.about.ifindex, dev))
		found = has_default_route(dev, false) || has_default_route(dev, true);
	weir_netns_leave(back);
	return found;
}

static const char *address(const __u8 octets[16], char text[INET6_ADDRSTRLEN])
{
	static const __u8 ipv4[12] = {[10] = 0xff, [11] = 0xff};
	bool is_ipv4 = !memcmp(octets, ipv4, sizeof(ipv4));

	return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, octets + (is_ipv4 ? sizeof(ipv4) : 0), text, INET6_ADDRSTRLEN);
}

static void json_record(const struct weir_record *n)
{
	printf("\"sampled_packets\": %llu, \"sampled_bytes\": %llu, \"delay_sum_us\": %llu, \"delay_peak_us\": %u, "
	       "\"marks\": %llu, \"drops\": %llu",
	       n->packets, n->bytes, n->delay_us, n->peak.now_us, n->marks, n->drops);
}

static void json_flows(const struct weir_sample *s, const struct weir_records *records)
{
	char text[INET6_ADDRSTRLEN];

	printf(", \"flows\": [");
	for (size_t i = 0; i < records->count; i++) {
		const struct weir_flow_key *key = &records->key[i];
		const struct weir_flow_record *flow = &records->flow[i];
		const char *comma = "";

		printf("%s\n{\"source\": \"%s\", ", i ? "," : "", address(key->source, text));
		printf("\"destination\": \"%s\", \"protocol\": %u, \"source_port\": %u, \"destination_port\": %u, ",
		       address(key->destination, text), key->protocol, ntohs(key->source_port),
		       ntohs(key->destination_port));
		json_record(&flow->sum);
		printf(", \"age_us\": %llu, \"kinds\": {", weir_since_ns(s->now_ns, flow->last_ns) / 1000);
		for (int kind = 0; kind < WEIR_KINDS; kind++) {
			if (!flow->kind_packets[kind])
				continue;
			printf("%s\"%s\": %u", comma, weir_kind_names[kind], flow->kind_packets[kind]);
			comma = ", ";
		}
		printf("}}");
	}
	printf("]");
}

static bool has_kind(const struct weir_sample *s, int kind)
{
	return weir_has_bands(&s->config) == (kind != WEIR_KIND_QUEUE);
}

static void print_json(const struct view *v, const struct weir_sample *s, const struct weir_records *records,
		       bool uplink)
{
	const char *comma = "";

	json_member(stdout, "{", "dev", " ", v->label);
	printf(", \"t_us\": %llu, \"ingress\": %s, \"uplink\": %s, \"hosts\": \"%s\", \"dq_rate_bit_s\": %.0f, "
	       "\"sample_one_in\": %d, \"kinds\": {",
	       s->now_ns / 1000, v->a.about.hook == WEIR_HOOK_XDP || v->a.about.by_direction ? "true" : "false",
	       uplink ? "true" : "false", weir_hosts_names[s->config.hosts],
	       weir_rate_bit_s(s->dq_time_q8_us, &s->config.law), WEIR_SAMPLE_ONE_IN);
	for (int kind = 0; kind < WEIR_KINDS; kind++) {
		if (!has_kind(s, kind))
			continue;
		printf("%s\"%s\": {", comma, weir_kind_names[kind]);
		json_record(&records->kind[kind]);
		printf("}");
		comma = ", ";
	}
	printf("}");
	if (s->config.flow_records)
		json_flows(s, records);
	printf("}");
}

static void print_row(const char *name, const char *kind, const struct weir_record *n)
{
	weir_print(stdout, "  %-56s %-9s %10.0f kB %7.1f ms %7.1f ms %8llu %8llu\n", name, kind,
		   (double)n->bytes * WEIR_SAMPLE_ONE_IN / 1e3,
		   n->packets ? (double)n->delay_us / (double)n->packets / 1e3 : 0, n->peak.now_us / 1e3, n->drops,
		   n->marks);
}

/* The kind of most of its sampled packets. */
static const char *main_kind(const struct weir_flow_record *flow)
{
	int most = WEIR_KIND_QUEUE;

	for (int kind = 0; kind < WEIR_KINDS; kind++)
		if (flow->kind_packets[kind] > flow->kind_packets[most])
			most = kind;
	return weir_kind_names[most];
}

static int by_bytes(const void *a, const void *b, void *context)
{
	const struct weir_records *records = context;
	__u64 one = records->flow[*(const size_t *)a].sum.bytes, other = records->flow[*(const size_t *)b].sum.bytes;

	return one < other ? 1 : one > other ? -1 : 0;
}

static void print_flows(const struct weir_records *records)
{
	char name[2 * INET6_ADDRSTRLEN + 32], source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	size_t *order = calloc(records->count + 1, sizeof(*order));

	for (size_t i = 0; order && i < records->count; i++)
		order[i] = i;
	if (order)
		qsort_r(order, records->count, sizeof(*order), by_bytes, (void *)records);
	for (size_t i = 0; order && i < records->count && i < ROWS; i++) {
		const struct weir_flow_key *key = &records->key[order[i]];

		snprintf(name, sizeof(name), "%u %s %u > %s %u", key->protocol, address(key->source, source),
			 ntohs(key->source_port), address(key->destination, destination), ntohs(key->destination_port));
		print_row(name, main_kind(&records->flow[order[i]]), &records->flow[order[i]].sum);
	}
	free(order);
}

static void print_text(const struct view *v, const struct weir_sample *s, const struct weir_records *records)
{
	weir_print(stdout, "%s: one packet in %d is sampled; peaks are of the last 9 to 17 s\n", v->label,
		   WEIR_SAMPLE_ONE_IN);
	weir_print(stdout, "  %-56s %-9s %13s %10s %10s %8s %8s\n", "", "kind", "sent", "delay", "peak", "drops",
		   "marks");
	for (int kind = 0; kind < WEIR_KINDS; kind++)
		if (has_kind(s, kind))
			print_row("", weir_kind_names[kind], &records->kind[kind]);
	if (s->config.flow_records)
		print_flows(records);
	else
		printf("  flows: attached without --flow-records\n");
}

static int print_one(const struct request *r, const char *dev, const char *path, unsigned int *printed)
{
	struct weir_records records = {0};
	struct weir_sample s;
	struct view v;
	int result;

	if (view_open(&v, r, dev, path))
		return -1;
	if (v.a.about.slots > 1 || v.a.about.owner == WEIR_OWNER_OTHER)
		result = weir_error("%s: laws of classes and adopted programs have no records of flows", v.label);
	else
		result = weir_sample_take(&v.a, v.netlink, &s);
	if (!result)
		result = weir_records_read(&v.a, s.now_ns, &records);
	if (!result && r->json) {
		printf("%s", (*printed)++ ? ",\n" : "");
		print_json(&v, &s, &records, is_uplink(r, &v));
	} else if (!result) {
		print_text(&v, &s, &records);
	}
	weir_records_free(&records);
	view_close(&v);
	return result ? -1 : 0;
}

static int print_listed(const char *path, void *context)
{
	struct listing *list = context;
	struct weir_meta about;

	if (!weir_meta_read(path, &about) || is_elsewhere(list->r, &about) || about.slots > 1 ||
	    about.owner == WEIR_OWNER_OTHER)
		return 0;
	if (print_one(list->r, NULL, path, &list->printed))
		list->result = 1;
	return 0;
}

int command_flows(const struct request *r)
{
	struct listing list = {.r = r};
	char path[PATH_MAX];

	if (r->classes)
		return weir_error("flows: laws of classes have no records of flows"), 1;
	if (r->dev) {
		list.result = find_asked(r, path) || print_one(r, r->dev, path, &list.printed);
		if (r->json && !list.result)
			printf("\n");
		return list.result;
	}
	if (r->json)
		printf("[");
	if (weir_place_each(r->pins, print_listed, &list))
		list.result = 1;
	if (r->json)
		printf("]\n");
	return list.result;
}
