# SPDX-License-Identifier: Apache-2.0
"""Keys typed at a terminal, as events beside those of data planes."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue


@dataclass(frozen=True)
class Keys:
    """Keys typed."""

    data: bytes


@contextmanager
def typed(events: SimpleQueue) -> Iterator[None]:
    """Keys come as events while the block runs, and the terminal is as it was after it."""
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    stop = os.eventfd(0, os.EFD_CLOEXEC)

    def read() -> None:
        poll = select.poll()
        poll.register(terminal, select.POLLIN)
        poll.register(stop, select.POLLIN)
        while all(file != stop for file, _ in poll.poll()):
            data = os.read(terminal, 64)
            if not data:
                return
            events.put(Keys(data))

    thread = threading.Thread(target=read, name="keys", daemon=True)
    tty.setcbreak(terminal)
    thread.start()
    try:
        yield
    finally:
        os.eventfd_write(stop, 1)
        thread.join()
        os.close(stop)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
