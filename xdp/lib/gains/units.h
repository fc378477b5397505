/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with their units, as an operator writes and reads them. */
#ifndef WEIR_UNITS_H
#define WEIR_UNITS_H

#include <stdbool.h>
#include <stddef.h>

/* A number and nothing after it. */
bool weir_number(const char *text, double *value);

/* A time with its unit (us, ms or s: "5ms", "1.5s"), in microseconds. */
bool weir_time_us(const char *text, double *us);

/* A rate with its unit (bit, kbit, mbit or gbit: "95mbit"), in bit/s. Decimal units, of bits. */
bool weir_rate(const char *text, double *bit_s);

/* For people: at most four digits and a unit ("23.1 kB", "94.8 Mbit/s", "2.31 ms"). size: 24 is enough. */
void weir_say_bytes(char *text, size_t size, double bytes);
void weir_say_rate(char *text, size_t size, double bit_s);
void weir_say_time(char *text, size_t size, double us);

#endif /* WEIR_UNITS_H */
