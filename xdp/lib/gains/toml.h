/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and values of a TOML 1.0 document without tables and arrays. */
#ifndef WEIR_TOML_H
#define WEIR_TOML_H

#include <stddef.h>

enum weir_toml_kind {
	WEIR_TOML_STRING,
	WEIR_TOML_INTEGER, /* `value` in decimal */
	WEIR_TOML_FLOAT,   /* `value` without underscores */
	WEIR_TOML_BARE,	   /* any other word: no value of a profile */
};

enum weir_toml_found { WEIR_TOML_WRONG = -1, WEIR_TOML_END, WEIR_TOML_PAIR };

struct weir_toml {
	char *at, *end;
	int line; /* of the pair that was found, or of the error */
	char *key, *value;
	enum weir_toml_kind kind;
	const char *wrong; /* after WEIR_TOML_WRONG: the reason */
	int next_line;
	char number[32];
};

/* text: `size` bytes and one more that may be written; keys and values are made in it. */
void weir_toml_begin(struct weir_toml *t, char *text, size_t size);
enum weir_toml_found weir_toml_next(struct weir_toml *t);

#endif /* WEIR_TOML_H */
