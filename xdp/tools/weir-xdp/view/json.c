/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/view/json.h"

#include "gains/ahead.h"
#include "gains/coupling.h"
#include "gains/gains.h"
#include "printable.h"
#include "signal/bands.h"

/* One that a terminal obeys: C0, DEL, C1 in UTF-8. Bytes it has; 0: it is another one. */
static size_t control(const char *at, unsigned int *code)
{
	const unsigned char *byte = (const unsigned char *)at;
	bool c1 = byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0;

	*code = c1 ? byte[1] : byte[0];
	return c1 ? 2 : *byte < 0x20 || *byte == 0x7f;
}

void json_string(FILE *out, const char *text)
{
	unsigned int code;

	fputc('"', out);
	while (*text) {
		size_t escaped = control(text, &code), length = weir_character(text);

		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if (!escaped && length)
			fwrite(text, 1, length, out);
		else
			fprintf(out, "\\u%04x", escaped ? code : 0xfffd); /* U+FFFD: a byte that is not UTF-8 */
		text += escaped ? escaped : length ? length : 1;
	}
	fputc('"', out);
}

void json_member(FILE *out, const char *before, const char *key, const char *space, const char *text)
{
	fprintf(out, "%s\"%s\":%s", before, key, space);
	json_string(out, text);
}

void json_gains(FILE *out, const char *space, const struct weir_params *params)
{
	struct weir_gains gains;

	weir_gains_from_params(&gains, params);
	fprintf(out, "\"gains\":%s{", space);
	weir_gains_print(&gains, out, true);
	fputc('}', out);
}

void json_coupling(FILE *out, const char *space, const struct weir_config *config)
{
	fprintf(out, ",%s\"coupled\":%s{", space, space);
	for (int i = 0; i < WEIR_BANDS; i++)
		fprintf(out, "\"class_%s\":%s\"%x:%x\",%s", i == WEIR_BAND_L ? "low" : "classic", space,
			config->band_class[i] >> 16, config->band_class[i] & 0xffff, space);
	weir_coupling_print(&config->coupling, out, true, space);
	fputc('}', out);
}

void json_flow_bands(FILE *out, const char *space, const struct weir_config *config)
{
	fprintf(out, ",%s\"bands\":%s{", space, space);
	for (int i = 0; i < WEIR_BANDS; i++)
		fprintf(out, "\"class_%s\":%s\"%x:%x\",%s", i == WEIR_BAND_AHEAD ? "ahead" : "bulk", space,
			config->band_class[i] >> 16, config->band_class[i] & 0xffff, space);
	weir_ahead_print(&config->flow_bands, out, true, space);
	if (config->hosts)
		fprintf(out, ",%s\"hosts\":%s\"%s\"", space, space, weir_hosts_names[config->hosts]);
	if (config->hosts == WEIR_HOSTS_MARK)
		fprintf(out, ",%s\"host_mask\":%s%u", space, space, config->host_mask);
	if (config->dscp)
		fprintf(out, ",%s\"dscp\":%strue", space, space);
	fputc('}', out);
}

static const char *band_name(const struct weir_sample *s, int band)
{
	if (weir_has_bands(&s->config))
		return band == WEIR_BAND_AHEAD ? "ahead" : "bulk";
	return band == WEIR_BAND_L ? "low" : "classic";
}

void json_bands(FILE *out, const struct weir_sample *s, const char *space)
{
	for (int i = 0; i < WEIR_BANDS; i++) {
		const struct weir_band_sample *b = &s->band[i];
		const struct weir_counters *n = &b->counters;
		struct {
			const char *key;
			__u64 value;
		} members[] = {
			{"backlog_bytes", b->backlog_bytes},
			{"backlog_packets", b->backlog_packets},
			{"tau_us", b->tau_us},
			{"seen", n->seen_packets},
			{"passed_bytes", n->seen_bytes - n->dropped_aqm_bytes - n->dropped_limit_bytes},
			{"marks", n->marked_packets},
			{"drops_aqm", n->dropped_aqm_packets},
			{"drops_limit", n->dropped_limit_packets},
		};

		fprintf(out, ",%s\"%s\":%s{\"probability\":%s%.9g", space, band_name(s, i), space, space,
			b->probability);
		for (size_t k = 0; k < sizeof(members) / sizeof(*members); k++)
			fprintf(out, ",%s\"%s\":%s%llu", space, members[k].key, space, members[k].value);
		fputc('}', out);
	}
}

void json_ages(FILE *out, const struct weir_sample *s, const char *trouble, const char *space)
{
	fprintf(out, ",%s\"age_us\":%s%llu", space, space, s->age_ns / 1000);
	if (s->dq_time_q8_us)
		fprintf(out, ",%s\"rate_age_us\":%s%llu", space, space, s->rate_age_ns / 1000);
	if (*trouble) {
		fprintf(out, ",%s", space);
		json_member(out, "", "trouble", space, trouble);
	}
}
