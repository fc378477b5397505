# SPDX-License-Identifier: Apache-2.0
"""`weir` commands in a network namespace, each in a fork of one process that has imported what they need.

In a process of its own a command imports gRPC, protobuf and pydantic anew, which takes more time than all that it does.
"""

import ctypes
import functools
import multiprocessing
import os
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from places import CONTROLLER

from weir import cli

_CLONE_NEWNET = 0x40000000
_IMPORTED = ["weir.commands.gains", "weir.commands.p4", "weir.commands.status", "weir.telemetry.watch"]


@functools.cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(CONTROLLER))  # Python 3.11 does not tell it what our sys.path is
        forkserver.ensure_running()
    return context


def call(namespace: str, words: list[str], folder: Path) -> tuple[int, str, str]:
    """Runs `weir WORDS` to its end in the network namespace at that path: its exit status, and what it wrote to
    standard output and to standard error, which are files of the folder meanwhile."""
    paths = folder / "weir.out", folder / "weir.err"
    process = _forks().Process(target=_command, args=(namespace, words, *paths))
    process.start()
    process.join()
    assert process.exitcode is not None
    out, error = (path.read_text() for path in paths)
    return process.exitcode, out, error


def _command(namespace: str, words: list[str], *paths: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace) as other:
        if libc.setns(other.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns", namespace)
    for fd, path in enumerate(paths, start=1):
        with open(path, "w") as file:
            os.dup2(file.fileno(), fd)
    os.environ["COLUMNS"] = "200"
    sys.argv = ["weir", *words]
    sys.exit(cli.run())
