/* SPDX-License-Identifier: Apache-2.0 */
/* AQMs below the law of a request: `--leaf-aqm`. */
#ifndef WEIR_XDP_LEAVES_H
#define WEIR_XDP_LEAVES_H

#include "weir-xdp/request.h"

/* Functions return 0, or -1 after one line. path: of the attachment's pins. */

/* Disables or restores them as the request says, or with `look` only compares. *differs: one is in another state. */
int leaves_ensure(const struct request *r, int ifindex, const char *path, bool *differs);
/* Before anything is attached: whether all can be disabled. */
int leaves_check(const struct request *r, int ifindex);
/* The line that advises the option, on a terminal. */
void leaves_advise(const struct request *r, int ifindex);

#endif /* WEIR_XDP_LEAVES_H */
