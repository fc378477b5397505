/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir-sojourn: how long packets stay in any queue discipline, where both its ends can be seen: a program at a device's
 * clsact egress stamps a packet's entry, one at its peer's clsact ingress its exit. Samples go to a file, one JSON
 * object a line; docs/use/sojourn.md has the format.
 *
 * Nothing blocks but epoll, on a timer and the signals to end: in the exact lab each wake-up has its price.
 */
#include "sampler.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "output.h"
#include "printable.h"

#define DRAIN_MS 50

struct sampler sampler = {.lost_after_ns = 3000000000ULL, .one_in = 1};

static int add_to(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int run(const sigset_t *ends)
{
	struct itimerspec period = {.it_interval.tv_nsec = DRAIN_MS * 1000000L,
				    .it_value.tv_nsec = DRAIN_MS * 1000000L};
	int epoll = epoll_create1(EPOLL_CLOEXEC), signals = signalfd(-1, ends, SFD_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (epoll < 0 || signals < 0 || timer < 0 || add_to(epoll, signals) || add_to(epoll, timer) ||
	    timerfd_settime(timer, 0, &period, NULL))
		return weir_error("no timer: %s", weir_reason(errno));
	for (;;) {
		struct epoll_event event;
		uint64_t expired;
		int count = epoll_wait(epoll, &event, 1, -1);

		if (count < 0 && errno != EINTR)
			return weir_error("epoll: %s", weir_reason(errno));
		if (count < 1)
			continue;
		if (event.data.fd == signals)
			return 0;
		if (read(timer, &expired, sizeof(expired)) < 0 && errno != EINTR)
			return weir_error("timer: %s", weir_reason(errno));
		if (drain())
			return -1;
	}
}

static int silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level != LIBBPF_DEBUG && getenv("WEIR_LIBBPF")) /* libbpf's own words, when ours don't explain enough */
		return weir_print_lines(stderr, format, arguments);
	return 0;
}

int main(int count, char **arguments)
{
	sigset_t ends;
	int result;

	weir_output_begin();
	libbpf_set_print(silent);
	if (parse(count, arguments))
		return 2;
	/* From here on a signal to end waits until it finds us ready to clean up. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (load_all())
		return 1;
	sampler.ring = ring_buffer__new(bpf_map__fd(sampler.hops[0].skeleton->maps.events), on_event, NULL, NULL);
	if (!sampler.ring) {
		weir_error("no ring buffer: %s", weir_reason(errno));
		return 1;
	}
	sampler.start_ns = sampler.swept_ns = weir_now_ns();
	result = attach_all();
	if (!result) { /* not before: a sampler that could not attach leaves no file */
		sampler.out = weir_output_open(sampler.out_path);
		if (!sampler.out)
			result = weir_error("--out %s: %s", sampler.out_path, strerror(errno));
		else
			setvbuf(sampler.out, NULL, _IOFBF, 1 << 20);
	}
	if (!result) {
		puts("ready");
		result = weir_output_end(0) ? -1 : run(&ends);
	}
	detach_all();
	if (!result)
		result = finish();
	if (sampler.out && fclose(sampler.out))
		result = weir_error("%s: can't write: %s", sampler.out_path, strerror(errno));
	return result ? 1 : 0;
}
