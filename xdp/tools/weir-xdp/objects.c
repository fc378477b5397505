/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/objects.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/libxdp.h"
#include "net/net.h"
#include "pins/folder.h"
#include "weir/maps.h"

#include "weir_backlog.skel.h"
#include "weir_ahead.skel.h"
#include "weir_classes.skel.h"
#include "weir_coupled.skel.h"
#include "weir_drr.skel.h"
#include "weir_tc.skel.h"
#include "weir_xdp.skel.h"

static int map_of(const struct loaded *l, const char *name)
{
	return bpf_object__find_map_fd_by_name(l->object, name);
}

static const void *object_bytes(__u32 signal, __u32 hook, enum object_kind kind, size_t *size)
{
	if (signal == WEIR_SIGNAL_BACKLOG)
		return weir_backlog__elf_bytes(size);
	if (kind == OBJECT_COUPLED)
		return weir_coupled__elf_bytes(size);
	if (kind == OBJECT_BANDS)
		return weir_ahead__elf_bytes(size);
	if (kind == OBJECT_CLASSES)
		return weir_classes__elf_bytes(size);
	if (hook == WEIR_HOOK_QDISC)
		return weir_drr__elf_bytes(size);
	return hook == WEIR_HOOK_XDP ? weir_xdp__elf_bytes(size) : weir_tc__elf_bytes(size);
}

/* FNV-1a of the object's file. */
__u64 object_build(__u32 signal, __u32 hook, enum object_kind kind)
{
	__u64 hash = 0xcbf29ce484222325ULL;
	size_t size;
	const unsigned char *bytes = object_bytes(signal, hook, kind, &size);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
	return hash;
}

/* The maps that have a value for each class. Each class can have two keys for its packets. */
static int give_room(const struct loaded *l, __u32 slots)
{
	static const char *const names[] = {"class", "config", "queue", "counters", "flows"};
	struct bpf_map *tells = bpf_object__find_map_by_name(l->object, "tells");
	int error = bpf_map__set_max_entries(tells, 2 * slots);

	for (size_t i = 0; !error && i < sizeof(names) / sizeof(*names); i++)
		error = bpf_map__set_max_entries(bpf_object__find_map_by_name(l->object, names[i]), slots);
	return error;
}

/* One entry for a map that this attachment does not use. */
static int give_one(const struct loaded *l, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(l->object, name);

	return map ? bpf_map__set_max_entries(map, 1) : 0;
}

/* Whether the program writes advice, and the size of its map. */
static int give_advice(const struct loaded *l)
{
	struct bpf_map *constant = bpf_object__find_map_by_name(l->object, ".rodata.advise");
	struct bpf_map *advised = bpf_object__find_map_by_name(l->object, "advised");
	const __u32 advises = l->advises;

	return constant && advised && l->advises ? bpf_map__set_initial_value(constant, &advises, sizeof(advises)) : 0;
}

/* Maps that no program reads stay with the programs too, the record of the attachment among them: lost pins can be
 * restored, and programs without any are known (lib/remains). */
static void keep_maps(const struct loaded *l)
{
	struct bpf_program *prog;
	struct bpf_map *map;

	bpf_object__for_each_program(prog, l->object) bpf_object__for_each_map(map, l->object)
	{
		/* a map of operations holds its programs: in a ring neither would ever be freed */
		if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS ||
		    bpf_program__type(prog) != BPF_PROG_TYPE_STRUCT_OPS)
			bpf_prog_bind_map(bpf_program__fd(prog), bpf_map__fd(map), NULL);
	}
}

/* The object of a qdisc, with its name in it. 0 or -errno. */
static int open_qdisc(struct loaded *l)
{
	void *bytes = malloc(l->size);
	int error;

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, l->bytes, l->size);
	error = weir_qdisc_name_object(bytes, l->size, l->qdisc);
	l->object = error ? NULL : bpf_object__open_mem(bytes, l->size, NULL);
	if (!error)
		error = l->object ? weir_qdisc_tag_object(l->object) : -errno;
	if (error && l->object)
		bpf_object__close(l->object);
	free(bytes); /* libbpf has its own */
	return error;
}

int load_object(__u32 signal, __u32 hook, enum object_kind kind, __u32 slots, struct loaded *l)
{
	int error;

	l->bytes = object_bytes(signal, hook, kind, &l->size);
	l->build = object_build(signal, hook, kind);
	if (hook == WEIR_HOOK_QDISC) {
		error = open_qdisc(l);
		if (error)
			return error;
	} else {
		l->object = bpf_object__open_mem(l->bytes, l->size, NULL);
		if (!l->object)
			return -errno;
	}
	error = slots > 1 ? give_room(l, slots) : 0;
	if (!error && !l->flow_records)
		error = give_one(l, "flow_records");
	if (!error && !l->hosts)
		error = give_one(l, "hosts");
	if (!error)
		error = give_advice(l);
	if (!error)
		error = bpf_object__load(l->object);
	if (error) {
		bpf_object__close(l->object);
		l->object = NULL;
		return error;
	}
	l->a.config = map_of(l, "config");
	l->a.queue = map_of(l, "queue");
	l->a.counters = map_of(l, "counters");
	l->a.meta = map_of(l, "meta");
	l->a.class = map_of(l, "class");
	l->a.minors = map_of(l, "minors");
	l->a.tells = map_of(l, "tells");
	l->a.telling = map_of(l, "telling");
	l->a.about.slots = slots;
	keep_maps(l);
	return 0;
}

int pin_object(const struct loaded *l, const char *path)
{
	struct bpf_map *map;
	struct bpf_program *prog;
	char name[PATH_MAX + 64];

	bpf_object__for_each_map(map, l->object)
	{
		if (bpf_map__is_internal(map) || !strcmp(bpf_map__name(map), "meta"))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, bpf_map__name(map));
		if (weir_pin(bpf_map__fd(map), name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	bpf_object__for_each_program(prog, l->object)
	{
		snprintf(name, sizeof(name), "%s/prog_%s", path, bpf_program__name(prog));
		if (weir_pin(bpf_program__fd(prog), name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	return 0;
}

int attach_departures(const struct loaded *l, const char *path)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(l->object, "weir_departures");
	struct bpf_link *link = bpf_program__attach(prog);
	char name[PATH_MAX + 32];
	int error;

	if (!link)
		return weir_error("can't attach to the qdisc_dequeue tracepoint: %s", weir_reason(errno));
	snprintf(name, sizeof(name), "%s/link_departures", path);
	error = weir_pin(bpf_link__fd(link), name) ? errno : 0;
	bpf_link__disconnect(link);
	bpf_link__destroy(link);
	return error ? weir_error("%s: can't pin: %s", name, weir_reason(error)) : 0;
}

int load_adopted(const char *dev, const char *netns, int ifindex, struct loaded *l)
{
	static const __u32 first = 0;
	static const char *const names[] = {"config", "queue", "counters"};
	static const __u32 sizes[] = {sizeof(__u32), sizeof(struct weir_queue), sizeof(struct weir_counters)};
	int *const maps[] = {&l->a.config, &l->a.queue, &l->a.counters};
	__u32 inner;
	int prog, back;

	if (weir_netns_enter(netns, &back))
		return -1;
	prog = weir_xdp_find(ifindex, 0, "weir_ingress");
	weir_netns_leave(back);
	if (prog < 0)
		return weir_error("%s: %s%s", dev,
				  prog == -ENOENT
					  ? "no XDP program weir_ingress is on it; load weir_xdp.bpf.o first, or "
					    "let `weir-xdp attach` do it all"
					  : "can't look at its XDP program: ",
				  prog == -ENOENT ? "" : weir_reason(prog));
	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		struct bpf_map_info info = {0};
		__u32 size = sizeof(info);

		*maps[i] = weir_prog_map(prog, names[i]);
		if (*maps[i] < 0 || bpf_obj_get_info_by_fd(*maps[i], &info, &size) || info.value_size != sizes[i]) {
			close(prog);
			return weir_error("%s: its weir_ingress is of another version: its map %s has another layout",
					  dev, names[i]);
		}
	}
	close(prog);
	if (!bpf_map_lookup_elem(l->a.config, &first, &inner))
		return weir_error("%s: its weir_ingress has a configuration: it is attached, with pins in another "
				  "folder (--pins)",
				  dev);
	/* no program reads it, so none keeps the one of its object alive */
	l->a.meta = bpf_map_create(BPF_MAP_TYPE_ARRAY, "meta", sizeof(__u32), sizeof(struct weir_meta), 1, NULL);
	return l->a.meta < 0 ? weir_error("can't create a map: %s", weir_reason(errno)) : 0;
}

int pin_adopted(const struct loaded *l, const char *path)
{
	const struct {
		const char *name;
		int map;
	} pins[] = {{"config", l->a.config}, {"queue", l->a.queue}, {"counters", l->a.counters}};
	char name[PATH_MAX + 32];

	for (size_t i = 0; i < sizeof(pins) / sizeof(*pins); i++) {
		snprintf(name, sizeof(name), "%s/%s", path, pins[i].name);
		if (weir_pin(pins[i].map, name))
			return weir_error("%s: can't pin: %s", name, weir_reason(errno));
	}
	return 0;
}
