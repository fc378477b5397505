/* SPDX-License-Identifier: Apache-2.0 */
/* One function a command, each in a file of its name. They return the exit status. */
#ifndef WEIR_XDP_COMMANDS_H
#define WEIR_XDP_COMMANDS_H

#include "weir-xdp/request.h"

int command_attach(const struct request *r);
int command_adopt(const struct request *r);
int command_ensure(const struct request *r);
int command_daemon(const struct request *r);
int command_detach(const struct request *r);
int command_status(const struct request *r);
int command_flows(const struct request *r);
int command_set(const struct request *r);
int command_watch(const struct request *r);

#endif /* WEIR_XDP_COMMANDS_H */
