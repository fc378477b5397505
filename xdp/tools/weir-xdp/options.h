/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all commands, in one table. */
#ifndef WEIR_XDP_OPTIONS_H
#define WEIR_XDP_OPTIONS_H

#include <stdio.h>

#include "weir-xdp/request.h"

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

/* Commands that take an option: any of these together. */
enum command_bit {
	ATTACH = 1,
	ADOPT = 2,
	DETACH = 4,
	STATUS = 8,
	SET = 16,
	WATCH = 32,
	ENSURE = 64,
	DAEMON = 128,
	FLOWS = 256,
	ALL = 511
};

/*
 * Reads the options of a command, argv[0] being its name, and leaves optind at the first argument that is none. 0; -1
 * after one line; or what else was asked for.
 */
enum { ASKED_HELP = 1, ASKED_VERSION };
int read_options(struct request *r, enum command_bit command, int argc, char **argv);

/* One class more: 1:10, or 1: for all of htb 1:. 0, or -1 after one line. */
int read_class(struct request *r, char *value);

/* The options as --help lists them. */
void options_help(FILE *out);

#endif /* WEIR_XDP_OPTIONS_H */
