# SPDX-License-Identifier: Apache-2.0
"""Space for runs on the disk that their cache is on."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

from weirlab.run.keys import keeping_of
from weirlab.scenario.model import Run

FULL = (errno.ENOSPC, errno.EDQUOT)


class NoRoom(Exception):
    """A full disk, or one that will be: the message names the folder and the needed space."""


def needs_bytes(run: Run) -> int:
    """Disk space that a running run needs, on the safe side."""
    return keeping_of(run.spec).room_bytes(run.spec)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def check(folder: Path, under_way: Iterable[Run]) -> None:
    """Raises NoRoom where these runs, all under way at once, would fill the disk."""
    needed = sum(map(needs_bytes, under_way))
    if free_bytes(folder) < needed:
        raise no_room(folder, needed)


def is_full(folder: Path, run: Run, error: BaseException) -> bool:
    """Whether it is a full disk that a run has failed by: a lab that can't write fails in many ways."""
    told = isinstance(error, OSError) and error.errno in FULL
    return told or "No space left on device" in str(error) or free_bytes(folder) < needs_bytes(run) // 4


def no_room(folder: Path, needed: int, option: str = "--cache") -> NoRoom:
    """The error. Finished runs are whole in the cache."""
    free = free_bytes(folder)
    return NoRoom(
        f"not enough space in {folder}: {megabytes(free)} are free, {megabytes(needed)} are needed; free "
        f"{megabytes(max(needed - free, 0))} more there, or give another folder by {option}; all runs that had "
        "finished are kept, and the same command continues with the rest"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
