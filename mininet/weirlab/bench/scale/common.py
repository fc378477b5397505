# SPDX-License-Identifier: Apache-2.0
"""Common parts of the bench: processor time, memory, medians, a fixed piece of work to compare machines by."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weirlab import paths
from weirlab.bench.names import BenchError

ANCHOR_BYTES = 64 << 20
STOP_LIMIT_S = 240.0
"""A switch gives back hundreds of interfaces one by one."""


def progress(text: str) -> None:
    print(f"scale: {text}", file=sys.stderr, flush=True)


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def cpu_us(pid: int) -> float:
    """Processor time that the threads of a process have used so far (proc(5): the first number of schedstat, in ns).
    Of a process that ends threads meanwhile it is too little; ours do not."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise BenchError("the kernel does not say VmRSS")


def packets(*links: str) -> tuple[int, int]:
    """Packets that came by these interfaces of this namespace, and that left by them."""
    came = left = 0
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.strip().partition(":")
        if name in links:
            came, left = came + int(counters.split()[1]), left + int(counters.split()[9])
    return came, left


def anchor(repetitions: int) -> dict[str, float]:
    """Processor time in ms of SHA-256 over 64 MiB: how fast this machine was just now."""
    data = bytes(ANCHOR_BYTES)
    took_ms = []
    for _ in range(repetitions):
        began_ns = time.thread_time_ns()
        hashlib.sha256(data).digest()
        took_ms.append((time.thread_time_ns() - began_ns) / 1e6)
    return spread(took_ms)


def told(name: str, words: list[str]) -> str:
    """Output of a command. Raises BenchError with its error output."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{name}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def cargo_example(name: str, *words: str) -> str:
    """Output of an example of the switch's workspace."""
    manifest = paths.clone() / "p4" / "switch" / "Cargo.toml"
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-j2", "-p", "weir-p4", "--example", name,
               "--manifest-path", str(manifest), "--", *words]  # fmt: skip
    environment = {**os.environ, "CARGO_TARGET_DIR": str(paths.build() / "cargo-p4")}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def inside(words: list[str], ready: str) -> Iterator[subprocess.Popen]:
    """A program of another namespace, once it has printed a line that begins with `ready`; its process id is the
    program's, as `nsenter` becomes what it starts."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = []
        for line in process.stdout or ():
            said.append(line)
            if line.startswith(ready):
                break
        else:
            complaint = process.stderr.read() if process.stderr else ""
            raise BenchError(f"{' '.join(words)} did not start: {complaint.strip() or ''.join(said).strip()}")
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise BenchError(f"{words[0]} did not end within {STOP_LIMIT_S:.0f} s") from None
