/* SPDX-License-Identifier: Apache-2.0 */
/* The transmit queues of an interface, which mq has a class for each of. */
#ifndef WEIR_QUEUES_H
#define WEIR_QUEUES_H

#include <stdbool.h>

#include <linux/types.h>

/* Both in the interface's namespace; dev: its name, no alternative one. */

/* Number of queues that packets are spread over now (real_num_tx_queues, as ethtool -l has it); 0: the driver does not
 * report it.
 */
__u32 weir_queues_count(const char *dev);

/*
 * Whether XPS gives packets their queue by the CPU, or by the queue that they came from. False also where /sys does not
 * show this namespace: that can't be seen then.
 */
bool weir_queues_by_cpu(const char *dev, int ifindex);

#endif /* WEIR_QUEUES_H */
