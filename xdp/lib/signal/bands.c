/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/bands.h"

#include <errno.h>

#include "net/classes.h"

const char *const weir_hosts_names[] = {"off", "src", "dst", "mark"};

int weir_bulk_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc *qdisc)
{
	struct weir_qdisc now = {0};
	int error = weir_class_read(netlink, ifindex, config->band_class[WEIR_BAND_BULK], &now);

	if (!error && !now.handle)
		error = -ENOENT;
	qdisc->backlog_bytes = now.backlog_bytes;
	qdisc->backlog_packets = now.backlog_packets;
	return error;
}

int weir_bands_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc now[WEIR_BANDS])
{
	int error = 0;

	for (int i = 0; !error && i < WEIR_BANDS; i++)
		error = weir_class_read(netlink, ifindex, config->band_class[i], &now[i]);
	return error;
}
