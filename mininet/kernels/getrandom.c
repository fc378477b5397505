// SPDX-License-Identifier: Apache-2.0
// Preloaded into the User-Mode Linux process. The lab kernel's only source of entropy is the host's getrandom();
// this answers it from a generator seeded with WEIR_LAB_SEED, so that a seed names a run.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
static uint64_t next_u64(void)
{
	static uint64_t state;
	static int seeded;

	if (!seeded) {
		const char *seed = getenv("WEIR_LAB_SEED");

		state = seed ? strtoull(seed, NULL, 10) : 0;
		seeded = 1;
	}
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *out = buffer;

	(void)flags;
	for (size_t i = 0; i < length;) {
		uint64_t word = next_u64();

		for (int k = 0; k < 8 && i < length; k++, i++, word >>= 8)
			out[i] = (unsigned char)word;
	}
	return (ssize_t)length;
}
