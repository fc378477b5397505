/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * law_vectors [--bpf OBJECT] FILE...: replays conformance vectors (tests/vectors/README.md) through the law as it was
 * compiled here, or through the BPF object with BPF_PROG_TEST_RUN. Exit 0: all match; 1: a mismatch, which is printed;
 * 2: wrong use, an unreadable file or a line that is no vector; 3: no permission for BPF.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "law_io.h"

#define LAW_IO_OFFSET 14
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *path;
static unsigned long line_number;
static int program_fd = -1;

static _Noreturn void fail(int status, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "law_vectors: ");
	if (path)
		fprintf(stderr, "%s:%lu: ", path, line_number);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

/* The text after "key":, or exit. Keys are quoted whole in the search, so tau_us does not find in_tau_us. */
static const char *value_of(const char *line, const char *key)
{
	char quoted[64];
	const char *found;
	int length = snprintf(quoted, sizeof(quoted), "\"%s\":", key);

	found = strstr(line, quoted);
	if (!found)
		fail(2, "key %s is missing", key);
	return found + length;
}

/* The number as 64 bits; a negative one as its two's complement, which is what a member of type s64 holds. */
static __u64 number(const char *line, const char *key)
{
	const char *text = value_of(line, key);
	char *end;
	__u64 value;

	errno = 0;
	value = *text == '-' ? (__u64)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	if (errno || end == text || (*end != ',' && *end != '}'))
		fail(2, "%s is no whole 64-bit number", key);
	return value;
}

static __u32 number32(const char *line, const char *key)
{
	__u64 value = number(line, key);

	if (value > 0xffffffff)
		fail(2, "%s = %" PRIu64 ": more than 32 bits", key, (uint64_t)value);
	return (__u32)value;
}

struct member {
	const char *key;
	size_t offset;
	size_t bytes;
};

#define MEMBER(structure, name) #name, offsetof(struct structure, name), sizeof(((struct structure *)0)->name)

#define PARAM(name) {MEMBER(weir_params, name)},
static const struct member params_members[] = {WEIR_PARAMS(PARAM)};
static const struct member state_members[] = {
	{MEMBER(weir_state, u_q40)}, {MEMBER(weir_state, last_us)},   {MEMBER(weir_state, o1_us)},
	{MEMBER(weir_state, o2_us)}, {MEMBER(weir_state, no_i_run)},  {MEMBER(weir_state, started)},
	{MEMBER(weir_state, row)},   {MEMBER(weir_state, u_ecn_q40)},
};
static const struct member spacing_members[] = {
	{MEMBER(weir_spacing, sum_q32)},
};
static const struct member flow_members[] = {
	{MEMBER(weir_flow, flow_bytes)},
	{MEMBER(weir_flow, flow_last_us)},
};
static const struct member share_members[] = {
	{MEMBER(weir_share, share_mean_q6)},
};
static const struct member rate_members[] = {
	{MEMBER(weir_rate, dq_time_q8_us)},
	{MEMBER(weir_rate, dq_count_bytes)},
	{MEMBER(weir_rate, dq_start_us)},
	{MEMBER(weir_rate, dq_on)},
};

static void set_members(void *structure, const struct member *members, size_t count, const char *line)
{
	for (size_t i = 0; i < count; i++) {
		void *member = (char *)structure + members[i].offset;

		if (members[i].bytes == 8)
			*(__u64 *)member = number(line, members[i].key);
		else
			*(__u32 *)member = number32(line, members[i].key);
	}
}

static unsigned long expect(const char *key, __u64 found, __u64 wanted)
{
	if (found == wanted)
		return 0;
	printf("%s:%lu: %s is %" PRId64 ", must be %" PRId64 "\n", path, line_number, key, (int64_t)found,
	       (int64_t)wanted);
	return 1;
}

static unsigned long expect_members(const void *structure, const struct member *members, size_t count, const char *line)
{
	unsigned long wrong = 0;

	for (size_t i = 0; i < count; i++) {
		const void *member = (const char *)structure + members[i].offset;
		__u64 found = members[i].bytes == 8 ? *(const __u64 *)member : *(const __u32 *)member;

		wrong += expect(members[i].key, found, number(line, members[i].key));
	}
	return wrong;
}

static void execute(struct law_io *io)
{
	char packet[LAW_IO_OFFSET + sizeof(*io)] = {0}, after[sizeof(packet)];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet), .data_out = after,
		    .data_size_out = sizeof(after), .repeat = 1);

	if (program_fd < 0) {
		if (law_execute(io))
			fail(2, "unknown operation %u", io->op);
		return;
	}
	memcpy(packet + LAW_IO_OFFSET, io, sizeof(*io));
	if (bpf_prog_test_run_opts(program_fd, &options))
		fail(2, "BPF_PROG_TEST_RUN: %s", strerror(errno));
	if (options.retval || options.data_size_out != sizeof(packet))
		fail(2, "the BPF program returned %u and %u bytes", options.retval, options.data_size_out);
	memcpy(io, after + LAW_IO_OFFSET, sizeof(*io));
}

/* Returns how many values differ. */
static unsigned long replay_line(struct law_io *io, const char *line)
{
	const char *op = value_of(line, "op");
	unsigned long wrong = 0;

	if (!strncmp(op, "\"params\"", 8)) {
		memset(io, 0, sizeof(*io));
		set_members(&io->params, params_members, COUNT(params_members), line);
	} else if (!strncmp(op, "\"state\"", 7)) {
		set_members(&io->state, state_members, COUNT(state_members), line);
	} else if (!strncmp(op, "\"spacing\"", 9)) {
		set_members(&io->spacing, spacing_members, COUNT(spacing_members), line);
	} else if (!strncmp(op, "\"rate\"", 6)) {
		set_members(&io->rate, rate_members, COUNT(rate_members), line);
	} else if (!strncmp(op, "\"flow\"", 6)) {
		set_members(&io->flow, flow_members, COUNT(flow_members), line);
		set_members(&io->share, share_members, COUNT(share_members), line);
	} else if (!strncmp(op, "\"arrival\"", 9)) {
		io->op = LAW_ARRIVAL;
		io->now_us = number(line, "in_now_us");
		io->len_bytes = number(line, "in_len_bytes");
		execute(io);
		wrong += expect("size", io->result, number(line, "size"));
		wrong += expect_members(&io->flow, flow_members, COUNT(flow_members), line);
		wrong += expect_members(&io->share, share_members, COUNT(share_members), line);
	} else if (!strncmp(op, "\"update\"", 8)) {
		io->op = LAW_UPDATE;
		io->now_us = number(line, "in_now_us");
		io->tau_us = number32(line, "in_tau_us");
		execute(io);
		wrong += expect("stepped", io->result, number(line, "stepped"));
		wrong += expect_members(&io->state, state_members, COUNT(state_members), line);
	} else if (!strncmp(op, "\"departure\"", 11)) {
		io->op = LAW_DEPARTURE;
		io->now_us = number(line, "in_now_us");
		io->len_bytes = number(line, "in_len_bytes");
		io->backlog_bytes = number(line, "in_backlog_bytes");
		execute(io);
		wrong += expect_members(&io->rate, rate_members, COUNT(rate_members), line);
	} else if (!strncmp(op, "\"tau\"", 5)) {
		io->op = LAW_TAU;
		io->backlog_bytes = number(line, "in_backlog_bytes");
		execute(io);
		wrong += expect("tau_us", io->result, number(line, "tau_us"));
	} else if (!strncmp(op, "\"decide\"", 8)) {
		io->op = LAW_DECIDE;
		io->backlog_bytes = number(line, "in_backlog_bytes");
		io->tau_us = number32(line, "in_tau_us");
		io->ect = number32(line, "in_ect");
		io->size = number32(line, "in_size");
		io->rand_a = number32(line, "in_rand_a");
		io->rand_b = number32(line, "in_rand_b");
		execute(io);
		wrong += expect("verdict", io->result, number(line, "verdict"));
		wrong += expect_members(&io->spacing, spacing_members, COUNT(spacing_members), line);
	} else {
		fail(2, "unknown op");
	}
	return wrong;
}

static unsigned long replay(const char *file, unsigned long *operations)
{
	struct law_io io = {0};
	unsigned long wrong = 0;
	char line[4096];
	FILE *stream = fopen(file, "r");

	if (!stream)
		fail(2, "%s: %s", file, strerror(errno));
	path = file;
	for (line_number = 1; fgets(line, sizeof(line), stream); line_number++) {
		if (!strchr(line, '\n'))
			fail(2, "line is longer than %zu bytes or cut off", sizeof(line) - 2);
		if (line_number == 1 && !strstr(line, "\"op\":\"params\""))
			fail(2, "a file must begin with params");
		wrong += replay_line(&io, line);
		++*operations;
	}
	if (line_number == 1)
		fail(2, "no vectors in it");
	path = NULL;
	fclose(stream);
	return wrong;
}

int main(int count, char **arguments)
{
	unsigned long operations = 0, wrong = 0;
	int first = 1;

	if (count > 2 && !strcmp(arguments[1], "--bpf")) {
		struct bpf_object *object = bpf_object__open_file(arguments[2], NULL);
		int error = object ? bpf_object__load(object) : -errno;

		if (error)
			fail(error == -EPERM ? 3 : 2, "%s: %s", arguments[2], strerror(-error));
		program_fd = bpf_program__fd(bpf_object__find_program_by_name(object, "law_vectors"));
		first = 3;
	}
	if (first >= count)
		fail(2, "usage: law_vectors [--bpf OBJECT] FILE...");
	for (int i = first; i < count; i++)
		wrong += replay(arguments[i], &operations);
	printf("%lu operations in %d files, %lu differences\n", operations, count - first, wrong);
	return wrong ? 1 : 0;
}
