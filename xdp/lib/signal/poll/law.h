/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_POLL_LAW_H
#define WEIR_POLL_LAW_H

#include "pins/attachment.h"

/*
 * Runs the law until the pins are removed. netlink: a socket in the interface's namespace. `ready` gets one byte when
 * the first step is done. Returns an errno.
 */
int weir_poll_run(struct weir_attachment *a, int netlink, int ready);
/* The same where each of several classes has a law: one poll of all of them serves all. */
int weir_poll_run_classes(struct weir_attachment *a, int netlink, int ready);

/* Whether the pins are still there is asked once in so many intervals. */
#define WEIR_POLL_PIN_CHECK_INTERVALS 16

/* Until this time of the clock. 0 or an errno. */
int weir_poll_wait(__u64 due_ns);

#endif /* WEIR_POLL_LAW_H */
