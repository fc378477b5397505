/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: a TOML file of a few lines about itself, then a table an interface, [eth0], or a table a
 * class, ["eth0/1:10"], or a table for received packets, ["eth0/ingress"]. Its keys are the options of `ensure` (shape,
 * rate, peer, limit_packets ...) and the keys of a profile.
 */
#ifndef WEIR_XDP_DAEMON_CONFIG_H
#define WEIR_XDP_DAEMON_CONFIG_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "weir-xdp/request.h"

#define DAEMON_TABLES_MAX 1024
#define DAEMON_WORDS_MAX 64

struct wanted {
	char dev[IF_NAMESIZE];
	enum weir_direction direction; /* after its name in the file */
	bool ingress;		       /* so are its options about packets that arrive */
	bool both;		       /* about both directions */
	__u32 class;		       /* 0: the law is the interface's; 0x10000: all of htb 1: that have no table */
	char name[REQUEST_NAME_LEN];
	char *words[DAEMON_WORDS_MAX + 2]; /* the command line of `ensure` that asks for it, words[1] being dev */
	int count;
	int line;	      /* of the file */
	bool by_mark, others; /* what it has to tell packets apart by, as in a request */
	__u32 mark, mark_mask;
};

struct daemon_config {
	bool mend;     /* else differences are only counted */
	long check_ms; /* between two looks at what no message tells of */
	char metrics[PATH_MAX];
	struct wanted *list;
	size_t count;
};

/* 0, or -1 after one line that names file and line; then nothing is to be freed. */
int daemon_config_read(struct daemon_config *c, const char *path);
void daemon_config_free(struct daemon_config *c);

/* The request of a table; its texts are the table's. 0, or -1 after one line; daemon_request_free in either case. */
int daemon_request(const struct daemon_config *c, const struct wanted *w, const char *pins, struct request *r);
void daemon_request_free(struct request *r);

#endif /* WEIR_XDP_DAEMON_CONFIG_H */
