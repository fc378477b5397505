# SPDX-License-Identifier: Apache-2.0
"""Several runs in one lab at the same time: `python -m weirlab.lab.side_by_side DRIVER FOLDER...`.

For a lab in real time. The machine's other load affects all runs alike, where several labs would be disturbed each in
its own way. Each run has its FOLDER below $WEIR_OUT, with its spec.json, and names its nodes for itself; DRIVER is a
module with a class `Drive`. The runs meet at each barrier, so that they send at the same time.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.synchronize import Barrier
from types import ModuleType

from weirlab.lab import programs

CLONE_NEWNS = 0x20000


def own_names() -> None:
    """This process and its children see network namespaces of their own below /run/netns."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "a mount namespace of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    os.makedirs("/run/netns", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "netns", "/run/netns"], check=True)


def one(driver: ModuleType, folder: str, meeting: Barrier) -> None:
    """One of the runs, in a process of its own. If it fails, no other waits for it."""
    status = 1
    try:
        own_names()
        os.environ["WEIR_OUT"] = f"{os.environ['WEIR_OUT']}/{folder}"
        programs.beside = meeting
        status = programs.main(driver.Drive)
    finally:
        if status != 0:
            meeting.abort()
    sys.exit(status)


def main(name: str, folders: Sequence[str]) -> int:
    """0 if all runs have come to their end."""
    driver = import_module(name)  # once, for all: it takes a second and more
    fork = multiprocessing.get_context("fork")
    meeting = fork.Barrier(len(folders))
    processes = [fork.Process(target=one, args=(driver, folder, meeting)) for folder in folders]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode or 0) for process in processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
