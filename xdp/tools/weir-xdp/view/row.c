/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/view/row.h"

#include "gains/units.h"
#include "printable.h"

#define WORD 24

void row_head(FILE *out)
{
	fprintf(out, "%-16s %10s %8s %9s %12s %12s %7s %9s %9s %9s\n", "interface", "queue", "packets", "delay",
		"departs at", "passes", "hits", "marked/s", "dropped/s", "limit/s");
}

static __u64 passed_bytes(const struct weir_counters *n)
{
	return n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes;
}

void row_print(FILE *out, const char *dev, const struct weir_sample *s, const char *trouble, struct row_before *before)
{
	const struct weir_counters *n = &s->counters, *b = &before->counters;
	/* of the first row there is no time to divide by */
	double elapsed_s = before->now_ns ? (double)(s->now_ns - before->now_ns) / 1e9 : 0;
	double per_s = elapsed_s > 0 ? 1 / elapsed_s : 0;
	char queue[WORD], packets[WORD] = "", delay[WORD], rate[WORD] = "unknown", passes[WORD] = "";
	char marked[WORD] = "", dropped[WORD] = "", limit[WORD] = "";

	weir_say_bytes(queue, sizeof(queue), (double)s->backlog_bytes);
	if (s->has_packets)
		snprintf(packets, sizeof(packets), "%llu", s->backlog_packets);
	weir_say_time(delay, sizeof(delay), s->tau_us);
	if (s->dq_time_q8_us)
		weir_say_rate(rate, sizeof(rate), weir_rate_bit_s(s->dq_time_q8_us, &s->config.law));
	if (per_s > 0) {
		weir_say_rate(passes, sizeof(passes), 8 * (double)(passed_bytes(n) - passed_bytes(b)) * per_s);
		snprintf(marked, sizeof(marked), "%.0f", (double)(n->marked_packets - b->marked_packets) * per_s);
		snprintf(dropped, sizeof(dropped), "%.0f",
			 (double)(n->dropped_aqm_packets - b->dropped_aqm_packets) * per_s);
		snprintf(limit, sizeof(limit), "%.0f",
			 (double)(n->dropped_limit_packets - b->dropped_limit_packets) * per_s);
	}
	weir_print(out, "%-16s %10s %8s %9s %12s %12s %6.2f%% %9s %9s %9s\n", dev, queue, packets, delay, rate, passes,
		   100 * s->drop_probability, marked, dropped, limit);
	if (*trouble)
		weir_print(out, "%-16s TROUBLE: %s\n", dev, trouble);
	before->now_ns = s->now_ns;
	before->counters = *n;
}
