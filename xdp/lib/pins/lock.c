/* SPDX-License-Identifier: Apache-2.0 */
#include "pins/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "net/net.h"
#include "pins/attachment.h"
#include "pins/folder.h"

#define TRY_AGAIN_MS 10
#define AWAIT_MS 5000
#define RACES_MAX 1000 /* lost in a row to processes that remove the folder */
#define LOCK_NAME "lock-"
#define SAID (-1) /* no errno: the line is printed */

/* The process that has the lock, as words for a message; proc(5) on /proc/locks. */
static void holder(const char *path, char *text, size_t size)
{
	char name[64], comm[32] = "";
	unsigned long long inode;
	unsigned int major, minor;
	char *line = NULL;
	size_t room = 0;
	struct stat st;
	int pid, found = 0;
	FILE *locks = fopen("/proc/locks", "re"), *file;

	while (locks && !found && !stat(path, &st) && getline(&line, &room, locks) > 0)
		if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %d %x:%x:%llu", &pid, &major, &minor, &inode) == 4 &&
		    makedev(major, minor) == st.st_dev && inode == st.st_ino)
			found = pid;
	free(line);
	if (locks)
		fclose(locks);
	snprintf(name, sizeof(name), "/proc/%d/comm", found);
	file = found > 0 ? fopen(name, "re") : NULL;
	if (file && fgets(comm, sizeof(comm), file))
		comm[strcspn(comm, "\n")] = 0;
	if (file)
		fclose(file);
	if (found > 0)
		snprintf(text, size, "process %d%s%s%s", found, *comm ? " (" : "", comm, *comm ? ")" : "");
	else
		snprintf(text, size, "a process that can't be seen from here");
}

/* The folder of a lock, open; it belongs to the owner of the folder around it, who has to be able to lock it, too. */
static int open_lock(const char *parent, const char *name)
{
	int folder = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), lock, made, error = 0;
	struct stat st;

	if (folder < 0)
		return -errno;
	if (fstat(folder, &st))
		error = errno;
	if (!error && !geteuid() && st.st_uid) {
		setfsgid(st.st_gid);
		setfsuid(st.st_uid);
	}
	made = error ? -1 : mkdirat(folder, name, 0700);
	if (made && !error && errno != EEXIST)
		error = errno;
	if (!geteuid()) {
		setfsuid(0);
		setfsgid(getegid());
	}
	lock = error ? -1 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (lock < 0 && !error)
		error = errno;
	close(folder);
	return error ? -error : lock;
}

/* Whether it is still the folder of that name: its last holder may have removed it. */
static bool is_there(int fd, int parent, const char *name)
{
	struct stat ours, there;

	return !fstat(fd, &ours) && !fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) &&
	       ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

bool weir_lock_is_there(const struct weir_lock *lock)
{
	return lock->fd >= 0 && is_there(lock->fd, AT_FDCWD, lock->path);
}

/* 0, SAID, or an errno: EWOULDBLOCK where another process has had it for all that time. */
static int take(struct weir_lock *lock, const char *parent, const char *name, int wait_ms)
{
	struct timespec pause = {.tv_nsec = TRY_AGAIN_MS * 1000000L};
	int waited_ms = 0, error;

	for (int races = 0; races < RACES_MAX; races++) {
		if (weir_folder_make(parent))
			return SAID;
		lock->fd = open_lock(parent, name);
		if (lock->fd == -ENOENT) /* another process has removed one of the two folders */
			continue;
		if (lock->fd < 0)
			return -lock->fd;
		while (flock(lock->fd, LOCK_EX | LOCK_NB)) {
			error = errno;
			if ((error != EWOULDBLOCK && error != EINTR) || waited_ms >= wait_ms) {
				close(lock->fd);
				return error;
			}
			nanosleep(&pause, NULL);
			waited_ms += TRY_AGAIN_MS;
		}
		if (is_there(lock->fd, AT_FDCWD, lock->path))
			return 0;
		close(lock->fd);
	}
	return EBUSY;
}

/* Whether another process has it. The shared lock is dropped at once. */
static bool is_held(const char *path)
{
	int lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool held = lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

	if (lock >= 0)
		close(lock);
	return held;
}

static bool is_whole(const char *path)
{
	struct weir_meta about;

	return access(path, F_OK) || weir_meta_is_foreign(path) ||
	       (weir_meta_read(path, &about) && about.complete && !weir_attachment_lacks_map(path, &about));
}

int weir_lock_await(const char *path, const char *dev)
{
	static const struct timespec pause = {.tv_nsec = TRY_AGAIN_MS * 1000000L};
	const char *name = strrchr(path, '/') + 1;
	char lock[PATH_MAX], who[96];

	if (snprintf(lock, sizeof(lock), "%.*s" LOCK_NAME "%.*s", (int)(name - path), path,
		     (int)strspn(name, "0123456789-"), name) >= (int)sizeof(lock))
		return 0;
	lock[strlen(lock) - (lock[strlen(lock) - 1] == '-')] = 0; /* of COOKIE-IFINDEX-ingress */
	for (int waited_ms = 0; !is_whole(path) && is_held(lock); waited_ms += TRY_AGAIN_MS) {
		if (waited_ms >= AWAIT_MS) {
			holder(lock, who, sizeof(who));
			return weir_error("%s: %s is changing what is attached there; try again when it has ended", dev,
					  who);
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

int weir_lock_take(struct weir_lock *lock, const char *parent, const char *name, const char *about, int wait_ms)
{
	char who[96];
	int error;

	if (snprintf(lock->path, sizeof(lock->path), "%s/%s", parent, name) >= (int)sizeof(lock->path))
		return weir_error("%s: path too long", parent);
	error = take(lock, parent, name, wait_ms);
	if (!error)
		return 0;
	lock->fd = -1;
	if (error == EWOULDBLOCK && !wait_ms)
		return 1;
	if (error == EWOULDBLOCK) {
		holder(lock->path, who, sizeof(who));
		return weir_error("%s: %s has been changing what is attached there for %d s; try again when it has "
				  "ended",
				  about, who, wait_ms / 1000);
	}
	return error == SAID ? -1 : weir_error("%s: can't lock it: %s", about, weir_pin_reason(error));
}

/* 0, 1 if another has it and we were not to wait, or -1 after a line. */
static int take_one(struct weir_lock *lock, const char *pins, const struct weir_place *place, const char *netns,
		    int wait_ms)
{
	struct weir_place here;
	char name[64];
	int back;

	if (weir_netns_enter(netns, &back))
		return -1;
	weir_place_here(&here);
	weir_netns_leave(back);
	if (!weir_place_same_netns(&here, place))
		return weir_error("%s: its network namespace was replaced by another one", place->name);
	snprintf(name, sizeof(name), LOCK_NAME "%llu-%u", place->netns_cookie ? place->netns_cookie : place->netns_inum,
		 place->ifindex);
	return weir_lock_take(lock, pins, name, place->name, wait_ms);
}

/* Everybody in the same order, or two could wait for each other. */
static bool comes_first(const struct weir_place *a, const struct weir_place *b)
{
	if (a->netns_cookie != b->netns_cookie)
		return a->netns_cookie < b->netns_cookie;
	if (a->netns_inum != b->netns_inum)
		return a->netns_inum < b->netns_inum;
	return a->ifindex < b->ifindex;
}

int weir_locks_take(struct weir_locks *locks, const char *pins, const struct weir_place *dev, const char *netns,
		    const struct weir_place *peer, const char *peer_netns, int wait_ms)
{
	bool swapped = peer && comes_first(peer, dev);
	struct weir_lock *one = locks->one;
	int result;

	*locks = WEIR_LOCKS_NONE;
	if (weir_pins_check(pins))
		return -1;
	locks->taker = getpid();
	result = swapped ? take_one(&one[0], pins, peer, peer_netns, wait_ms)
			 : take_one(&one[0], pins, dev, netns, wait_ms);
	if (!result && peer)
		result = swapped ? take_one(&one[1], pins, dev, netns, wait_ms)
				 : take_one(&one[1], pins, peer, peer_netns, wait_ms);
	if (result) {
		weir_locks_drop(locks);
		weir_pins_tidy(pins);
	}
	return result;
}

void weir_lock_drop(struct weir_lock *lock)
{
	if (lock->fd < 0)
		return;
	rmdir(lock->path); /* before it is open to others, who then find that it is gone */
	close(lock->fd);
	lock->fd = -1;
}

void weir_locks_drop(struct weir_locks *locks)
{
	for (int i = 0; i < 2; i++) {
		if (locks->one[i].fd >= 0 && locks->taker != getpid()) {
			close(locks->one[i].fd);
			locks->one[i].fd = -1;
		}
		weir_lock_drop(&locks->one[i]);
	}
}

void weir_pins_tidy(const char *pins)
{
	DIR *folder = opendir(pins);
	struct dirent *entry;
	struct stat st;

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		int lock =
			strncmp(entry->d_name, LOCK_NAME, strlen(LOCK_NAME))
				? -1
				: openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (lock < 0)
			continue;
		if (!flock(lock, LOCK_EX | LOCK_NB) && is_there(lock, dirfd(folder), entry->d_name))
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
		close(lock);
	}
	if (!fstat(dirfd(folder), &st) && st.st_uid == geteuid())
		rmdir(pins);
	closedir(folder);
}
