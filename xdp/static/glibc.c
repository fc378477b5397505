/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of glibc that Debian's libbpf.a, libelf.a and libz.a call and musl lacks: those that glibc's headers put in
 * place of others for _FORTIFY_SOURCE, which end the program where a buffer is too small, and fcntl by another name.
 * All else that those archives call musl has under the same names. Only the static weir-xdp is linked with this. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `room`: bytes of the buffer, (size_t)-1 where the compiler could not tell. */
static void must_fit(size_t bytes, size_t room)
{
	if (bytes > room)
		abort();
}

int __vsnprintf_chk(char *to, size_t bytes, int flag, size_t room, const char *format, va_list args);
int __vsnprintf_chk(char *to, size_t bytes, int flag, size_t room, const char *format, va_list args)
{
	(void)flag;
	must_fit(bytes, room);
	return vsnprintf(to, bytes, format, args);
}

int __snprintf_chk(char *to, size_t bytes, int flag, size_t room, const char *format, ...);
int __snprintf_chk(char *to, size_t bytes, int flag, size_t room, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = __vsnprintf_chk(to, bytes, flag, room, format, args);
	va_end(args);
	return length;
}

int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...);
int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...)
{
	size_t most = room < INT_MAX ? room : INT_MAX; /* vsnprintf takes no more */
	va_list args;
	int length;

	(void)flag;
	va_start(args, format);
	length = vsnprintf(to, most, format, args);
	va_end(args);
	if (length >= 0)
		must_fit((size_t)length + 1, room);
	return length;
}

int __vfprintf_chk(FILE *to, int flag, const char *format, va_list args);
int __vfprintf_chk(FILE *to, int flag, const char *format, va_list args)
{
	(void)flag;
	return vfprintf(to, format, args);
}

int __vdprintf_chk(int to, int flag, const char *format, va_list args);
int __vdprintf_chk(int to, int flag, const char *format, va_list args)
{
	(void)flag;
	return vdprintf(to, format, args);
}

char *__strcpy_chk(char *to, const char *from, size_t room);
char *__strcpy_chk(char *to, const char *from, size_t room)
{
	must_fit(strlen(from) + 1, room);
	return strcpy(to, from);
}

char *__strcat_chk(char *to, const char *from, size_t room);
char *__strcat_chk(char *to, const char *from, size_t room)
{
	must_fit(strlen(to) + strlen(from) + 1, room);
	return strcat(to, from);
}

char *__realpath_chk(const char *path, char *to, size_t room);
char *__realpath_chk(const char *path, char *to, size_t room)
{
	must_fit(to ? PATH_MAX : 0, room);
	return realpath(path, to);
}

int fcntl64(int file, int command, ...);
int fcntl64(int file, int command, ...)
{
	unsigned long argument;
	va_list args;

	va_start(args, command);
	argument = va_arg(args, unsigned long);
	va_end(args);
	return fcntl(file, command, argument);
}
