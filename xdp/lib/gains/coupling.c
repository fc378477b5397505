/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/coupling.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "gains/gains.h"
#include "gains/units.h"

#define K_ONE_Q16 65536.0
#define FLOOR_BYTES (2 * 1514)

/* Ranges: docs/design/coupled.md. Each is written as it stands in `get` and `put`. */
static const struct key {
	const char *key, *meaning;
	double least, most; /* most is itself no value of `coupling` */
	bool whole;
} keys[] = {
	{"coupling", "k: band L is marked with k times the root mean square of U", 0, 16, false},
	{"ramp_least_us", "up to this delay of band L its own law marks nothing, in us", 0, WEIR_TAU_MAX_US, true},
	{"ramp_us", "from there to where it marks all, in us; 1 is a step", 1, 65535, true},
	{"floor_bytes", "the ramp begins no earlier than so much takes on the line", 0, (1 << 24) - 1, true},
};

#define KEYS (sizeof(keys) / sizeof(*keys))

enum { COUPLING, RAMP_LEAST, RAMP, FLOOR };

static double get(const struct weir_coupling *c, size_t k)
{
	switch (k) {
	case COUPLING:
		return c->coupling_q16 / K_ONE_Q16;
	case RAMP_LEAST:
		return c->ramp_least_us;
	case RAMP:
		return rint((double)WEIR_P_ONE_Q32 / (double)c->ramp_slope_q32_per_us);
	default:
		return c->floor_bytes;
	}
}

static void put(struct weir_coupling *c, size_t k, double value)
{
	switch (k) {
	case COUPLING:
		c->coupling_q16 = (__u32)fmin(rint(value * K_ONE_Q16), 16 * K_ONE_Q16 - 1);
		break;
	case RAMP_LEAST:
		c->ramp_least_us = (__u32)value;
		break;
	case RAMP:
		c->ramp_slope_q32_per_us = (__u64)rint((double)WEIR_P_ONE_Q32 / value);
		break;
	default:
		c->floor_bytes = (__u32)value;
	}
}

void weir_coupling_default(struct weir_coupling *coupling)
{
	static const double values[KEYS] = {2, 800, 400, FLOOR_BYTES};

	*coupling = (struct weir_coupling){0};
	for (size_t k = 0; k < KEYS; k++)
		put(coupling, k, values[k]);
}

static size_t index_of(const char *key)
{
	size_t k = 0;

	while (k < KEYS && !weir_key_is(keys[k].key, key))
		k++;
	return k;
}

bool weir_coupling_has(const char *key)
{
	return index_of(key) < KEYS;
}

static void say_range(const struct key *key, char *text, size_t size)
{
	if (key->whole)
		snprintf(text, size, "a whole number, %.0f .. %.0f", key->least, key->most);
	else
		snprintf(text, size, "a number, %.0f or above and below %.0f", key->least, key->most);
}

int weir_coupling_put(struct weir_coupling *coupling, const char *source, const char *key, const char *value)
{
	size_t k = index_of(key);
	char range[96], plain[64];
	double number;

	say_range(&keys[k], range, sizeof(range));
	if (weir_key_number(keys[k].key, key, value, plain, sizeof(plain)))
		return weir_error("%s: %s = %s: " WEIR_NEEDS_UNIT, source, key, value, keys[k].key);
	if (!weir_number(plain, &number) || number < keys[k].least || number > keys[k].most ||
	    (keys[k].whole ? number != floor(number) : number == keys[k].most))
		return weir_error("%s: %s = %s: must be %s%s", source, key, value, range, weir_key_unit(keys[k].key));
	put(coupling, k, number);
	return 0;
}

void weir_coupling_print(const struct weir_coupling *coupling, FILE *out, bool json, const char *space)
{
	for (size_t k = 0; k < KEYS; k++) {
		if (json)
			fprintf(out, "%s%s\"%s\":%s%.12g", k ? "," : "", k ? space : "", keys[k].key, space,
				get(coupling, k));
		else
			fprintf(out, "  %s = %.10g\n", keys[k].key, get(coupling, k));
	}
}

void weir_coupling_help(FILE *out)
{
	char range[96];

	for (size_t k = 0; k < KEYS; k++) {
		say_range(&keys[k], range, sizeof(range));
		fprintf(out, "  %-22s  %s; %s\n", keys[k].key, keys[k].meaning, range);
	}
}
