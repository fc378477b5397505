# SPDX-License-Identifier: Apache-2.0
"""Room for an evaluation's runs on the disk that its cache is on."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

from weirlab.scenario.model import Run

FULL = (errno.ENOSPC, errno.EDQUOT)
# What a run writes before its samples are packed, which makes a tenth of it: so much for the lab itself, and for each
# packet that the bottleneck carries a line there, and one at each other place where packets are timed, if this one is.
FLOOR_BYTES = 1 << 20
LINE_BYTES = 100
OTHER_LINES = 2
PACKET_BYTES = 1440


class NoRoom(Exception):
    """A full disk, or one that will be: the message names the folder and what is needed."""


def needs_bytes(run: Run) -> int:
    """What a run takes while it is under way, on the safe side."""
    packets = run.spec["link"]["bottleneck"]["rate_mbit_s"] * 1e6 / 8 / PACKET_BYTES * run.spec["duration_s"]
    return FLOOR_BYTES + int(packets * LINE_BYTES * (1 + OTHER_LINES / run.spec.get("sample_one_in", 1)))


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


def no_room(folder: Path, needed: int) -> NoRoom:
    """The error. What has finished is in the cache, whole."""
    free = free_bytes(folder)
    return NoRoom(
        f"not enough space in {folder}: {megabytes(free)} are free, {megabytes(needed)} are needed; free "
        f"{megabytes(max(needed - free, 0))} more there, or give another folder by --cache; all runs that had finished "
        "are kept, and the same command continues with the rest"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
