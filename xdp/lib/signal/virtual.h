/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_VIRTUAL_H
#define WEIR_VIRTUAL_H

#include "weir/maps.h"

/* The rate a virtual queue drains at, with all that follows from it (and from the law's dq_shift, to be set before). */
void weir_virtual_set_rate(struct weir_config *config, double bit_s);

#endif /* WEIR_VIRTUAL_H */
