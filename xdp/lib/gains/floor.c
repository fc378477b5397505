/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/floor.h"

#include <math.h>

#define LEAST_PACKETS 2
#define FULL_PACKET_BYTES 1514
#define TARGET "target_us"

__u32 weir_target_least_us(double rate_bit_s)
{
	double least_us = rate_bit_s > 0 ? ceil(LEAST_PACKETS * FULL_PACKET_BYTES * 8e6 / rate_bit_s) : 0;

	return least_us < WEIR_TAU_MAX_US ? (__u32)least_us : WEIR_TAU_MAX_US;
}

void weir_gains_apply(const struct weir_gains *gains, double rate_bit_s, struct weir_config *config)
{
	struct weir_gains raised = *gains;
	double *target_us = &raised.value[weir_gains_index(TARGET)];
	__u32 least_us = weir_target_least_us(rate_bit_s);

	config->target_asked_us = *target_us < least_us ? (__u32)*target_us : 0;
	if (config->target_asked_us)
		*target_us = least_us;
	weir_gains_to_params(&raised, &config->law);
}

void weir_gains_asked(struct weir_gains *gains, const struct weir_config *config)
{
	weir_gains_from_params(gains, &config->law);
	if (config->target_asked_us)
		gains->value[weir_gains_index(TARGET)] = config->target_asked_us;
}
