/* SPDX-License-Identifier: Apache-2.0 */
#include "printable.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LEN 8192
#define ESCAPED_LEN 4 /* \xNN */

size_t weir_character(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t length = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : (*at & 0xf0) == 0xe0 ? 3 : *at < 0xf5 ? 4 : 0;

	if (length == 1)
		return *at >= 0x20 && *at != 0x7f;
	if (!length || *at < 0xc2)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	/* C1, longer than needed, surrogates, above the last */
	if ((*at == 0xc2 && at[1] < 0xa0) || (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) ||
	    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] >= 0x90))
		return 0;
	return length;
}

static char *copy(char *to, size_t size, const char *text, const char *kept)
{
	size_t used = 0;

	for (const char *at = text; size && *at;) {
		size_t length = strchr(kept, *at) ? 1 : weir_character(at), taken = length ? length : ESCAPED_LEN;

		if (used + taken >= size)
			break;
		if (length)
			memcpy(to + used, at, length);
		else
			snprintf(to + used, ESCAPED_LEN + 1, "\\x%02x", (unsigned char)*at);
		used += taken;
		at += length ? length : 1;
	}
	if (size)
		to[used] = 0;
	return to;
}

char *weir_printable(char *to, size_t size, const char *text)
{
	return copy(to, size, text, "");
}

int weir_print(FILE *out, const char *format, ...)
{
	char line[LINE_LEN], printable[ESCAPED_LEN * LINE_LEN];
	va_list arguments;
	size_t length;
	bool ends;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	length = strlen(line);
	ends = length && line[length - 1] == '\n';
	line[length - ends] = 0;
	return fprintf(out, "%s%s", weir_printable(printable, sizeof(printable), line), ends ? "\n" : "");
}

int weir_print_lines(FILE *out, const char *format, va_list arguments)
{
	char *text, *printable;
	int length = vasprintf(&text, format, arguments), result = -1;
	size_t size;

	if (length < 0)
		return -1;
	size = ESCAPED_LEN * (size_t)length + 1;
	printable = malloc(size);
	if (printable)
		result = fputs(copy(printable, size, text, "\n\t"), out);
	free(printable);
	free(text);
	return result;
}
