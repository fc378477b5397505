/* SPDX-License-Identifier: Apache-2.0 */
/* Two bands: whether they are those of flows (docs/design/flows.md), and their backlogs. */
#ifndef WEIR_SIGNAL_BANDS_H
#define WEIR_SIGNAL_BANDS_H

#include <stdbool.h>

#include "net/net.h"
#include "weir/maps.h"

static inline bool weir_has_bands(const struct weir_config *config)
{
	return config->flow_bands.ahead_most_bytes != 0;
}

/* By enum weir_hosts. */
extern const char *const weir_hosts_names[];

/*
 * Puts the backlog of band B's class in the place of the root's. The bytes sent stay the root's: band B waits at the
 * rate of the whole line, and packets of band A do not count as a slower line. 0 or -errno; -ENOENT: no such class.
 */
int weir_bulk_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc *qdisc);

/* The classes of both bands. 0 or -errno; -ENOENT: one of them is missing. */
int weir_bands_read(int netlink, int ifindex, const struct weir_config *config, struct weir_qdisc now[WEIR_BANDS]);

#endif /* WEIR_SIGNAL_BANDS_H */
