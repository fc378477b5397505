// SPDX-License-Identifier: Apache-2.0
// Paced UDP for the lab, as voice and games send it: each packet timed on its way, with samples as JSON lines.
//
// With --count the flows are numbered N, N + stride, ... Each starts at random within the spread and then sends every
// 1/R s by the clock, however long its last packet took to send. Times given are seconds after the program's start. A
// packet begins with three numbers of 8 bytes: its flow, its place in the flow (from 0), and when it was sent.
//
// The sender leaves a line for each packet: {"k":"sent","t_us","flow","seq"}. So does the receiver, which ends well on
// SIGTERM: {"k":"heard","t_us","flow","seq","sent_us","bytes","ce"}. Times are CLOCK_MONOTONIC in microseconds. With
// --echo the receiver also sends each packet back; a sender with --echo leaves the line of its return.
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "program.h"

static const char usage[] =
	"usage: weir-paced receive --port P --out FILE [--echo]\n"
	"       weir-paced send --to ADDR:PORT --out FILE --packets-per-s R [--bytes B] [--tos N] [--echo] FLOWS "
	"TIMES\n"
	"\n"
	"FLOWS: --flow N [--count N] [--stride N]    TIMES: --start-s S [--spread-s S] --until-s S\n"
	"\n"
	"exit status: 0 done, 1 failed, 2 wrong call.\n";

#define MAX_FLOWS 1024
#define MAX_BYTES 1472

struct paced {
	uint64_t flow, seq, sent_us;
};

struct options {
	const char *to, *out;
	uint64_t port, bytes, flow, count, stride;
	double packets_per_s, start_s, spread_s, until_s;
	int tos;
	bool echo;
};

const char *const program_name = "weir-paced";

// The packets that have arrived, sent back with `echo`.
static void take(int fd, bool echo, FILE *out)
{
	static char packet[MAX_BYTES];
	char control[64];
	struct sockaddr_in from;
	struct paced head;

	for (;;) {
		struct iovec part = {.iov_base = packet, .iov_len = sizeof(packet)};
		struct msghdr message = {.msg_name = &from,
					 .msg_namelen = sizeof(from),
					 .msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
		bool marked = false;

		if (n < (ssize_t)sizeof(head))
			return;
		memcpy(&head, packet, sizeof(head));
		// A reply that finds no space is a lost packet.
		if (echo && sendto(fd, packet, (size_t)n, MSG_NOSIGNAL, (struct sockaddr *)&from, sizeof(from)) < 0 &&
		    errno != ENOBUFS)
			die("reply: %s", strerror(errno));
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
			if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS && (*CMSG_DATA(c) & 3) == 3)
				marked = true;
		fprintf(out,
			"{\"k\":\"heard\",\"t_us\":%" PRIu64 ",\"flow\":%" PRIu64 ",\"seq\":%" PRIu64
			",\"sent_us\":%" PRIu64 ",\"bytes\":%zd,\"ce\":%d}\n",
			now_us(), head.flow, head.seq, head.sent_us, n, marked);
	}
}

static void receive(const struct options *o, FILE *out)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
	int one = 1, buffer = 1 << 20, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd watched[] = {{.fd = fd, .events = POLLIN}, {.fd = terminations(), .events = POLLIN}};

	setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die("port %" PRIu64 ": %s", o->port, strerror(errno));
	puts("ready");
	fflush(stdout);
	while (!watched[1].revents)
		if (poll(watched, 2, -1) > 0 && watched[0].revents)
			take(fd, o->echo, out);
}

// Waits until a time; meanwhile takes the packets that return.
static void wait_for_echoes(int fd, uint64_t until_us, FILE *out)
{
	struct pollfd watched = {.fd = fd, .events = POLLIN};

	for (uint64_t now = now_us(); now < until_us; now = now_us()) {
		uint64_t left_us = until_us - now;
		struct timespec left = {.tv_sec = (time_t)(left_us / 1000000),
					.tv_nsec = (long)(left_us % 1000000) * 1000};

		if (ppoll(&watched, 1, &left, NULL) > 0)
			take(fd, false, out);
	}
}

static void send_paced(const struct options *o, FILE *out)
{
	static uint64_t starts_us[MAX_FLOWS], sent[MAX_FLOWS], due_us[MAX_FLOWS];
	static char packet[MAX_BYTES];
	struct sockaddr_in to = address(o->to);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t began_us = now_us(), end_us = began_us + (uint64_t)(o->until_s * 1e6);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("%s: %s", o->to, strerror(errno));
	if (setsockopt(fd, IPPROTO_IP, IP_TOS, &o->tos, sizeof(o->tos)))
		die("--tos %d: %s", o->tos, strerror(errno));
	for (uint64_t i = 0; i < o->count; i++)
		due_us[i] = starts_us[i] = began_us + (uint64_t)((o->start_s + o->spread_s * drawn_share()) * 1e6);
	for (;;) {
		uint64_t next = 0;

		for (uint64_t i = 1; i < o->count; i++)
			if (due_us[i] < due_us[next])
				next = i;
		if (due_us[next] >= end_us)
			return;
		if (o->echo)
			wait_for_echoes(fd, due_us[next], out);
		sleep_until(due_us[next]);
		struct paced head = {.flow = o->flow + next * o->stride, .seq = sent[next]++, .sent_us = now_us()};

		memcpy(packet, &head, sizeof(head));
		// A full queue of our own host or a sink that has ended is loss like any other.
		if (send(fd, packet, o->bytes, MSG_NOSIGNAL) < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
			die("%s: %s", o->to, strerror(errno));
		fprintf(out, "{\"k\":\"sent\",\"t_us\":%" PRIu64 ",\"flow\":%" PRIu64 ",\"seq\":%" PRIu64 "}\n",
			head.sent_us, head.flow, head.seq);
		due_us[next] = starts_us[next] + (uint64_t)((double)sent[next] * 1e6 / o->packets_per_s);
	}
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{"to", 1, 0, 0},
		{"out", 1, 0, 0},
		{"port", 1, 0, 0},
		{"bytes", 1, 0, 0},
		{"flow", 1, 0, 0},
		{"count", 1, 0, 0},
		{"stride", 1, 0, 0},
		{"tos", 1, 0, 0},
		{"packets-per-s", 1, 0, 0},
		{"start-s", 1, 0, 0},
		{"spread-s", 1, 0, 0},
		{"until-s", 1, 0, 0},
		{"echo", 0, 0, 0},
		{0},
	};
	struct options o = {.port = 5202, .bytes = 160, .count = 1, .stride = 1, .until_s = 10};
	bool sender = argc > 1 && !strcmp(argv[1], "send");
	int index;
	FILE *out;

	help(argc, argv, usage);
	if (argc < 2 || (!sender && strcmp(argv[1], "receive")))
		misused("the first word is send or receive; see --help");
	const char *mode = argv[1];

	argv[1] = (char *)program_name; // getopt's messages begin with it
	for (int c; (c = getopt_long(argc - 1, argv + 1, "", names, &index)) != -1;) {
		const char *name = c == 0 ? names[index].name : "";

		if (c != 0)
			return 2;
		if (!strcmp(name, "to"))
			o.to = optarg;
		else if (!strcmp(name, "out"))
			o.out = optarg;
		else if (!strcmp(name, "port"))
			o.port = (uint64_t)number(name, optarg, 1, 65535);
		else if (!strcmp(name, "bytes"))
			o.bytes = (uint64_t)number(name, optarg, sizeof(struct paced), MAX_BYTES);
		else if (!strcmp(name, "flow"))
			o.flow = (uint64_t)number(name, optarg, 0, 1e9);
		else if (!strcmp(name, "count"))
			o.count = (uint64_t)number(name, optarg, 1, MAX_FLOWS);
		else if (!strcmp(name, "stride"))
			o.stride = (uint64_t)number(name, optarg, 1, 1e6);
		else if (!strcmp(name, "tos"))
			o.tos = (int)number(name, optarg, 0, 255);
		else if (!strcmp(name, "packets-per-s"))
			o.packets_per_s = number(name, optarg, 1e-3, 1e5);
		else if (!strcmp(name, "start-s"))
			o.start_s = number(name, optarg, 0, 1e6);
		else if (!strcmp(name, "echo"))
			o.echo = true;
		else if (!strcmp(name, "spread-s"))
			o.spread_s = number(name, optarg, 0, 1e6);
		else
			o.until_s = number(name, optarg, 0, 1e6);
	}
	if (!o.out)
		misused("%s needs --out FILE", mode);
	if (sender && (!o.to || o.packets_per_s <= 0))
		misused("send needs --to ADDRESS:PORT and --packets-per-s");
	if (!(out = fopen(o.out, "w")))
		die("%s: %s", o.out, strerror(errno));
	if (sender)
		send_paced(&o, out);
	else
		receive(&o, out);
	if (fclose(out))
		die("%s: %s", o.out, strerror(errno));
	return 0;
}
