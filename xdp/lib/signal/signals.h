/* SPDX-License-Identifier: Apache-2.0 */
/* All signals behind one table. */
#ifndef WEIR_SIGNALS_H
#define WEIR_SIGNALS_H

#include "signal/row.h"

/* As a choice: the best of those that work here. No attachment has it. */
#define WEIR_SIGNAL_AUTO 0

/* NULL if there is none of this number. */
const struct weir_signal_row *weir_signal_of(__u32 signal);
const char *weir_signal_name(__u32 signal);
/* A name as --signal takes it, "auto" among them. 0, or -1 after one line. */
int weir_signal_parse(const char *text, __u32 *signal);

#endif /* WEIR_SIGNALS_H */
