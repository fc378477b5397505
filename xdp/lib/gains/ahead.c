/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/ahead.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "gains/gains.h"
#include "gains/units.h"

#define SHARE_ONE_Q16 65536.0
#define SHARE_END 16
#define FRAME_BYTES 1514

/* Ranges: docs/design/flows.md. */
static const struct key {
	const char *key, *meaning;
	double least, most; /* most is itself no value of `ahead_share` */
} keys[] = {
	{"ahead_share", "a flow goes ahead below this many times the mean of bulk flows; 0: below ahead_most_bytes", 0,
	 SHARE_END},
	{"ahead_most_bytes", "and only below so many recent bytes", 1, WEIR_BYTES_MAX},
	{"ahead_least_bytes", "and always below so many", 1, WEIR_BYTES_MAX},
};

#define KEYS (sizeof(keys) / sizeof(*keys))

enum { SHARE, MOST, LEAST };

static double get(const struct weir_bands *b, size_t k)
{
	return k == SHARE ? b->ahead_share_q16 / SHARE_ONE_Q16 : k == MOST ? b->ahead_most_bytes : b->ahead_least_bytes;
}

static void put(struct weir_bands *b, size_t k, double value)
{
	if (k == SHARE)
		b->ahead_share_q16 = (__u32)fmin(rint(value * SHARE_ONE_Q16), SHARE_END * SHARE_ONE_Q16 - 1);
	else if (k == MOST)
		b->ahead_most_bytes = (__u32)value;
	else
		b->ahead_least_bytes = (__u32)value;
}

void weir_ahead_default(struct weir_bands *bands)
{
	static const double values[KEYS] = {0.1, 1 << 17, 2 * FRAME_BYTES};

	*bands = (struct weir_bands){0};
	for (size_t k = 0; k < KEYS; k++)
		put(bands, k, values[k]);
}

static size_t index_of(const char *key)
{
	size_t k = 0;

	while (k < KEYS && !weir_key_is(keys[k].key, key))
		k++;
	return k;
}

bool weir_ahead_has(const char *key)
{
	return index_of(key) < KEYS;
}

static void say_range(size_t k, char *text, size_t size)
{
	if (k == SHARE)
		snprintf(text, size, "a number, %.0f or above and below %.0f", keys[k].least, keys[k].most);
	else
		snprintf(text, size, "a whole number, %.0f .. %.0f", keys[k].least, keys[k].most);
}

int weir_ahead_put(struct weir_bands *bands, const char *source, const char *key, const char *value)
{
	size_t k = index_of(key);
	char range[96];
	double number;

	say_range(k, range, sizeof(range));
	if (!weir_number(value, &number) || number < keys[k].least || number > keys[k].most ||
	    (k == SHARE ? number == keys[k].most : number != floor(number)))
		return weir_error("%s: %s = %s: must be %s", source, key, value, range);
	put(bands, k, number);
	return 0;
}

void weir_ahead_print(const struct weir_bands *bands, FILE *out, bool json, const char *space)
{
	for (size_t k = 0; k < KEYS; k++) {
		if (json)
			fprintf(out, "%s%s\"%s\":%s%.12g", k ? "," : "", k ? space : "", keys[k].key, space,
				get(bands, k));
		else
			fprintf(out, "  %s = %.10g\n", keys[k].key, get(bands, k));
	}
}

void weir_ahead_help(FILE *out)
{
	char range[96];

	for (size_t k = 0; k < KEYS; k++) {
		say_range(k, range, sizeof(range));
		fprintf(out, "  %-22s  %s; %s\n", keys[k].key, keys[k].meaning, range);
	}
}
