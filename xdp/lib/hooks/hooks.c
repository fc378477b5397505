/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/hooks.h"

#include <string.h>

#include "error.h"

extern const struct weir_hook_row weir_hook_tcx, weir_hook_clsact, weir_hook_libxdp, weir_hook_xdp, weir_hook_adopted,
	weir_hook_tc_ingress, weir_hook_qdisc, weir_hook_qdisc_ops;

/* In the order in which they are tried. */
static const struct weir_hook_row *const rows[] = {
	&weir_hook_tcx,	    &weir_hook_clsact,	   &weir_hook_libxdp, &weir_hook_xdp,
	&weir_hook_adopted, &weir_hook_tc_ingress, &weir_hook_qdisc,  &weir_hook_qdisc_ops,
};

#define ROWS (sizeof(rows) / sizeof(*rows))

const struct weir_hook_row *weir_hook_of(const struct weir_meta *about)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i]->hook == about->hook && rows[i]->owner == about->owner)
			return rows[i];
	return NULL;
}

const char *weir_hook_name(__u32 hook)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i]->hook == hook)
			return rows[i]->name;
	return "unknown";
}

int weir_hook_parse(const char *text, __u32 *hook)
{
	*hook = WEIR_HOOK_TC;
	if (!strcmp(text, "tc"))
		return 0;
	for (size_t i = 0; i < ROWS; i++) {
		*hook = rows[i]->hook;
		if (!strcmp(text, rows[i]->name))
			return 0;
	}
	return weir_error("--hook %s: must be tc, tcx, clsact, xdp or qdisc", text);
}

int weir_hook_each(weir_hook_each_f *each, void *context)
{
	int result = 0;

	for (size_t i = 0; i < ROWS && !result; i++)
		result = each(rows[i], context);
	return result;
}

int weir_hook_choose(__u32 wanted, int prog, const char *dev, struct weir_meta *about)
{
	for (size_t i = 0; i < ROWS; i++) {
		int has;

		if (wanted == WEIR_HOOK_TC ? !rows[i]->is_tc : rows[i]->hook != wanted)
			continue;
		has = rows[i]->probe ? rows[i]->probe(prog) : 1;
		if (has < 0)
			return weir_error("%s: can't tell whether this kernel has %s: %s", dev, rows[i]->name,
					  weir_reason(has));
		if (has) {
			about->hook = rows[i]->hook;
			return 0;
		}
		if (wanted != WEIR_HOOK_TC)
			return weir_error("--hook %s: %s", rows[i]->name, rows[i]->lacking);
	}
	return weir_error("%s: this kernel has none of tc's hooks", dev);
}

int weir_hook_check(const struct weir_side *side, const struct weir_meta *about)
{
	int result = 0;

	for (size_t i = 0; i < ROWS && !result; i++)
		if (rows[i]->hook == about->hook && rows[i]->check)
			result = rows[i]->check(side);
	return result;
}

int weir_hook_attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	int result = WEIR_HOOK_UNUSABLE;

	for (size_t i = 0; i < ROWS && result == WEIR_HOOK_UNUSABLE; i++)
		if (rows[i]->hook == about->hook && rows[i]->attach)
			result = rows[i]->attach(side, program, about);
	return weir_meta_write(program->meta, about, side->name) ? -1 : result;
}

int weir_hook_swap(const struct weir_side *side, const struct weir_program *program, const struct weir_meta *old,
		   const char *old_path, struct weir_meta *about)
{
	const struct weir_hook_row *row = weir_hook_of(old);

	if (!row || !row->swap)
		return weir_error("%s: its program can't be replaced in place at hook %s%s: detach and attach again",
				  side->name, weir_hook_name(old->hook),
				  row && row->owner ? ", where another loader has a hand in it" : "");
	about->hook = old->hook;
	about->owner = old->owner;
	return row->swap(side, program, old, old_path, about);
}

bool weir_hook_is_on_far(const struct weir_meta *about, const char *path, const char *name)
{
	const struct weir_hook_row *row = weir_hook_of(about);
	struct weir_side side = {name, (int)about->peer_ifindex, BPF_TC_INGRESS, false};

	return row && row->find(&side, about, path);
}

bool weir_hook_is_on(const struct weir_meta *about, const char *path, const char *name)
{
	const struct weir_hook_row *row = weir_hook_of(about);
	struct weir_side side = weir_side_of(about, name);

	return row && row->find(&side, about, path);
}

void weir_hook_ahead(const struct weir_meta *about, const char *path, int netlink, char *text, size_t size)
{
	const struct weir_hook_row *row = weir_hook_of(about);
	struct weir_side side = weir_side_of(about, about->dev);

	*text = 0;
	if (row && row->ahead)
		row->ahead(&side, netlink, path, text, size);
}
