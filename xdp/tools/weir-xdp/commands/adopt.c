/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a weir_ingress that xdp-loader, bpftool or ip put on DEV, which does nothing until it has a configuration: an
 * attach that finds the program instead of putting it there.
 */
#include "weir-xdp/commands/commands.h"

#include "weir/maps.h"

int command_adopt(const struct request *r)
{
	struct request own = *r;

	own.adopt = own.hook_given = true;
	own.signal = WEIR_SIGNAL_VIRTUAL;
	own.hook = WEIR_HOOK_XDP;
	return command_attach(&own);
}
