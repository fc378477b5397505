// SPDX-License-Identifier: Apache-2.0
// Preloaded into every program of an exact lab when WEIR_LAB_CLOCK_READS is set: each reads the clock that many times
// more as it starts, and looks as often for a file that is not there. The number of these calls at a program's start
// differs from one installation of Debian to the next: this is another installation's run, on this one.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void start_as_elsewhere(void)
{
	const char *text = getenv("WEIR_LAB_CLOCK_READS");
	struct timespec now;

	for (long left = text ? strtol(text, NULL, 10) : 0; left > 0; left--) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		access("/nowhere", F_OK);
	}
}
