// SPDX-License-Identifier: Apache-2.0
// Common parts of the lab's programs: their errors, the lab's clock, the words of their command lines.
#ifndef PROGRAM_H
#define PROGRAM_H

#include <netinet/in.h>
#include <stdint.h>

extern const char *const program_name; // stands before every error

// Prints an error and ends the program with status 1.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same for a command line that is wrong, with status 2.
_Noreturn void misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Prints the usage and ends the program with status 0 if one of the words is --help or -h.
void help(int argc, char **argv, const char *usage);

// CLOCK_MONOTONIC in microseconds.
uint64_t now_us(void);

// Sleeps to a time of that clock; returns at once if it is past.
void sleep_until(uint64_t at_us);

// From 0 up to but without 1, from the system's randomness (which a lab seeds).
double drawn_share(void);

// A file that becomes readable when SIGTERM or SIGINT comes.
int terminations(void);

// ADDRESS:PORT of the option --to.
struct sockaddr_in address(const char *text);

// The number that the option --NAME has, from low to high.
double number(const char *name, const char *text, double low, double high);

#endif
