/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ROOT_H
#define WEIR_ROOT_H

#include <stdbool.h>

#include "weir/maps.h"

/* Whether the root qdisc, of this kind and handle, is still the one found at attach. */
bool weir_root_is(const struct weir_config *config, const char *kind, __u32 handle);

#endif /* WEIR_ROOT_H */
