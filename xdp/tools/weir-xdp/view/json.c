/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/view/json.h"

#include "gains/gains.h"

void json_string(FILE *out, const char *text)
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
