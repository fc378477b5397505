/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/libxdp.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "printable.h"

#define LIBRARY "libxdp.so.1"
#define MAPS_MAX 16
#define DISPATCHER "xdp_dispatcher" /* the name of its program */

struct xdp_program;
struct xdp_multiprog;

typedef int print_f(int level, const char *format, va_list args);

/*
 * Symbols of libxdp, and of the libbpf it came with: an object of that one is none of ours, which is another copy. Only
 * descriptors go from one to the other.
 */
static struct {
	long (*libxdp_get_error)(const void *pointer);
	print_f *(*libxdp_set_print)(print_f *print);
	struct xdp_program *(*xdp_program__open_file)(const char *path, const char *section, void *options);
	void *(*xdp_program__bpf_obj)(struct xdp_program *program);
	unsigned int (*xdp_program__id)(const struct xdp_program *program);
	int (*xdp_program__attach)(struct xdp_program *program, int ifindex, int mode, unsigned int flags);
	int (*xdp_program__detach)(struct xdp_program *program, int ifindex, int mode, unsigned int flags);
	void (*xdp_program__close)(struct xdp_program *program);
	struct xdp_multiprog *(*xdp_multiprog__get_from_ifindex)(int ifindex);
	struct xdp_program *(*xdp_multiprog__next_prog)(const struct xdp_program *last, const struct xdp_multiprog *mp);
	struct xdp_program *(*xdp_multiprog__main_prog)(const struct xdp_multiprog *mp);
	bool (*xdp_multiprog__is_legacy)(const struct xdp_multiprog *mp);
	void (*xdp_multiprog__close)(struct xdp_multiprog *mp);
	print_f *(*libbpf_set_print)(print_f *print);
	void *(*bpf_object__next_map)(const void *object, const void *last);
	const char *(*bpf_map__name)(const void *map);
	int (*bpf_map__reuse_fd)(void *map, int fd);
} x;

static const struct {
	const char *name;
	void *at;
} symbols[] = {
#define SYMBOL(name) #name, &x.name
	{SYMBOL(libxdp_get_error)},
	{SYMBOL(libxdp_set_print)},
	{SYMBOL(xdp_program__open_file)},
	{SYMBOL(xdp_program__bpf_obj)},
	{SYMBOL(xdp_program__id)},
	{SYMBOL(xdp_program__attach)},
	{SYMBOL(xdp_program__detach)},
	{SYMBOL(xdp_program__close)},
	{SYMBOL(xdp_multiprog__get_from_ifindex)},
	{SYMBOL(xdp_multiprog__next_prog)},
	{SYMBOL(xdp_multiprog__main_prog)},
	{SYMBOL(xdp_multiprog__is_legacy)},
	{SYMBOL(xdp_multiprog__close)},
	{SYMBOL(libbpf_set_print)},
	{SYMBOL(bpf_object__next_map)},
	{SYMBOL(bpf_map__name)},
	{SYMBOL(bpf_map__reuse_fd)},
};

static int quiet(int level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

static int loud(int level, const char *format, va_list args)
{
	(void)level;
	return weir_print_lines(stderr, format, args);
}

static bool open_library(bool verbose)
{
	static void *library;
	static bool tried;

	if (!tried) {
		tried = true;
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
		/* a handle's symbols include those of the libraries it needs */
		for (size_t i = 0; library && i < sizeof(symbols) / sizeof(*symbols); i++) {
			void *found = dlsym(library, symbols[i].name);

			memcpy(symbols[i].at, &found, sizeof(found));
			if (!found) {
				dlclose(library);
				library = NULL;
			}
		}
	}
	if (library) {
		x.libxdp_set_print(verbose ? loud : quiet);
		x.libbpf_set_print(verbose ? loud : quiet);
	}
	return library;
}

/* -errno of what libxdp returned instead of a pointer; 0 if it is one. */
static int error_of(const void *pointer)
{
	return pointer ? (int)x.libxdp_get_error(pointer) : -ENOENT;
}

static int share_maps(void *object, const struct bpf_object *loaded)
{
	for (void *map = x.bpf_object__next_map(object, NULL); map; map = x.bpf_object__next_map(object, map)) {
		const struct bpf_map *ours = bpf_object__find_map_by_name(loaded, x.bpf_map__name(map));
		/* constants are in a map too, called after the file: that one may differ */
		int error = ours ? x.bpf_map__reuse_fd(map, bpf_map__fd(ours)) : 0;

		if (error)
			return error;
	}
	return 0;
}

/*
 * Puts a program behind those that the dispatcher of an interface holds, and makes the dispatcher if there is none. The
 * program is loaded anew from the object's bytes and shares the maps of `loaded`. -ENOSYS: there is no libxdp here.
 * -EBUSY: another XDP program is there, without a dispatcher. After any error nothing is attached.
 */
static int put_in(const void *bytes, size_t size, const struct bpf_object *loaded, int ifindex, bool verbose)
{
	struct xdp_program *program;
	char path[64];
	int file, error;

	if (!open_library(verbose))
		return -ENOSYS;
	file = memfd_create("weir_xdp", MFD_CLOEXEC);
	if (file < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	error = write(file, bytes, size) == (ssize_t)size ? 0 : -EIO;
	program = error ? NULL : x.xdp_program__open_file(path, "xdp", NULL);
	close(file);
	if (!error)
		error = error_of(program);
	if (error)
		return error;
	error = share_maps(x.xdp_program__bpf_obj(program), loaded);
	if (!error)
		error = x.xdp_program__attach(program, ifindex, 0, 0);
	x.xdp_program__close(program);
	return error;
}

/* The program with this map in what libxdp has on the interface; calls with it. 0 or -errno. */
typedef int with_f(struct xdp_program *program, int ifindex);

static bool matches(int prog, __u32 map_id, const char *name)
{
	__u32 maps[MAPS_MAX], size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (__u64)(unsigned long)maps};

	if (bpf_obj_get_info_by_fd(prog, &info, &size))
		return false;
	if (!map_id)
		return !strcmp(info.name, name);
	for (__u32 i = 0; i < info.nr_map_ids && i < MAPS_MAX; i++)
		if (maps[i] == map_id)
			return true;
	return false;
}

/* A descriptor if it is the one, or -errno. */
static int try_id(__u32 id, __u32 map_id, const char *name)
{
	int prog = bpf_prog_get_fd_by_id(id);

	if (prog < 0)
		return prog;
	if (matches(prog, map_id, name))
		return prog;
	close(prog);
	return -ENOENT;
}

/* As weir_xdp_find, among the programs that libxdp lists; calls with what it found there. */
static int find_in_dispatcher(int ifindex, __u32 map_id, const char *name, with_f *with)
{
	struct xdp_program *program = NULL;
	struct xdp_multiprog *mp;
	int prog, error;

	if (!open_library(false))
		return -ENOENT;
	mp = x.xdp_multiprog__get_from_ifindex(ifindex);
	error = error_of(mp);
	if (error)
		return error;
	if (x.xdp_multiprog__is_legacy(mp)) {
		program = x.xdp_multiprog__main_prog(mp);
		prog = program ? try_id(x.xdp_program__id(program), map_id, name) : -ENOENT;
	} else {
		prog = -ENOENT;
		while (prog < 0 && (program = x.xdp_multiprog__next_prog(program, mp)))
			prog = try_id(x.xdp_program__id(program), map_id, name);
	}
	error = prog >= 0 && with ? with(program, ifindex) : 0;
	x.xdp_multiprog__close(mp);
	if (error) {
		close(prog);
		prog = error;
	}
	return prog;
}

static int take_off(struct xdp_program *program, int ifindex)
{
	return x.xdp_program__detach(program, ifindex, 0, 0);
}

/* Takes away the one that uses this map; others stay. */
static int take_out(int ifindex, __u32 map_id)
{
	int prog = find_in_dispatcher(ifindex, map_id, NULL, take_off);

	if (prog >= 0)
		close(prog);
	return prog < 0 ? prog : 0;
}

int weir_xdp_find(int ifindex, __u32 map_id, const char *name)
{
	__u32 id = 0;
	int prog, error = bpf_xdp_query_id(ifindex, 0, &id);

	if (error || !id)
		return error ? error : -ENOENT;
	prog = try_id(id, map_id, name);
	return prog == -ENOENT ? find_in_dispatcher(ifindex, map_id, name, NULL) : prog;
}

void weir_xdp_name(int ifindex, char *name, size_t size)
{
	__u32 id = 0, info_size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {0};
	int prog;

	*name = 0;
	if (bpf_xdp_query_id(ifindex, 0, &id) || !id)
		return;
	prog = bpf_prog_get_fd_by_id(id);
	if (prog < 0)
		return;
	if (!bpf_obj_get_info_by_fd(prog, &info, &info_size))
		snprintf(name, size, "%s", info.name);
	close(prog);
}

int weir_prog_map(int prog, const char *name)
{
	__u32 maps[MAPS_MAX], size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (__u64)(unsigned long)maps};

	if (bpf_obj_get_info_by_fd(prog, &info, &size))
		return -errno;
	for (__u32 i = 0; i < info.nr_map_ids && i < MAPS_MAX; i++) {
		struct bpf_map_info about = {0};
		int map = bpf_map_get_fd_by_id(maps[i]);

		if (map < 0)
			return map;
		size = sizeof(about);
		if (!bpf_obj_get_info_by_fd(map, &about, &size) && !strcmp(about.name, name))
			return map;
		close(map);
	}
	return -ENOENT;
}

__u32 weir_map_id(int map)
{
	__u32 size = sizeof(struct bpf_map_info);
	struct bpf_map_info info = {0};

	return bpf_obj_get_info_by_fd(map, &info, &size) ? 0 : info.id;
}

int weir_xdp_taken(const struct weir_side *side)
{
	char name[BPF_OBJ_NAME_LEN];

	weir_xdp_name(side->ifindex, name, sizeof(name));
	if (!strcmp(name, "weir_ingress"))
		return weir_error("%s: another loader's weir_ingress is on it: `weir-xdp adopt %s` gives it its "
				  "configuration",
				  side->name, side->name);
	if (!strcmp(name, DISPATCHER))
		return weir_error("%s: libxdp's dispatcher is on it (`xdp-loader status %s`) and ours can't join it by "
				  "itself: load weir_xdp.bpf.o with xdp-loader, then `weir-xdp adopt %s`",
				  side->name, side->name, side->name);
	return weir_error("%s: another XDP program is on it%s%s%s: an interface takes one, unless xdp-loader loads all "
			  "of them; or take it off (`ip link set dev %s xdp off`)",
			  side->name, *name ? " (" : "", name, *name ? ")" : "", side->name);
}

int weir_xdp_detached(const struct weir_side *side, int error)
{
	return error && error != -ENOENT
		       ? weir_error("%s: can't take the XDP program off: %s", side->name, weir_reason(error))
		       : 0;
}

bool weir_xdp_is_among(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	int prog = weir_xdp_find(side->ifindex, about->config_map_id, NULL);

	if (prog >= 0)
		close(prog);
	return prog >= 0 || prog == -EPERM || prog == -EACCES; /* not permitted to look: do not report it as gone */
}

static void add_reason(struct weir_meta *about, const char *reason)
{
	size_t length = strlen(about->why);

	snprintf(about->why + length, sizeof(about->why) - length, "; alone: %s", reason);
}

/* libxdp has loaded the program anew: the record of the attachment is to stay with that one (lib/remains). */
static void keep_record(const struct weir_side *side, const struct weir_program *program, __u32 config_map_id)
{
	int prog = weir_xdp_find(side->ifindex, config_map_id, NULL);

	if (prog < 0)
		return;
	bpf_prog_bind_map(prog, program->meta, NULL);
	close(prog);
}

static int attach(const struct weir_side *side, const struct weir_program *program, struct weir_meta *about)
{
	char name[BPF_OBJ_NAME_LEN], why[128];
	int error;

	about->prog_id = weir_prog_id(program->prog);
	about->config_map_id = weir_map_id(program->config);
	if (!about->prog_id || !about->config_map_id)
		return weir_error("%s: can't read the program's id: %s", side->name, weir_reason(errno));
	about->owner = WEIR_OWNER_DISPATCHER;
	if (weir_meta_write(program->meta, about, side->name))
		return -1;
	error = put_in(program->bytes, program->size, program->object, side->ifindex, program->verbose);
	if (error == -EBUSY || error == -EEXIST)
		return weir_xdp_taken(side);
	if (error) {
		about->owner = WEIR_OWNER_LOADER;
		snprintf(why, sizeof(why), "libxdp's dispatcher: %s", strerror(-error));
		if (error != -ENOSYS)
			add_reason(about, why);
		return WEIR_HOOK_UNUSABLE;
	}
	keep_record(side, program, about->config_map_id);
	weir_xdp_name(side->ifindex, name, sizeof(name));
	if (!strcmp(name, DISPATCHER))
		return 0;
	/* where its dispatcher does not work libxdp has loaded the program alone */
	about->owner = WEIR_OWNER_LOADER;
	add_reason(about, "no libxdp dispatcher on this kernel");
	error = bpf_xdp_query_id(side->ifindex, 0, &about->prog_id);
	return error ? weir_error("%s: can't attach XDP: %s", side->name, weir_reason(error)) : 0;
}

static int detach(const struct weir_side *side, const struct weir_meta *about, const char *path)
{
	return weir_xdp_detached(side, take_out(side->ifindex, about->config_map_id));
}

static struct weir_hook_description describe(void)
{
	return (struct weir_hook_description){
		.direction = "ingress",
		.owner = "libxdp",
		.owner_line = "in libxdp's dispatcher, beside other XDP programs",
	};
}

const struct weir_hook_row weir_hook_libxdp = {
	.hook = WEIR_HOOK_XDP,
	.owner = WEIR_OWNER_DISPATCHER,
	.name = "xdp",
	.attach = attach,
	.detach = detach,
	.find = weir_xdp_is_among,
	.describe = describe,
};
