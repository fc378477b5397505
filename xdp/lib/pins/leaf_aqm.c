/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/leaf_aqm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/pkt_sched.h>

#include "error.h"
#include "net/tree.h"
#include "pins/folder.h"
#include "pins/place.h"
#include "pins/slots.h"

#define NAME "leaves"
#define LEAVES_MOST 65536

#define NAME_LEN 64
#define VALUES_LEN 96

static void pin_name(const char *path, char *pin)
{
	snprintf(pin, PATH_MAX + 32, "%s/" NAME, path);
}

/* The pinned map, or -1 where nothing was disabled. */
static int open_map(const char *path)
{
	char pin[PATH_MAX + 32];
	int map;

	pin_name(path, pin);
	map = bpf_obj_get(pin);
	if (map >= 0 && !weir_map_fits(map, sizeof(struct weir_leaf_aqm))) {
		close(map);
		return -1;
	}
	return map;
}

static int make_map(const char *path)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	char pin[PATH_MAX + 32];
	int map = open_map(path), error;

	if (map >= 0)
		return map;
	map = bpf_map_create(BPF_MAP_TYPE_HASH, NAME, sizeof(__u32), sizeof(struct weir_leaf_aqm), LEAVES_MOST,
			     &options);
	if (map < 0)
		return weir_error("can't create a map for the leaves: %s", weir_reason(errno));
	pin_name(path, pin);
	if (!weir_pin(map, pin))
		return map;
	error = errno;
	close(map);
	return weir_error("%s: can't pin: %s", pin, weir_reason(error));
}

/* "fq_codel 10: in class 1:1" */
static void say_leaf(char *text, size_t size, const char *kind, __u32 handle, __u32 parent)
{
	char name[WEIR_TREE_NAME_LEN], class[WEIR_CLASS_LEN];

	weir_qdisc_name(name, sizeof(name), kind, handle);
	weir_class_name(class, sizeof(class), parent);
	snprintf(text, size, "%s%s%s", name, parent == TC_H_ROOT ? "" : " in class ", parent == TC_H_ROOT ? "" : class);
}

static bool is_wanted(const struct weir_leaves *leaves, __u32 class)
{
	return !leaves->wanted || leaves->wanted(class, leaves->context);
}

static int read_leaves(const struct weir_leaves *leaves, struct weir_aqm_list *aqms)
{
	int error = weir_aqm_read(leaves->netlink, leaves->ifindex, aqms);

	return error ? weir_error("%s: can't read the qdiscs of its classes: %s", leaves->dev, weir_reason(error)) : 0;
}

int weir_leaf_aqm_check(const struct weir_leaves *leaves)
{
	struct weir_aqm_list aqms;
	char name[NAME_LEN];
	int result = 0;

	if (read_leaves(leaves, &aqms))
		return -1;
	for (size_t i = 0; !result && i < aqms.count; i++) {
		const struct weir_aqm *a = &aqms.list[i];

		if (a->state != WEIR_AQM_FIXED || !is_wanted(leaves, a->parent))
			continue;
		say_leaf(name, sizeof(name), a->kind, a->handle, a->parent);
		result = weir_error("%s: --leaf-aqm off: %s %s", leaves->dev, name,
				    a->handle
					    ? "has an AQM that can't be disabled in place; put a fifo or fq_codel there"
					    : "is the kernel's own, which can't be changed; give it a number (tc "
					      "qdisc replace ... handle NUMBER:)");
	}
	free(aqms.list);
	return result;
}

void weir_leaf_aqm_advise(const struct weir_leaves *leaves)
{
	struct weir_aqm_list aqms;
	char name[NAME_LEN];

	if (weir_aqm_read(leaves->netlink, leaves->ifindex, &aqms))
		return;
	for (size_t i = 0; i < aqms.count; i++) {
		const struct weir_aqm *a = &aqms.list[i];

		if (a->state != WEIR_AQM_ON || !is_wanted(leaves, a->parent))
			continue;
		say_leaf(name, sizeof(name), a->kind, a->handle, a->parent);
		weir_note("%s: %s has an AQM of its own, which drops beside the law: --leaf-aqm off disables it until "
			  "detach",
			  leaves->dev, name);
	}
	free(aqms.list);
}

/* An active AQM. Values of an earlier record that are still disabled stay. */
static int turn_off(const struct weir_leaves *leaves, int map, const struct weir_aqm *a)
{
	struct weir_leaf_aqm leaf = {.parent = a->parent}, earlier;
	char name[NAME_LEN], before[VALUES_LEN], after[VALUES_LEN];
	bool known = !bpf_map_lookup_elem(map, &a->handle, &earlier) && !strcmp(earlier.kind, a->kind) &&
		     earlier.parent == a->parent;
	int error;

	memcpy(leaf.kind, a->kind, sizeof(leaf.kind));
	for (int i = 0; i < WEIR_AQM_VALUES; i++) {
		leaf.before[i] = known && a->value[i] == earlier.off[i] ? earlier.before[i] : a->value[i];
		leaf.off[i] = a->off[i];
	}
	say_leaf(name, sizeof(name), a->kind, a->handle, a->parent);
	if (bpf_map_update_elem(map, &a->handle, &leaf, BPF_ANY))
		return weir_error("%s: can't write down the AQM of %s: %s", leaves->dev, name, weir_reason(errno));
	error = weir_aqm_change(leaves->netlink, leaves->ifindex, a, leaf.off);
	if (error)
		return weir_error("%s: can't disable the AQM of %s: %s", leaves->dev, name, weir_reason(error));
	weir_aqm_say(a->kind, leaf.before, leaf.off, before, sizeof(before));
	weir_aqm_say(a->kind, leaf.off, leaf.before, after, sizeof(after));
	weir_note("%s: %s: its AQM is disabled (%s, was %s) until detach", leaves->dev, name, after, before);
	return 0;
}

/* Handles of all records; free(). */
static __u32 *handles_of(int map, size_t *count)
{
	__u32 *list = NULL, key, *last = NULL;

	for (*count = 0; !bpf_map_get_next_key(map, last, &key) && *count < LEAVES_MOST; last = &list[*count - 1]) {
		__u32 *more = realloc(list, (*count + 1) * sizeof(*list));

		if (!more)
			break;
		list = more;
		list[(*count)++] = key;
	}
	return list;
}

/* Records of qdiscs that are not there any more. */
static void forget(int map, const struct weir_aqm_list *aqms)
{
	size_t count;
	__u32 *handles = handles_of(map, &count);

	for (size_t i = 0; i < count; i++) {
		bool there = false;

		for (size_t j = 0; j < aqms->count; j++)
			there |= aqms->list[j].handle == handles[i];
		if (!there)
			bpf_map_delete_elem(map, &handles[i]);
	}
	free(handles);
}

int weir_leaf_aqm_off(const struct weir_leaves *leaves, bool dry_run, bool *differs)
{
	struct weir_aqm_list aqms;
	int result = 0, map = -1;

	if (weir_leaf_aqm_check(leaves) || read_leaves(leaves, &aqms))
		return -1;
	for (size_t i = 0; !result && i < aqms.count; i++) {
		if (aqms.list[i].state != WEIR_AQM_ON || !is_wanted(leaves, aqms.list[i].parent))
			continue;
		*differs = true;
		if (dry_run)
			continue;
		if (map < 0) {
			map = make_map(leaves->path);
			if (map >= 0)
				forget(map, &aqms);
		}
		result = map < 0 ? -1 : turn_off(leaves, map, &aqms.list[i]);
	}
	if (map >= 0)
		close(map);
	free(aqms.list);
	return result;
}

static int restore_one(const struct weir_leaves *leaves, __u32 handle, const struct weir_leaf_aqm *leaf)
{
	bool ours = false, others = false;
	__u32 value[WEIR_AQM_VALUES];
	char name[NAME_LEN], text[VALUES_LEN];
	struct weir_aqm now = {0};
	int error = weir_aqm_look(leaves->netlink, leaves->ifindex, leaf->parent, handle, &now);

	say_leaf(name, sizeof(name), leaf->kind, handle, leaf->parent);
	if (error == -ENOENT || (!error && strcmp(now.kind, leaf->kind))) {
		weir_note("%s: %s was removed or replaced since attach disabled its AQM: nothing is restored there",
			  leaves->dev, name);
		return 0;
	}
	for (int i = 0; !error && i < WEIR_AQM_VALUES; i++) {
		bool is_off = now.value[i] == leaf->off[i];

		value[i] = is_off ? leaf->before[i] : now.value[i];
		ours |= value[i] != now.value[i];
		others |= !is_off && now.value[i] != leaf->before[i];
	}
	if (!error && ours)
		error = weir_aqm_change(leaves->netlink, leaves->ifindex, &now, value);
	if (error)
		return weir_error("%s: can't restore the AQM of %s: %s", leaves->dev, name, weir_reason(error));
	weir_aqm_say(now.kind, value, leaf->before, text, sizeof(text));
	if (others)
		weir_note("%s: %s keeps %s, which was set by another tool", leaves->dev, name, text);
	return 0;
}

int weir_leaf_aqm_restore(const struct weir_leaves *leaves)
{
	int map = open_map(leaves->path), result = 0;
	size_t count;
	__u32 *handles;

	if (map < 0)
		return 0;
	handles = handles_of(map, &count);
	for (size_t i = 0; i < count; i++) {
		struct weir_leaf_aqm leaf;

		if (bpf_map_lookup_elem(map, &handles[i], &leaf) || !is_wanted(leaves, leaf.parent))
			continue;
		if (restore_one(leaves, handles[i], &leaf))
			result = -1;
		else
			bpf_map_delete_elem(map, &handles[i]);
	}
	free(handles);
	close(map);
	return result;
}

int weir_leaf_aqm_carry(const char *from, const char *to)
{
	char pin[PATH_MAX + 32];
	int map = open_map(from), error;

	if (map < 0)
		return 0;
	pin_name(to, pin);
	error = weir_pin(map, pin) ? errno : 0;
	close(map);
	return error ? weir_error("%s: can't pin: %s", pin, weir_reason(error)) : 0;
}

bool weir_leaf_aqm_any(const char *path)
{
	int map = open_map(path);

	if (map >= 0)
		close(map);
	return map >= 0;
}

void weir_leaf_aqm_each(const char *path, weir_leaf_aqm_each_f *each, void *context)
{
	int map = open_map(path);
	struct weir_leaf_aqm leaf;
	__u32 *handles;
	size_t count;

	if (map < 0)
		return;
	handles = handles_of(map, &count);
	for (size_t i = 0; i < count; i++)
		if (!bpf_map_lookup_elem(map, &handles[i], &leaf))
			each(handles[i], &leaf, context);
	free(handles);
	close(map);
}
