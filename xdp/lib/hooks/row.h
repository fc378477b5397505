/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hook that our programs can be at: its operations. Each is one file here that defines its row, and the row's line in
 * the table of hooks.c.
 */
#ifndef WEIR_HOOK_ROW_H
#define WEIR_HOOK_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

#include "weir/maps.h"

#define WEIR_TC_PRIORITY 100 /* after filters an operator puts first, before the thousands tc hands out itself */
#define WEIR_TC_HANDLE 1

/* One end of an attachment: an interface, and a direction. XDP is at the ingress of the one it calls egress. */
struct weir_side {
	const char *name; /* of the interface */
	int ifindex;
	enum bpf_tc_attach_point point; /* BPF_TC_EGRESS: the near end; BPF_TC_INGRESS: the peer's */
	bool received;			/* the near end, at tc's ingress */
};

/* A loaded program, and where to write down what becomes of it. */
struct weir_program {
	int prog;
	const struct bpf_object *object; /* it is of, */
	const void *bytes;		 /* and that object's file: libxdp loads it anew */
	size_t size;
	int config, meta; /* maps */
	const char *path; /* of the pins */
	bool verbose;
};

/* Fields of a hook in `status`. */
struct weir_hook_description {
	const char *direction;	/* "egress" */
	const char *owner;	/* XDP: who put the program there; NULL elsewhere */
	const char *owner_line; /* the same as a line of `status`; NULL where none is needed */
};

/* attach: this way does not work here, and the next one of the same hook should be tried. */
#define WEIR_HOOK_UNUSABLE 1

/* Operations work in the network namespace we are in, and return 0, or -1 after one line, unless they say otherwise. */
struct weir_hook_row {
	__u32 hook, owner; /* as the meta map has them */
	const char *name;  /* in --hook, status and JSON */
	bool is_tc;	   /* one of those that `--hook tc` means */
	bool by_link;	   /* held by a pinned link: detach needs neither the interface nor its namespace */

	/* 1 if the kernel has it, 0 if not, or -errno; NULL: always. `lacking`: the line where it has not. */
	int (*probe)(int prog);
	const char *lacking;

	/* Whether the program can be put there, before anything is changed: 0, or -1 after one line. May be NULL. */
	int (*check)(const struct weir_side *side);
	/*
	 * Puts the program there. Notes in `about` what undoing takes, and writes that to the meta map before each
	 * step. Or WEIR_HOOK_UNUSABLE, with the reason added to about->why. NULL: only another loader does that
	 * (adopt).
	 */
	int (*attach)(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about);
	/*
	 * Puts a program in the place of our program, `old` with its pins: each packet meets the one or the other.
	 * Notes and writes down as attach does. NULL: that can't be done here.
	 */
	int (*swap)(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		    const char *old_path, struct weir_meta *about);
	/* Takes away what `about` says there is, and nothing of anybody else. path: of the pins. Without it there: 0.
	 */
	int (*detach)(const struct weir_side *side, const struct weir_meta *about, const char *path);
	/* Whether our program is there. Also true where that may not be asked. */
	bool (*find)(const struct weir_side *side, const struct weir_meta *about, const char *path);
	struct weir_hook_description (*describe)(void);
	/* Programs before ours that may keep packets from it, as a sentence with the remedy; "" nothing. May be NULL.
	 */
	void (*ahead)(const struct weir_side *side, int netlink, const char *path, char *text, size_t size);
};

/* Common functions of the rows: the near end of an attachment, */
struct weir_side weir_side_of(const struct weir_meta *about, const char *name);
/* "egress" or "ingress", */
const char *weir_point_name(enum bpf_tc_attach_point point);
/* writing `about` down, with a line if that fails, */
int weir_meta_write(int meta, const struct weir_meta *about, const char *name);
/* and the kernel's number of a program; 0 if it can't be read. */
__u32 weir_prog_id(int prog);

#endif /* WEIR_HOOK_ROW_H */
