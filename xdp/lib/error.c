/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

#define LINE_LEN 8000

/* One sink may be in use inside another: the innermost has the lines. */
#define SINKS_MAX 16
static struct {
	char *text;
	size_t size;
} sinks[SINKS_MAX];
static unsigned int sinks_used;

void weir_error_into(char *text, size_t size)
{
	if (!text) {
		sinks_used -= sinks_used > 0;
		return;
	}
	if (sinks_used < SINKS_MAX) {
		sinks[sinks_used].text = text;
		sinks[sinks_used].size = size;
	}
	sinks_used++;
}

static void __attribute__((format(printf, 1, 0))) print_line(const char *format, va_list args)
{
	char line[LINE_LEN];

	vsnprintf(line, sizeof(line), format, args);
	weir_print(stderr, "%s: %s\n", program_invocation_short_name, line);
}

int weir_error(const char *format, ...)
{
	va_list args;

	if (sinks_used) {
		unsigned int innermost = (sinks_used < SINKS_MAX ? sinks_used : SINKS_MAX) - 1;

		va_start(args, format);
		vsnprintf(sinks[innermost].text, sinks[innermost].size, format, args);
		va_end(args);
		return -1;
	}
	va_start(args, format);
	print_line(format, args);
	va_end(args);
	return -1;
}

void weir_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
}

const char *weir_reason(int error)
{
	switch (abs(error)) {
	case EPERM:
	case EACCES:
		return "not permitted (needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)";
	case ENOSYS:
		return "this kernel lacks it";
	default:
		return strerror(abs(error));
	}
}

const char *weir_pin_reason(int error)
{
	return abs(error) == EACCES ? "not permitted (needs root, or to own the pins: chown -R)" : weir_reason(error);
}
