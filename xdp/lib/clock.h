/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <time.h>

#include "weir/law.h"

/* CLOCK_MONOTONIC, which is what the programs go by, too. */
static inline __u64 weir_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (__u64)ts.tv_sec * 1000000000ULL + (__u64)ts.tv_nsec;
}

/* The time between the two; 0 where the second is the later one. */
static inline __u64 weir_since_ns(__u64 now_ns, __u64 then_ns)
{
	return now_ns - then_ns < WEIR_CLOCK_BACK ? now_ns - then_ns : 0;
}

#endif /* WEIR_CLOCK_H */
