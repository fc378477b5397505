/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by programs and user space: the values of the maps, pinned under /sys/fs/bpf/weir/. They exchange nothing
 * else.
 */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

#ifndef __bpf__
#include <linux/bpf.h>
#endif
#include "bands.h"
#include "coupled.h"

/* XDP: who put our program on the interface. */
enum weir_owner {
	WEIR_OWNER_LOADER = 0,	   /* we, as the only program */
	WEIR_OWNER_DISPATCHER = 1, /* we, in libxdp's dispatcher, beside others */
	WEIR_OWNER_OTHER = 2,	   /* another loader; we gave it its configuration (adopt) */
};

#define WEIR_NAME_LEN 16

enum weir_signal {
	WEIR_SIGNAL_BACKLOG = 1, /* the root qdisc's own counters, read by the program (BTF, JIT) */
	WEIR_SIGNAL_POLL = 2,	 /* counters of the root qdisc, or of classes, polled by a process that runs the law */
	WEIR_SIGNAL_VETH = 3,	 /* bytes in here, bytes out at the peer's ingress */
	WEIR_SIGNAL_VIRTUAL = 4, /* a queue that exists in arithmetic only */
	WEIR_SIGNAL_QDISC = 5,	 /* times of packets in our own qdisc */
};

enum weir_hook {
	WEIR_HOOK_TCX = 1,    /* tc's hooks, by links (Linux 6.6) */
	WEIR_HOOK_CLSACT = 2, /* the same hooks, by filters */
	WEIR_HOOK_XDP = 3,
	WEIR_HOOK_TC_INGRESS = 4, /* a filter at tc's ingress: interfaces without a link header have no XDP */
	WEIR_HOOK_QDISC = 5,	  /* a qdisc in BPF (Linux 6.16) */
};

/* Whether a hook is that of received packets. */
WEIR_INLINE int weir_hook_is_ingress(__u32 hook)
{
	return hook == WEIR_HOOK_XDP || hook == WEIR_HOOK_TC_INGRESS;
}

/* Whether a signal's queue may drain at a rate of the operator's (--rate). */
WEIR_INLINE int weir_signal_takes_rate(__u32 signal)
{
	return signal == WEIR_SIGNAL_VIRTUAL || signal == WEIR_SIGNAL_QDISC;
}

/*
 * The bands of a coupled attachment (docs/design/coupled.md), each at its place in the maps `queue`, `drain` and
 * `counters`. All others have the first one only.
 */
enum weir_band { WEIR_BAND_C, WEIR_BAND_L, WEIR_BANDS };

/* The bands of flows (docs/design/flows.md) have the same places. */
#define WEIR_BAND_BULK WEIR_BAND_C
#define WEIR_BAND_AHEAD WEIR_BAND_L

/*
 * An attachment has one queue or more, each with a slot: its place in the maps `config`, `queue`, `counters` and
 * `flows`. One law for the interface has the first slot. Where each of several classes has a law
 * (docs/design/classes.md), the map `class` has them, and the first slot is of no class: there are the configuration
 * that the attachment was made with, the last time that the poll process looked, and the packets that no law has.
 */
#define WEIR_SLOT_NONE 0
#define WEIR_SLOTS_MAX 65536

enum weir_class_state {
	WEIR_CLASS_FREE = 0,
	WEIR_CLASS_HALF = 1, /* being attached or detached, or that was cut short: no packet meets its law */
	WEIR_CLASS_READY = 2,
};

/* Why the law of a class lets all packets pass, in `poll_unusable`. */
enum weir_class_objection {
	WEIR_CLASS_FITS = 0,
	WEIR_CLASS_MISSING = 1,	   /* there is no such class */
	WEIR_CLASS_NOT_HTB = 2,	   /* nor of mq */
	WEIR_CLASS_INNER = 3,	   /* packets wait in classes below it */
	WEIR_CLASS_SCHEDULING = 4, /* the qdisc in it gives each flow a queue of its own */
	WEIR_CLASS_DELAYING = 5,   /* the qdisc in it holds packets back for a time */
};

struct weir_class {
	__u32 handle; /* 0x1000a is what tc calls 1:a */
	__u32 state;
	__u32 mark; /* packets with this mark are of the class, too */
	__u16 by_mark;
	__u16 kept;	  /* 1: the daemon asks for it, and takes it away when it is no longer configured */
	__u64 sent_bytes; /* by the class, before the attach */
	__u64 serial;	  /* of the attach; in the first slot the number of changes to the table so far */
};

/*
 * Key that leads a packet to its class: a class's number as its priority, as htb takes it, or its mark. Numbers of one
 * htb, the first that got a law, are in the map `minors`, by the minor number alone: that costs a packet a few ns.
 * Those of others and all marks are in `tells`, by the keys below. Queues of mq are classes too, whose minor number is
 * one more than the queue's. The kernel picks one of them for a packet after this, by fields that are known here
 * already.
 */
#define WEIR_MINORS 65536
#define WEIR_BY_PRIORITY(handle) ((__u64)(handle))
#define WEIR_BY_MARK(mark) (1ULL << 32 | (__u32)(mark))

struct weir_telling {
	__u32 major;	 /* of the htb whose classes are in `minors`: 1 is what tc calls 1: */
	__u32 mark_mask; /* 0: not by marks */
	__u32 others;	 /* the slot of packets that neither tells; WEIR_SLOT_NONE: no law has them */
	__u32 queues;	 /* of mq: so many that packets are spread over, and nothing else tells; 0: classes of htb */
};

/* Layer below the interface. */
enum weir_line { WEIR_LINE_PLAIN, WEIR_LINE_ATM, WEIR_LINE_PTM };

/* Bytes on the line beyond those of a packet here. All zero: as they are. */
struct weir_framing {
	__s32 extra_bytes; /* to be added to the packet's length here */
	__u16 mpu_bytes;   /* after which it is at least so long */
	__u8 line;	   /* enum weir_line */
	__u8 counts_ip; /* 1: the operator gave the overhead of an IP packet; less the link header it is extra_bytes */
};

/* Key of a packet's host. */
enum weir_hosts { WEIR_HOSTS_NONE, WEIR_HOSTS_SOURCE, WEIR_HOSTS_DESTINATION, WEIR_HOSTS_MARK };

#define WEIR_HOSTS 4096 /* counters of hosts */
/* Advice in SCONE packets (advise.h). */
enum weir_advise {
	WEIR_ADVISE_OFF,
	WEIR_ADVISE_RATE,  /* a configured rate */
	WEIR_ADVISE_SHARE, /* the line's rate over the number of active flows */
};

struct weir_advice {
	__u64 rate_bit_s;
	__u64 line_bit_s; /* as configured; 0: measured */
	__u32 kind;	  /* enum weir_advise */
	__u32 signal;	  /* of rate_bit_s */
};

/*
 * Everything an operator may set. The program reaches it through a map of maps; a change is a new inner map put in
 * place of the old one, so that a packet sees all of it or nothing.
 */
struct weir_config {
	struct weir_params law;
	__u64 limit_bytes;   /* veth, virtual: the queue's own limit; qdisc: of memory; 0 none */
	__u64 limit_packets; /* veth, qdisc; 0 none */
	__u64 rate_bit_s;    /* virtual, qdisc: the configured rate, and what follows from it: */
	__u64 drain_q32_bytes_per_ns;
	__u64 drain_full_ns; /* after this long any queue is empty, and a shorter time can't overflow */
	__u64 drain_q8_us;   /* the law's dq_time_q8_us */
	__u64 coarse_lag_ns; /* how far the kernel's coarse clock may be behind */
	__u32 signal;
	__u32 frozen;	  /* 1: U stays as it is (a test aid) */
	__u32 l2_bytes;	  /* length of the link header: 14, or 0 on a device without one */
	__u32 ifindex;	  /* backlog: the device to listen to, */
	__u32 netns_inum; /* and its namespace, because an ifindex is unique only inside one */
	/* backlog, poll: the root qdisc found at attach. With another one there the law lets all packets pass. */
	__u32 root_handle;
	char root_kind[WEIR_NAME_LEN] __attribute__((aligned(8)));
	struct weir_coupling coupling;
	__u32 coupled;		      /* 1: two bands, by the class of a packet */
	__u32 band_class[WEIR_BANDS]; /* of the root qdisc; 0x1000a is what tc calls 1:a */
	__u32 target_asked_us;	      /* not 0: the law's target is a higher one, the least for the line's rate */
	struct weir_framing framing;  /* virtual: of the line that drains the queue */
	struct weir_bands flow_bands; /* two bands of flows, by the classes of band_class; ahead_most_bytes 0: none */
	__u32 flow_records;	      /* 1: packets are sampled into records of flows (records.h) */
	__u32 hosts;		      /* enum weir_hosts: with bands of flows, each host has a fair share */
	__u32 host_mask;	      /* bits of a packet's mark that are its host */
	__u32 dscp;		      /* 1: with bands of flows, packets marked EF go ahead */
	struct weir_advice advice;
};

/*
 * Packets and bytes in one word, so that one atomic addition counts both and a reader gets a pair that belongs
 * together: bytes in the low 40 bits, packets in the high 24. Each sum wraps on its own, but the difference of two
 * such sums is right in both fields as long as less than 2^40 bytes and 2^24 packets lie between them.
 */
#define WEIR_PAIR_SHIFT 40
#define WEIR_PAIR(packets, bytes) (((__u64)(packets) << WEIR_PAIR_SHIFT) + (__u64)(bytes))
#define WEIR_PAIR_PACKETS(pair) ((__u64)(pair) >> WEIR_PAIR_SHIFT)
#define WEIR_PAIR_BYTES(pair) ((__u64)(pair) & ((1ULL << WEIR_PAIR_SHIFT) - 1))
/* A difference this large is a negative one. */
#define WEIR_PAIR_NEGATIVE (1ULL << 63)

#ifdef WEIR_NO_LOCK /* tracing programs can't use a map with a lock in it; the qdisc's own lock serves there */
#define WEIR_LOCK_FIELD __u32 lock
#else
#define WEIR_LOCK_FIELD struct bpf_spin_lock lock
#endif

/* Counters of the law. */
struct weir_steps {
	__u64 updates;
	__u64 missed_intervals;
	__u64 rows[5]; /* of Cao Alg. 1 */
};

WEIR_INLINE void weir_count_step(struct weir_steps *n, const struct weir_params *p, int stepped, __u32 row,
				 __u64 elapsed_us)
{
	if (!stepped)
		return;
	n->updates++;
	if (row >= 1 && row <= 5)
		n->rows[row - 1]++;
	if (p->interval_us && elapsed_us >= 2ULL * p->interval_us)
		n->missed_intervals += elapsed_us / p->interval_us - 1;
}

/*
 * A queue as its arrivals see it. `lock` covers the law's step and the virtual queue. With laws of many classes the
 * queue of a packet is seldom in the processor's cache, so what a packet of signal poll reads and writes is one line of
 * it.
 */
#define WEIR_CACHE_LINE_BYTES 64
struct weir_queue {
	struct weir_spacing spacing;
	struct weir_share share;  /* of the flows in `flows` */
	__u64 backlog_bytes;	  /* at the last step */
	__u64 poll_ns;		  /* poll: when the process last wrote */
	__u32 poll_dq_time_q8_us; /* poll: its estimate of the rate, WEIR_TAU_MAX_US << 8 at most */
	__u32 poll_unusable;	  /* poll: not 0 while the law can't go by what is there; of a class, why */
	struct weir_state law;	  /* the line ends behind what a verdict reads; band L: u_q40 is R (coupled.h) */
	__u64 poll_dq_start_us;	  /* poll: when the rate was last measured, for status */
	struct weir_steps poll_steps;
	__u64 in __attribute__((aligned(WEIR_CACHE_LINE_BYTES))); /* veth: WEIR_PAIR, atomic */
	__u64 busy_ns;						  /* veth: when the queue last began to fill */
	__u64 virtual_q16_bytes;				  /* virtual: backlog in 2^-16 bytes, below 2^48 */
	__u64 virtual_ns;					  /* virtual: and its time */
	__u64 low_until_ns; /* poll, band L: when what waits there will have left */
	__u64 low_share_ns; /* the same at L's share of the line, while band C waits */
	struct bpf_spin_lock lock;
	__u32 tau_us; /* handed to the last step */
};
_Static_assert(__builtin_offsetof(struct weir_queue, law.last_us) <= WEIR_CACHE_LINE_BYTES, "more than a line");

/* The same queue as its departures see it. `lock` covers the rate, the rest is atomic. */
struct weir_drain {
	WEIR_LOCK_FIELD;
	__u32 reserved;
	struct weir_rate rate;
	__u64 backlog_bytes; /* backlog: at the last departure, and what has come since */
	__u64 out;	     /* veth: WEIR_PAIR */
	__u64 last_ns;	     /* veth: the last departure, to the tick */
	__u64 strays;	     /* packets that came out and had not gone in through us */
};

/* Per CPU. Passed = seen - dropped. */
struct weir_counters {
	__u64 seen_packets;
	__u64 seen_bytes;
	__u64 marked_packets;
	__u64 marked_bytes;
	__u64 dropped_aqm_packets;
	__u64 dropped_aqm_bytes;
	__u64 dropped_limit_packets;
	__u64 dropped_limit_bytes;
	__u64 non_ip_packets; /* of those passed or dropped by the limit: neither IP nor by name, left alone */
	__u64 non_ip_bytes;
	__u64 resyncs; /* veth: times the count of the queue was found stuck and started anew */
	__u64 stale;   /* poll: packets decided on a probability whose process is silent */
	/* backlog, poll: observes a queue that the law can't use, because what stands under the interface has
	 * changed */
	__u64 unusable;
	__u64 advised; /* packets whose SCONE signal was lowered */
	struct weir_steps steps;
};

#define WEIR_PATH_LEN 128

/* A shaper that weir-xdp made under the interface (--shape): an htb of one class with a fifo in it. */
struct weir_shape {
	__u64 rate_bit_s;
	__u32 handle; /* of the root; 0: none was made */
	__u32 limit_packets;
	__u32 flows; /* 1: in the place of the fifo that the law controls a fq_codel without its CoDel */
	__u32 reserved;
	struct weir_framing framing;
};

/* Queues whose sum one law controls, because the operator wants it. */
#define WEIR_SUM_CLASSES 1 /* of all classes and flows of the tree */
#define WEIR_SUM_FLOWS 2   /* of the flows of a qdisc */

/*
 * State that the loader needs to undo and to report; programs don't read it. Each thing is written down before it is
 * done, so that a loader killed at any moment leaves nothing that the next one can't find.
 */
struct weir_meta {
	__u32 complete; /* 1: the attach came to its end */
	__u32 signal;
	__u32 hook;
	__u32 ifindex;
	__u32 peer_ifindex;
	__u32 made_clsact;
	__u32 peer_made_clsact;
	__u32 prog_id; /* clsact and XDP, to know them again; TCX is known by its pinned links */
	__u32 peer_prog_id;
	__s32 poll_pid;
	__s32 poll_errno;
	__u32 whole_tree;	/* WEIR_SUM_* */
	__u64 poll_start_ticks; /* distinguishes the process from a later one with its number */
	__u64 netns_inum;
	__u64 netns_cookie; /* 0 before Linux 5.14 */
	__u64 peer_netns_inum;
	__u64 peer_netns_cookie;
	__u64 sent_bytes; /* by the root qdisc, before the attach */
	__u64 build;	  /* distinguishes the programs of one version of weir-xdp from those of another */
	struct weir_shape shape;
	__u32 config_map_id; /* XDP: to know our program among others */
	__u32 owner;	     /* enum weir_owner */
	__u16 kept;	     /* 1: the daemon keeps it, and takes it away when it is no longer configured */
	__u16 by_direction;  /* at ingress, 1: its name is DEV/ingress, not DEV */
	__u32 slots;	     /* of queues: 1, the interface's own; with laws of classes also room for these */
	__u32 both;	     /* 1: made with the law of the other direction by one command (--ingress) */
	__u32 reserved;
	char dev[WEIR_NAME_LEN];
	char peer[WEIR_NAME_LEN];
	char netns[WEIR_PATH_LEN];
	char peer_netns[WEIR_PATH_LEN];
	char why[WEIR_PATH_LEN]; /* this signal */
};

/* A poll process silent for this many intervals is taken for dead; U halves for each further such stretch. */
#define WEIR_POLL_SILENT_INTERVALS 8

/* veth: a queue that gave nothing for so long has lost its packets elsewhere. Slower than 12 kbit/s it can't be. */
#define WEIR_STUCK_NS 1000000000ULL

#endif /* WEIR_MAPS_H */
