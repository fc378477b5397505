// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>

static void complain(const char *format, va_list args)
{
	fprintf(stderr, "%s: ", program_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	exit(1);
}

void misused(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	exit(2);
}

void help(int argc, char **argv, const char *usage)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			fputs(usage, stdout);
			exit(fflush(stdout) ? 1 : 0);
		}
}

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void sleep_until(uint64_t at_us)
{
	struct timespec t = {.tv_sec = (time_t)(at_us / 1000000), .tv_nsec = (long)(at_us % 1000000) * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

double drawn_share(void)
{
	uint32_t draw;

	if (getrandom(&draw, sizeof(draw), 0) != sizeof(draw))
		die("getrandom: %s", strerror(errno));
	return draw / 4294967296.0;
}

int terminations(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC);

	if (fd < 0)
		die("signalfd: %s", strerror(errno));
	return fd;
}

struct sockaddr_in address(const char *text)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	char host[64];
	const char *colon = strrchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		misused("--to %s: write ADDRESS:PORT", text);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	char *end;
	unsigned long port = strtoul(colon + 1, &end, 10);

	if (!inet_aton(host, &at.sin_addr) || *end || port == 0 || port > 65535)
		misused("--to %s: write an IPv4 address, a colon and a port of 1 to 65535", text);
	at.sin_port = htons((uint16_t)port);
	return at;
}

double number(const char *name, const char *text, double low, double high)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= low && value <= high))
		misused("--%s %s: give a number of %g to %g", name, text, low, high);
	return value;
}
