/* SPDX-License-Identifier: Apache-2.0 */
#include "remains.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "hooks/hooks.h"
#include "hooks/libxdp.h"
#include "hooks/own_filter.h"
#include "hooks/qdisc.h"
#include "net/net.h"
#include "net/shape.h"
#include "pins/attachment.h"
#include "pins/folder.h"
#include "undo.h"

#define LOST "lost-" /* no folder has this name */
#define PROG_PIN "prog_"
#define MOUNTS "/proc/self/mountinfo"
#define DEPTH_MAX 4 /* of folders in a BPF file system */
#define MAPS_MAX 32

static const __u32 first = 0;

/* Something without a record here. */
struct lost {
	__u32 prog_id, config_id;	 /* 0: unknown */
	const struct weir_place *shaped; /* or the shaper of this interface */
	const struct weir_place *queued; /* or its root, a qdisc in BPF */
};

static __u32 prog_id_of(int prog)
{
	return prog < 0 ? 0 : weir_prog_id(prog);
}

/* Whether the record of an attachment names it. */
static bool is_recorded(int meta, const struct lost *lost)
{
	struct weir_meta about;
	struct weir_place place;

	if (!weir_map_fits(meta, sizeof(about)) || weir_meta_load(meta, &about))
		return false;
	place = weir_place_of(&about);
	if (lost->shaped)
		return about.shape.handle && place.ifindex == lost->shaped->ifindex &&
		       weir_place_same_netns(&place, lost->shaped);
	if (lost->queued)
		return about.hook == WEIR_HOOK_QDISC && place.ifindex == lost->queued->ifindex &&
		       weir_place_same_netns(&place, lost->queued);
	return about.prog_id == lost->prog_id || about.peer_prog_id == lost->prog_id ||
	       (lost->config_id && about.config_map_id == lost->config_id);
}

static bool is_pin_of(const char *pin, const char *name, const struct lost *lost)
{
	bool prog = !strncmp(name, PROG_PIN, strlen(PROG_PIN)), config = !strcmp(name, "config"), same = false;
	int fd;

	if (!prog && !config && strcmp(name, "meta"))
		return false;
	fd = bpf_obj_get(pin);
	if (fd < 0)
		return false;
	if (prog || config)
		same = !lost->shaped && !lost->queued &&
		       (prog ? weir_prog_id(fd) == lost->prog_id
			     : lost->config_id && weir_map_id(fd) == lost->config_id);
	else
		same = is_recorded(fd, lost);
	close(fd);
	return same;
}

static bool is_pinned_below(const char *folder, int depth, const struct lost *lost)
{
	DIR *list = opendir(folder);
	struct dirent *entry;
	char path[PATH_MAX];
	bool found = false;

	while (list && !found && (entry = readdir(list))) {
		if (*entry->d_name == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
			continue;
		if (entry->d_type == DT_DIR)
			found = depth < DEPTH_MAX && is_pinned_below(path, depth + 1, lost);
		else if (entry->d_type == DT_REG)
			found = is_pin_of(path, entry->d_name, lost);
	}
	if (list)
		closedir(list);
	return found;
}

/* The kernel writes space, tab, newline and backslash of a mount point as \ooo (proc(5)). */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++)
		if (*from == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	*to = 0;
}

/* Whether a pin in a BPF file system that can be seen from here is of it: then it is not lost. */
static bool is_pinned(const struct lost *lost)
{
	FILE *mounts = fopen(MOUNTS, "re");
	char *line = NULL, point[PATH_MAX];
	bool found = false;
	size_t room = 0;

	while (mounts && !found && getline(&line, &room, mounts) > 0)
		if (strstr(line, " - bpf ") && sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1) {
			unescape(point);
			found = is_pinned_below(point, 0, lost);
		}
	free(line);
	if (mounts)
		fclose(mounts);
	return found;
}

/* An interface that is looked at. */
struct site {
	const char *pins, *netns, *name;
	const struct weir_place *place;
	int netlink;
	bool dry;
};

/* The record that a program keeps (load_object), or as much of it as is known. Returns whether it has one. */
static bool read_record(const struct site *site, int prog, __u32 prog_id, __u32 hook, struct weir_meta *about)
{
	int meta = prog < 0 ? -1 : weir_prog_map(prog, "meta");
	bool found = meta >= 0 && weir_map_fits(meta, sizeof(*about)) && !weir_meta_load(meta, about);

	if (meta >= 0)
		close(meta);
	if (found)
		return true;
	*about = (struct weir_meta){.hook = hook,
				    .ifindex = site->place->ifindex,
				    .prog_id = prog_id,
				    .peer_prog_id = prog_id,
				    .netns_inum = site->place->netns_inum,
				    .netns_cookie = site->place->netns_cookie};
	snprintf(about->dev, sizeof(about->dev), "%s", site->name);
	snprintf(about->peer, sizeof(about->peer), "%s", site->name);
	return false;
}

/* A lost attachment: its process, its program here, and that at its other end as far as it can be reached. */
static int undo(const struct site *site, const struct weir_meta *record)
{
	struct weir_place peer = weir_place_of_peer(record);
	struct weir_meta about = *record;
	char path[PATH_MAX], lost[PATH_MAX], why[256];

	about.shape = (struct weir_shape){0}; /* looked at by itself */
	about.peer_ifindex = about.peer_prog_id = about.peer_made_clsact = 0;
	if (weir_place_path(site->pins, site->place, path))
		return -1;
	weir_place_beside(path, LOST, lost);
	if (weir_undo(&about, lost, site->netns))
		return -1;
	if (peer.ifindex) {
		weir_error_into(why, sizeof(why));
		weir_remains_clear(site->pins, &peer, record->peer_netns, WEIR_REMAINS_PEER, false);
		weir_error_into(NULL, 0);
	}
	weir_note("%s: removed a program of weir-xdp whose pins were lost", site->name);
	return 1;
}

/* Its program here alone: its record is about the other end. */
static int undo_far(const struct site *site, const struct weir_side *side, const struct weir_meta *about)
{
	const struct weir_hook_row *row = weir_hook_of(about);
	char path[PATH_MAX], lost[PATH_MAX];

	if (!row || weir_place_path(site->pins, site->place, path))
		return -1;
	weir_place_beside(path, LOST, lost);
	if (row->detach(side, about, lost))
		return -1;
	weir_note("%s: removed a program of weir-xdp whose pins were lost", site->name);
	return 1;
}

/* Whether the filter at that point is one of `what`. */
static bool is_wanted(enum bpf_tc_attach_point point, const struct weir_meta *about, unsigned int what)
{
	if (point == BPF_TC_EGRESS)
		return what & WEIR_REMAINS_EGRESS;
	if (about->hook != WEIR_HOOK_TC_INGRESS)
		return what & WEIR_REMAINS_PEER;
	return what & WEIR_REMAINS_XDP || (what & WEIR_REMAINS_XDP_UNNAMED && !about->by_direction);
}

static int clear_filter(const struct site *site, enum bpf_tc_attach_point point, unsigned int what)
{
	const struct weir_side side = {site->name, (int)site->place->ifindex, point, false};
	struct lost lost = {.prog_id = weir_filter_ours(&side, site->netlink)};
	struct weir_meta about;
	int prog, config, result;

	if (!lost.prog_id)
		return 0;
	prog = bpf_prog_get_fd_by_id(lost.prog_id);
	config = prog < 0 ? -1 : weir_prog_map(prog, "config");
	lost.config_id = config < 0 ? 0 : weir_map_id(config);
	if (config >= 0)
		close(config);
	read_record(site, prog, lost.prog_id, WEIR_HOOK_CLSACT, &about);
	result = is_wanted(point, &about, what) && !is_pinned(&lost);
	if (result && !site->dry)
		result = point == BPF_TC_EGRESS || about.hook == WEIR_HOOK_TC_INGRESS ? undo(site, &about)
										      : undo_far(site, &side, &about);
	if (prog >= 0)
		close(prog);
	return result;
}

/* Without its configuration a program that another loader put there passes all packets, and can be adopted again. */
static int clear_xdp(const struct site *site, bool unnamed)
{
	int prog = weir_xdp_find((int)site->place->ifindex, 0, "weir_ingress"), config, result;
	struct lost lost = {.prog_id = prog_id_of(prog)};
	struct weir_meta about;
	__u32 inner;
	bool ours;

	config = prog < 0 ? -1 : weir_prog_map(prog, "config");
	lost.config_id = config < 0 ? 0 : weir_map_id(config);
	result = config >= 0 && !bpf_map_lookup_elem(config, &first, &inner) && !is_pinned(&lost);
	if (result) {
		ours = read_record(site, prog, lost.prog_id, WEIR_HOOK_XDP, &about);
		if (unnamed && ours && about.by_direction)
			result = 0;
		else if (!site->dry && ours)
			result = undo(site, &about);
		else if (!site->dry && !bpf_map_delete_elem(config, &first))
			weir_note("%s: removed the configuration of an adopted program whose pins were lost",
				  site->name);
	}
	if (config >= 0)
		close(config);
	if (prog >= 0)
		close(prog);
	return result;
}

static int clear_shaper(const struct site *site)
{
	struct weir_shape shape;
	int found = weir_remains_shape(site->place, site->netns, &shape), error;

	if (found <= 0 || site->dry)
		return found;
	error = weir_shape_remove(site->netlink, (int)site->place->ifindex, &shape);
	if (error)
		return weir_error("%s: can't remove its shaper: %s", site->name, weir_reason(error));
	weir_note("%s: removed a shaper of weir-xdp whose pins were lost", site->name);
	return 1;
}

static int clear_qdisc(const struct site *site)
{
	const struct lost lost = {.queued = site->place};
	int error;

	if (!weir_qdisc_is_root((int)site->place->ifindex, site->netlink) || is_pinned(&lost))
		return 0;
	error = site->dry ? 0 : weir_qdisc_clear((int)site->place->ifindex, site->netlink);
	if (error)
		return weir_error("%s: can't remove its qdisc: %s", site->name, weir_reason(error));
	if (!site->dry)
		weir_note("%s: removed a qdisc of weir-xdp whose pins were lost", site->name);
	return 1;
}

int weir_remains_clear(const char *pins, const struct weir_place *place, const char *netns, unsigned int what, bool dry)
{
	struct site site = {.pins = pins, .netns = netns, .place = place, .dry = dry};
	int back, found[5] = {0}, count = 0, reached;
	char name[IF_NAMESIZE];

	reached = weir_reach(place, netns, &back, name);
	if (reached)
		return reached < 0 ? -1 : 0;
	site.name = name;
	site.netlink = weir_netlink_open();
	if (site.netlink < 0) {
		weir_netns_leave(back);
		return weir_error("%s: no netlink socket: %s", name, strerror(-site.netlink));
	}
	if (what & WEIR_REMAINS_EGRESS)
		found[0] = clear_filter(&site, BPF_TC_EGRESS, what);
	if (what & (WEIR_REMAINS_PEER | WEIR_REMAINS_XDP | WEIR_REMAINS_XDP_UNNAMED))
		found[1] = clear_filter(&site, BPF_TC_INGRESS, what);
	if (what & (WEIR_REMAINS_XDP | WEIR_REMAINS_XDP_UNNAMED))
		found[2] = clear_xdp(&site, what & WEIR_REMAINS_XDP_UNNAMED);
	if (what & WEIR_REMAINS_SHAPER)
		found[3] = clear_shaper(&site);
	if (what & WEIR_REMAINS_EGRESS)
		found[4] = clear_qdisc(&site);
	close(site.netlink);
	weir_netns_leave(back);
	for (int i = 0; i < 5; i++)
		count = found[i] < 0 || count < 0 ? -1 : count + found[i];
	return count;
}

int weir_remains_shape(const struct weir_place *place, const char *netns, struct weir_shape *shape)
{
	const struct lost lost = {.shaped = place};
	int back, netlink, found;

	netlink = weir_netlink_in(netns, &back);
	if (netlink < 0)
		return 0;
	found = weir_shape_find(netlink, (int)place->ifindex, shape);
	close(netlink);
	weir_netns_leave(back);
	if (found > 0 && !is_pinned(&lost))
		return 1;
	*shape = (struct weir_shape){0};
	return 0;
}

bool weir_remains_is_root(const struct weir_place *place, const struct weir_qdisc *root)
{
	const struct lost lost = {.shaped = place};

	return weir_shape_is_root(root) && !is_pinned(&lost);
}

/* Pins what is not pinned there. 1 if it was missing. */
static unsigned int restore(int fd, const char *path, const char *prefix, const char *name, bool dry)
{
	char pin[PATH_MAX + 64];

	snprintf(pin, sizeof(pin), "%s/%s%s", path, prefix, name);
	if (!access(pin, F_OK) || errno != ENOENT)
		return 0;
	return dry || !weir_pin(fd, pin);
}

static unsigned int restore_maps(int prog, const char *path, bool dry)
{
	__u32 maps[MAPS_MAX], size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (__u64)(unsigned long)maps};
	unsigned int count = 0;

	if (bpf_obj_get_info_by_fd(prog, &info, &size))
		return 0;
	for (__u32 i = 0; i < info.nr_map_ids && i < MAPS_MAX; i++) {
		struct bpf_map_info about = {0};
		int map = bpf_map_get_fd_by_id(maps[i]);

		size = sizeof(about);
		/* libbpf's own, of constants, are not pinned */
		if (map >= 0 && !bpf_obj_get_info_by_fd(map, &about, &size) && !strchr(about.name, '.'))
			count += restore(map, path, "", about.name, dry);
		if (map >= 0)
			close(map);
	}
	return count;
}

/* A program by its pin, by its link, or by its number. */
static int open_prog(const char *path, const char *name, const char *link_name, __u32 id)
{
	__u32 size = sizeof(struct bpf_link_info);
	struct bpf_link_info info = {.prog_id = id};
	char pin[PATH_MAX + 64];
	int prog, link;

	snprintf(pin, sizeof(pin), "%s/" PROG_PIN "%s", path, name);
	prog = bpf_obj_get(pin);
	if (prog >= 0 || errno != ENOENT)
		return prog;
	snprintf(pin, sizeof(pin), "%s/%s", path, link_name);
	link = bpf_obj_get(pin);
	if (link >= 0) {
		bpf_obj_get_info_by_fd(link, &info, &size);
		close(link);
	}
	return info.prog_id ? bpf_prog_get_fd_by_id(info.prog_id) : -ENOENT;
}

unsigned int weir_pins_restore(const char *path, bool dry)
{
	struct weir_meta about;
	unsigned int count = 0;
	bool xdp;
	int prog;

	weir_meta_read(path, &about);
	if (about.owner == WEIR_OWNER_OTHER)
		return 0;
	xdp = about.hook == WEIR_HOOK_XDP;
	const struct {
		const char *name, *link;
		__u32 id;
	} programs[] = {{"weir_egress", "link_egress", xdp ? 0 : about.prog_id},
			{"weir_ingress", "link_ingress", xdp ? about.prog_id : 0},
			{"weir_peer", "link_peer", about.peer_prog_id},
			{"weir_departures", "link_departures", 0}};

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		prog = open_prog(path, programs[i].name, programs[i].link, programs[i].id);
		if (prog < 0)
			continue;
		count += restore_maps(prog, path, dry);
		count += restore(prog, path, PROG_PIN, programs[i].name, dry);
		close(prog);
	}
	return count;
}
