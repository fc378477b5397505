/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/judge.h"

#include <stdio.h>
#include <string.h>

#include <linux/pkt_sched.h>

#include "signal/bands.h"
#include "signal/root.h"
#include "signal/signals.h"

const char *weir_qdisc_objection(const struct weir_qdisc *qdisc)
{
	static const char *const without_sum[] = {"mqprio", "taprio", "cake_mq", "pfifo_fast", "clsact", "ingress"};

	if (!*qdisc->kind)
		return "it has no queue; put a shaper on it first (htb at slightly less than the link), or attach to "
		       "the device below where this is a bridge, bond or VLAN; see --help";
	if (!strcmp(qdisc->kind, "mq"))
		return qdisc->handle
			       ? "its root qdisc, mq, has a queue for each of the interface, and no rate over them; "
				 "give each a law (--class 1:, where 1: is the number that tc shows for mq), or remove "
				 "mq (tc qdisc del dev DEV root) and shape all to one rate (--shape RATE)"
			       : "its root qdisc is the kernel's own mq, with a queue for each of the interface, and "
				 "no "
				 "rate over them; shape all to one rate (--shape RATE), or give mq a number (tc qdisc "
				 "replace dev DEV root handle 1: mq), then each queue a law (--class 1:)";
	for (size_t i = 0; i < sizeof(without_sum) / sizeof(*without_sum); i++)
		if (!strcmp(qdisc->kind, without_sum[i]))
			return "its root qdisc keeps no backlog that can be read; put a shaper there (htb), see --help";
	return NULL;
}

bool weir_tree_objection(const struct weir_tree *tree, __u32 signal, __u32 sums, char *why, size_t size)
{
	const struct weir_signal_row *row = weir_signal_of(signal);

	if (!row || row->queue_elsewhere || !*tree->kind)
		return false;
	if (*tree->delaying)
		snprintf(why, size,
			 "%s under it holds packets back for a time, and what it holds would count as queue; put that "
			 "delay on another interface (the link's other end, or an ifb), or take a virtual queue "
			 "(--rate RATE --hook tc)",
			 tree->delaying);
	else if (*tree->scheduling && !sums)
		snprintf(
			why, size,
			"%s under it gives each flow a queue of its own, and the law would see their sum only and drop "
			"from flows that have none; put one fifo there, or insist on one law for all flows by "
			"--leaf-aqm off (keeps the flow queues, disables their AQM) or by --whole-tree",
			tree->scheduling);
	else if (tree->queues > 1 && !(sums & WEIR_SUM_CLASSES))
		snprintf(why, size,
			 "%u classes under it have queues of their own, and the law would see their sum only and drop "
			 "from those that are empty; put one fifo there, or insist on one law for all by --whole-tree",
			 tree->queues);
	else if (*tree->unshaped && row->reads_root)
		snprintf(why, size,
			 "%s has no class, so that it shapes nothing and no packet waits there; add a class (tc class "
			 "add ... htb rate RATE)",
			 tree->unshaped);
	else
		return false;
	return true;
}

static bool is_leaf(const struct weir_tree *tree, __u32 handle)
{
	return tree->leaf[0].handle == handle || tree->leaf[1].handle == handle;
}

#define CLASS "%x:%x"
#define NUMBERS(handle) TC_H_MAJ(handle) >> 16, TC_H_MIN(handle)

/* Whether packets wait in the bands of one prio, the root or below a shaper. */
static bool is_prio(const struct weir_tree *tree)
{
	return tree->queues == 2 && tree->leaf[0].of_prio && tree->leaf[1].of_prio &&
	       TC_H_MAJ(tree->leaf[0].handle) == TC_H_MAJ(tree->leaf[1].handle);
}

/* Place of a leaf in the order of service: lower is first. */
static __u32 order_of(const struct weir_leaf *leaf)
{
	return leaf->of_prio ? TC_H_MIN(leaf->handle) : leaf->prio;
}

bool weir_coupled_objection(const struct weir_tree *tree, __u32 signal, __u32 *band_class, char *why, size_t size)
{
	static const char wanted[] = "two coupled bands need an htb, or with signal poll a prio, with two classes that "
				     "packets wait in (weir-xdp makes them with --shape RATE --coupled)";
	const struct weir_leaf *leaf = tree->leaf;
	struct weir_tree one = *tree;
	__u32 low, classic, low_prio, classic_prio;
	bool prio = is_prio(tree);

	one.queues = 1;
	if (strcmp(tree->kind, "htb") && !prio) {
		char root[WEIR_TREE_NAME_LEN];

		weir_qdisc_name(root, sizeof(root), tree->kind, tree->handle);
		snprintf(why, size, "its root qdisc is %s; %s", root, wanted);
		return true;
	}
	if (weir_tree_objection(&one, signal, 0, why, size))
		return true;
	if (tree->queues != 2 || *tree->unshaped) {
		snprintf(why, size, "packets wait in %u classes; %s", *tree->unshaped ? 0 : tree->queues, wanted);
		return true;
	}
	if (prio && signal == WEIR_SIGNAL_VETH) { /* poll_low() has the bound that keeps C from starving */
		snprintf(why, size,
			 "packets wait in the bands of a prio, which serves L without a bound; with signal veth an htb "
			 "is needed");
		return true;
	}
	if (!band_class[WEIR_BAND_L]) {
		bool second = order_of(&leaf[1]) < order_of(&leaf[0]);

		band_class[WEIR_BAND_L] = leaf[second].handle;
		band_class[WEIR_BAND_C] = leaf[!second].handle;
	}
	low = band_class[WEIR_BAND_L];
	classic = band_class[WEIR_BAND_C];
	if (!is_leaf(tree, low) || !is_leaf(tree, classic)) {
		snprintf(why, size,
			 "packets wait in classes " CLASS " and " CLASS ", not in " CLASS " and " CLASS
			 "; give those that are there",
			 NUMBERS(tree->leaf[0].handle), NUMBERS(tree->leaf[1].handle), NUMBERS(low), NUMBERS(classic));
		return true;
	}
	low_prio = order_of(&leaf[leaf[1].handle == low]);
	classic_prio = order_of(&leaf[leaf[1].handle == classic]);
	if (low_prio < classic_prio)
		return false;
	snprintf(why, size,
		 "class " CLASS " of band L has prio %u and class " CLASS " of band C prio %u; L must be served first: "
		 "give it the lower prio (tc class change ... prio 0)",
		 NUMBERS(low), low_prio, NUMBERS(classic), classic_prio);
	return true;
}

bool weir_bands_objection(const struct weir_tree *tree, __u32 signal, __u32 sums, __u32 *band_class, char *why,
			  size_t size)
{
	static const char wanted[] = "two bands need an htb or prio as the root, with two classes that packets wait in";
	const struct weir_leaf *leaf = tree->leaf;
	bool prio = !strcmp(tree->kind, "prio");
	struct weir_tree one = *tree;
	__u32 first;

	one.queues = 1;
	if (strcmp(tree->kind, "htb") && !prio) {
		char root[WEIR_TREE_NAME_LEN];

		weir_qdisc_name(root, sizeof(root), tree->kind, tree->handle);
		snprintf(why, size, "its root qdisc is %s; %s (weir-xdp makes them with --shape RATE --bands)", root,
			 wanted);
		return true;
	}
	if (weir_tree_objection(&one, signal, sums, why, size))
		return true;
	if (tree->queues != 2 || *tree->unshaped) {
		snprintf(why, size, "packets wait in %u classes; %s", *tree->unshaped ? 0 : tree->queues, wanted);
		return true;
	}
	if (!prio && leaf[0].prio == leaf[1].prio) {
		snprintf(why, size,
			 "classes " CLASS " and " CLASS " both have prio %u; give the one that is to be served first a "
			 "lower one (tc class change ... prio 0)",
			 NUMBERS(leaf[0].handle), NUMBERS(leaf[1].handle), leaf[0].prio);
		return true;
	}
	first = prio ? leaf[1].handle < leaf[0].handle : leaf[1].prio < leaf[0].prio;
	band_class[WEIR_BAND_AHEAD] = leaf[first].handle;
	band_class[WEIR_BAND_BULK] = leaf[!first].handle;
	return false;
}

bool weir_bands_trouble(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
			size_t size)
{
	__u32 band_class[WEIR_BANDS] = {0};

	if (weir_bands_objection(tree, config->signal, sums, band_class, why, size))
		return true;
	if (!memcmp(band_class, config->band_class, sizeof(band_class)))
		return false;
	snprintf(why, size,
		 "its bands were classes " CLASS " and " CLASS " at attach and are " CLASS " and " CLASS " now; "
		 "detach and attach again",
		 NUMBERS(config->band_class[WEIR_BAND_AHEAD]), NUMBERS(config->band_class[WEIR_BAND_BULK]),
		 NUMBERS(band_class[WEIR_BAND_AHEAD]), NUMBERS(band_class[WEIR_BAND_BULK]));
	return true;
}

enum weir_class_objection weir_class_judge(const struct weir_qdisc *now, bool inner, const struct weir_tree *leaf,
					   __u32 sums)
{
	if (!now->handle)
		return WEIR_CLASS_MISSING;
	if (strcmp(now->kind, "htb") && strcmp(now->kind, "mq"))
		return WEIR_CLASS_NOT_HTB;
	if (inner || *leaf->dividing)
		return WEIR_CLASS_INNER;
	if (*leaf->delaying)
		return WEIR_CLASS_DELAYING;
	return *leaf->scheduling && !sums ? WEIR_CLASS_SCHEDULING : WEIR_CLASS_FITS;
}

bool weir_class_say(enum weir_class_objection objection, __u32 handle, char *why, size_t size)
{
	static const char *const what[] = {
		[WEIR_CLASS_MISSING] = "is not there",
		[WEIR_CLASS_NOT_HTB] =
			"is no class of htb and no queue of mq, the only ones that a law of a class goes by",
		[WEIR_CLASS_INNER] = "has classes below it, and no packets of its own; give those",
		[WEIR_CLASS_SCHEDULING] = "has a qdisc in it that gives each flow a queue of its own; put one fifo "
					  "there, or insist on one law for all its flows by --leaf-aqm off, or "
					  "--whole-tree",
		[WEIR_CLASS_DELAYING] = "has a qdisc in it that holds packets back for a time, which would count as "
					"queue; put that delay on another interface",
	};

	if (objection <= WEIR_CLASS_FITS || objection >= sizeof(what) / sizeof(*what))
		return false;
	snprintf(why, size, "class " CLASS " %s", NUMBERS(handle), what[objection]);
	return true;
}

bool weir_config_objection(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
			   size_t size)
{
	__u32 band_class[WEIR_BANDS];

	memcpy(band_class, config->band_class, sizeof(band_class));
	if (weir_has_bands(config))
		return weir_bands_trouble(tree, config, sums, why, size);
	return config->coupled ? weir_coupled_objection(tree, config->signal, band_class, why, size)
			       : weir_tree_objection(tree, config->signal, sums, why, size);
}

bool weir_tree_trouble(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
		       size_t size)
{
	const struct weir_signal_row *row = weir_signal_of(config->signal);
	bool reads_root = row && row->reads_root;
	char was[WEIR_TREE_NAME_LEN], is[WEIR_TREE_NAME_LEN], objection[512];

	weir_qdisc_name(was, sizeof(was), config->root_kind, config->root_handle);
	weir_qdisc_name(is, sizeof(is), tree->kind, tree->handle);
	if (reads_root && !weir_root_is(config, tree->kind, tree->handle))
		snprintf(
			why, size,
			"its root qdisc was %s at attach and is %s now: the law lets all packets pass; put it back, or "
			"detach and attach again",
			was, is);
	else if (!reads_root && *config->root_kind && !*tree->kind)
		snprintf(why, size, "its root qdisc was %s at attach and is %s now: no packet waits there", was, is);
	else if (weir_config_objection(tree, config, sums, objection, sizeof(objection)))
		snprintf(why, size, "%s: %s",
			 config->signal == WEIR_SIGNAL_POLL ? "the law lets all packets pass"
							    : "the law goes by the wrong queue",
			 objection);
	else
		return false;
	return true;
}
