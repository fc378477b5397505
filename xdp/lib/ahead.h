/* SPDX-License-Identifier: Apache-2.0 */
/* What stands ahead of our program at an interface's egress hook and may keep packets from it. */
#ifndef WEIR_AHEAD_H
#define WEIR_AHEAD_H

#include <stddef.h>

#include "weir/maps.h"

/*
 * In the namespace we are in: the clsact filters and TCX programs that run before ours and can let a packet through for
 * good, as a sentence with the remedy; "" if there are none, or none that can be told of. netlink: a socket of that
 * namespace. link: of our program, TCX only.
 */
void weir_ahead(const struct weir_meta *about, int netlink, int link, char *text, size_t size);

/*
 * How much of what the root qdisc sent since the attach the law never saw, as a sentence; "" if it saw (nearly) all.
 * sent_bytes: by the qdisc, since the attach; passed_bytes: by the law.
 */
void weir_bypassed(__u64 sent_bytes, __u64 passed_bytes, char *text, size_t size);

#endif /* WEIR_AHEAD_H */
