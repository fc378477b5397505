/* SPDX-License-Identifier: Apache-2.0 */
/* One function a command, each in a file of its name. They return the exit status. */
#ifndef WEIR_XDP_COMMANDS_H
#define WEIR_XDP_COMMANDS_H

#include "weir-xdp/request.h"

int attach(const struct request *r);
int adopt(const struct request *r);
int detach(const struct request *r);
int status(const struct request *r);
int set(const struct request *r);
int watch(const struct request *r);

#endif /* WEIR_XDP_COMMANDS_H */
