/* SPDX-License-Identifier: Apache-2.0 */
/* `ensure` of a request for laws of classes, and the part it shares with that for one law. */
#ifndef WEIR_XDP_ENSURE_CLASSES_H
#define WEIR_XDP_ENSURE_CLASSES_H

#include "weir-xdp/ensure.h"
#include "weir-xdp/plan.h"

/*
 * After plan_begin; path: of the pins; works: what is attached there does. Laws of classes that the request does not
 * name stay as they are. 0, or -1 after one line.
 */
int ensure_classes(struct plan *p, const char *path, bool works, struct outcome *o);

/* From ensure.c. Checks the settings that can't be changed while the law stays on. */
int ensure_check_ends(const struct plan *p, const struct weir_meta *old);
/* The gains that are asked for, in the place of those in force: what is not asked for stays. */
int ensure_gains(const struct request *r, double rate_bit_s, struct weir_config *config);
/* Data for reporting and undoing, and the name that the interface has now. */
int ensure_meta(const struct plan *p, const struct weir_meta *old, const char *path, struct outcome *o);

#endif /* WEIR_XDP_ENSURE_CLASSES_H */
