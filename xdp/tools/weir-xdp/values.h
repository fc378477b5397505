/* SPDX-License-Identifier: Apache-2.0 */
/* Values as an operator writes them. Functions return 0, or -1 after one line. */
#ifndef WEIR_XDP_VALUES_H
#define WEIR_XDP_VALUES_H

#include "gains/gains.h"
#include "weir/maps.h"
#include "weir-xdp/request.h"

/* A number with its unit: 8kbit .. 1000gbit. */
int parse_rate(const char *what, const char *text, double *bit_s);
/* what: the name in the message. */
int parse_whole(const char *what, const char *text, double least, double most, double *value);
/* Advice for SCONE packets: a rate, `share` or `off`. */
int parse_advice(const char *what, const char *text, struct weir_advice *advice);
/* In packets if `what` says so, else in bytes. */
int parse_limit(const char *what, const char *text, __u64 *limit);

/* One KEY=VALUE argument: a gain, or what else can be set on a running queue. */
int apply_pair(const struct request *r, const char *pair, struct weir_gains *gains, struct weir_config *config,
	       double *rate_bit_s);

/* Checks KEY=VALUE arguments by themselves: form, key and range; live: also those that only `set` takes. */
int check_words(const struct request *r, bool live);

/* All gains of an attach: the profile's, with the arguments' in their place. With --coupled the coupling's too. Also
 * USAGE_ERROR, where an argument is wrong. */
int read_gains(const struct request *r, struct weir_gains *gains, struct weir_coupling *coupling);
/* The same where there are gains already: those stay that neither --gains nor an argument names. */
int merge_gains(const struct request *r, struct weir_gains *gains, struct weir_coupling *coupling);
/* Arguments about the bands of flows, in the place of what is there. */
int read_bands(const struct request *r, struct weir_bands *bands);
/* Checks the gains for the coupling. */
int check_coupled(const struct weir_gains *gains);

#endif /* WEIR_XDP_VALUES_H */
