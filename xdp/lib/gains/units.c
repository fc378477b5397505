/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct unit {
	const char *name;
	double factor;
};

/* A number of decimal digits and one of the units, in any case. */
static bool with_unit(const char *text, const struct unit *units, double *value)
{
	size_t digits = strspn(text, "0123456789.");
	char number[32] = "";

	if (digits >= sizeof(number))
		return false;
	memcpy(number, text, digits);
	for (; units->name; units++)
		if (!strcasecmp(text + digits, units->name)) {
			if (!weir_number(number, value))
				return false;
			*value *= units->factor;
			return true;
		}
	return false;
}

/* The point is moved, so that 1.001ms is 1001 us. With 12 and 6 digits no time in range loses any. */
#define WHOLE_DIGITS 12
#define PART_DIGITS 6

bool weir_time_us(const char *text, double *us)
{
	static const struct {
		const char *name;
		size_t places;
	} units[] = {{"us", 0}, {"ms", 3}, {"s", 6}};
	size_t whole = strspn(text, "0123456789"), point = text[whole] == '.';
	size_t part = point ? strspn(text + whole + 1, "0123456789") : 0;
	const char *unit = text + whole + point + part;
	char moved[WHOLE_DIGITS + PART_DIGITS + 8] = "";

	if (!(whole + part) || whole > WHOLE_DIGITS || part > PART_DIGITS)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcasecmp(unit, units[i].name))
			continue;
		memcpy(moved, text, whole);
		for (size_t k = 0; k < units[i].places; k++)
			moved[whole + k] = k < part ? text[whole + 1 + k] : '0';
		moved[whole + units[i].places] = '.';
		if (part > units[i].places)
			memcpy(moved + whole + units[i].places + 1, text + whole + 1 + units[i].places,
			       part - units[i].places);
		return weir_number(moved, us);
	}
	return false;
}

bool weir_rate(const char *text, double *bit_s)
{
	static const struct unit units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {0}};

	return with_unit(text, units, bit_s);
}

static void say(char *text, size_t size, double value, const char *const *units)
{
	while (units[1] && value >= 999.5) {
		value /= 1e3;
		units++;
	}
	snprintf(text, size, "%.*f %s", value == rint(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2, value, *units);
}

void weir_say_bytes(char *text, size_t size, double bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", NULL};

	say(text, size, bytes, units);
}

void weir_say_rate(char *text, size_t size, double bit_s)
{
	static const char *const units[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", NULL};

	say(text, size, bit_s, units);
}

void weir_say_time(char *text, size_t size, double us)
{
	static const char *const units[] = {"us", "ms", "s", NULL};

	say(text, size, us, units);
}
