/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OWN_FILTER_H
#define WEIR_OWN_FILTER_H

#include "hooks/row.h"

/* The program that weir-xdp put at a side by a filter, by its name; 0 if there is none. In the side's namespace. */
__u32 weir_filter_ours(const struct weir_side *side, int netlink);

#endif /* WEIR_OWN_FILTER_H */
