// SPDX-License-Identifier: Apache-2.0
// Bulk TCP, short TCP transfers and constant-rate UDP for the lab, with samples as JSON lines.
//
// Ready-made tools spin on the clock somewhere (iperf3 at its end), which in a lab of virtual time means to stand
// still: here every wait is a blocking epoll_wait, and a receiver wakes once per 16 kB, not once per packet.
//
// With --count the flows are numbered N, N + stride, ... A rate is each flow's. Flows start at random within the
// spread. The sink ends well on SIGTERM. Times given are seconds after the program's start. A flow's number travels in
// the first 8 bytes it sends (each datagram's, with UDP). The sink is the server; a congestion control that has each
// mark echoed to it, as dctcp, must be the sink's, too. Samples: {"k":"flow",...} every 100 ms, times in
// CLOCK_MONOTONIC microseconds. With --on-s and --off-s UDP sends at its rate for the one and nothing for the other, in
// turn. With --burst-bytes a TCP flow has that much more to send every --burst-every-s, and nothing else.
//
// A line of a plan is a transfer over a connection of its own: microseconds after --start-s, the number of the flow
// that the sink counts its bytes to, its own number, bytes. Lines are in order of time. When the sink has all, and has
// said so by closing: {"k":"short","t_us","flow":"GROUP.NUMBER","bytes","fct_us"}, fct_us counting from the
// connection's start; what is under way at the end has "open":1 and the time so far.
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "program.h"

static const char usage[] =
	"usage: weir-traffic sink --port P --stats FILE --until-s S [--cc NAME]\n"
	"       weir-traffic tcp --to ADDR:PORT --cc NAME --mss BYTES --stats FILE FLOWS TIMES [--burst-bytes B "
	"--burst-every-s S]\n"
	"       weir-traffic udp --to ADDR:PORT --rate-bit-s R --bytes B FLOWS TIMES [--ecn] [--on-s S --off-s S]\n"
	"       weir-traffic short --to ADDR:PORT --cc NAME --mss BYTES --stats FILE --plan FILE --group N --start-s S "
	"--until-s S\n"
	"\n"
	"FLOWS: --flow N [--count N] [--stride N]    TIMES: --start-s S [--spread-s S] --until-s S\n"
	"\n"
	"exit status: 0 done, 1 failed, 2 wrong call.\n";

#define MAX_FLOWS 1024
#define SAMPLE_US 100000
#define RECEIVE_LOW_WATER_BYTES 16384
#define SEND_CHUNK_BYTES 65536
// Unsent data kept in a socket: enough to fill the window between two wake-ups, no more.
#define NOT_SENT_LOW_WATER_BYTES 131072
// In a flow's number: a short transfer's, whose bytes are counted with those of all that have the same.
#define SHORT_BIT (1ULL << 63)

enum { NO_FLOW = MAX_FLOWS };

struct flow {
	int fd;
	bool udp;
	bool known;		   // the first 8 bytes have come or gone
	bool total;		   // no connection: what short transfers have brought together
	size_t counted_to;	   // a short transfer's total, by its place in `flows`; else NO_FLOW
	uint64_t began_us, wanted; // of a short transfer on the sending side
	uint64_t offered;	   // what the application of a long TCP flow has had to send so far
	uint64_t id;
	uint64_t bytes;
	uint64_t received; // datagrams, or 0
	uint64_t marked;   // datagrams with CE
	struct sockaddr_in from;
};

struct options {
	const char *mode, *to, *cc, *stats, *plan;
	uint64_t flow, count, stride, port, mss, bytes, group, burst_bytes;
	double rate_bit_s, start_s, spread_s, until_s, on_s, off_s, burst_every_s;
	bool ecn;
};

static struct flow flows[MAX_FLOWS];
static size_t flow_count;
static FILE *stats;
static char buffer[SEND_CHUNK_BYTES];

static int timer_every(uint64_t first_us, uint64_t every_us)
{
	struct itimerspec spec = {
		.it_value = {.tv_sec = (time_t)(first_us / 1000000), .tv_nsec = (long)(first_us % 1000000) * 1000},
		.it_interval = {.tv_sec = (time_t)(every_us / 1000000), .tv_nsec = (long)(every_us % 1000000) * 1000},
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL))
		die("timer: %s", strerror(errno));
	return fd;
}

// A start for one flow: at random within the spread.
static uint64_t drawn_start_us(const struct options *o, uint64_t began_us)
{
	return began_us + (uint64_t)((o->start_s + o->spread_s * drawn_share()) * 1e6);
}

static uint64_t timer_ticks(int fd)
{
	uint64_t ticks = 0;

	return read(fd, &ticks, sizeof(ticks)) == sizeof(ticks) ? ticks : 0;
}

static void watch(int epoll, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
}

static void sample(const char *side, uint64_t at_us)
{
	for (size_t i = 0; i < flow_count; i++) {
		const struct flow *f = &flows[i];
		struct tcp_info info = {0};
		socklen_t size = sizeof(info);

		if (!f->known || f->counted_to != NO_FLOW)
			continue;
		if (!f->udp && !f->total && getsockopt(f->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
			continue;
		bool sender = *side == 'c';
		fprintf(stats,
			"{\"k\":\"flow\",\"t_us\":%" PRIu64 ",\"side\":\"%s\",\"flow\":%" PRIu64 ",\"bytes\":%" PRIu64,
			at_us, side, f->id, sender && !f->udp ? (uint64_t)info.tcpi_bytes_acked : f->bytes);
		if (f->total)
			fputs("}\n", stats);
		else if (f->udp)
			fprintf(stats, ",\"recv\":%" PRIu64 ",\"ce\":%" PRIu64 "}\n", f->received, f->marked);
		else if (sender)
			fprintf(stats,
				",\"rtt_us\":%u,\"min_rtt_us\":%u,\"cwnd_bytes\":%" PRIu64
				",\"lost\":%u,\"sent\":%u,\"retx_bytes\":%" PRIu64 ",\"ce\":%u}\n",
				info.tcpi_rtt, info.tcpi_min_rtt, (uint64_t)info.tcpi_snd_cwnd * info.tcpi_snd_mss,
				info.tcpi_total_retrans, info.tcpi_data_segs_out, (uint64_t)info.tcpi_bytes_retrans,
				info.tcpi_delivered_ce);
		else
			fprintf(stats, ",\"recv\":%u}\n", info.tcpi_data_segs_in);
	}
}

// ---- receiver: TCP and UDP on one port -------------------------------------------------------------------------

// A place in `flows`, of one that has been there or a new one.
static size_t new_flow(struct flow f)
{
	size_t i = 0;

	while (i < flow_count && (flows[i].fd >= 0 || flows[i].udp || flows[i].total))
		i++;
	if (i == MAX_FLOWS)
		die("more than %d flows", MAX_FLOWS);
	if (i == flow_count)
		flow_count++;
	flows[i] = f;
	return i;
}

static size_t total_of(uint64_t id)
{
	for (size_t i = 0; i < flow_count; i++)
		if (flows[i].total && flows[i].id == id)
			return i;
	return new_flow((struct flow){.fd = -1, .total = true, .known = true, .counted_to = NO_FLOW, .id = id});
}

// Takes what is there. A short transfer that is over frees its place; the socket of a long one is kept, for its counts.
// Returns whether the connection has come to its end.
static bool take_tcp(struct flow *f)
{
	while (f->fd >= 0) {
		// MSG_TRUNC: the kernel throws the bytes away, which is all that a sink would do with them.
		ssize_t n = f->known ? recv(f->fd, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT)
				     : recv(f->fd, &f->id, sizeof(f->id), MSG_DONTWAIT | MSG_WAITALL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n <= 0) {
			if (f->counted_to == NO_FLOW)
				return true;
			close(f->fd);
			*f = (struct flow){.fd = -1, .counted_to = NO_FLOW};
			return false;
		}
		if (!f->known && n != sizeof(f->id))
			die("a TCP flow began with %zd bytes, not its 8-byte number", n);
		if (!f->known && f->id & SHORT_BIT)
			f->counted_to = total_of(f->id & ~SHORT_BIT);
		f->known = true;
		if (f->counted_to == NO_FLOW)
			f->bytes += (uint64_t)n;
		else
			flows[f->counted_to].bytes += (uint64_t)n;
	}
	return false;
}

static void take_udp(int fd)
{
	char control[64];
	uint64_t id;

	for (;;) {
		struct iovec part = {.iov_base = &id, .iov_len = sizeof(id)};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(fd, &message, MSG_TRUNC | MSG_DONTWAIT);
		size_t i = 0;

		if (n < (ssize_t)sizeof(id))
			return;
		while (i < flow_count && !(flows[i].udp && flows[i].id == id))
			i++;
		if (i == flow_count)
			i = new_flow(
				(struct flow){.fd = -1, .udp = true, .known = true, .counted_to = NO_FLOW, .id = id});
		flows[i].bytes += (uint64_t)n;
		flows[i].received++;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
			if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS && (*CMSG_DATA(c) & 3) == 3)
				flows[i].marked++;
	}
}

static int run_sink(const struct options *o)
{
	enum { TAG_LISTEN = MAX_FLOWS, TAG_UDP, TAG_SAMPLE, TAG_END };
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
	int one = 1, low = RECEIVE_LOW_WATER_BYTES, udp_buffer = 1 << 20;
	uint64_t began_us = now_us(), end_us = began_us + (uint64_t)(o->until_s * 1e6);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, o->cc, (socklen_t)strlen(o->cc)))
		die("congestion control '%s': %s", o->cc, strerror(errno));
	setsockopt(udp, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &udp_buffer, sizeof(udp_buffer));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 256) ||
	    bind(udp, (struct sockaddr *)&at, sizeof(at)))
		die("port %" PRIu64 ": %s", o->port, strerror(errno));
	watch(epoll, listener, EPOLLIN, TAG_LISTEN);
	watch(epoll, udp, EPOLLIN, TAG_UDP);
	int tick = timer_every(began_us + SAMPLE_US, SAMPLE_US), end = timer_every(end_us, 0);
	watch(epoll, tick, EPOLLIN, TAG_SAMPLE);
	watch(epoll, end, EPOLLIN, TAG_END);
	watch(epoll, terminations(), EPOLLIN, TAG_END);
	puts("ready");
	fflush(stdout);

	for (;;) {
		struct epoll_event events[64];
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			uint64_t tag = events[i].data.u64;

			if (tag < MAX_FLOWS) {
				if (take_tcp(&flows[tag]))
					epoll_ctl(epoll, EPOLL_CTL_DEL, flows[tag].fd, NULL);
			} else if (tag == TAG_LISTEN) {
				int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

				if (fd < 0)
					continue;
				setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
				watch(epoll, fd, EPOLLIN | EPOLLRDHUP,
				      new_flow((struct flow){.fd = fd, .counted_to = NO_FLOW}));
			} else if (tag == TAG_UDP) {
				take_udp(udp);
			} else if (tag == TAG_SAMPLE && timer_ticks(tick)) {
				// Below the low-water mark nobody woke us: take what is there, so that samples are
				// exact.
				for (size_t f = 0; f < flow_count; f++)
					if (!flows[f].udp)
						take_tcp(&flows[f]);
				sample("server", now_us());
			} else if (tag == TAG_END) {
				sample("server", now_us());
				return 0;
			}
		}
	}
}

// ---- senders -----------------------------------------------------------------------------------------------------

static void connect_tcp(const struct options *o, struct flow *f, const struct sockaddr_in *to)
{
	int mss = (int)o->mss, low = NOT_SENT_LOW_WATER_BYTES;

	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (f->fd < 0)
		die("socket: %s", strerror(errno));
	if (setsockopt(f->fd, IPPROTO_TCP, TCP_CONGESTION, o->cc, (socklen_t)strlen(o->cc)))
		die("congestion control '%s': %s", o->cc, strerror(errno));
	// The option counts without the 12 bytes of timestamps that every segment carries.
	mss += 12;
	if (setsockopt(f->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss)))
		die("--mss %d: %s", (int)o->mss, strerror(errno));
	if (setsockopt(f->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low, sizeof(low)))
		die("TCP_NOTSENT_LOWAT: %s", strerror(errno));
	if (connect(f->fd, (const struct sockaddr *)to, sizeof(*to)) && errno != EINPROGRESS)
		die("%s: %s", o->to, strerror(errno));
}

static void fill_tcp(const struct options *o, struct flow *f)
{
	while (f->bytes < f->offered) {
		uint64_t left = f->offered - f->bytes;
		ssize_t n = f->known ? send(f->fd, buffer, left < sizeof(buffer) ? left : sizeof(buffer), MSG_NOSIGNAL)
				     : send(f->fd, &f->id, sizeof(f->id), MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EAGAIN)
				return;
			die("%s, flow %" PRIu64 ": %s", o->to, f->id, strerror(errno));
		}
		f->known = true;
		f->bytes += (uint64_t)n;
	}
}

static int run_tcp(const struct options *o)
{
	enum { TAG_START = MAX_FLOWS, TAG_SAMPLE = 2 * MAX_FLOWS, TAG_END };
	struct sockaddr_in to = address(o->to);
	uint64_t began_us = now_us(), end_us = began_us + (uint64_t)(o->until_s * 1e6);
	int epoll = epoll_create1(EPOLL_CLOEXEC), starts[MAX_FLOWS];
	int tick = timer_every(began_us + SAMPLE_US, SAMPLE_US), end = timer_every(end_us, 0);

	watch(epoll, tick, EPOLLIN, TAG_SAMPLE);
	watch(epoll, end, EPOLLIN, TAG_END);
	for (flow_count = 0; flow_count < o->count; flow_count++) {
		flows[flow_count] =
			(struct flow){.fd = -1, .counted_to = NO_FLOW, .id = o->flow + flow_count * o->stride};
		starts[flow_count] = timer_every(drawn_start_us(o, began_us), (uint64_t)(o->burst_every_s * 1e6));
		watch(epoll, starts[flow_count], EPOLLIN, TAG_START + flow_count);
	}
	for (;;) {
		struct epoll_event events[64];
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			uint64_t tag = events[i].data.u64;

			if (tag < MAX_FLOWS) {
				int error = 0;
				socklen_t size = sizeof(error);

				getsockopt(flows[tag].fd, SOL_SOCKET, SO_ERROR, &error, &size);
				if (error)
					die("%s, flow %" PRIu64 ": %s", o->to, flows[tag].id, strerror(error));
				fill_tcp(o, &flows[tag]);
			} else if (tag < TAG_SAMPLE) {
				struct flow *f = &flows[tag - TAG_START];
				uint64_t ticks = timer_ticks(starts[tag - TAG_START]);

				f->offered = o->burst_bytes ? f->offered + ticks * o->burst_bytes : UINT64_MAX;
				if (f->fd < 0) {
					connect_tcp(o, f, &to);
					watch(epoll, f->fd, EPOLLOUT | EPOLLET, tag - TAG_START);
				} else if (f->known) { // before that the socket's event is still to come
					fill_tcp(o, f);
				}
				if (!o->burst_bytes)
					close(starts[tag - TAG_START]);
			} else if (tag == TAG_SAMPLE && timer_ticks(tick)) {
				sample("client", now_us());
			} else if (tag == TAG_END) {
				sample("client", now_us());
				return 0;
			}
		}
	}
}

struct transfer {
	uint64_t at_us, flow, number, bytes;
};

// The next line of a plan; false at its end.
static bool next_transfer(FILE *plan, const struct options *o, struct transfer *t)
{
	int n = fscanf(plan, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &t->at_us, &t->flow, &t->number,
		       &t->bytes);

	if (n == EOF && !ferror(plan))
		return false;
	if (n != 4 || t->bytes < sizeof(uint64_t))
		die("%s: a line must be TIME FLOW NUMBER BYTES, at least 8 of these", o->plan);
	return true;
}

static void write_short(const struct options *o, const struct flow *f, uint64_t number, uint64_t at_us, bool open)
{
	fprintf(stats,
		"{\"k\":\"short\",\"t_us\":%" PRIu64 ",\"flow\":\"%" PRIu64 ".%" PRIu64 "\",\"bytes\":%" PRIu64
		",\"fct_us\":%" PRIu64 "%s}\n",
		at_us, o->group, number, f->wanted, at_us - f->began_us, open ? ",\"open\":1" : "");
}

// Sends what the socket takes of a short transfer; with the last byte goes the word that it was the last.
static void fill_short(const struct options *o, struct flow *f)
{
	while (f->bytes < f->wanted) {
		uint64_t left = f->wanted - f->bytes;
		ssize_t n;

		memcpy(buffer, &f->id, sizeof(f->id)); // it matters in the first 8 bytes only
		n = send(f->fd, buffer, left < sizeof(buffer) ? left : sizeof(buffer), MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 || (!f->bytes && (size_t)n < sizeof(f->id)))
			die("%s, a transfer of %" PRIu64 " bytes: %s", o->to, f->wanted, strerror(errno));
		f->bytes += (uint64_t)n;
	}
	if (!f->known && shutdown(f->fd, SHUT_WR))
		die("%s: shutdown: %s", o->to, strerror(errno));
	f->known = true;
}

static int run_short(const struct options *o)
{
	enum { TAG_NEXT = MAX_FLOWS, TAG_END };
	static uint64_t numbers[MAX_FLOWS];
	struct sockaddr_in to = address(o->to);
	uint64_t began_us = now_us(), zero_us = began_us + (uint64_t)(o->start_s * 1e6);
	int epoll = epoll_create1(EPOLL_CLOEXEC), timer = -1;
	struct transfer next;
	FILE *plan = fopen(o->plan, "r");

	if (!plan)
		die("%s: %s", o->plan, strerror(errno));
	watch(epoll, timer_every(began_us + (uint64_t)(o->until_s * 1e6), 0), EPOLLIN, TAG_END);
	if (next_transfer(plan, o, &next))
		watch(epoll, timer = timer_every(zero_us + next.at_us, 0), EPOLLIN, TAG_NEXT);
	for (;;) {
		struct epoll_event events[64];
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			uint64_t tag = events[i].data.u64;

			if (tag == TAG_END) {
				uint64_t at_us = now_us();

				for (size_t f = 0; f < flow_count; f++)
					if (flows[f].fd >= 0)
						write_short(o, &flows[f], numbers[f], at_us, true);
				return 0;
			}
			if (tag == TAG_NEXT) {
				struct flow f = {.fd = -1,
						 .counted_to = NO_FLOW,
						 .id = SHORT_BIT | next.flow,
						 .wanted = next.bytes,
						 .began_us = now_us()};
				size_t place;

				connect_tcp(o, &f, &to);
				place = new_flow(f);
				numbers[place] = next.number;
				watch(epoll, f.fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, place);
				close(timer);
				if (next_transfer(plan, o, &next))
					watch(epoll, timer = timer_every(zero_us + next.at_us, 0), EPOLLIN, TAG_NEXT);
				continue;
			}
			struct flow *f = &flows[tag];
			int error = 0;
			socklen_t size = sizeof(error);

			getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &size);
			if (error)
				die("%s, transfer %" PRIu64 ": %s", o->to, numbers[tag], strerror(error));
			if (!f->known)
				fill_short(o, f);
			if (f->known && events[i].events & EPOLLRDHUP) {
				write_short(o, f, numbers[tag], now_us(), false);
				close(f->fd);
				f->fd = -1;
			}
		}
	}
}

static int run_udp(const struct options *o)
{
	struct sockaddr_in to = address(o->to);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ect0 = 2;
	uint64_t began_us = now_us(), start_us = drawn_start_us(o, began_us),
		 end_us = began_us + (uint64_t)(o->until_s * 1e6);
	// Flows take turns: one datagram each `gap`, so that they don't send in step.
	double gap_us = (double)o->bytes * 8e6 / (o->rate_bit_s * (double)o->count);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("%s: %s", o->to, strerror(errno));
	if (o->ecn && setsockopt(fd, IPPROTO_IP, IP_TOS, &ect0, sizeof(ect0)))
		die("ECN: %s", strerror(errno));
	for (uint64_t sent = 0;; sent++) {
		double sending_us = (double)sent * gap_us;

		if (o->off_s > 0) // the silences before it
			sending_us += (double)(uint64_t)(sending_us / (o->on_s * 1e6)) * o->off_s * 1e6;
		uint64_t at_us = start_us + (uint64_t)sending_us, id = o->flow + sent % o->count * o->stride;

		if (at_us >= end_us)
			return 0;
		sleep_until(at_us);
		memcpy(buffer, &id, sizeof(id));
		// A full queue of our own host or a sink that has ended is loss like any other.
		if (send(fd, buffer, o->bytes, MSG_NOSIGNAL) < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
			die("%s: %s", o->to, strerror(errno));
	}
}

const char *const program_name = "weir-traffic";

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{"to", 1, 0, 0},	  {"flow", 1, 0, 0},	      {"count", 1, 0, 0},
		{"cc", 1, 0, 0},	  {"mss", 1, 0, 0},	      {"stats", 1, 0, 0},
		{"start-s", 1, 0, 0},	  {"until-s", 1, 0, 0},	      {"port", 1, 0, 0},
		{"bytes", 1, 0, 0},	  {"rate-bit-s", 1, 0, 0},    {"ecn", 0, 0, 0},
		{"stride", 1, 0, 0},	  {"spread-s", 1, 0, 0},      {"on-s", 1, 0, 0},
		{"off-s", 1, 0, 0},	  {"plan", 1, 0, 0},	      {"group", 1, 0, 0},
		{"burst-bytes", 1, 0, 0}, {"burst-every-s", 1, 0, 0}, {0},
	};
	struct options o = {
		.count = 1, .stride = 1, .cc = "cubic", .mss = 1400, .bytes = 1412, .until_s = 10, .port = 5201};
	int index;

	help(argc, argv, usage);
	if (argc < 2 ||
	    (strcmp(argv[1], "sink") && strcmp(argv[1], "tcp") && strcmp(argv[1], "short") && strcmp(argv[1], "udp")))
		misused("the first word is sink, tcp, short or udp; see --help");
	o.mode = argv[1];
	argv[1] = (char *)program_name; // getopt's messages begin with it
	for (int c; (c = getopt_long(argc - 1, argv + 1, "", names, &index)) != -1;) {
		const char *name = c == 0 ? names[index].name : "";

		if (c != 0)
			return 2;
		if (!strcmp(name, "to"))
			o.to = optarg;
		else if (!strcmp(name, "cc"))
			o.cc = optarg;
		else if (!strcmp(name, "stats"))
			o.stats = optarg;
		else if (!strcmp(name, "plan"))
			o.plan = optarg;
		else if (!strcmp(name, "group"))
			o.group = (uint64_t)number(name, optarg, 0, 1e6);
		else if (!strcmp(name, "on-s"))
			o.on_s = number(name, optarg, 1e-3, 1e6);
		else if (!strcmp(name, "off-s"))
			o.off_s = number(name, optarg, 1e-3, 1e6);
		else if (!strcmp(name, "burst-bytes"))
			o.burst_bytes = (uint64_t)number(name, optarg, sizeof(uint64_t), 1e12);
		else if (!strcmp(name, "burst-every-s"))
			o.burst_every_s = number(name, optarg, 1e-3, 1e6);
		else if (!strcmp(name, "ecn"))
			o.ecn = true;
		else if (!strcmp(name, "flow"))
			o.flow = (uint64_t)number(name, optarg, 0, 1e9);
		else if (!strcmp(name, "count"))
			o.count = (uint64_t)number(name, optarg, 1, MAX_FLOWS);
		else if (!strcmp(name, "stride"))
			o.stride = (uint64_t)number(name, optarg, 1, 1e6);
		else if (!strcmp(name, "mss"))
			o.mss = (uint64_t)number(name, optarg, 88, 1460);
		else if (!strcmp(name, "bytes"))
			o.bytes = (uint64_t)number(name, optarg, 16, 65507);
		else if (!strcmp(name, "port"))
			o.port = (uint64_t)number(name, optarg, 1, 65535);
		else if (!strcmp(name, "rate-bit-s"))
			o.rate_bit_s = number(name, optarg, 1, 1e12);
		else if (!strcmp(name, "start-s"))
			o.start_s = number(name, optarg, 0, 1e6);
		else if (!strcmp(name, "spread-s"))
			o.spread_s = number(name, optarg, 0, 1e6);
		else
			o.until_s = number(name, optarg, 0, 1e6);
	}
	bool udp = !strcmp(o.mode, "udp"), sink = !strcmp(o.mode, "sink"), brief = !strcmp(o.mode, "short");
	if (!sink && !o.to)
		misused("%s needs --to ADDRESS:PORT", o.mode);
	if (!udp && o.ecn)
		misused("--ecn is for udp; TCP's is the node's net.ipv4.tcp_ecn");
	if (brief != !!o.plan)
		misused(brief ? "short needs --plan FILE" : "--plan is for short");
	if ((o.on_s > 0) != (o.off_s > 0) || (!udp && o.on_s > 0))
		misused("--on-s and --off-s are for udp, and go together");
	if (!o.burst_bytes != !(o.burst_every_s > 0) || (o.burst_bytes && strcmp(o.mode, "tcp")))
		misused("--burst-bytes and --burst-every-s are for tcp, and go together");
	if (udp && o.rate_bit_s <= 0)
		misused("udp needs --rate-bit-s");
	if (!udp && !o.stats)
		misused("%s needs --stats FILE", o.mode);
	if (!udp && !(stats = fopen(o.stats, "w")))
		die("%s: %s", o.stats, strerror(errno));
	int status = sink ? run_sink(&o) : udp ? run_udp(&o) : brief ? run_short(&o) : run_tcp(&o);

	if (stats && fclose(stats))
		die("%s: %s", o.stats, strerror(errno));
	return status;
}
