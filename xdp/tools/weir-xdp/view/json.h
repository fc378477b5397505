/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the JSON that commands print. */
#ifndef WEIR_XDP_JSON_H
#define WEIR_XDP_JSON_H

#include <stdio.h>

#include "signal/sample.h"
#include "weir/law.h"

/* A string with its quotes. */
void json_string(FILE *out, const char *text);
/* `"key":` and a string; before: what goes in front of it (", "). `space`: after the colon. */
void json_member(FILE *out, const char *before, const char *key, const char *space, const char *text);
/* `"gains":{...}` */
void json_gains(FILE *out, const char *space, const struct weir_params *params);
/* Members of a JSON object, each with a comma before it. `space`: after commas and colons. */
void json_coupling(FILE *out, const char *space, const struct weir_config *config);
/* The classes of the bands of flows, and their settings. */
void json_flow_bands(FILE *out, const char *space, const struct weir_config *config);
/* The bands of a coupled attachment, as members `classic` and `low`; those of flows as `bulk` and `ahead`. */
void json_bands(FILE *out, const struct weir_sample *s, const char *space);
void json_ages(FILE *out, const struct weir_sample *s, const char *trouble, const char *space);

#endif /* WEIR_XDP_JSON_H */
