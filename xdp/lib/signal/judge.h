/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what stands under an interface is a queue that one law can control. */
#ifndef WEIR_JUDGE_H
#define WEIR_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/classes.h"
#include "net/net.h"
#include "net/tree.h"
#include "weir/maps.h"

/* Why a root qdisc keeps no backlog that a signal could read, or NULL. */
const char *weir_qdisc_objection(const struct weir_qdisc *qdisc);

/*
 * Why the law can't go by this queue, and what to do, as a sentence without its subject's name; false if it can. sums:
 * WEIR_SUM_*. A virtual queue takes any tree.
 */
bool weir_tree_objection(const struct weir_tree *tree, __u32 signal, __u32 sums, char *why, size_t size);

/*
 * The same for two coupled bands: the tree must have two classes to wait in, those of `band_class`. Where that has none
 * they are found: L is the one served first.
 */
bool weir_coupled_objection(const struct weir_tree *tree, __u32 signal, __u32 *band_class, char *why, size_t size);

/*
 * The two classes of an htb or prio that is the root, that of band A the one served first. False with the reason where
 * the tree has others.
 */
bool weir_bands_objection(const struct weir_tree *tree, __u32 signal, __u32 sums, __u32 *band_class, char *why,
			  size_t size);

/* The same for the classes found at attach. */
bool weir_bands_trouble(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
			size_t size);

/* Objection to the tree under a law that is attached, by its bands. */
bool weir_config_objection(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
			   size_t size);

/*
 * Whether one law can control this class, by what its qdisc in it is (weir_leaf_read). inner: there are classes below
 * it. sums: WEIR_SUM_*, any of which is one law over all flows of the class.
 */
enum weir_class_objection weir_class_judge(const struct weir_qdisc *now, bool inner, const struct weir_tree *leaf,
					   __u32 sums);
/* The same as a sentence without its subject's name, "class 1:10 ..."; false if there is nothing against it. */
bool weir_class_say(enum weir_class_objection objection, __u32 handle, char *why, size_t size);

/* The same of what stands there while the law is attached, and whether the root is still the one found at attach. */
bool weir_tree_trouble(const struct weir_tree *tree, const struct weir_config *config, __u32 sums, char *why,
		       size_t size);

#endif /* WEIR_JUDGE_H */
