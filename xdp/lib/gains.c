/* SPDX-License-Identifier: Apache-2.0 */
#include "gains.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define PER_SECOND_Q40_PER_US ((double)WEIR_U_ONE_Q40 / 1e6)
#define Z_LIMIT_Q16 (1 << 20)

enum kind { WHOLE, GAIN, FACTOR, INTEGRAL, PROBABILITY, BOUND, SHARE };
enum key {
	TARGET,
	INTERVAL,
	KP,
	KI,
	KD,
	Z1,
	Z2,
	Z3,
	M1,
	M2,
	INTEGRAL_KEY,
	PROBABILITY_KEY,
	BURST,
	HALFLIFE,
	MIN_BACKLOG,
	MIN_DELAY,
	ECN_BOUND,
	DQ_SHIFT,
	DQ_WEIGHT,
	SCHEDULE,
	SCHEDULE_WEIGHT
};

/* Ranges: docs/design/law.md, Formats and Parameters. */
static const struct {
	const char *name;
	enum kind kind;
	double least, most;
} keys[WEIR_GAIN_KEYS] = {
	[TARGET] = {"target_us", WHOLE, 1, WEIR_TAU_MAX_US},
	[INTERVAL] = {"interval_us", WHOLE, 1, WEIR_TAU_MAX_US},
	[KP] = {"kp", GAIN, 0, 0},
	[KI] = {"ki", GAIN, 0, 0},
	[KD] = {"kd", GAIN, 0, 0},
	[Z1] = {"z1", FACTOR, 0, 16},
	[Z2] = {"z2", FACTOR, 0, 16},
	[Z3] = {"z3", FACTOR, 0, 16},
	[M1] = {"m1_us", WHOLE, 1, WEIR_TAU_MAX_US},
	[M2] = {"m2_us", WHOLE, 0, WEIR_TAU_MAX_US - 1},
	[INTEGRAL_KEY] = {"integral", INTEGRAL, 0, 0},
	[PROBABILITY_KEY] = {"probability", PROBABILITY, 0, 0},
	[BURST] = {"burst_us", WHOLE, 0, UINT32_MAX},
	[HALFLIFE] = {"idle_halflife_us", WHOLE, 0, UINT32_MAX},
	[MIN_BACKLOG] = {"min_backlog_bytes", WHOLE, 0, UINT32_MAX},
	[MIN_DELAY] = {"min_delay_share", SHARE, 0, 1},
	[ECN_BOUND] = {"ecn_bound", BOUND, 0, 1},
	[DQ_SHIFT] = {"dq_shift", WHOLE, 10, 24},
	[DQ_WEIGHT] = {"dq_weight_shift", WHOLE, 0, 8},
	[SCHEDULE] = {"schedule_shift", WHOLE, 0, 8},
	[SCHEDULE_WEIGHT] = {"schedule_weight_shift", WHOLE, 0, 15},
};

static int find(const char *name)
{
	for (int k = 0; k < WEIR_GAIN_KEYS; k++)
		if (!strcmp(keys[k].name, name))
			return k;
	return -1;
}

bool weir_gains_has(const char *key)
{
	return find(key) >= 0;
}

bool weir_number(const char *text, double *value)
{
	char *end;

	/* strtod also takes hexadecimal, "inf" and "nan" */
	if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
		return false;
	errno = 0;
	*value = strtod(text, &end);
	return !*end && end != text && isfinite(*value);
}

int weir_gains_put(struct weir_gains *gains, const char *source, const char *key, const char *value)
{
	double most = (double)UINT32_MAX / PER_SECOND_Q40_PER_US, number;
	int k = find(key);
	bool is_number = weir_number(value, &number);

	if (k < 0)
		return weir_error("%s: %s: no such key; `weir-xdp --help` lists them", source, key);
	switch (keys[k].kind) {
	case WHOLE:
		if (!is_number || number != floor(number) || number < keys[k].least || number > keys[k].most)
			return weir_error("%s: %s = %s: must be a whole number, %.0f .. %.0f", source, key, value,
					  keys[k].least, keys[k].most);
		break;
	case GAIN:
		if (!is_number || number < 0 || number > most)
			return weir_error("%s: %s = %s: must be a number per second, 0 .. %.0f", source, key, value,
					  floor(most));
		break;
	case FACTOR:
		if (!is_number || number <= 0 || number >= 16)
			return weir_error("%s: %s = %s: must be a number above 0 and below 16", source, key, value);
		break;
	case BOUND:
		if (!is_number || number < 0 || number > 1)
			return weir_error("%s: %s = %s: must be a probability, 0 .. 1", source, key, value);
		break;
	case SHARE:
		if (!is_number || number < 0 || number > keys[k].most)
			return weir_error("%s: %s = %s: must be a share of target_us, 0 .. %.0f", source, key, value,
					  keys[k].most);
		break;
	case INTEGRAL:
		if (!strcmp(value, "keep"))
			number = 0;
		else if (!strcmp(value, "drop"))
			number = UINT32_MAX;
		else if (!is_number || number != floor(number) || number < 1 || number >= UINT32_MAX)
			return weir_error("%s: %s = %s: must be \"drop\", \"keep\" or a number of intervals, 1 .. %u",
					  source, key, value, UINT32_MAX - 1);
		break;
	case PROBABILITY:
		if (!strcmp(value, "linear"))
			number = 0;
		else if (!strcmp(value, "squared"))
			number = 1;
		else
			return weir_error("%s: %s = %s: must be \"linear\" or \"squared\"", source, key, value);
		break;
	}
	gains->value[k] = number;
	gains->given[k] = true;
	return 0;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = 0;
	return text;
}

/* The key and the value of a line of flat TOML; both empty for a blank one. False if it is no such line. */
static bool split(char *line, char **key, char **value)
{
	bool quoted = false;
	char *equals;

	for (char *c = line; *c; c++) {
		if (*c == '"')
			quoted = !quoted;
		if (*c == '#' && !quoted) {
			*c = 0;
			break;
		}
	}
	*key = *value = line = trim(line);
	if (quoted)
		return false;
	if (!*line)
		return true;
	equals = strchr(line, '=');
	if (!equals)
		return false;
	*equals = 0;
	*key = trim(line);
	*value = trim(equals + 1);
	if (**value == '"') { /* a string: without its quotes, if they are where they belong */
		size_t len = strlen(*value);

		if (len < 2 || strchr(*value + 1, '"') != *value + len - 1)
			return false;
		(*value)[len - 1] = 0;
		(*value)++;
		return **key != 0;
	}
	return **key && **value && !strchr(*value, '"');
}

int weir_gains_read(struct weir_gains *gains, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512], source[512], *key, *value;
	bool seen[WEIR_GAIN_KEYS] = {false};
	int number = 0, result = 0;

	if (!file)
		return weir_error("%s: %s", path, strerror(errno));
	while (!result && fgets(line, sizeof(line), file)) {
		int k;

		snprintf(source, sizeof(source), "%s:%d", path, ++number);
		if ((!strchr(line, '\n') && !feof(file)) || !split(line, &key, &value)) {
			result = weir_error("%s: must be a line `key = value`", source);
			break;
		}
		if (!*key)
			continue;
		k = find(key);
		if (k >= 0 && seen[k])
			result = weir_error("%s: %s: given twice", source, key);
		else
			result = weir_gains_put(gains, source, key, value);
		if (k >= 0)
			seen[k] = true;
	}
	if (!result && ferror(file))
		result = weir_error("%s: %s", path, strerror(errno));
	fclose(file);
	return result;
}

int weir_gains_check(const struct weir_gains *gains)
{
	static const char *const order = "by 1/65536 at least (0 < z3 < 1 < z2 < z1)";
	const double *v = gains->value;
	struct weir_params p;

	for (int k = 0; k < WEIR_GAIN_KEYS; k++)
		if (!gains->given[k])
			return weir_error("no value for %s: give a profile with --gains FILE, or %s=VALUE",
					  keys[k].name, keys[k].name);
	weir_gains_to_params(gains, &p);
	if (p.z3_q16 < 1 || p.z3_q16 >= WEIR_Z_ONE_Q16)
		return weir_error("z3 = %g: must be above 0 and below 1, %s", v[Z3], order);
	if (p.z2_q16 <= WEIR_Z_ONE_Q16)
		return weir_error("z2 = %g: must be above 1, %s", v[Z2], order);
	if (p.z1_q16 <= p.z2_q16 || p.z1_q16 >= Z_LIMIT_Q16)
		return weir_error("z1 = %g: must be above z2 = %g and below 16, %s", v[Z1], v[Z2], order);
	if (p.m2_us >= p.m1_us)
		return weir_error("m2_us = %u: must be below m1_us = %u", p.m2_us, p.m1_us);
	return 0;
}

void weir_gains_to_params(const struct weir_gains *gains, struct weir_params *params)
{
	const double *v = gains->value;
	bool squared = v[PROBABILITY_KEY] != 0;

	*params = (struct weir_params){
		.target_us = (__u32)v[TARGET],
		.interval_us = (__u32)v[INTERVAL],
		.kp_q40_per_us = (__u32)rint(v[KP] * PER_SECOND_Q40_PER_US),
		.ki_q40_per_us = (__u32)rint(v[KI] * PER_SECOND_Q40_PER_US),
		.kd_q40_per_us = (__u32)rint(v[KD] * PER_SECOND_Q40_PER_US),
		.z1_q16 = (__u32)rint(v[Z1] * WEIR_Z_ONE_Q16),
		.z2_q16 = (__u32)rint(v[Z2] * WEIR_Z_ONE_Q16),
		.z3_q16 = (__u32)rint(v[Z3] * WEIR_Z_ONE_Q16),
		.m1_us = (__u32)v[M1],
		.m2_us = (__u32)v[M2],
		.integral_drop_max = (__u32)v[INTEGRAL_KEY],
		.squared = squared,
		.burst_us = (__u32)v[BURST],
		.idle_halflife_us = (__u32)v[HALFLIFE],
		.min_backlog_bytes = (__u32)v[MIN_BACKLOG],
		.min_delay_us = (__u32)rint(v[MIN_DELAY] * v[TARGET]),
		.dq_shift = (__u32)v[DQ_SHIFT],
		.dq_weight_shift = (__u32)v[DQ_WEIGHT],
		.schedule_shift = (__u32)v[SCHEDULE],
		.schedule_weight_shift = (__u32)v[SCHEDULE_WEIGHT],
		/* users give a probability of drop, the law compares U */
		.ecn_bound_q32 = (__u64)rint((squared ? sqrt(v[ECN_BOUND]) : v[ECN_BOUND]) * 0x1p32),
	};
}

void weir_gains_from_params(struct weir_gains *gains, const struct weir_params *params)
{
	double bound = (double)params->ecn_bound_q32 / 0x1p32;

	*gains = (struct weir_gains){
		.value =
			{
				[TARGET] = params->target_us,
				[INTERVAL] = params->interval_us,
				[KP] = params->kp_q40_per_us / PER_SECOND_Q40_PER_US,
				[KI] = params->ki_q40_per_us / PER_SECOND_Q40_PER_US,
				[KD] = params->kd_q40_per_us / PER_SECOND_Q40_PER_US,
				[Z1] = (double)params->z1_q16 / WEIR_Z_ONE_Q16,
				[Z2] = (double)params->z2_q16 / WEIR_Z_ONE_Q16,
				[Z3] = (double)params->z3_q16 / WEIR_Z_ONE_Q16,
				[M1] = params->m1_us,
				[M2] = params->m2_us,
				[INTEGRAL_KEY] = params->integral_drop_max,
				[PROBABILITY_KEY] = params->squared,
				[BURST] = params->burst_us,
				[HALFLIFE] = params->idle_halflife_us,
				[MIN_BACKLOG] = params->min_backlog_bytes,
				[MIN_DELAY] = params->min_delay_us / (double)params->target_us,
				[ECN_BOUND] = params->squared ? bound * bound : bound,
				[DQ_SHIFT] = params->dq_shift,
				[DQ_WEIGHT] = params->dq_weight_shift,
				[SCHEDULE] = params->schedule_shift,
				[SCHEDULE_WEIGHT] = params->schedule_weight_shift,
			},
	};
	for (int k = 0; k < WEIR_GAIN_KEYS; k++)
		gains->given[k] = true;
}

void weir_gains_print(const struct weir_gains *gains, FILE *out, bool json)
{
	for (int k = 0; k < WEIR_GAIN_KEYS; k++) {
		double v = gains->value[k];

		if (json)
			fprintf(out, "%s\"%s\": ", k ? ", " : "", keys[k].name);
		else
			fprintf(out, "  %s = ", keys[k].name);
		if (keys[k].kind == PROBABILITY)
			fprintf(out, "\"%s\"", v != 0 ? "squared" : "linear");
		else if (keys[k].kind == INTEGRAL && (v == 0 || v == UINT32_MAX))
			fprintf(out, "\"%s\"", v != 0 ? "drop" : "keep");
		else
			/* 12 digits give a program the law's integers back exactly, 6 are what a person reads */
			fprintf(out, "%.*g", json ? 12 : keys[k].kind == WHOLE || keys[k].kind == INTEGRAL ? 10 : 6, v);
		if (!json)
			fputc('\n', out);
	}
}
