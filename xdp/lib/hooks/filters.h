/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILTERS_H
#define WEIR_FILTERS_H

#include "hooks/row.h"

/*
 * The clsact filters at a side's egress that run before ours and can let a packet through for good, as a sentence with
 * the remedy; "" if there are none, or none that can be listed. netlink: a socket of the side's namespace.
 */
void weir_filters_ahead(const struct weir_side *side, int netlink, char *text, size_t size);

#endif /* WEIR_FILTERS_H */
