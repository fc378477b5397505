/* SPDX-License-Identifier: Apache-2.0 */
/* Two bands of flows in users' units: the C twin of `in_users_units` of controller/weir/bands.py. */
#ifndef WEIR_LIB_AHEAD_H
#define WEIR_LIB_AHEAD_H

#include <stdbool.h>
#include <stdio.h>

#include "weir/bands.h"

void weir_ahead_default(struct weir_bands *bands);

/* Whether a key is one of the bands'. */
bool weir_ahead_has(const char *key);
/* One `key = value`. 0, or -1 after one line that names what was wrong and what is right. */
int weir_ahead_put(struct weir_bands *bands, const char *source, const char *key, const char *value);

/* As `"key": value` pairs with commas between (json) or one `key = value` a line; space: after a colon or comma. */
void weir_ahead_print(const struct weir_bands *bands, FILE *out, bool json, const char *space);
/* Every key with its meaning and range, one a line. */
void weir_ahead_help(FILE *out);

#endif /* WEIR_LIB_AHEAD_H */
