/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The header as a shared library, for property tests that hold it against the golden model. */
#include <stddef.h>
#include "law_io.h"

int law_run(struct law_io *io);
size_t law_io_size(void);

int law_run(struct law_io *io)
{
	return law_execute(io);
}

size_t law_io_size(void)
{
	return sizeof(struct law_io);
}
