/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet source and sink for the benchmark, without a clock in the loop but one reading per batch.   flood send
 * ADDRESS PORT SECONDS   UDP datagrams of 1372 bytes (1400 on the wire, less the link header);
 *                                     prints how many, and packets per second
 *   flood classes ADDRESS PORT SECONDS N EVERY_US
 *                                     the same to each of N classes in turn, 1:1 and those after it, by the priority,
 *                                     all of them each EVERY_US; prints how many
 *   flood raw INTERFACE SECONDS       Ethernet frames of 1414 bytes nobody listens to: the least a packet can cost
 *   flood sink PORT                   reads datagrams until its input ends; prints how many
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64
#define LOAD_BYTES 1372
#define FRAME_BYTES 1414
#define WINDOW_NS 2000000
#define MAX_WINDOWS 10000

static int fail(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	return 1;
}

static long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

/* Counts in windows short enough that most see no other process: their upper decile is what the path can do. */
static int flood(int sock, const void *data, size_t len, double seconds)
{
	static double rates[MAX_WINDOWS];
	struct iovec iov = {(void *)data, len};
	struct mmsghdr batch[BATCH] = {0};
	long long start, end, now, window, sent = 0, before = 0;
	size_t windows = 0;

	for (int i = 0; i < BATCH; i++)
		batch[i].msg_hdr = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
	start = window = now_ns();
	end = start + (long long)(seconds * 1e9);
	do {
		int done = sendmmsg(sock, batch, BATCH, 0);

		if (done < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
			return fail("send");
		sent += done > 0 ? done : 0;
		now = now_ns();
		if (now - window >= WINDOW_NS && windows < MAX_WINDOWS) {
			rates[windows++] = (double)(sent - before) * 1e9 / (double)(now - window);
			before = sent;
			window = now;
		}
	} while (now < end);
	if (!windows) {
		fprintf(stderr, "flood: %g s: must be longer than a window of %d ns\n", seconds, WINDOW_NS);
		return 1;
	}
	qsort(rates, windows, sizeof(*rates), by_value);
	printf("%lld %.0f\n", sent, rates[windows * 9 / 10]);
	return 0;
}

/* Packets beyond the limit of a class's queue are lost, and count. */
static int to_classes(int sock, double seconds, int classes, long long every_us)
{
	static const char data[LOAD_BYTES];
	long long start = now_ns(), sent = 0;

	for (long long round = 0; now_ns() - start < (long long)(seconds * 1e9); round++) {
		long long due_ns = start + round * every_us * 1000;
		struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		for (int i = 1; i <= classes; i++, sent++) {
			int priority = 0x10000 + i;

			if (setsockopt(sock, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
				return fail("SO_PRIORITY");
			if (send(sock, data, sizeof(data), MSG_DONTWAIT) < 0 && errno != ENOBUFS && errno != EAGAIN &&
			    errno != ECONNREFUSED)
				return fail("send");
		}
	}
	printf("%lld\n", sent);
	return 0;
}

static int sink(int sock)
{
	static char buffers[BATCH][64];
	struct iovec iov[BATCH];
	struct mmsghdr batch[BATCH] = {0};
	struct pollfd ready[] = {{.fd = sock, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
	long long got = 0;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){buffers[i], sizeof(buffers[i])};
		batch[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	printf("ready\n");
	fflush(stdout);
	while (poll(ready, 2, -1) > 0 && !ready[1].revents) {
		int done = recvmmsg(sock, batch, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);

		got += done > 0 ? done : 0;
	}
	printf("%lld\n", got);
	return 0;
}

int main(int argc, char **argv)
{
	static char data[FRAME_BYTES];
	struct sockaddr_in address = {.sin_family = AF_INET};
	int sock;

	if (argc == 5 && !strcmp(argv[1], "send")) {
		sock = socket(AF_INET, SOCK_DGRAM, 0);
		address.sin_port = htons((in_port_t)atoi(argv[3]));
		if (sock < 0 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1 ||
		    connect(sock, (struct sockaddr *)&address, sizeof(address)))
			return fail(argv[2]);
		return flood(sock, data, LOAD_BYTES, atof(argv[4]));
	}
	if (argc == 7 && !strcmp(argv[1], "classes")) {
		int room = 1 << 28;

		sock = socket(AF_INET, SOCK_DGRAM, 0);
		address.sin_port = htons((in_port_t)atoi(argv[3]));
		if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
		    inet_pton(AF_INET, argv[2], &address.sin_addr) != 1 ||
		    connect(sock, (struct sockaddr *)&address, sizeof(address)))
			return fail(argv[2]);
		return to_classes(sock, atof(argv[4]), atoi(argv[5]), atoll(argv[6]));
	}
	if (argc == 4 && !strcmp(argv[1], "raw")) {
		struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[2])};

		sock = socket(AF_PACKET, SOCK_RAW, 0);
		if (sock < 0 || !link.sll_ifindex || bind(sock, (struct sockaddr *)&link, sizeof(link)))
			return fail(argv[2]);
		memset(data, 2, 12); /* to nobody: the far end drops it as early as it can */
		memcpy(data + 12, "\x08\x00\x45", 3);
		return flood(sock, data, FRAME_BYTES, atof(argv[3]));
	}
	if (argc == 3 && !strcmp(argv[1], "sink")) {
		sock = socket(AF_INET, SOCK_DGRAM, 0);
		address.sin_port = htons((in_port_t)atoi(argv[2]));
		if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)))
			return fail(argv[2]);
		return sink(sock);
	}
	fprintf(stderr, "flood: must be `send ADDRESS PORT SECONDS`, `classes ADDRESS PORT SECONDS N EVERY_US`, `raw "
			"INTERFACE SECONDS` or `sink PORT`\n");
	return 2;
}
