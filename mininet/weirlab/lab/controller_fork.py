# SPDX-License-Identifier: Apache-2.0
"""Commands of the controller in a node of a lab, each in a fork of this process.

A process of its own would import Python's packages for gRPC and P4Runtime anew each time: 3 s of the exact lab's wall
time, more than all else that such a command does. A fork has them.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import threading
from multiprocessing.connection import Connection

from weirlab.lab.net import in_namespace


def can_fork() -> bool:
    """Whether nothing else runs in this process: a fork has no other thread, but would have the locks it holds."""
    return threading.active_count() == 1


def call(namespace: str, words: tuple[str, ...]) -> tuple[int, str, str]:
    """`weir WORDS` in the network namespace at that path: its exit status, its output and its error output."""
    import weir.commands.p4  # noqa: F401  # for the fork; who has no P4 switch has no use for gRPC

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_command, args=(there, namespace, words))
    process.start()
    there.close()
    with here:
        try:
            answer: tuple[int, str, str] = here.recv()
        except EOFError:  # an exception that the command does not know has ended it; it stands in our standard error
            answer = (1, "", "it ended without an answer")
    process.join()
    status, said, complaint = answer
    return process.exitcode or status, said, complaint


def _command(there: Connection, namespace: str, words: tuple[str, ...]) -> None:
    from weir import cli

    said, complaint = io.StringIO(), io.StringIO()
    with in_namespace(namespace), contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaint):
        try:
            status = cli.main(words)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    there.send((status, said.getvalue(), complaint.getvalue()))
