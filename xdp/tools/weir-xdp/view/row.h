/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of `watch` as a row for people: what has happened since the one before, with units. */
#ifndef WEIR_XDP_VIEW_ROW_H
#define WEIR_XDP_VIEW_ROW_H

#include <stdio.h>

#include "signal/sample.h"

/* The counters of the row before. */
struct row_before {
	__u64 now_ns; /* 0: there is none yet, and the row has no rates */
	struct weir_counters counters;
};

/* Prints the columns' heads. */
void row_head(FILE *out);
/* One row, and a second line where something is wrong ("" nothing). `before` becomes this sample. */
void row_print(FILE *out, const char *dev, const struct weir_sample *s, const char *trouble, struct row_before *before);

#endif /* WEIR_XDP_VIEW_ROW_H */
