/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The headers as a shared library, for tests that hold them against the golden models. */
#include <stddef.h>
#include "law_io.h"
#include "weir/coupled.h"

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

/* The verdict in band L; its probability goes to *p_q32. */
__u32 coupled_run(const struct weir_coupling *c, __u64 u_q40, __u32 tau_us, __u32 floor_us, __u32 rand_a, __u32 rand_b,
		  __u64 *p_q32);

__u32 coupled_run(const struct weir_coupling *c, __u64 u_q40, __u32 tau_us, __u32 floor_us, __u32 rand_a, __u32 rand_b,
		  __u64 *p_q32)
{
	*p_q32 = weir_mark_probability_q32(c, u_q40, tau_us, floor_us);
	return weir_decide_low(c, u_q40, tau_us, floor_us, rand_a, rand_b);
}
