/* SPDX-License-Identifier: Apache-2.0 */
/* Request of a command line. */
#ifndef WEIR_XDP_REQUEST_H
#define WEIR_XDP_REQUEST_H

#include <stdbool.h>

#include "net/shape.h"
#include "pins/place.h"
#include "pins/slots.h"
#include "weir/maps.h"

/* Exit status beside 0 and 1. */
#define USAGE_ERROR 2
#define CHANGED 3 /* set --expect: other gains are in force; ensure --look: something differs */

/* AQMs of the qdiscs below the law; LEAF_AQM_STAYS: not given, and nothing changes. */
enum leaf_aqm { LEAF_AQM_STAYS, LEAF_AQM_OFF, LEAF_AQM_ON };

struct request {
	char *dev;
	const char *peer, *peer_netns, *netns, *pins, *gains_file, *name, *out, *config_file;
	enum weir_direction direction; /* of DEV, as attach, ensure and adopt have it; other commands find it by DEV */
	__u32 signal, hook;
	__u32 band_class[WEIR_BANDS]; /* coupled: the classes of the bands */
	bool hook_given, fixed_given, json, text, verbose, pins_only, follow, all, whole_tree, adopt, coupled;
	bool flows;	      /* --shape: flow queues below the law */
	bool bands, no_bands; /* two bands of flows; no_bands: one queue */
	bool hosts_given, dscp_given;
	__u32 hosts, host_mask; /* enum weir_hosts: each host has a fair share of bulk */
	bool dscp;		/* packets marked EF go ahead */
	bool flow_records, no_flow_records;
	bool advises; /* --advise is given: advice of SCONE packets */
	struct weir_advice advice;
	bool expert;  /* KEY=VALUE may have any key of a profile */
	__u32 *class; /* the classes whose laws are meant; 0x10000 is all of htb 1: */
	unsigned int classes;
	__u32 mark, mark_mask; /* attach, one class: packets with this mark are of it, too */
	bool by_mark, others;  /* others: and those that nothing else tells */
	bool kept;	       /* the daemon asks */
	bool ensures;	       /* a class that has a law already is no error */
	__u32 *except;	       /* ensure: classes that are not meant by all of htb 1:, because the daemon's other */
	unsigned int excepts;  /* tables are about them */
	bool rest;	       /* detach: the laws that the daemon keeps, but those of `class` */
	bool look;	       /* ensure: say what differs, and change nothing */
	bool both;	       /* one of the two requests of --ingress */
	double rate_bit_s, shape_bit_s, ingress_bit_s, fixed;
	enum leaf_aqm leaf_aqm;
	struct weir_framing framing; /* extra_bytes as given, if counts_ip */
	bool mpu_given;
	__u32 sums; /* ensure: WEIR_SUM_* of what is there */
	__u64 limit_packets, limit_bytes;
	long every_ms, count; /* count 0: for ever */
	long expect;	      /* a configuration's number; 0: whatever is in force */
	int words;	      /* after DEV: KEY=VALUE, or more interfaces */
	char **word;
};

/* The requested signal; WEIR_SIGNAL_AUTO if the choice is left to what works there. */
__u32 request_signal(const struct request *r);
/* The hook that is asked for, by its name or by the direction; with neither a virtual queue is at XDP. */
__u32 request_hook(const struct request *r);
/* Whether a new attachment has two bands, by --bands or --shape. */
bool request_has_bands(const struct request *r);
/* Whether a request is about the law of packets that arrive. */
bool request_is_ingress(const struct request *r);

/* Whether there is an option of framing, and the framing on an interface whose link header has so many bytes. */
bool request_frames(const struct request *r);
struct weir_framing request_framing(const struct request *r, __u32 l2_bytes);

/* WEIR_SUM_*: queues whose sum is to have one law. */
__u32 request_sums(const struct request *r);

/* The tree of --shape. */
enum weir_shape_kind request_shape(const struct request *r);

/* Name of an interface and a class: eth0/1:10, eth0/1:, or eth0 where there is not one class. */
#define REQUEST_NAME_LEN (IF_NAMESIZE + 1 + WEIR_CLASS_LEN)
void request_name(const char *dev, __u32 handle, char name[REQUEST_NAME_LEN]);

/* Whether a class is one of those that are asked for, by its number or as one of its htb; all are where none is. */
bool wants_class(const struct request *r, __u32 handle);

/* Whether the options of a request go together. 0, or -1 after one line. */
int request_check(const struct request *r);

#endif /* WEIR_XDP_REQUEST_H */
