/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/gains.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/toml.h"
#include "gains/units.h"

#define PER_SECOND_Q40_PER_US ((double)WEIR_U_ONE_Q40 / 1e6)
#define Z_LIMIT 16
#define Z_LIMIT_Q16 (Z_LIMIT << 16)

/* Form of a value in text, and the factor to the law's integer. */
enum form {
	WHOLE,	     /* the integer itself */
	PER_SECOND,  /* a gain: U per second of delay and step; 2^-40 per microsecond */
	FACTOR,	     /* 2^-16 */
	INTERVALS,   /* the integer itself; "keep" is 0, "drop" the largest */
	FACTOR_OR_0, /* 2^-16 */
	CURVE,	     /* "linear" is 0, "squared" is 1 */
	SHARE,	     /* of target_us; microseconds */
	BOUND,	     /* a probability of drop; the law compares U, 2^-32 */
};

struct gain {
	const char *key, *meaning, *right, *group;
	enum form form;
	double least, most;
	bool expert;
	size_t at, bytes; /* in struct weir_params */
	double otherwise; /* if it is not given: with it it has no effect; NAN: it must be given */
};

struct user_switch {
	const char *name, *key, *meaning;
	double on, off;
};

struct removed_key {
	const char *key, *instead;
};

/* Order matters for SHARE, which goes by target_us, and BOUND, which goes by `squared`: they come after these. */
#define FIELD(name) offsetof(struct weir_params, name), sizeof(((struct weir_params *)0)->name)
#include "gains/table.inc"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define GAINS COUNT(gains)
_Static_assert(GAINS <= WEIR_GAINS_MAX && COUNT(removed_keys) <= WEIR_GAINS_MAX, "raise WEIR_GAINS_MAX");

#define MICROSECONDS "_us"
#define BYTES "_bytes"

/* "" of a key that ends in _us, NULL of others. */
static const char *ending_of(const char *key)
{
	size_t length = strlen(key), ending = strlen(MICROSECONDS);

	return length > ending && !strcmp(key + length - ending, MICROSECONDS) ? key + length - ending : NULL;
}

/* Whether a key is `key`, or that without its _us: a time that is given with its unit. */
bool weir_key_is(const char *key, const char *written)
{
	const char *ending = ending_of(key);

	return !strcmp(key, written) ||
	       (ending && strlen(written) == (size_t)(ending - key) && !strncmp(key, written, strlen(written)));
}

int weir_key_number(const char *key, const char *written, const char *value, char *number, size_t size)
{
	double us;

	snprintf(number, size, "%s", value);
	if (!ending_of(key))
		return 0;
	if (weir_time_us(value, &us))
		snprintf(number, size, "%.17g", us);
	else if (strcmp(key, written))
		return -1;
	return 0;
}

const char *weir_key_unit(const char *key)
{
	size_t length = strlen(key), bytes = strlen(BYTES);

	return ending_of(key) ? " us" : length > bytes && !strcmp(key + length - bytes, BYTES) ? " bytes" : "";
}

int weir_gains_index(const char *key)
{
	for (size_t i = 0; i < GAINS; i++)
		if (weir_key_is(gains[i].key, key))
			return (int)i;
	return -1;
}

/* False if it is not what `right` says. */
static bool read_value(const struct gain *g, const char *text, double *value)
{
	bool is_number = weir_number(text, value);
	bool in_range = is_number && *value >= g->least && *value <= g->most;

	switch (g->form) {
	case WHOLE:
		return in_range && *value == floor(*value);
	case FACTOR:
		return in_range && *value > g->least && *value < g->most;
	case FACTOR_OR_0:
		return in_range && *value < g->most;
	case PER_SECOND:
	case SHARE:
	case BOUND:
		return in_range;
	case INTERVALS:
		if (strcmp(text, "keep") && strcmp(text, "drop"))
			return in_range && *value == floor(*value);
		*value = *text == 'd' ? UINT32_MAX : 0;
		return true;
	case CURVE:
		*value = !strcmp(text, "squared");
		return *value != 0 || !strcmp(text, "linear");
	}
	return false;
}

int weir_gains_removed_index(const char *key)
{
	for (size_t i = 0; i < COUNT(removed_keys); i++)
		if (!strcmp(removed_keys[i].key, key))
			return (int)i;
	return -1;
}

/* A key that is not in the table. */
static int refuse_key(const char *source, const char *key, const char *value)
{
	int removed = weir_gains_removed_index(key);
	const char *instead = removed < 0 ? NULL : removed_keys[removed].instead;

	if (removed < 0)
		return weir_error("%s: %s: no such key; `weir-xdp --expert --help` lists them", source, key);
	return weir_error("%s: %s = %s: the law no longer has this parameter; %s%s", source, key, value,
			  instead ? "use " : "remove it", instead ? instead : "");
}

/* Whether a value of that kind can be one of the key's. */
static bool is_of_form(const struct gain *g, const char *value, enum weir_toml_kind kind)
{
	double us;

	switch (kind) {
	case WEIR_TOML_STRING: /* a word, or a time with its unit */
		return g->form == CURVE || (g->form == INTERVALS && !weir_number(value, &us)) ||
		       (ending_of(g->key) && weir_time_us(value, &us));
	case WEIR_TOML_INTEGER:
		return g->form != CURVE;
	case WEIR_TOML_FLOAT:
		return g->form != CURVE && g->form != WHOLE && g->form != INTERVALS;
	default:
		return false;
	}
}

int weir_gains_put_toml(struct weir_gains *values, const char *source, const struct weir_toml *pair)
{
	int k = weir_gains_index(pair->key);
	bool is_short = k >= 0 && strcmp(gains[k].key, pair->key);
	bool number_only = is_short && pair->kind != WEIR_TOML_STRING;
	double number;

	if (k < 0 && weir_gains_removed_index(pair->key) >= 0 &&
	    (pair->kind == WEIR_TOML_INTEGER || pair->kind == WEIR_TOML_FLOAT) && weir_number(pair->value, &number) &&
	    number == 0)
		return 0; /* it had no effect */
	if (is_short && !number_only && !is_of_form(&gains[k], pair->value, pair->kind))
		return weir_error("%s: %s = %.64s: " WEIR_NEEDS_UNIT, source, pair->key, pair->value, gains[k].key);
	if (k >= 0 && !number_only && !is_of_form(&gains[k], pair->value, pair->kind))
		return weir_error("%s: %s = %.64s: must be %s%s", source, pair->key, pair->value, gains[k].right,
				  weir_key_unit(gains[k].key));
	return weir_gains_put(values, source, pair->key, pair->value);
}

static const struct user_switch *switch_of(const char *name)
{
	for (size_t i = 0; i < COUNT(user_switches); i++)
		if (!strcmp(user_switches[i].name, name))
			return &user_switches[i];
	return NULL;
}

bool weir_gains_is_switch(const char *name)
{
	return switch_of(name) != NULL;
}

int weir_gains_put_switch(struct weir_gains *values, const char *source, const char *name, const char *value)
{
	const struct user_switch *is = switch_of(name);
	int k = weir_gains_index(is->key);
	bool on = !strcmp(value, "on");

	if (!on && strcmp(value, "off"))
		return weir_error("%s: %s = %s: must be on or off", source, name, value);
	values->value[k] = on ? is->on : is->off;
	values->given[k] = true;
	return 0;
}

bool weir_gains_is_expert(const char *key)
{
	int k = weir_gains_index(key);

	return k >= 0 && gains[k].expert;
}

int weir_gains_put(struct weir_gains *values, const char *source, const char *key, const char *value)
{
	int k = weir_gains_index(key);
	char plain[64];
	double number;

	if (k < 0)
		return refuse_key(source, key, value);
	if (weir_key_number(gains[k].key, key, value, plain, sizeof(plain)))
		return weir_error("%s: %s = %s: " WEIR_NEEDS_UNIT, source, key, value, gains[k].key);
	if (!read_value(&gains[k], plain, &number))
		return weir_error("%s: %s = %.64s: must be %s%s", source, key, value, gains[k].right,
				  weir_key_unit(gains[k].key));
	values->value[k] = number;
	values->given[k] = true;
	return 0;
}

/* One of the law's units in an operator's; params holds the values that the gain depends on. */
static double factor_of(const struct gain *g, const struct weir_params *params)
{
	switch (g->form) {
	case PER_SECOND:
		return PER_SECOND_Q40_PER_US;
	case FACTOR:
	case FACTOR_OR_0:
		return WEIR_Z_ONE_Q16;
	case SHARE:
		return params->target_us;
	case BOUND:
		return 0x1p32;
	default:
		return 1;
	}
}

void weir_gains_to_params(const struct weir_gains *values, struct weir_params *params)
{
	*params = (struct weir_params){0};
	for (size_t i = 0; i < GAINS; i++) {
		const struct gain *g = &gains[i];
		double v = values->value[i];
		char *field = (char *)params + g->at;
		__u64 raw;

		if (g->form == BOUND && params->squared)
			v = sqrt(v);
		raw = (__u64)rint(v * factor_of(g, params));
		if (g->form == FACTOR_OR_0 && raw >= Z_LIMIT_Q16)
			raw = Z_LIMIT_Q16 - 1;
		if (g->bytes == sizeof(__u64))
			*(__u64 *)field = raw;
		else
			*(__u32 *)field = (__u32)raw;
	}
}

void weir_gains_from_params(struct weir_gains *values, const struct weir_params *params)
{
	*values = (struct weir_gains){0};
	for (size_t i = 0; i < GAINS; i++) {
		const struct gain *g = &gains[i];
		const char *field = (const char *)params + g->at;
		double v = g->bytes == sizeof(__u64) ? (double)*(const __u64 *)field : *(const __u32 *)field;

		v /= factor_of(g, params);
		values->value[i] = g->form == BOUND && params->squared ? v * v : v;
		values->given[i] = true;
	}
}

/* Of a key that is there. */
static double value_of(const struct weir_gains *values, const char *key)
{
	return values->value[weir_gains_index(key)];
}

/* A share of the target is a time that the law can take. */
static int check_shares(const struct weir_gains *values)
{
	double target_us = value_of(values, "target_us");

	for (size_t i = 0; i < GAINS; i++) {
		double share = values->value[i];

		if (gains[i].form == SHARE && rint(share * target_us) > WEIR_TAU_MAX_US)
			return weir_error("%s = %g: must be at most %g, which is %u us with target_us = %.0f",
					  gains[i].key, share, WEIR_TAU_MAX_US / target_us, WEIR_TAU_MAX_US, target_us);
	}
	return 0;
}

int weir_gains_check(struct weir_gains *values)
{
	static const char *const order = "by 1/65536 at least (0 < z3 < 1 < z2 < z1)";
	struct weir_params p;

	for (size_t i = 0; i < GAINS; i++) {
		if (values->given[i])
			continue;
		if (isnan(gains[i].otherwise))
			return weir_error("no value for %s: give a profile with --gains FILE, or %s=VALUE",
					  gains[i].key, gains[i].key);
		values->value[i] = gains[i].otherwise;
		values->given[i] = true;
	}
	if (check_shares(values))
		return -1;
	weir_gains_to_params(values, &p);
	if (p.z3_q16 < 1 || p.z3_q16 >= WEIR_Z_ONE_Q16)
		return weir_error("z3 = %g: must be above 0 and below 1, %s", value_of(values, "z3"), order);
	if (p.z2_q16 <= WEIR_Z_ONE_Q16)
		return weir_error("z2 = %g: must be above 1, %s", value_of(values, "z2"), order);
	if (p.z1_q16 <= p.z2_q16 || p.z1_q16 >= Z_LIMIT_Q16)
		return weir_error("z1 = %g: must be above z2 = %g and below 16, %s", value_of(values, "z1"),
				  value_of(values, "z2"), order);
	if (p.m2_us >= p.m1_us)
		return weir_error("m2_us = %u: must be below m1_us = %u", p.m2_us, p.m1_us);
	if (value_of(values, "space_least") > value_of(values, "space_most"))
		return weir_error("space_least = %g: must be at most space_most = %g", value_of(values, "space_least"),
				  value_of(values, "space_most"));
	if (value_of(values, "delay_limit_share") > 0 &&
	    value_of(values, "delay_limit_share") < value_of(values, "delay_bound_share"))
		return weir_error("delay_limit_share = %g: must be 0, or at least delay_bound_share = %g",
				  value_of(values, "delay_limit_share"), value_of(values, "delay_bound_share"));
	return 0;
}

static void print_value(const struct gain *g, double v, FILE *out, bool json)
{
	if (g->form == CURVE)
		fprintf(out, "\"%s\"", v != 0 ? "squared" : "linear");
	else if (g->form == INTERVALS && (v == 0 || v == UINT32_MAX))
		fprintf(out, "\"%s\"", v != 0 ? "drop" : "keep");
	else
		/* 12 digits give a program the law's integers back exactly, 6 are what a person reads */
		fprintf(out, "%.*g", json ? 12 : g->form == WHOLE || g->form == INTERVALS ? 10 : 6, v);
}

void weir_gains_print(const struct weir_gains *values, FILE *out, bool json)
{
	for (size_t i = 0; i < GAINS; i++) {
		fprintf(out, json ? "%s\"%s\": " : "%s  %s = ", i && json ? ", " : "", gains[i].key);
		print_value(&gains[i], values->value[i], out, json);
		if (!json)
			fputc('\n', out);
	}
}

void weir_gains_help(FILE *out)
{
	for (size_t g = 0; g < COUNT(groups); g++)
		for (size_t i = 0; i < GAINS; i++)
			if (!strcmp(gains[i].group, groups[g]))
				fprintf(out, "  %-22s  %s: %s; %s\n", gains[i].key, groups[g], gains[i].meaning,
					gains[i].right);
}

void weir_gains_user_help(FILE *out)
{
	for (size_t i = 0; i < GAINS; i++)
		if (!gains[i].expert)
			fprintf(out, "  %-22s  %s; %s\n", gains[i].key, gains[i].meaning, gains[i].right);
	for (size_t i = 0; i < COUNT(user_switches); i++)
		fprintf(out, "  %-22s  %s; on or off\n", user_switches[i].name, user_switches[i].meaning);
}
