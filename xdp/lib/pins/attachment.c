/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/attachment.h"

#include <errno.h>
#include <fcntl.h>
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
#include "pins/place.h"

/* The inner map in force, pinned, and the one that will be. */
#define CONFIG_NOW "config_now"
#define CONFIG_NEXT "config_next"

static const __u32 first = 0;

static int get(const char *path, const char *name)
{
	char pin[PATH_MAX + 32];

	snprintf(pin, sizeof(pin), "%s/%s", path, name);
	return bpf_obj_get(pin);
}

int weir_attachment_open(struct weir_attachment *a, const char *path, const char *dev)
{
	struct stat st;

	*a = (struct weir_attachment){.config = -1, .queue = -1, .counters = -1, .drain = -1, .meta = -1};
	snprintf(a->path, sizeof(a->path), "%s", path);
	if (stat(a->path, &st)) {
		if (errno == ENOENT || errno == ENOTDIR)
			return weir_error("%s was detached", dev);
		return weir_error("%s: %s", a->path, weir_pin_reason(errno));
	}
	a->meta = get(a->path, "meta");
	if (a->meta < 0 && (errno == EPERM || errno == EACCES))
		return weir_error("%s: %s", dev, weir_pin_reason(errno));
	if (a->meta >= 0 && !weir_map_fits(a->meta, sizeof(a->about))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	if (a->meta < 0 || bpf_map_lookup_elem(a->meta, &first, &a->about) || !a->about.complete) {
		weir_attachment_close(a);
		weir_error("%s holds the leftovers of an attach that was cut short; `weir-xdp detach %s` removes them, "
			   "and so does the next attach",
			   a->path, dev);
		return WEIR_INCOMPLETE;
	}
	a->config = get(a->path, "config");
	a->queue = get(a->path, "queue");
	a->counters = get(a->path, "counters");
	if (a->config < 0 || a->queue < 0 || a->counters < 0) {
		int error = errno;

		weir_attachment_close(a);
		return weir_error("%s: a map is missing (%s); `weir-xdp detach %s` cleans up", a->path, strerror(error),
				  dev);
	}
	a->drain = get(a->path, "drain");
	if (!weir_map_fits(a->queue, sizeof(struct weir_queue)) ||
	    !weir_map_fits(a->counters, sizeof(struct weir_counters)) ||
	    (a->drain >= 0 && !weir_map_fits(a->drain, sizeof(struct weir_drain)))) {
		weir_attachment_close(a);
		return weir_foreign_error(dev);
	}
	return 0;
}

void weir_attachment_close(struct weir_attachment *a)
{
	int *const fds[] = {&a->config, &a->queue, &a->counters, &a->drain, &a->meta};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

bool weir_attachment_is_there(struct weir_attachment *a)
{
	size_t next_length = strlen(WEIR_NEXT);
	char *name = strrchr(a->path, '/') + 1;

	if (!access(a->path, F_OK))
		return true;
	if (strncmp(name, WEIR_NEXT, next_length))
		return false;
	memmove(name, name + next_length, strlen(name + next_length) + 1);
	return !access(a->path, F_OK);
}

/* The map with this number: by its pin, which takes no more than the file's permission, or else by its number. */
static int config_open(struct weir_attachment *a, __u32 id)
{
	__u32 size = sizeof(struct bpf_map_info);
	struct bpf_map_info info = {0};
	int inner = weir_attachment_is_there(a) ? get(a->path, CONFIG_NOW) : -1;

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

		if (bpf_map_lookup_elem(a->config, &first, &id))
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

int weir_config_replace(int outer, const char *path, const struct weir_config *config)
{
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "config", sizeof(__u32), sizeof(*config), 1, NULL);
	char now[PATH_MAX + 32], next[PATH_MAX + 32];
	int error = 0;

	if (inner < 0)
		return weir_error("can't create a map for the configuration: %s", weir_reason(errno));
	snprintf(now, sizeof(now), "%s/" CONFIG_NOW, path);
	snprintf(next, sizeof(next), "%s/" CONFIG_NEXT, path);
	unlink(next); /* of one who was killed here */
	/* the kernel returns from the update of the outer one when no packet uses the old configuration any more */
	if (bpf_map_update_elem(inner, &first, config, BPF_ANY) || bpf_obj_pin(inner, next) ||
	    bpf_map_update_elem(outer, &first, &inner, BPF_ANY) || rename(next, now))
		error = errno;
	close(inner);
	return error ? weir_error("can't write the configuration: %s", weir_reason(error)) : 0;
}
