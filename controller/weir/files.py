# SPDX-License-Identifier: Apache-2.0
"""Files in folders that another user may write to as well: no link of that user's is followed (CWE-59)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: another one, made anew beside it, takes its place."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    draft.unlink(missing_ok=True)  # of a process that was killed, or another user's link
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def open_private(path: Path) -> int:
    """A descriptor of a file that only its owner can open, so that nobody else can lock it; made if there is none.

    One that root makes in the folder of a service's user is that user's. Raises PermissionError for a file of anybody
    else.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = path.parent.stat()
    while True:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            if os.geteuid() == 0 != folder.st_uid:
                os.fchown(descriptor, folder.st_uid, folder.st_gid)
            return descriptor
        with contextlib.suppress(FileNotFoundError):  # it has just been removed
            descriptor = os.open(path, flags)
            break
    found = os.fstat(descriptor)
    owners = (os.geteuid(), folder.st_uid)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid not in owners:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "another user's file, or not a regular one", str(path))
    os.fchmod(descriptor, 0o600)  # an earlier version's is open to all
    return descriptor


def open_log(path: Path) -> int:
    """A descriptor that appends to a file that the user names; made if there is none.

    In a folder where others may write it must be a regular file with one name, of this user or the folder's owner.
    Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        folder = path.parent.stat()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if _is_ours_alone(path, folder):
        return os.open(path, flags, 0o644)
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    found = os.fstat(descriptor)
    owners = (os.geteuid(), folder.st_uid)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid not in owners:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "another user's file, or not a regular one", str(path))
    return descriptor


def _is_ours_alone(path: Path, folder: os.stat_result) -> bool:
    """Whether only this user and root can put a link in the file's place."""
    ours = (0, os.geteuid())
    if folder.st_uid not in ours:
        return False
    if not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    try:
        found = path.lstat()
    except OSError:
        return False
    return bool(folder.st_mode & stat.S_ISVTX) and found.st_uid in ours and found.st_nlink == 1
