/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H

#include <stddef.h>

/* One line on standard error, "TOOL: ..."; returns -1 so that a caller can pass the failure on in one statement. */
int weir_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on standard error, which is no failure. */
void weir_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From here on errors are written to this text, without "TOOL: "; NULL: as before the last such call. */
void weir_error_into(char *text, size_t size);

/* Text of an errno for an operator: "not permitted (needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)" and the
 * like. */
const char *weir_reason(int error);

/* The same about pins, which are files with an owner. */
const char *weir_pin_reason(int error);

#endif /* WEIR_ERROR_H */
