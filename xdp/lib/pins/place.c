/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/place.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"
#include "net/net.h"
#include "pins/folder.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

int weir_name_check(const char *option, const char *text)
{
	const char *colon = strchr(text, ':');

	/* the kernel takes everything before a colon for the name, a habit from the time of alias interfaces */
	if (colon && colon > text && colon - text < IF_NAMESIZE)
		return weir_error("%s%s: names an address of interface %.*s, not an interface: give %.*s", option, text,
				  (int)(colon - text), text, (int)(colon - text), text);
	for (const char *at = text; *at; at++)
		if (*at == '/' || *at == '=' || *at == ':' || isspace((unsigned char)*at) ||
		    iscntrl((unsigned char)*at))
			return weir_error("%s%s: not a name an interface can have", option, text);
	if (!*text || strlen(text) >= IF_NAMESIZE || !strcmp(text, ".") || !strcmp(text, ".."))
		return weir_error("%s%s: not a name an interface can have", option, text);
	return 0;
}

char *weir_netns_split(char *dev)
{
	char *at = strstr(dev, "@/");

	if (!at)
		return NULL;
	*at = 0;
	return at + 1;
}

enum weir_direction weir_direction_split(char *dev)
{
	char *slash = strchr(dev, '/');
	bool ingress = slash && !strcmp(slash, WEIR_INGRESS_SUFFIX);

	if (!ingress && !(slash && !strcmp(slash, WEIR_EGRESS_SUFFIX)))
		return WEIR_DIRECTION_ANY;
	*slash = 0;
	return ingress ? WEIR_INGRESS : WEIR_EGRESS;
}

/* Buffer for a name and its direction. One that is longer is no interface's. */
#define DEV_LEN (IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX))

static enum weir_direction split_copy(const char *text, char dev[DEV_LEN])
{
	snprintf(dev, DEV_LEN, "%s", text);
	return weir_direction_split(dev);
}

void weir_place_here(struct weir_place *place)
{
	socklen_t size = sizeof(place->netns_cookie);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*place = (struct weir_place){.netns_inum = weir_netns_inum()};
	if (sock < 0 || getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &place->netns_cookie, &size))
		place->netns_cookie = 0;
	if (sock >= 0)
		close(sock);
}

bool weir_place_same_netns(const struct weir_place *a, const struct weir_place *b)
{
	return a->netns_inum == b->netns_inum && a->netns_cookie == b->netns_cookie;
}

struct weir_place weir_place_of(const struct weir_meta *about)
{
	struct weir_place place = {.netns_cookie = about->netns_cookie,
				   .netns_inum = about->netns_inum,
				   .ifindex = about->ifindex,
				   .ingress = weir_hook_is_ingress(about->hook)};

	memcpy(place.name, about->dev, sizeof(place.name));
	place.name[sizeof(place.name) - 1] = 0;
	return place;
}

struct weir_place weir_place_of_peer(const struct weir_meta *about)
{
	struct weir_place place = {.netns_cookie = about->peer_netns_cookie,
				   .netns_inum = about->peer_netns_inum,
				   .ifindex = about->peer_ifindex};

	memcpy(place.name, about->peer, sizeof(place.name));
	place.name[sizeof(place.name) - 1] = 0;
	return place;
}

int weir_place_look(const char *dev, const char *netns, struct weir_place *place)
{
	char name[DEV_LEN];
	enum weir_direction direction = split_copy(dev, name);
	int back;

	if (weir_netns_enter(netns, &back))
		return -1;
	weir_place_here(place);
	place->ingress = direction == WEIR_INGRESS;
	place->ifindex = if_nametoindex(name);
	if (place->ifindex && !if_indextoname(place->ifindex, place->name))
		place->ifindex = 0; /* went away just now */
	weir_netns_leave(back);
	return place->ifindex ? 0 : 1;
}

int weir_place_path(const char *pins, const struct weir_place *place, char *path)
{
	int length = snprintf(path, PATH_MAX, "%s/%llu-%u%s", pins,
			      place->netns_cookie ? place->netns_cookie : place->netns_inum, place->ifindex,
			      place->ingress ? "-ingress" : "");

	return length < PATH_MAX - 64 ? 0 : weir_error("%s: path too long", pins);
}

int weir_meta_load(int meta, struct weir_meta *about)
{
	static const __u32 first = 0;
	int result = bpf_map_lookup_elem(meta, &first, about);

	about->slots += !about->slots; /* 0 of an earlier version */
	return result;
}

bool weir_meta_read(const char *path, struct weir_meta *about)
{
	char name[PATH_MAX + 32];
	bool found;
	int meta;

	*about = (struct weir_meta){.slots = 1};
	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0)
		return false;
	found = weir_map_fits(meta, sizeof(*about)) && !weir_meta_load(meta, about);
	close(meta);
	return found;
}

int weir_meta_store(const char *path, const struct weir_meta *about)
{
	char name[PATH_MAX + 32];
	__u32 first = 0;
	int meta, error;

	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	error = meta < 0 || bpf_map_update_elem(meta, &first, about, BPF_ANY) ? errno : 0;
	if (meta >= 0)
		close(meta);
	return error ? weir_error("%s: can't write down what is attached: %s", about->dev, weir_reason(error)) : 0;
}

void weir_place_beside(const char *path, const char *which, char *beside)
{
	const char *name = strrchr(path, '/') + 1;

	snprintf(beside, PATH_MAX, "%.*s%s%s", (int)(name - path), path, which, name);
}

bool weir_map_fits(int map, size_t value_bytes)
{
	__u32 size = sizeof(struct bpf_map_info);
	struct bpf_map_info info = {0};

	return !bpf_obj_get_info_by_fd(map, &info, &size) && info.value_size == value_bytes;
}

bool weir_meta_is_foreign(const char *path)
{
	char name[PATH_MAX + 32];
	bool foreign;
	int meta;

	snprintf(name, sizeof(name), "%s/meta", path);
	meta = bpf_obj_get(name);
	if (meta < 0)
		return false;
	foreign = !weir_map_fits(meta, sizeof(struct weir_meta));
	close(meta);
	return foreign;
}

int weir_foreign_error(const char *dev)
{
	return weir_error("%s was attached by another version of weir-xdp: detach it with that version, or remove its "
			  "pins (`weir-xdp detach %s --pins-only`) and its programs with tc",
			  dev, dev);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The name of an attachment's folder: neither that of one that is about to be, nor of one that was. */
static int is_numbers(const struct dirent *entry)
{
	return isdigit((unsigned char)*entry->d_name);
}

int weir_place_each(const char *pins, weir_each_f *each, void *context)
{
	struct dirent **names;
	char path[PATH_MAX];
	int count, result = 0;

	if (weir_folder_check(pins))
		return -1;
	count = scandir(pins, &names, is_numbers, compare_names);
	if (count < 0)
		return errno == ENOENT ? 0 : weir_error("%s: %s", pins, weir_pin_reason(errno));
	for (int i = 0; i < count; i++) {
		if (!result && snprintf(path, sizeof(path), "%s/%s", pins, names[i]->d_name) < (int)sizeof(path) - 64)
			result = each(path, context);
		free(names[i]);
	}
	free(names);
	return result;
}

/* Like the function below, for one path to the namespace; -1 also if that is another one. */
static int name_by(const struct weir_place *place, const char *netns, char *name)
{
	struct weir_place here;
	char why[256];
	int back, result = -1;

	weir_error_into(why, sizeof(why));
	if (!weir_netns_enter(netns, &back)) {
		weir_place_here(&here);
		if (weir_place_same_netns(&here, place))
			result = if_indextoname(place->ifindex, name) != NULL;
		weir_netns_leave(back);
	}
	weir_error_into(NULL, 0);
	return result;
}

int weir_place_name_now(const struct weir_meta *about, const char *netns, char *name)
{
	struct weir_place place = weir_place_of(about);
	int result = name_by(&place, netns, name);

	return result < 0 && strcmp(netns, about->netns) ? name_by(&place, about->netns, name) : result;
}

struct search {
	const char *dev, *netns;
	enum weir_direction direction;
	const struct weir_place *here;
	bool elsewhere; /* other namespaces count, too */
	char *path;
	unsigned int found;
	char renamed[IF_NAMESIZE]; /* the name that one which was attached as `dev` has now */
};

static int match(const char *path, void *context)
{
	struct search *s = context;
	char now[IF_NAMESIZE] = "";
	struct weir_place place;
	struct weir_meta about;

	if (!weir_meta_read(path, &about))
		return 0;
	place = weir_place_of(&about);
	if (weir_place_same_netns(&place, s->here) == s->elsewhere)
		return 0;
	if (s->direction && (s->direction == WEIR_INGRESS) != place.ingress)
		return 0;
	if (weir_place_name_now(&about, s->netns, now) > 0) { /* a name can be given again, a number can't */
		if (!strcmp(place.name, s->dev) && strcmp(now, s->dev))
			memcpy(s->renamed, now, sizeof(now));
		memcpy(place.name, now, sizeof(now));
	}
	if (strcmp(place.name, s->dev))
		return 0;
	s->found++;
	snprintf(s->path, PATH_MAX, "%s", path);
	return s->elsewhere ? 0 : 1; /* of several leftovers here any one will do, and the next one next time */
}

/* The folder at the place itself. 1: there is none. */
static int find_at(const char *pins, struct weir_place *here, enum weir_direction direction, char *path)
{
	struct stat st;

	for (int tries = 0; tries < (direction ? 1 : 2); tries++) {
		here->ingress = direction ? direction == WEIR_INGRESS : tries;
		if (weir_place_path(pins, here, path))
			return -1;
		if (!stat(path, &st))
			return 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return weir_error("%s: %s", path, weir_pin_reason(errno));
	}
	return 1;
}

static bool is_folder_name(const char *text)
{
	const char *rest = text + strspn(text, "0123456789-");

	return !*rest || (rest[-1] == '-' && !strcmp(rest, "ingress"));
}

int weir_place_find(const char *pins, const char *text, const char *netns, char *path)
{
	char dev[DEV_LEN];
	enum weir_direction direction = split_copy(text, dev);
	struct weir_place here;
	struct search s = {.dev = dev, .netns = netns, .direction = direction, .here = &here, .path = path};
	int missing = weir_place_look(text, netns, &here), found = missing;
	struct stat st;

	if (weir_folder_check(pins))
		return -1;
	if (!missing)
		found = find_at(pins, &here, direction, path);
	if (found <= 0)
		return found;
	if (weir_place_each(pins, match, &s) < 0)
		return -1;
	if (s.found)
		return 0;
	s.elsewhere = true;
	if (missing && !*netns && weir_place_each(pins, match, &s) < 0)
		return -1;
	if (s.found == 1)
		return 0;
	if (s.found)
		return weir_error("%s is attached in %u other network namespaces: say which with %s@NETNS; `weir-xdp "
				  "status` lists them",
				  text, s.found, text);
	if (missing && is_folder_name(text) && snprintf(path, PATH_MAX, "%s/%s", pins, text) < PATH_MAX - 64 &&
	    !stat(path, &st))
		return 0;
	if (*s.renamed)
		weir_error("nothing is attached to %s%s%s: what was attached by that name is called %s now", text,
			   *netns ? " in " : "", netns, s.renamed);
	else
		weir_error("nothing is attached to %s%s%s; `weir-xdp status` lists what is", text, *netns ? " in " : "",
			   netns);
	return WEIR_NOTHING;
}
