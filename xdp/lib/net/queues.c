/* SPDX-License-Identifier: Apache-2.0 */
#include "net/queues.h"

#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>

__u32 weir_queues_count(const char *dev)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq request = {.ifr_data = (void *)&channels};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	if (sock < 0)
		return 0;
	strncpy(request.ifr_name, dev, IFNAMSIZ - 1);
	result = ioctl(sock, SIOCETHTOOL, &request);
	close(sock);
	return result ? 0 : channels.tx_count + channels.combined_count;
}

/* One line of a file, "" if it is not there. */
static void read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(line, size, file))
		*line = 0;
	if (file)
		fclose(file);
}

bool weir_queues_by_cpu(const char *dev, int ifindex)
{
	static const char *const maps[] = {"xps_cpus", "xps_rxqs"};
	char path[128], line[4096];

	snprintf(path, sizeof(path), "/sys/class/net/%s/ifindex", dev);
	read_line(path, line, sizeof(line));
	if (atoi(line) != ifindex)
		return false;
	for (int queue = 0;; queue++) {
		for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
			snprintf(path, sizeof(path), "/sys/class/net/%s/queues/tx-%d/%s", dev, queue, maps[i]);
			read_line(path, line, sizeof(line));
			if (line[strspn(line, "0,\n")]) /* a mask in hexadecimal */
				return true;
		}
		snprintf(path, sizeof(path), "/sys/class/net/%s/queues/tx-%d", dev, queue);
		if (access(path, F_OK))
			return false;
	}
}
