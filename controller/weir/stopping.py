# SPDX-License-Identifier: Apache-2.0
"""End of a command after a signal, at the latest after LIMIT_S.

Python calls a signal's handler in the main thread, between two of its instructions. A command that waits there for an
answer, joins a thread or is collected at the interpreter's end may stay. So the signal also arrives at a file
descriptor (`signal.set_wakeup_fd`), whose reader ends the process after LIMIT_S. The kernel's timer ends it where
Python's threads no longer run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any

LIMIT_S = 4.0
_KERNEL_S = LIMIT_S + 0.5
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FAILED = 1
_received: list[int] = []


def install() -> None:
    """Handlers of this process, in its main thread: SIGTERM and SIGHUP raise SystemExit, SIGINT KeyboardInterrupt. A
    signal that is ignored stays ignored (nohup). Handlers that a command sets later are limited in the same way."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _exit)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), name="signals", daemon=True).start()


def finish(status: object) -> None:
    """Ends the process after the command, with that status of `sys.exit`. After a signal, an error of the command
    counts as its consequence: gRPC may report the interrupted call as cancelled.

    The end of the interpreter is left out: a gRPC stream takes a lock as it is collected there, and the thread that
    may hold it is dead already. No handler of a signal runs there either.
    """
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = FAILED
    if _received and status == FAILED:
        status = 128 + _received[0]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status or 0)


def _exit(number: int, _frame: Any) -> None:
    _received.append(number)
    signal.setitimer(signal.ITIMER_REAL, _KERNEL_S)  # in case that the interpreter's end comes before `_watch`
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _watch(reader: int) -> None:
    """Waits for the first signal that ends a command, then limits the rest of the process's life."""
    number = 0
    while number not in SIGNALS:
        number = os.read(reader, 1)[0]
    signal.setitimer(signal.ITIMER_REAL, _KERNEL_S)  # SIGALRM has no handler: the kernel ends the process
    time.sleep(LIMIT_S)
    with contextlib.suppress(Exception):
        name = signal.Signals(number).name
        print(f"weir: ended without clean-up: still waiting {LIMIT_S:g} s after {name}", file=sys.stderr, flush=True)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(128 + number)
