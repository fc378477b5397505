/* SPDX-License-Identifier: Apache-2.0 */
/* Framing of a shaper: the size table (stab) of its root qdisc. */
#ifndef WEIR_NET_FRAMING_H
#define WEIR_NET_FRAMING_H

#include <stdbool.h>

#include <linux/rtnetlink.h>

#include "net/question.h"
#include "weir/maps.h"

/* Puts the size table into a message about a qdisc; nothing where packets count as they are. */
void weir_framing_put(struct weir_question *q, const struct weir_framing *framing);
/* Whether a message about a qdisc has this size table. */
bool weir_framing_is(const struct nlmsghdr *message, const struct weir_framing *framing);

/* Framing of the size table in a message about a qdisc. */
struct weir_framing weir_framing_of(const struct nlmsghdr *message);

#endif /* WEIR_NET_FRAMING_H */
