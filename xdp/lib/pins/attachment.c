/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/attachment.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "error.h"
#include "pins/folder.h"
#include "pins/place.h"

/* The present inner map, pinned, and the one that will be; of a slot but the first one with its number behind. */
#define CONFIG_NOW "config_now"
#define CONFIG_NEXT "config_next"
#define CONFIG_LEN 32

static const __u32 first = 0;

/* Maps that an attachment must have; those behind the first few only with laws of classes. */
/* Versions of clang-format differ here. */
/* clang-format off */
#define MAP(member) { #member, offsetof(struct weir_attachment, member) }
/* clang-format on */
#define ONE_LAW_MAPS 3
#define COUNT(array) (sizeof(array) / sizeof(*(array)))
static const struct {
	const char *name;
	size_t at;
} maps[] = {MAP(config), MAP(queue), MAP(counters), MAP(class), MAP(minors), MAP(tells), MAP(telling)};

static int get(const char *path, const char *name)
{
	char pin[PATH_MAX + 32];

	snprintf(pin, sizeof(pin), "%s/%s", path, name);
	return bpf_obj_get(pin);
}

static void config_name(char *name, const char *which, __u32 slot)
{
	if (slot)
		snprintf(name, CONFIG_LEN, "%s-%u", which, slot);
	else
		snprintf(name, CONFIG_LEN, "%s", which);
}

int weir_attachment_open(struct weir_attachment *a, const char *path, const char *dev)
{
	struct stat st;

	*a = WEIR_ATTACHMENT_NONE;
	snprintf(a->path, sizeof(a->path), "%s", path);
	if (stat(a->path, &st)) {
		if (errno == ENOENT || errno == ENOTDIR)
			return weir_error("%s was detached", dev);
		return weir_error("%s: %s", a->path, weir_pin_reason(errno));
	}
	a->folder_id = st.st_ino;
	a->meta = get(a->path, "meta");
	if (a->meta < 0 && (errno == EPERM || errno == EACCES))
		return weir_error("%s: %s", dev, weir_pin_reason(errno));
	if (a->meta >= 0 && !weir_map_fits(a->meta, sizeof(a->about))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	if (a->meta < 0 || weir_meta_load(a->meta, &a->about) || !a->about.complete) {
		weir_attachment_close(a);
		weir_error("%s holds the leftovers of an attach that was cut short; `weir-xdp detach %s` removes them, "
			   "and so does the next attach",
			   a->path, dev);
		return WEIR_INCOMPLETE;
	}
	for (size_t i = 0; i < (a->about.slots > 1 ? COUNT(maps) : ONE_LAW_MAPS); i++) {
		int *fd = (int *)((char *)a + maps[i].at), error;

		*fd = get(a->path, maps[i].name);
		error = errno;
		if (*fd >= 0)
			continue;
		weir_attachment_close(a);
		return weir_error("%s: a map is missing (%s); `weir-xdp ensure %s` restores it", a->path,
				  strerror(error), dev);
	}
	a->drain = get(a->path, "drain");
	if (!weir_map_fits(a->queue, sizeof(struct weir_queue)) ||
	    !weir_map_fits(a->counters, sizeof(struct weir_counters)) ||
	    (a->drain >= 0 && !weir_map_fits(a->drain, sizeof(struct weir_drain))) ||
	    (a->class >= 0 && !weir_map_fits(a->class, sizeof(struct weir_class)))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	return 0;
}

void weir_attachment_close(struct weir_attachment *a)
{
	int *const fds[] = {&a->config, &a->queue,  &a->counters, &a->drain,  &a->meta,
			    &a->class,	&a->minors, &a->tells,	  &a->telling};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static bool lacks(const char *path, const char *name)
{
	char pin[PATH_MAX + 32];

	snprintf(pin, sizeof(pin), "%s/%s", path, name);
	return access(pin, F_OK) && errno == ENOENT;
}

bool weir_attachment_lacks_map(const char *path, const struct weir_meta *about)
{
	for (size_t i = 0; i < (about->slots > 1 ? COUNT(maps) : ONE_LAW_MAPS); i++)
		if (lacks(path, maps[i].name))
			return true;
	return false;
}

bool weir_attachment_lacks_departures(const char *path, const struct weir_meta *about)
{
	return about->signal == WEIR_SIGNAL_BACKLOG && lacks(path, "link_departures");
}

unsigned int weir_config_restore(const struct weir_attachment *a, const struct weir_config *config, bool dry)
{
	char name[CONFIG_LEN];

	config_name(name, CONFIG_NOW, a->slot);
	if (!lacks(a->path, name))
		return 0;
	return dry || !weir_config_replace(a->config, a->path, &a->slot, 1, config);
}

/* Another attach may have made a folder of the same name by now. */
static bool is_same_folder(const struct weir_attachment *a)
{
	struct stat st;

	return !stat(a->path, &st) && st.st_ino == a->folder_id;
}

bool weir_attachment_is_there(struct weir_attachment *a)
{
	size_t next_length = strlen(WEIR_NEXT);
	char *name = strrchr(a->path, '/') + 1;

	if (is_same_folder(a))
		return true;
	if (strncmp(name, WEIR_NEXT, next_length))
		return false;
	memmove(name, name + next_length, strlen(name + next_length) + 1);
	return is_same_folder(a);
}

/* The map with this number: by its pin, which takes no more than the file's permission, or else by its number. */
static int config_open(struct weir_attachment *a, __u32 id)
{
	__u32 size = sizeof(struct bpf_map_info);
	struct bpf_map_info info = {0};
	char name[CONFIG_LEN];
	int inner;

	config_name(name, CONFIG_NOW, a->slot);
	inner = weir_attachment_is_there(a) ? get(a->path, name) : -1;
	if (inner >= 0 && !bpf_obj_get_info_by_fd(inner, &info, &size) && info.id == id)
		return inner;
	if (inner >= 0)
		close(inner);
	return bpf_map_get_fd_by_id(id);
}

int weir_config_read(struct weir_attachment *a, struct weir_config *config)
{
	static const struct timespec pause = {.tv_nsec = 1000000};

	/* A `set` between the look-ups takes the map away that the first one named; the next one is in place then. */
	for (int tries = 0; tries < 100; tries++) {
		__u32 id;
		int inner, result;

		if (bpf_map_lookup_elem(a->config, &a->slot, &id))
			break;
		if (a->config_id && a->config_id == id) { /* nobody writes into a map that is in force */
			*config = a->cached;
			return 0;
		}
		inner = config_open(a, id);
		if (inner < 0 && (errno == ENOENT || errno == EPERM)) {
			/* without CAP_SYS_ADMIN a number is no use, but the pin will have it in a moment */
			nanosleep(&pause, NULL);
			continue;
		}
		if (inner < 0)
			break;
		if (!weir_map_fits(inner, sizeof(a->cached))) {
			close(inner);
			return weir_foreign_error(a->about.dev);
		}
		result = bpf_map_lookup_elem(inner, &first, &a->cached);
		close(inner);
		a->config_id = result ? 0 : id;
		*config = a->cached;
		if (!result)
			return 0;
		break;
	}
	return weir_error("can't read the configuration: %s", weir_reason(errno));
}

int weir_folder_lock(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0 || flock(folder, LOCK_EX)) {
		weir_error("%s: can't lock it: %s", path, weir_pin_reason(errno));
		if (folder >= 0)
			close(folder);
		return -1;
	}
	return folder;
}

/* A map with this configuration in it; or -errno. */
static int config_map(const struct weir_config *config)
{
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "config", sizeof(__u32), sizeof(*config), 1, NULL), error;

	if (inner >= 0 && bpf_map_update_elem(inner, &first, config, BPF_ANY)) {
		error = -errno;
		close(inner);
		return error;
	}
	return inner >= 0 ? inner : -errno;
}

/* The same inner map in all slots. 0 or -errno. */
static int outer_update(int outer, const __u32 *slots, __u32 count, int inner)
{
	__u32 *inners = malloc(count * sizeof(*inners)), done = count;
	int error = inners ? 0 : -ENOMEM;

	for (__u32 i = 0; !error && i < count; i++)
		inners[i] = (__u32)inner;
	/* the kernel returns from it when no packet uses the old configuration any more */
	if (!error && (count == 1 || bpf_map_update_batch(outer, slots, inners, &done, NULL)))
		for (__u32 i = 0; !error && i < count; i++) /* a kernel that can't do it for all at once */
			error = bpf_map_update_elem(outer, &slots[i], &inner, BPF_ANY) ? -errno : 0;
	free(inners);
	return error;
}

static void pin_name(char *pin, const char *path, const char *which, __u32 slot)
{
	char name[CONFIG_LEN];

	config_name(name, which, slot);
	snprintf(pin, PATH_MAX + 32, "%s/%s", path, name);
}

int weir_config_replace(int outer, const char *path, const __u32 *slots, __u32 count, const struct weir_config *config)
{
	char now[PATH_MAX + 32], next[PATH_MAX + 32];
	int inner = config_map(config), error = 0;

	if (inner < 0)
		return weir_error("can't create a map for the configuration: %s", weir_reason(inner));
	for (__u32 i = 0; !error && i < count; i++) {
		pin_name(next, path, CONFIG_NEXT, slots[i]);
		unlink(next); /* of one who was killed here */
		error = weir_pin(inner, next) ? -errno : 0;
	}
	if (!error)
		error = outer_update(outer, slots, count, inner);
	for (__u32 i = 0; !error && i < count; i++) {
		pin_name(next, path, CONFIG_NEXT, slots[i]);
		pin_name(now, path, CONFIG_NOW, slots[i]);
		error = rename(next, now) ? -errno : 0;
	}
	close(inner);
	return error ? weir_error("can't write the configuration: %s", weir_reason(error)) : 0;
}
