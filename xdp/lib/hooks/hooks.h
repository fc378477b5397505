/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All hooks behind one table: who attaches, detaches or reports asks here and names none of them.
 */
#ifndef WEIR_HOOKS_H
#define WEIR_HOOKS_H

#include "hooks/row.h"

/* As a choice: TCX where the kernel has it, else clsact. No attachment has it. */
#define WEIR_HOOK_TC 0

/* The row of an attachment; NULL if its meta map names no hook (nothing was attached yet). */
const struct weir_hook_row *weir_hook_of(const struct weir_meta *about);
const char *weir_hook_name(__u32 hook);
int weir_hook_parse(const char *text, __u32 *hook);

/* Calls with each row. */
typedef int weir_hook_each_f(const struct weir_hook_row *row, void *context);
int weir_hook_each(weir_hook_each_f *each, void *context);

/* Sets about->hook: to what --hook asked for if the kernel has it, or to the first of tc's that it has. */
int weir_hook_choose(__u32 wanted, int prog, const char *dev, struct weir_meta *about);
/* Whether about->hook can be used at a side, before anything is changed. */
int weir_hook_check(const struct weir_side *side, const struct weir_meta *about);
/* Attaches at about->hook by the first way that works. */
int weir_hook_attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about);
/* Puts a program in the place of the one that `old` is about, at the same hook. */
int weir_hook_swap(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		   const char *old_path, struct weir_meta *about);
/* Whether our program is on the interface `about` is of, which is called `name` now. */
bool weir_hook_is_on(const struct weir_meta *about, const char *path, const char *name);
/* The same of its other end, in whose namespace we are. */
bool weir_hook_is_on_far(const struct weir_meta *about, const char *path, const char *name);
void weir_hook_ahead(const struct weir_meta *about, const char *path, int netlink, char *text, size_t size);

#endif /* WEIR_HOOKS_H */
