/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/daemon/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "error.h"

void daemon_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int sock;

	if (!length || length >= sizeof(un.sun_path))
		return;
	memcpy(un.sun_path, path, length);
	if (*path == '@') /* an abstract socket */
		un.sun_path[0] = 0;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || sendto(sock, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&un,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		weir_note("can't tell systemd: %s", strerror(errno));
	if (sock >= 0)
		close(sock);
}

long daemon_watchdog_ms(void)
{
	const char *text = getenv("WATCHDOG_USEC");
	long us = text ? atol(text) : 0;

	return us > 0 ? us / 2000 + 1 : 0;
}
