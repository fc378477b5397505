/* SPDX-License-Identifier: Apache-2.0 */
/* Gains in users' units, their checks and their files: the C twin of controller/weir/gains.py. */
#ifndef WEIR_GAINS_H
#define WEIR_GAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "weir/law.h"

struct weir_toml;

#define WEIR_GAINS_MAX 40 /* room; how many there are the table in gains.c says */

/* Values as an operator writes them, in the table's order; integral and probability as their numbers in struct
 * weir_params. */
struct weir_gains {
	double value[WEIR_GAINS_MAX];
	bool given[WEIR_GAINS_MAX];
};

/* Each function below returns 0, or -1 after one line on standard error that names what was wrong and what is right. */

/* One `key = value`; `source` goes before the message ("profile.toml:3", "argument"). */
int weir_gains_put(struct weir_gains *gains, const char *source, const char *key, const char *value);

/* A profile: TOML without tables. By its path, or by the name of one that is built in. */
int weir_gains_read(struct weir_gains *gains, const char *profile);

/* Its text: `size` bytes and one more, all of which may be written. */
int weir_gains_parse(struct weir_gains *gains, const char *profile, char *text, size_t size);
/* One key and value of it. */
int weir_gains_put_toml(struct weir_gains *gains, const char *source, const struct weir_toml *pair);
#define WEIR_PROFILE_BYTES_MAX (1 << 20)

/* The place of a key of an earlier release, below WEIR_GAINS_MAX; -1 if it is none. */
int weir_gains_removed_index(const char *key);

/* Every key given, and in the order Algorithm 1 needs (0 < Z3 < 1 < Z2 < Z1 < 16, M2 < M1). Keys that came after the
 * first release need not be given: they get the value with which they do nothing. */
int weir_gains_check(struct weir_gains *gains);

void weir_gains_to_params(const struct weir_gains *gains, struct weir_params *params);
void weir_gains_from_params(struct weir_gains *gains, const struct weir_params *params);

/* As `"key": value` pairs with commas between (json) or one `key = value` a line. */
void weir_gains_print(const struct weir_gains *gains, FILE *out, bool json);

/* Every key with its meaning and range, one a line, by groups. */
void weir_gains_help(FILE *out);
/* The same for the keys and switches of users. */
void weir_gains_user_help(FILE *out);

/* Whether a key is for experts: not for KEY=VALUE without more. */
bool weir_gains_is_expert(const char *key);
/* A word of users that sets a key: `ecn=on`, `ecn=off`. */
bool weir_gains_is_switch(const char *name);
int weir_gains_put_switch(struct weir_gains *gains, const char *source, const char *name, const char *value);

/* The place of a key in struct weir_gains; -1 if there is no such key. A key in _us is also taken without it. */
int weir_gains_index(const char *key);

/* The unit of a key's plain numbers, after a space; "" where it has none. */
const char *weir_key_unit(const char *key);

/* Whether what was written is this key, or this key without its _us. */
bool weir_key_is(const char *key, const char *written);
/*
 * The value of such a key as a plain number: a time with its unit becomes microseconds. -1, and no line, where _us was
 * left out and so was the unit.
 */
int weir_key_number(const char *key, const char *written, const char *value, char *number, size_t size);
#define WEIR_NEEDS_UNIT "must be a time with its unit (250us, 5ms, 1s); %s takes microseconds without one"

#endif /* WEIR_GAINS_H */
