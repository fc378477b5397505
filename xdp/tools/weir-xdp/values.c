/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/values.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "gains/ahead.h"
#include "gains/coupling.h"
#include "gains/units.h"
#include "signal/bands.h"
#include "signal/signals.h"
#include "weir/scone.h"

#define RATE_MIN_BIT_S 8000.0 /* below it the rate's fixed point (2^-32 byte/ns) is coarser than 2e-4 */
#define RATE_MAX_BIT_S 1e12

int parse_rate(const char *what, const char *text, double *bit_s)
{
	if (!weir_rate(text, bit_s) || *bit_s < RATE_MIN_BIT_S || *bit_s > RATE_MAX_BIT_S)
		return weir_error("%s %s: must be a number with its unit, 8kbit .. 1000gbit (bit, kbit, mbit, gbit)",
				  what, text);
	return 0;
}

int parse_whole(const char *what, const char *text, double least, double most, double *value)
{
	if (!weir_number(text, value) || *value != floor(*value) || *value < least || *value > most)
		return weir_error("%s %s: must be a whole number, %.0f .. %.0f", what, text, least, most);
	return 0;
}

int parse_limit(const char *what, const char *text, __u64 *limit)
{
	/* beyond these the pairs of maps.h, or the virtual queue, would overflow */
	double value, most = strstr(what, "packets") ? (1 << 24) - 1 : INT32_MAX;

	if (parse_whole(what, text, 1, most, &value))
		return -1;
	*limit = (__u64)value;
	return 0;
}

#define KEY_LEN 64

/* The key of KEY=VALUE, and where its value begins. */
static int split_pair(const char *pair, char *key, const char **value)
{
	const char *equals = strchr(pair, '=');

	if (!equals || equals == pair || (size_t)(equals - pair) >= KEY_LEN)
		return weir_error("argument %s: must be KEY=VALUE", pair);
	memset(key, 0, KEY_LEN);
	memcpy(key, pair, (size_t)(equals - pair));
	*value = equals + 1;
	return 0;
}

/* coupling: NULL where there are no bands to couple. */
static int put_coupling(struct weir_coupling *coupling, const char *key, const char *value)
{
	if (!coupling)
		return weir_error("%s: only two coupled bands have it; `weir-xdp attach DEV --coupled L,C` makes them",
				  key);
	return weir_coupling_put(coupling, "argument", key, value);
}

/* bands: NULL where there are none. */
static int put_ahead(struct weir_bands *bands, const char *key, const char *value)
{
	if (!bands)
		return weir_error("%s: only two bands of flows have it; `weir-xdp attach DEV --bands` makes them", key);
	return weir_ahead_put(bands, "argument", key, value);
}

/* A gain of the profile: a switch, a user's key, or with --expert any. */
static int put_gain(const struct request *r, struct weir_gains *gains, const char *key, const char *value)
{
	if (weir_gains_is_switch(key))
		return weir_gains_put_switch(gains, "argument", key, value);
	if (weir_gains_is_expert(key) && !r->expert)
		return weir_error("argument: %s: only with --expert, or from a profile (--profile FILE)", key);
	return weir_gains_put(gains, "argument", key, value);
}

int parse_advice(const char *what, const char *text, struct weir_advice *advice)
{
	double bit_s;

	advice->rate_bit_s = 0;
	advice->signal = 0;
	if (!strcmp(text, "off") || !strcmp(text, "share")) {
		advice->kind = *text == 'o' ? WEIR_ADVISE_OFF : WEIR_ADVISE_SHARE;
		return 0;
	}
	if (parse_rate(what, text, &bit_s))
		return -1;
	if (bit_s < WEIR_SCONE_LEAST_BIT_S)
		return weir_error("%s %s: must be 100kbit or more: SCONE has no lower rate", what, text);
	advice->kind = WEIR_ADVISE_RATE;
	advice->rate_bit_s = (__u64)bit_s;
	advice->signal = weir_scone_signal_for(advice->rate_bit_s);
	return 0;
}

int apply_pair(const struct request *r, const char *pair, struct weir_gains *gains, struct weir_config *config,
	       double *rate_bit_s)
{
	const struct weir_signal_row *row = weir_signal_of(config->signal);
	const char *value;
	char key[KEY_LEN];

	if (split_pair(pair, key, &value))
		return -1;
	if (!strcmp(key, "rate")) {
		if (!weir_signal_takes_rate(config->signal))
			return weir_error(
				"rate: only a virtual queue and --hook qdisc have one; this one's signal is %s",
				weir_signal_name(config->signal));
		return parse_rate("rate", value, rate_bit_s);
	}
	if (!strcmp(key, "limit_packets") || !strcmp(key, "limit_bytes")) {
		bool packets = !strcmp(key, "limit_packets");

		if (!row || !(packets ? row->has_limit_packets : row->has_limit_bytes))
			return weir_error("%s: not with signal %s; set the qdisc's own limit", key,
					  weir_signal_name(config->signal));
		return parse_limit(key, value, packets ? &config->limit_packets : &config->limit_bytes);
	}
	if (!strcmp(key, "advise")) {
		if (config->advice.kind == WEIR_ADVISE_OFF)
			return weir_error("advise: the law was attached without advice; `weir-xdp ensure DEV --advise "
					  "%s` adds it",
					  value);
		return parse_advice(key, value, &config->advice);
	}
	if (weir_coupling_has(key))
		return put_coupling(config->coupled ? &config->coupling : NULL, key, value);
	if (weir_ahead_has(key))
		return put_ahead(weir_has_bands(config) ? &config->flow_bands : NULL, key, value);
	return put_gain(r, gains, key, value);
}

static int check_word(const struct request *r, const char *word, bool live)
{
	struct weir_coupling coupling;
	struct weir_advice advice;
	struct weir_bands bands;
	struct weir_gains gains;
	const char *value;
	char key[KEY_LEN];
	double rate_bit_s;
	__u64 limit;

	if (split_pair(word, key, &value))
		return -1;
	if (live && !strcmp(key, "rate"))
		return parse_rate("rate", value, &rate_bit_s);
	if (live && (!strcmp(key, "limit_packets") || !strcmp(key, "limit_bytes")))
		return parse_limit(key, value, &limit);
	if (live && !strcmp(key, "advise"))
		return parse_advice(key, value, &advice);
	if (weir_coupling_has(key))
		return weir_coupling_put(&coupling, "argument", key, value);
	if (weir_ahead_has(key))
		return weir_ahead_put(&bands, "argument", key, value);
	return put_gain(r, &gains, key, value);
}

int check_words(const struct request *r, bool live)
{
	for (int i = 0; i < r->words; i++)
		if (check_word(r, r->word[i], live))
			return -1;
	return 0;
}

int check_coupled(const struct weir_gains *gains)
{
	struct weir_params p;

	weir_gains_to_params(gains, &p);
	return p.squared ? 0
			 : weir_error("probability = \"linear\": two coupled bands need \"squared\", because a mark in "
				      "band L goes by U and a drop in band C by U^2");
}

/* The arguments, in the place of what the gains were. */
static int apply_words(const struct request *r, struct weir_gains *gains, struct weir_coupling *coupling, bool coupled)
{
	const char *value;
	char key[KEY_LEN];

	for (int i = 0; i < r->words; i++) {
		if (split_pair(r->word[i], key, &value))
			return -1;
		if (weir_ahead_has(key) && r->bands)
			continue; /* read_bands */
		if (weir_ahead_has(key)	     ? put_ahead(NULL, key, value)
		    : weir_coupling_has(key) ? put_coupling(coupled ? coupling : NULL, key, value)
					     : put_gain(r, gains, key, value))
			return -1;
	}
	return weir_gains_check(gains) || (coupled && check_coupled(gains)) ? -1 : 0;
}

int read_bands(const struct request *r, struct weir_bands *bands)
{
	const char *value;
	char key[KEY_LEN];

	for (int i = 0; i < r->words; i++)
		if (split_pair(r->word[i], key, &value) || (weir_ahead_has(key) && put_ahead(bands, key, value)))
			return -1;
	return 0;
}

int read_gains(const struct request *r, struct weir_gains *gains, struct weir_coupling *coupling)
{
	weir_coupling_default(coupling);
	*gains = (struct weir_gains){0};
	if (weir_gains_read(gains, r->gains_file ? r->gains_file : r->coupled ? "coupled" : "tuned"))
		return -1;
	if (!apply_words(r, gains, coupling, r->coupled))
		return 0;
	return r->words ? USAGE_ERROR : -1;
}

int merge_gains(const struct request *r, struct weir_gains *gains, struct weir_coupling *coupling)
{
	if (r->gains_file) {
		*gains = (struct weir_gains){0};
		if (weir_gains_read(gains, r->gains_file))
			return -1;
	}
	return apply_words(r, gains, coupling, r->coupled);
}
