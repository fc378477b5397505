/* SPDX-License-Identifier: Apache-2.0 */
/* Any lines as the words of a command line, for each command of weir-xdp. */
#include "input.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/coupling.h"
#include "weir-xdp/directions.h"
#include "weir-xdp/options.h"
#include "weir-xdp/values.h"

#define WORDS_MAX 64

static void run(enum command_bit command, int argc, char **argv)
{
	struct request r = {.peer_netns = "", .netns = "", .pins = "/", .name = "", .dev = argv[0]};
	char *words[WORDS_MAX + 1];
	struct weir_coupling coupling;
	struct directions d;
	struct weir_gains gains;
	struct weir_config config = {.signal = WEIR_SIGNAL_VIRTUAL};

	memcpy(words, argv, sizeof(words));
	optind = 0;
	if (!read_options(&r, command, argc, words)) {
		PROMISE(optind <= argc);
		r.word = words + optind;
		r.words = argc - optind;
		if (!directions_of(&r, &d))
			request_check(&d.egress);
		directions_free(&d);
		if (!read_gains(&r, &gains, &coupling))
			PROMISE(!weir_gains_check(&gains));
		for (int i = 0; i < r.words; i++)
			apply_pair(&r, r.word[i], &gains, &config, &r.rate_bit_s);
	}
	free((char *)r.peer);
	free(r.class);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = input_text(data, size), *rest = text, *word, *argv[WORDS_MAX + 1] = {0}, said[512];
	int argc = 0;

	weir_error_into(said, sizeof(said));
	argv[argc++] = "command";
	while (argc < WORDS_MAX && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	for (int bit = ATTACH; bit < ALL; bit <<= 1)
		run((enum command_bit)bit, argc, argv);
	free(text);
	return 0;
}
