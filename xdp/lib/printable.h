/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others (names of interfaces and processes, messages of the kernel and of libbpf) for a terminal or a log. */
#ifndef WEIR_PRINTABLE_H
#define WEIR_PRINTABLE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the UTF-8 character there (RFC 3629 section 4); 0: it is none, or a control character, or the end. */
size_t weir_character(const char *text);

/*
 * Copies text with control characters (C0, DEL, C1) and bytes that are not UTF-8 as \xNN. Text that is too long is cut
 * between two characters. Returns `to`.
 */
char *weir_printable(char *to, size_t size, const char *text);

/* printf for one line: the same, except for a new line at its end. */
int weir_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* vprintf for text of any number of lines: the same, except for new lines and tabs. */
int weir_print_lines(FILE *out, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

#endif /* WEIR_PRINTABLE_H */
