/* SPDX-License-Identifier: Apache-2.0 */
/* Signal poll: the life of its process. Its work is in law.c. */
#include "signal/poll/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "clock.h"
#include "error.h"
#include "net/net.h"
#include "signal/poll/law.h"
#include "signal/sample.h"

#define POLL_START_MS 5000
#define POLL_END_MS 2000

/* A poll process that wrote no longer ago than this, or than twice what its program takes for silence, lives. */
#define POLL_LIVES_NS 1000000000ULL

static const __u32 first = 0;

/* Start time of a process in clock ticks after boot; 0 if there is no such process. *ended: only its remains. */
static __u64 process_state(int pid, bool *ended)
{
	char path[64], text[1024], *after_name, state;
	unsigned long long start = 0;
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	*ended = false;
	if (!file)
		return 0;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = 0;
	after_name = strrchr(text, ')'); /* proc(5): fields 3 and 22, after a name that may hold anything */
	if (!after_name ||
	    sscanf(after_name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &state, &start) != 2)
		return 0;
	*ended = state == 'Z' || state == 'X';
	return start;
}

static __u64 process_start(int pid)
{
	bool ended;
	__u64 start = process_state(pid, &ended);

	return ended ? 0 : start;
}

/* The poll process: keeps DEV's netlink socket and the pinned maps, and nothing else. */
static _Noreturn void be_poll(struct weir_meta *about, int meta, const char *path, const char *netns,
			      struct weir_locks *locks, int ready)
{
	struct weir_attachment a;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), netlink, back, error;

	setsid();
	signal(SIGPIPE, SIG_IGN);
	about->poll_pid = getpid();
	about->poll_start_ticks = process_start(about->poll_pid);
	about->complete = 1; /* or it could not be opened */
	if (null < 0 || chdir("/") || bpf_map_update_elem(meta, &first, about, BPF_ANY) ||
	    weir_attachment_open(&a, path, about->dev) || weir_netns_enter(netns, &back))
		_exit(1);
	netlink = weir_netlink_open();
	if (netlink < 0)
		_exit(1);
	weir_locks_drop(locks); /* not before: if the attach is killed, the next one must find us in the map */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	error = weir_poll_run(&a, netlink, ready);
	/* as it is by now: whoever started us may have noted more since */
	if (!weir_meta_load(a.meta, &a.about)) {
		a.about.poll_errno = error;
		bpf_map_update_elem(a.meta, &first, &a.about, BPF_ANY);
	}
	_exit(error != 0);
}

int weir_poll_start(struct weir_meta *about, int meta, const char *path, const char *netns, struct weir_locks *locks)
{
	struct pollfd ready = {.events = POLLIN};
	int ends[2], result = 0;
	pid_t middle;
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		return weir_error("can't make a pipe: %s", strerror(errno));
	fflush(NULL);
	middle = fork();
	if (!middle) { /* forks once more and ends, so that the poll process is nobody's child to wait for */
		pid_t child = fork();

		if (!child)
			be_poll(about, meta, path, netns, locks, ends[1]);
		_exit(child < 0);
	}
	close(ends[1]);
	ready.fd = ends[0];
	if (middle < 0 || waitpid(middle, NULL, 0) != middle || poll(&ready, 1, POLL_START_MS) != 1 ||
	    read(ends[0], &byte, 1) != 1)
		result = -1;
	close(ends[0]);
	if (weir_meta_load(meta, about))
		return weir_error("can't read the meta map: %s", weir_reason(errno));
	if (result)
		weir_error("%s: the poll process did not start: %s", about->dev,
			   about->poll_errno ? weir_reason(about->poll_errno) : "no first step within 5 s");
	return result;
}

void weir_poll_end(const struct weir_meta *about)
{
	int pidfd, tries;

	if (!about->poll_pid || process_start(about->poll_pid) != about->poll_start_ticks)
		return;
	pidfd = (int)syscall(SYS_pidfd_open, about->poll_pid, 0);
	/* asked again: between the two checks the number could have gone to another process, from here on it can't */
	for (tries = 0; pidfd >= 0 && tries < 2 && process_start(about->poll_pid) == about->poll_start_ticks; tries++) {
		struct pollfd gone = {.fd = pidfd, .events = POLLIN};

		syscall(SYS_pidfd_send_signal, pidfd, tries ? SIGKILL : SIGTERM, NULL, 0);
		poll(&gone, 1, POLL_END_MS);
	}
	if (pidfd >= 0)
		close(pidfd);
}

bool weir_poll_lives(const struct weir_meta *about, const struct weir_config *config, __u64 silent_ns)
{
	bool ended;
	__u64 patience_ns = 2 * WEIR_POLL_SILENT_INTERVALS * config->law.interval_us * 1000ULL;

	if (about->poll_errno) /* it wrote this as it ended */
		return false;
	if (about->poll_start_ticks && process_state(about->poll_pid, &ended) == about->poll_start_ticks)
		return !ended;
	/* of another PID namespace, perhaps */
	return silent_ns < (patience_ns > POLL_LIVES_NS ? patience_ns : POLL_LIVES_NS);
}

bool weir_poll_lives_at(const char *path, const struct weir_meta *about)
{
	struct weir_attachment a;
	struct weir_config config;
	struct weir_queue queue;
	char why[256];
	bool lives = false;

	weir_error_into(why, sizeof(why));
	if (!weir_attachment_open(&a, path, about->dev)) {
		lives = !weir_config_read(&a, &config) &&
			!bpf_map_lookup_elem_flags(a.queue, &first, &queue, BPF_F_LOCK) &&
			weir_poll_lives(about, &config, weir_since_ns(weir_now_ns(), queue.poll_ns));
		weir_attachment_close(&a);
	}
	weir_error_into(NULL, 0);
	return lives;
}
