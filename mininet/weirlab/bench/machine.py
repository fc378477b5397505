# SPDX-License-Identifier: Apache-2.0
"""The machine of a measurement: whether it is idle, and what a table of results names.

Standard library only: benchmarks of one component (`p4/switch/bench`, `xdp/bench`) use it as scripts.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
from pathlib import Path
from time import sleep

CLONE = Path(__file__).resolve().parents[3]
WATCHED_S = 1.0
BUSY_SHARE = 0.1
"""Of the processors, in use by other programs: above it packets per second mean nothing."""


class BusyError(Exception):
    """Other programs use the processors."""


def busy_ticks(stat: str) -> tuple[int, int]:
    """Ticks in use, and all ticks of all processors, of the first line of /proc/stat (proc(5)): time stolen by other
    virtual machines is in use, waiting for a disk is not."""
    fields = [int(word) for word in stat.splitlines()[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = fields
    used = user + nice + system + irq + softirq + steal
    return used, used + idle + iowait


def busy_share(watched_s: float = WATCHED_S) -> float:
    """Share of the processors that others use, over `watched_s` seconds in which this program sleeps: 0 to 1."""
    stat = Path("/proc/stat")
    used, total = busy_ticks(stat.read_text("ascii"))
    sleep(watched_s)
    used_then, total_then = busy_ticks(stat.read_text("ascii"))
    return (used_then - used) / max(total_then - total, 1)


def facts(share: float) -> dict[str, str | int | float]:
    """Processor, kernel, date (UTC) and commit for a table; `share`: of `busy_share` before the measurement."""
    names = [line for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if line.startswith("model name")]
    commit = ""
    words = ["git", "-C", str(CLONE), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        commit = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30).stdout.strip()
    return {
        "cpu": names[0].partition(":")[2].strip() if names else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit or "unknown",
        "busy_share": round(share, 3),
    }


def line(machine: dict[str, str | int | float]) -> str:
    """`facts` for people."""
    return (
        f"{machine['cpu']}, {machine['cpus']} processors, Linux {machine['kernel']}; {machine['date']}, commit "
        f"{machine['commit']}; {float(machine['busy_share']):.0%} busy before"
    )


def idle_machine(busy: bool) -> dict[str, str | int | float]:
    """`facts` of an idle machine, or with `busy` of any. Raises BusyError."""
    share = busy_share()
    if share > BUSY_SHARE and not busy:
        raise BusyError(
            f"other programs use {share:.0%} of the processors, and figures would be theirs; at most {BUSY_SHARE:.0%}, "
            f"or --busy to measure all the same"
        )
    return facts(share)
