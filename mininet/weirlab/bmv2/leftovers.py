# SPDX-License-Identifier: Apache-2.0
"""State that a killed run leaves behind, and its owner: interfaces of switches in the root namespace, and ports in use.

The alias of an interface names the run that made it. An interface of a run that has ended is removed; any other of the
same name is an error, with the command that removes it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from weirlab.lab.net import NetError

_ALIAS = re.compile(r"weirlab pid=(\d+) start=(\d+) pidns=(\d+)")
_LISTENING = "0A"  # state in /proc/net/tcp
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def _started(pid: int) -> str | None:
    """Start time of a process, in clock ticks since boot (proc(5)); None: there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def alias() -> str:
    """Alias of an interface that this process makes."""
    return f"weirlab pid={os.getpid()} start={_started(os.getpid())} pidns={_pid_namespace()}"


def is_of_dead_run(text: str) -> bool:
    """Whether an alias names a run that has ended: a process of this PID namespace."""
    found = _ALIAS.fullmatch(text)
    if found is None or int(found[3]) != _pid_namespace():
        return False
    return _started(int(found[1])) != found[2]


def make_free(name: str) -> None:
    """Remove an interface of this namespace that a killed run has left. Raises NetError for any other of this name."""
    shown = subprocess.run(["ip", "-j", "link", "show", "dev", name], capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        return
    [link] = json.loads(shown.stdout)
    command = ["ip", "link", "delete", "dev", name]
    if is_of_dead_run(link.get("ifalias", "")):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise NetError(
        f"interface {name}: exists, of another network that runs, or left by one that was killed; "
        f"`{' '.join(command)}` removes it"
    )


def mark(name: str) -> None:
    """Give an interface of this namespace the alias of this run."""
    subprocess.run(["ip", "link", "set", "dev", name, "alias", alias()], capture_output=True, check=False)


def ends_with_parent() -> Callable[[], None] | None:
    """For Popen's preexec_fn: the kernel sends SIGTERM to the child when this process ends, also by SIGKILL. None
    outside the main thread, with whose end the kernel would send the signal."""
    if threading.current_thread() is not threading.main_thread():
        return None
    parent = os.getpid()

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call
            os._exit(128 + signal.SIGTERM)

    return in_child


def listener(port: int) -> str:
    """The program that listens at a TCP port of this thread's network namespace, in words."""
    inodes = set()
    for file in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/thread-self/net/{file}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in map(str.split, rows):
            if len(row) > 9 and row[1].endswith(f":{port:04X}") and row[3] == _LISTENING:
                inodes.add(f"socket:[{row[9]}]")
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & set(_open_files(process)):
            return f"process {process.name} ({_name(process)})"
    return "another program"


def _open_files(process: Path) -> list[str]:
    found = []
    try:
        for file in (process / "fd").iterdir():
            found.append(os.readlink(file))
    except OSError:  # ended, or another user's
        pass
    return found


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "ended"
