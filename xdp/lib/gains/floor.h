/* SPDX-License-Identifier: Apache-2.0 */
/* The least target of a slow line: the time that two full packets take there. Below it the law would hit packets that
 * wait for nothing but the one on the line. */
#ifndef WEIR_FLOOR_H
#define WEIR_FLOOR_H

#include "gains/gains.h"
#include "weir/maps.h"

/* In microseconds; 0 where the rate is unknown (0). */
__u32 weir_target_least_us(double rate_bit_s);

/* The law of a configuration, with its target raised to the least one; then target_asked_us is the requested one. */
void weir_gains_apply(const struct weir_gains *gains, double rate_bit_s, struct weir_config *config);
/* The requested gains. */
void weir_gains_asked(struct weir_gains *gains, const struct weir_config *config);

#endif /* WEIR_FLOOR_H */
