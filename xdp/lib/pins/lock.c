/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "net/net.h"

#define TRY_AGAIN_MS 10

static socklen_t address(__u32 ifindex, struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "weir-xdp-%u", ifindex));
}

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Who listens there, as words for a message. */
static void holder(__u32 ifindex, char *text, size_t size)
{
	char path[64], comm[32] = "";
	struct ucred who = {0};
	socklen_t who_size = sizeof(who);
	struct sockaddr_un un;
	socklen_t length = address(ifindex, &un);
	int sock = open_socket();
	FILE *file = NULL;

	if (sock < 0 || connect(sock, (struct sockaddr *)&un, length) ||
	    getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &who_size))
		who.pid = 0;
	if (sock >= 0)
		close(sock);
	if (who.pid > 0) {
		snprintf(path, sizeof(path), "/proc/%d/comm", who.pid);
		file = fopen(path, "re");
	}
	if (file && fgets(comm, sizeof(comm), file))
		comm[strcspn(comm, "\n")] = 0;
	if (file)
		fclose(file);
	if (who.pid > 0)
		snprintf(text, size, "process %d%s%s%s", who.pid, *comm ? " (" : "", comm, *comm ? ")" : "");
	else
		snprintf(text, size, "a process that can't be seen from here");
}

/* In the namespace of the interface. A descriptor, or -errno. */
static int take(__u32 ifindex, int wait_ms)
{
	struct timespec pause = {.tv_nsec = TRY_AGAIN_MS * 1000000L};
	struct sockaddr_un un;
	socklen_t length = address(ifindex, &un);
	int sock = open_socket();

	if (sock < 0)
		return -errno;
	for (int waited_ms = 0;; waited_ms += TRY_AGAIN_MS) {
		int error;

		if (!bind(sock, (struct sockaddr *)&un, length)) {
			listen(sock, SOMAXCONN); /* so that one who waits can ask whose it is */
			return sock;
		}
		error = errno;
		if (error != EADDRINUSE || waited_ms >= wait_ms) {
			close(sock);
			return -error;
		}
		nanosleep(&pause, NULL);
	}
}

/* 0, 1 if another has it and we were not to wait, or -1 after a line. */
static int take_one(int *fd, const struct weir_place *place, const char *netns, int wait_ms)
{
	struct weir_place here;
	char who[96] = "";
	int back;

	if (weir_netns_enter(netns, &back))
		return -1;
	weir_place_here(&here);
	if (!weir_place_same_netns(&here, place)) {
		weir_netns_leave(back);
		return weir_error("%s: its network namespace was replaced by another one", place->name);
	}
	*fd = take(place->ifindex, wait_ms);
	if (*fd == -EADDRINUSE)
		holder(place->ifindex, who, sizeof(who));
	weir_netns_leave(back);
	if (*fd >= 0)
		return 0;
	if (*fd != -EADDRINUSE)
		weir_error("%s: can't lock it: %s", place->name, weir_reason(*fd));
	else if (wait_ms)
		weir_error("%s: %s has been changing what is attached there for %d s; try again when it has ended",
			   place->name, who, wait_ms / 1000);
	else
		return 1;
	return -1;
}

/* Everybody in the same order, or two could wait for each other. */
static bool comes_first(const struct weir_place *a, const struct weir_place *b)
{
	if (a->netns_cookie != b->netns_cookie)
		return a->netns_cookie < b->netns_cookie;
	if (a->netns_inum != b->netns_inum)
		return a->netns_inum < b->netns_inum;
	return a->ifindex < b->ifindex;
}

int weir_locks_take(struct weir_locks *locks, const struct weir_place *dev, const char *netns,
		    const struct weir_place *peer, const char *peer_netns, int wait_ms)
{
	bool swapped = peer && comes_first(peer, dev);
	int result;

	locks->fd[0] = locks->fd[1] = -1;
	result = swapped ? take_one(&locks->fd[0], peer, peer_netns, wait_ms)
			 : take_one(&locks->fd[0], dev, netns, wait_ms);
	if (!result && peer)
		result = swapped ? take_one(&locks->fd[1], dev, netns, wait_ms)
				 : take_one(&locks->fd[1], peer, peer_netns, wait_ms);
	if (result)
		weir_locks_drop(locks);
	return result;
}

void weir_locks_drop(struct weir_locks *locks)
{
	for (int i = 0; i < 2; i++) {
		if (locks->fd[i] >= 0)
			close(locks->fd[i]);
		locks->fd[i] = -1;
	}
}
