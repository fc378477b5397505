// SPDX-License-Identifier: Apache-2.0
// Preloaded into every program of an exact lab when WEIR_LAB_CLOCK_READS is set: each reads the clock that many times
// more as it starts. A reading takes 256 ns of the lab's time, and how many a program makes until it is at work differs
// from one installation of Debian to the next: this is another installation's equally valid run, on this one.
#include <stdlib.h>
#include <time.h>

__attribute__((constructor)) static void read_the_clock(void)
{
	const char *text = getenv("WEIR_LAB_CLOCK_READS");
	struct timespec now;

	for (long left = text ? strtol(text, NULL, 10) : 0; left > 0; left--)
		clock_gettime(CLOCK_MONOTONIC, &now);
}
