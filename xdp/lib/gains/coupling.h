/* SPDX-License-Identifier: Apache-2.0 */
/* The coupling of two bands in users' units: the C twin of controller/weir/coupled.py. */
#ifndef WEIR_LIB_COUPLING_H
#define WEIR_LIB_COUPLING_H

#include <stdbool.h>
#include <stdio.h>

#include "weir/coupled.h"

/* RFC 9332 2.1 and A.1. */
void weir_coupling_default(struct weir_coupling *coupling);

/* Whether a key is one of the coupling's. */
bool weir_coupling_has(const char *key);
/* One `key = value`. 0, or -1 after one line that names what was wrong and what is right. */
int weir_coupling_put(struct weir_coupling *coupling, const char *source, const char *key, const char *value);

/* As `"key": value` pairs with commas between (json) or one `key = value` a line; space: after a colon or comma. */
void weir_coupling_print(const struct weir_coupling *coupling, FILE *out, bool json, const char *space);
/* Every key with its meaning and range, one a line. */
void weir_coupling_help(FILE *out);

#endif /* WEIR_LIB_COUPLING_H */
