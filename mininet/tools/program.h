// SPDX-License-Identifier: Apache-2.0
// Common parts of the lab's programs: their errors, the lab's clock, the words of their command lines.
#ifndef PROGRAM_H
#define PROGRAM_H

#include <netinet/in.h>
#include <stdint.h>

extern const char *const program_name; // stands before every error

// Prints an error and ends the program with status 1.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

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
