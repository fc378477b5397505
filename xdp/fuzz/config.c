/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the daemon's configuration. Each table of one that is accepted is a command line that `ensure` accepts.
 */
#include "input.h"

#include "error.h"
#include "weir-xdp/daemon/config.h"
#include "weir-xdp/directions.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	input_mute();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon_config c;

	if (daemon_config_read(&c, input_file(data, size)))
		return 0;
	PROMISE(c.count <= DAEMON_TABLES_MAX);
	for (size_t i = 0; i < c.count; i++) {
		struct directions d;
		struct request r;

		PROMISE(!daemon_request(&c, &c.list[i], "/pins", &r) && !directions_of(&r, &d));
		PROMISE(!request_check(d.has_egress ? &d.egress : &d.ingress));
		directions_free(&d);
		daemon_request_free(&r);
	}
	daemon_config_free(&c);
	return 0;
}
