/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "error.h"

#define MOUNT "mount -t bpf -o mode=0700 bpf /sys/fs/bpf"

static bool is_trusted(uid_t user)
{
	return !user || user == geteuid();
}

/*
 * The owner of the parent can put another folder in its place, and so can all who may write to the parent unless it is
 * sticky. Where only root can write to the parent, root has chosen the folder's owner.
 */
static bool is_safe(const struct stat *folder, const struct stat *parent)
{
	bool open_to_all = parent->st_mode & (S_IWGRP | S_IWOTH);

	return S_ISDIR(folder->st_mode) && !(folder->st_mode & (S_IWGRP | S_IWOTH)) && is_trusted(parent->st_uid) &&
	       (!open_to_all || (parent->st_mode & S_ISVTX && is_trusted(folder->st_uid)));
}

int weir_folder_check(const char *path)
{
	char above[PATH_MAX];
	struct stat folder, parent;

	if (lstat(path, &folder) || snprintf(above, sizeof(above), "%s/..", path) >= (int)sizeof(above) ||
	    (S_ISDIR(folder.st_mode) && stat(above, &parent)))
		return 0;
	if (S_ISDIR(folder.st_mode) && is_safe(&folder, &parent))
		return 0;
	return weir_error("%s: other users can write to it or to the folder above it; both must be root's or yours, "
			  "mode 0700 (" MOUNT ")",
			  path);
}

int weir_folder_make(const char *path)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return weir_error("%s: %s", path, weir_reason(errno));
	return weir_folder_check(path);
}

int weir_pins_check(const char *pins)
{
	char parent[PATH_MAX];
	struct statfs fs;
	struct stat st;
	char *slash;

	snprintf(parent, sizeof(parent), "%s", pins);
	slash = strrchr(parent, '/');
	if (stat(pins, &st) && errno == ENOENT && slash && slash != parent)
		*slash = 0;
	if (statfs(parent, &fs))
		return weir_error("%s: %s", parent, weir_reason(errno));
	if (fs.f_type != BPF_FS_MAGIC)
		return weir_error("%s is in no BPF file system: " MOUNT, parent);
	return weir_folder_check(pins);
}

int weir_pin(int fd, const char *pin)
{
	int result = bpf_obj_pin(fd, pin);

	if (!result)
		weir_folder_give(pin);
	return result ? -1 : 0;
}

void weir_folder_give(const char *path)
{
	const char *name = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat st;

	if (geteuid() || !name || snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path) >= PATH_MAX)
		return;
	if (!stat(folder, &st) && st.st_uid && fchownat(AT_FDCWD, path, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW))
		weir_note("%s: can't be given to the owner of its folder: %s", path, strerror(errno));
}
