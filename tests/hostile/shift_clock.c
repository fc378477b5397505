/* SPDX-License-Identifier: Apache-2.0 */
/* A time of day that jumps: each look at CLOCK_REALTIME is a day later than the last, or 36 hours earlier, in turn.
 * Other clocks are the kernel's. Preloaded (LD_PRELOAD) by test_clocks.py. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static long looks;
	long look, result = syscall(SYS_clock_gettime, clock, now);

	if (result || clock != CLOCK_REALTIME)
		return (int)result;
	look = __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED) % 1000;
	now->tv_sec += look % 2 ? -look * 43200 : look * 43200;
	return 0;
}
