/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

#define READABLE 0644

static bool is_ours_alone(const struct stat *folder)
{
	return (!folder->st_uid || folder->st_uid == geteuid()) && !(folder->st_mode & (S_IWGRP | S_IWOTH));
}

/* The folder of a file. -1 with errno. */
static int open_folder(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	*name = slash ? slash + 1 : path;
	if (snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") >=
	    (int)sizeof(folder)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Where others can write, too. O_NONBLOCK: a pipe there must not stop us. */
static int open_among_others(int folder, const char *name)
{
	int file = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
	struct stat st;

	if (file < 0)
		return -1;
	if (!fstat(file, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1 &&
	    !ftruncate(file, 0))
		return file;
	close(file);
	errno = EPERM;
	return -1;
}

FILE *weir_output_open(const char *path)
{
	const char *name;
	int folder = open_folder(path, &name), file = -1, error;
	struct stat st;
	FILE *out;

	if (folder < 0)
		return NULL;
	if (!fstat(folder, &st))
		file = is_ours_alone(&st) ? openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
					  : open_among_others(folder, name);
	error = errno;
	close(folder);
	errno = error;
	out = file < 0 ? NULL : fdopen(file, "w");
	if (!out && file >= 0)
		close(file);
	return out;
}

FILE *weir_draft_open(const char *path, char draft[WEIR_DRAFT_LEN])
{
	FILE *out = NULL;
	int file;

	if (snprintf(draft, WEIR_DRAFT_LEN, "%s.part", path) >= (int)WEIR_DRAFT_LEN) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	unlink(draft); /* of a process that was killed, or another user's link, not its target */
	file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file >= 0 && !fchmod(file, READABLE)) /* for any umask */
		out = fdopen(file, "w");
	if (file >= 0 && !out)
		close(file);
	return out;
}

void weir_output_begin(void)
{
	static const int how[] = {O_RDONLY, O_RDONLY, O_WRONLY};

	for (int fd = 0; fd < 3; fd++) /* the lowest free number is the one that is given */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", how[fd]) < 0)
			return;
}

int weir_output_end(int status)
{
	bool failed = ferror(stdout);
	int error = 0; /* an earlier one is not known any more */

	if (fflush(stdout)) {
		failed = true;
		error = errno;
	}
	if (!failed || status)
		return status;
	return weir_error("standard output: %s", error ? strerror(error) : "can't be written"), 1;
}
