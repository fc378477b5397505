/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is attached now, what is asked for afterwards: the work of `ensure`, and of the daemon. */
#ifndef WEIR_XDP_ENSURE_H
#define WEIR_XDP_ENSURE_H

#include <stdbool.h>

#include "weir-xdp/request.h"

/* Part that differed from the request. */
enum part {
	PART_PROGRAM,
	PART_SIGNAL,
	PART_PROCESS,
	PART_SHAPER,
	PART_QUEUE,
	PART_GAINS,
	PART_LIMITS,
	PART_CLASS, /* of those asked for, one that had no law */
	PART_MARKS, /* how a class's packets are told apart */
	PART_LEAF_AQM,
	PART_NAME,
	PART_PINS, /* a pin was missing, or a program had no pins */
	PARTS
};
extern const char *const part_names[PARTS];

enum did { DID_ATTACH, DID_ADOPT, DID_REPLACE };
extern const char *const did_names[];

struct outcome {
	enum did did; /* with --look: what would be done; after an error: what was tried */
	bool part[PARTS];
	bool raised;  /* the target is a higher one than asked for */
	bool ingress; /* of the law of packets that arrive */
};

/* 0, or -1 after one line. */
int ensure_run(const struct request *r, struct outcome *o);

#endif /* WEIR_XDP_ENSURE_H */
