/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/gains.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
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

/*
 * Every gain, once: a further one is a line here and a member of struct weir_params. Reading, checking, printing and
 * the help follow from it. Order matters for SHARE, which goes by target_us, and BOUND, which goes by `probability`:
 * they come after these. Of two gains for one member one is 0; the second is a share of the target, and is what the
 * member is given back as. Ranges: docs/design/law.md, Formats and Parameters.
 */
#define FIELD_OR(name, otherwise) offsetof(struct weir_params, name), sizeof(((struct weir_params *)0)->name), otherwise
#define FIELD(name) FIELD_OR(name, NAN)
static const struct gain {
	const char *key, *meaning;
	enum form form;
	double least, most;
	size_t at, bytes; /* in struct weir_params */
	double otherwise; /* if it is not given: with it it does nothing; NAN: it must be given */
} gains[] = {
	{"target_us", "the queue delay to hold, in us", WHOLE, 1, WEIR_TAU_MAX_US, FIELD(target_us)},
	{"interval_us", "time between two steps of the law, in us", WHOLE, 1, WEIR_TAU_MAX_US, FIELD(interval_us)},
	{"kp", "proportional gain", PER_SECOND, 0, 0, FIELD(kp_q40_per_us)},
	{"ki", "integral gain", PER_SECOND, 0, 0, FIELD(ki_q40_per_us)},
	{"kd", "derivative gain", PER_SECOND, 0, 0, FIELD(kd_q40_per_us)},
	{"z1", "factor while the error exceeds m1_us, above z2", FACTOR, 0, Z_LIMIT, FIELD(z1_q16)},
	{"z2", "factor while the error exceeds m2_us, above 1", FACTOR, 0, Z_LIMIT, FIELD(z2_q16)},
	{"z3", "factor near the target, below 1", FACTOR, 0, Z_LIMIT, FIELD(z3_q16)},
	{"m1_us", "error (delay less target) from which z1 holds, in us", WHOLE, 1, WEIR_TAU_MAX_US, FIELD(m1_us)},
	{"m2_us", "error from which z2 holds, in us, below m1_us", WHOLE, 0, WEIR_TAU_MAX_US - 1, FIELD(m2_us)},
	{"integral", "for how many steps in a row the integral may be left out", INTERVALS, 1, UINT32_MAX - 1,
	 FIELD(integral_drop_max)},
	{"probability", "drop with U or with U^2", CURVE, 0, 1, FIELD(squared)},
	{"burst_us", "no drop for this time after the queue starts to fill, in us, 0 off", WHOLE, 0, UINT32_MAX,
	 FIELD(burst_us)},
	{"idle_halflife_us", "time in which U halves while no packet comes, in us, 0 off", WHOLE, 0, UINT32_MAX,
	 FIELD(idle_halflife_us)},
	{"min_backlog_bytes", "nothing is dropped below this backlog", WHOLE, 0, UINT32_MAX, FIELD(min_backlog_bytes)},
	{"min_delay_share", "nothing is dropped below this delay", SHARE, 0, 1, FIELD_OR(min_delay_us, 0)},
	{"space_least", "no hit while the sum of probabilities since the last hit is below it", FACTOR_OR_0, 0, Z_LIMIT,
	 FIELD_OR(space_least_q16, 0)},
	{"space_most", "a hit as soon as that sum reaches it, 0 off", FACTOR_OR_0, 0, Z_LIMIT,
	 FIELD_OR(space_most_q16, 0)},
	{"delay_bound_us", "delay from which delay_bound_slope counts, in us; 0 off", WHOLE, 0, WEIR_TAU_MAX_US,
	 FIELD_OR(delay_bound_us, 0)},
	{"delay_bound_share", "delay_bound_us as a share of target_us", SHARE, 0, WEIR_TAU_MAX_US,
	 FIELD_OR(delay_bound_us, 0)},
	{"delay_bound_slope", "probability of a hit per second above the bound, 0 off", PER_SECOND, 0, 0,
	 FIELD_OR(delay_bound_slope_q40_per_us, 0)},
	{"delay_limit_us", "delay from which every packet is hit, in us, 0 off", WHOLE, 0, WEIR_TAU_MAX_US,
	 FIELD_OR(delay_limit_us, 0)},
	{"delay_limit_share", "delay_limit_us as a share of target_us", SHARE, 0, WEIR_TAU_MAX_US,
	 FIELD_OR(delay_limit_us, 0)},
	{"delay_guard_bytes", "bound and limit wait for a backlog of this and 2^dq_shift bytes, 0 for none", WHOLE, 0,
	 UINT32_MAX, FIELD_OR(delay_guard_bytes, 0)},
	{"share_least", "hits wait for flows that have sent so many times the mean, 0 off", FACTOR_OR_0, 0, Z_LIMIT,
	 FIELD_OR(share_least_q16, 0)},
	{"share_shift", "what a flow has sent halves every 2^this us", WHOLE, 10, 24, FIELD_OR(share_shift, 17)},
	{"ecn_bound", "ECT packets are marked, not dropped, up to it", BOUND, 0, 1, FIELD(ecn_bound_q32)},
	{"ecn_weight_shift", "marks follow a mean of U, a step weighs 2^-this, 0 for U", WHOLE, 0, 15,
	 FIELD_OR(ecn_weight_shift, 0)},
	{"ecn_drop_us", "ECT are dropped, new flows not spared from this delay on, in us, 0 off", WHOLE, 0,
	 WEIR_TAU_MAX_US, FIELD_OR(ecn_drop_us, 0)},
	{"ecn_drop_share", "ecn_drop_us as a share of target_us", SHARE, 0, WEIR_TAU_MAX_US, FIELD_OR(ecn_drop_us, 0)},
	{"mark_gain", "ECT packets are hit so many times as likely, 0 as others", FACTOR_OR_0, 0, Z_LIMIT,
	 FIELD_OR(mark_gain_q16, 0)},
	{"dq_shift", "the rate is taken over 2^this bytes", WHOLE, 10, 24, FIELD(dq_shift)},
	{"dq_weight_shift", "a new rate weighs 2^-this", WHOLE, 0, 8, FIELD(dq_weight_shift)},
	{"schedule_shift", "gains follow the mean of U, full at 2^-this, 0 off", WHOLE, 0, 8, FIELD(schedule_shift)},
	{"schedule_weight_shift", "a step weighs 2^-this in the mean of U", WHOLE, 0, 15, FIELD(schedule_weight_shift)},
};

#define GAINS (sizeof(gains) / sizeof(*gains))
_Static_assert(GAINS <= WEIR_GAINS_MAX, "raise WEIR_GAINS_MAX");

#define MICROSECONDS "_us"

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

int weir_gains_index(const char *key)
{
	for (size_t i = 0; i < GAINS; i++)
		if (weir_key_is(gains[i].key, key))
			return (int)i;
	return -1;
}

/* The gain that is the same member in another unit; -1 if there is none. */
static int other_of(size_t k)
{
	for (size_t i = 0; i < GAINS; i++)
		if (i != k && gains[i].at == gains[k].at)
			return (int)i;
	return -1;
}

void weir_gains_forget_other(struct weir_gains *values, const char *key)
{
	int k = weir_gains_index(key), other = k < 0 ? -1 : other_of((size_t)k);

	if (other >= 0)
		values->value[other] = 0;
}

/* Range of a value. */
static void say_range(const struct gain *g, char *text, size_t size)
{
	switch (g->form) {
	case WHOLE:
		snprintf(text, size, "a whole number, %.0f .. %.0f", g->least, g->most);
		break;
	case PER_SECOND:
		snprintf(text, size, "a number per second, 0 .. %.0f",
			 floor((double)UINT32_MAX / PER_SECOND_Q40_PER_US));
		break;
	case FACTOR:
		snprintf(text, size, "a number above %.0f and below %.0f", g->least, g->most);
		break;
	case FACTOR_OR_0:
		snprintf(text, size, "a number, %.0f or above and below %.0f", g->least, g->most);
		break;
	case INTERVALS:
		snprintf(text, size, "\"drop\", \"keep\" or a number of intervals, %.0f .. %.0f", g->least, g->most);
		break;
	case CURVE:
		snprintf(text, size, "\"linear\" or \"squared\"");
		break;
	case SHARE:
		snprintf(text, size, "a share of target_us, %.0f .. %.0f", g->least, g->most);
		break;
	case BOUND:
		snprintf(text, size, "a probability, %.0f .. %.0f", g->least, g->most);
		break;
	}
}

/* False if it is not what say_range asks for. */
static bool read_value(const struct gain *g, const char *text, double *value)
{
	bool is_number = weir_number(text, value);
	bool in_range = is_number && *value >= g->least && *value <= g->most;

	switch (g->form) {
	case WHOLE:
		return in_range && *value == floor(*value);
	case PER_SECOND:
		return is_number && *value >= 0 && *value <= (double)UINT32_MAX / PER_SECOND_Q40_PER_US;
	case FACTOR:
		return in_range && *value > g->least && *value < g->most;
	case FACTOR_OR_0:
		return in_range && *value < g->most;
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

int weir_gains_put(struct weir_gains *values, const char *source, const char *key, const char *value)
{
	int k = weir_gains_index(key);
	char range[96], plain[64];
	double number;

	if (k < 0)
		return weir_error("%s: %s: no such key; `weir-xdp --help` lists them", source, key);
	if (weir_key_number(gains[k].key, key, value, plain, sizeof(plain)))
		return weir_error("%s: %s = %s: " WEIR_NEEDS_UNIT, source, key, value, gains[k].key);
	if (!read_value(&gains[k], plain, &number)) {
		say_range(&gains[k], range, sizeof(range));
		return weir_error("%s: %s = %s: must be %s", source, key, value, range);
	}
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
			*(__u32 *)field += (__u32)raw; /* of two gains for one member one is 0 */
	}
}

void weir_gains_from_params(struct weir_gains *values, const struct weir_params *params)
{
	*values = (struct weir_gains){0};
	for (size_t i = 0; i < GAINS; i++) {
		const struct gain *g = &gains[i];
		const char *field = (const char *)params + g->at;
		double v = g->bytes == sizeof(__u64) ? (double)*(const __u64 *)field : *(const __u32 *)field;

		v = other_of(i) > (int)i ? 0 : v / factor_of(g, params);
		values->value[i] = g->form == BOUND && params->squared ? v * v : v;
		values->given[i] = true;
	}
}

/* Of a key that is there. */
static double value_of(const struct weir_gains *values, const char *key)
{
	return values->value[weir_gains_index(key)];
}

/* A time is given once, and a share of the target is a time that the law can take. */
static int check_shares(const struct weir_gains *values)
{
	double target_us = value_of(values, "target_us");

	for (size_t i = 0; i < GAINS; i++) {
		double share = values->value[i];
		int time = other_of(i);

		if (gains[i].form != SHARE || time < 0)
			continue;
		if (share != 0 && values->value[time] != 0)
			return weir_error("%s = %.0f, %s = %g: both say the same; give only one of them",
					  gains[time].key, values->value[time], gains[i].key, share);
		if (rint(share * target_us) > WEIR_TAU_MAX_US)
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
	if (p.delay_limit_us && p.delay_limit_us < p.delay_bound_us) {
		const char *key = value_of(values, "delay_limit_us") != 0 ? "delay_limit_us" : "delay_limit_share";

		return weir_error("%s = %.10g: must be 0, or at least the bound in time, %u us", key,
				  value_of(values, key), p.delay_bound_us);
	}
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
	char range[96];

	for (size_t i = 0; i < GAINS; i++) {
		say_range(&gains[i], range, sizeof(range));
		fprintf(out, "  %-22s  %s; %s\n", gains[i].key, gains[i].meaning, range);
	}
}
