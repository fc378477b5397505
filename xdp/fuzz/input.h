/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's bytes as text and as a file. */
#ifndef WEIR_FUZZ_INPUT_H
#define WEIR_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Fails the run, as a promise that was broken. */
#define PROMISE(holds)                                                                                                 \
	do {                                                                                                           \
		if (!(holds))                                                                                          \
			__builtin_trap();                                                                              \
	} while (0)

/* A string of its own allocation, in which the sanitizer knows the end. */
char *input_text(const uint8_t *data, size_t size);

/* The path of a file with these bytes, the same at each call. It is the only one that the code under test can open. */
const char *input_file(const void *data, size_t size);

/* The code under test prints what is wrong with its input; nobody reads that here. */
void input_mute(void);

#endif /* WEIR_FUZZ_INPUT_H */
