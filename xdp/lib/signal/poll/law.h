/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_POLL_LAW_H
#define WEIR_POLL_LAW_H

#include "pins/attachment.h"

/*
 * Runs the laws of an attachment until its pins are removed. netlink: a socket in the interface's namespace. `ready`
 * gets one byte when the first step is done. Returns an errno.
 */
int weir_poll_run(struct weir_attachment *a, int netlink, int ready);

#endif /* WEIR_POLL_LAW_H */
