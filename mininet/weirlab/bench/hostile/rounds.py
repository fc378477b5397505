# SPDX-License-Identifier: Apache-2.0
"""Common parts of both benches: assignment of cores, programs that end with us, counters, and rounds with and without
an attack in turn."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weirlab.bench.names import BenchError

KEPT_LEAST = 0.9
"""Of a port's or a download's rate without the attack."""
MOST_MB = 256
LOADS = {"half": 0.5, "saturating": None}
"""At a fixed rate, this part of what the program carries alone; or as much as fits."""
UP_LIMIT_S = 30.0
DISTURBED_MOST = 0.05
"""Of the attacked program's core, what others may have taken; of the load to be offered, what may be missing."""
AGAIN_MOST = 1
"""Rounds that are made again, for each that is wanted."""
AUTOGROUP_ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")
PROGRAM_NICE, LOAD_NICE, ATTACK_NICE = -19, -15, -5
"""Of sessions, not of threads: what else the machine does gets little of both cores, and the load is offered whatever
attackers take of their common core. The program's threads stand to each other as they always do."""


def progress(text: str) -> None:
    print(f"hostile: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Cores:
    """Core of the attacked program, and core of all others."""

    attacked: int
    others: int

    @staticmethod
    def choose() -> Cores:
        """The first and the last of those that we may use. Raises BenchError."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise BenchError("two cores are needed: one for the program that is attacked, one for those who attack")
        return Cores(cores[0], cores[-1])

    def words(self) -> str:
        return (f"all threads of the program on core {self.attacked}, with and without the attack; load, attackers and "
                f"receivers on core {self.others} (taskset)")  # fmt: skip


@dataclass(frozen=True)
class Command:
    """Command with its core and nice value."""

    words: list[str]
    core: int
    nice: int

    def start(self, complaints: IO[bytes] | int | None = None) -> subprocess.Popen:
        """Starts it as a session of its own, which ends when we end."""
        words = ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(self.core)]
        autogroup = AUTOGROUP_ENABLED.exists() and AUTOGROUP_ENABLED.read_text().strip() == "1"
        words += [] if autogroup else ["nice", "-n", str(self.nice)]
        process = subprocess.Popen(
            [*words, *self.words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, text=True,
            start_new_session=True,
        )  # fmt: skip
        if autogroup:
            # Between sessions only this counts (sched(7)); `nice` orders the threads within one.
            with contextlib.suppress(OSError):  # it may have ended
                Path(f"/proc/{process.pid}/autogroup").write_text(str(self.nice))
        return process


@contextmanager
def running(command: Command, ready: str = "", log: Path | None = None) -> Iterator[subprocess.Popen]:
    """A program for as long as this lasts, from when it has printed a line that begins with `ready` on. Its standard
    error goes to `log`."""
    words = command.words
    with open(log or os.devnull, "ab") as complaints:
        process = command.start(complaints)
    try:
        while ready and process.stdout is not None:
            line = process.stdout.readline()
            if line.startswith(ready):
                break
            if not line:
                said = log.read_text(errors="replace").strip() if log else ""
                raise BenchError(f"{' '.join(words)} did not start (status {process.wait()}): {said}")
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=UP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def ended(command: Command) -> tuple[int, str]:
    """Runs a program to its end, or to ours; gives its status and what it printed."""
    process = command.start(subprocess.DEVNULL)
    try:
        out, _ = process.communicate()
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out


def frames_by(link: str) -> tuple[int, int]:
    """Frames that came by an interface of this namespace, and that left by it."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counters = line.strip().partition(":")
        if name == link:
            words = counters.split()
            return int(words[1]), int(words[9])
    raise BenchError(f"interface {link} is gone")


def cpu_s(pid: int) -> dict[str, float]:
    """Seconds that the threads of a process have run so far, by their names."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, ns = (task / "comm").read_text().strip(), int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # a thread that ended meanwhile
        found[name] = found.get(name, 0.0) + ns / 1e9
    return found


def core_s(core: int) -> float:
    """Seconds that a core has run programs of any kind (proc(5), /proc/stat)."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *words = line.split()
        if name == f"cpu{core}":
            user, nice, system = (int(word) for word in words[:3])
            return (user + nice + system) / os.sysconf("SC_CLK_TCK")
    raise BenchError(f"the kernel says nothing of core {core}")


def forget_peak(pid: int) -> None:
    """The peak of resident memory counts from now on (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mb(pid: int) -> float:
    """The most resident memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise BenchError("the kernel does not say VmHWM")


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def kept(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Of what there was without the attack, what there was with it: round by round. Raises BenchError."""
    if any(without <= 0 for without, _ in pairs):
        raise BenchError("a round without an attack had nothing: there is nothing to compare with")
    return spread([with_it / without for without, with_it in pairs])


def in_turn(repetitions: int, one: Callable[[str | None], dict[str, float]], attack: str) -> dict[str, Any]:
    """So many rounds without the attack and with it, in turn. `one` makes a round: `value` is what is compared, and
    with much of `disturbed` both are made again, so many times at most."""
    rows: list[tuple[dict[str, float], dict[str, float]]] = []
    again = 0
    while len(rows) < repetitions:
        pair = one(None), one(attack)
        if max(each["disturbed"] for each in pair) > DISTURBED_MOST and again < repetitions * AGAIN_MOST:
            again += 1
            progress(f"the machine does other things: again ({again})")
        else:
            rows.append(pair)
    found: dict[str, Any] = {"kept": kept([(without["value"], with_it["value"]) for without, with_it in rows])}
    found["made_again"] = again
    for name in rows[0][0]:
        found[name] = {"without": spread([w[name] for w, _ in rows]), "with": spread([a[name] for _, a in rows])}
    progress("kept {median:.3f} ({least:.3f} to {most:.3f})".format(**found["kept"]))
    return found


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for something that comes by itself. Raises BenchError."""
    end = time.monotonic() + UP_LIMIT_S
    while not true():
        if time.monotonic() > end:
            raise BenchError(f"never came: {what}")
        time.sleep(0.02)
