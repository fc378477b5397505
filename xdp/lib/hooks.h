/* SPDX-License-Identifier: Apache-2.0 */
/* Our programs at an interface's hooks: putting them there, seeing whether they are, taking them away. */
#ifndef WEIR_HOOKS_H
#define WEIR_HOOKS_H

#include <stdbool.h>

#include <bpf/libbpf.h>

#include "weir/maps.h"

#define WEIR_TC_PRIORITY 100 /* after filters an operator puts first, before the thousands tc hands out itself */

/* While it is open whether tc means TCX or clsact. */
#define WEIR_HOOK_TC 0

struct weir_side {
	const char *name; /* of the interface */
	int ifindex;
	enum bpf_tc_attach_point point;
};

/* Functions return 0, or -1 after one line, and work in the namespace we are in, unless they say otherwise. */

const char *weir_hook_name(__u32 hook);
int weir_hook_parse(const char *text, __u32 *hook);

/* Where the links of both ends are pinned. They are all that holds TCX programs there. */
void weir_link_pin(char *pin, size_t size, const char *path, enum bpf_tc_attach_point point);

int weir_at_tcx(const struct weir_side *side, int prog, const char *path);
int weir_off_tcx(const char *name, const char *path, enum bpf_tc_attach_point point);

/* *made_clsact says beforehand whether we may make it (weir_clsact_is_there), and afterwards whether we did. */
int weir_at_clsact(const struct weir_side *side, int prog, __u32 *made_clsact);
bool weir_is_at_clsact(const struct weir_side *side, __u32 prog_id);
/* Takes our filter off, and clsact if it was ours and nobody else has a filter on it. own: the path of our pins. */
int weir_off_clsact(const struct weir_side *side, __u32 prog_id, bool made_clsact, const char *own);

/* Where another loader put our program, takes only its configuration away: it then lets everything pass. */
int weir_off_xdp(const char *name, const struct weir_meta *about, const char *path);

/* Whether our program is on the interface, called `name`. link: ours at egress, TCX only. */
bool weir_program_is_on(const struct weir_meta *about, int link, const char *name);

/* The kernel's number of a program; 0 if it can't be told. */
__u32 weir_prog_id(int prog);

#endif /* WEIR_HOOKS_H */
