# SPDX-License-Identifier: Apache-2.0
"""Common parts of all topologies' drivers: programs in nodes and their options, waiting, start and end of a run."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

from weirlab.lab.net import LabNet, LabNode, NetError

SAMPLE_MS = 100
QUIC_PORT = 4433
ALIGN_S = 5
RNDRESEEDCRNG = 0x5207  # linux/random.h
IN_THE_LAB = ("--gso", "off", "--clock", "turn")  # queues see packets as a wire would; fewer system calls
NO_ECN, ECN = ("--ecn", "off"), ("--ecn", "auto")  # of weir-server and weir-client


beside: Barrier | None = None
"""Where runs that share a lab meet (`side_by_side.py`)."""


def sleep_until_us(at_us: int) -> None:
    """Sleep until the monotonic clock shows `at_us`, exactly; not at all if that is past."""
    deadline = struct.pack("@ll", *divmod(at_us * 1000, 10**9))
    while ctypes.CDLL(None).clock_nanosleep(time.CLOCK_MONOTONIC, 1, deadline, None) == errno.EINTR:  # 1: TIMER_ABSTIME
        pass


def barrier() -> None:
    """In the exact lab, wait for a whole multiple of ALIGN_S on the monotonic clock, exactly, and draw the kernel's
    random state anew.

    A program's start is not the same on two installations: bash, the dynamic linker and iproute2 take other numbers of
    steps and of random draws. The time after a barrier does not depend on that. The time is whole. The new random state
    comes from the seed alone (the kernel's pool, of which draws take nothing, and the host's getrandom(), which the lab
    answers), and every generator that hangs on it starts from there: getrandom(), ports, sequence numbers, hash keys,
    netem, PIE and RED. Only the exact lab has a seed: in real time no run repeats another, and a run beside others
    waits for them. Raises NetError if one of those has ended.
    """
    if os.environ.get("WEIR_LAB") != "exact":
        if beside is not None:
            try:
                beside.wait()
            except BrokenBarrierError:
                raise NetError("a run beside it has failed") from None
        return
    sleep_until_us((int(time.monotonic()) // ALIGN_S + 1) * ALIGN_S * 10**6)
    with open("/dev/urandom", "rb") as source:
        fcntl.ioctl(source, RNDRESEEDCRNG)


@dataclass(frozen=True)
class Command:
    """A program in a node. `ready`: the word in its log that says so. `output`: the file of the run that takes what it
    writes to standard output."""

    node: str
    what: str
    argv: list[str]
    ready: str = ""
    output: str = ""


class Programs:
    """The programs of one run and their output. `stop` ends them all in any case."""

    def __init__(self, spec: dict, out: Path) -> None:
        self.spec, self.out = spec, out
        self.processes: list[tuple[str, subprocess.Popen]] = []
        self.awaited: dict[str, str] = {}  # log of a program, and the word in it that says it is ready
        self.log_count = 0
        self.batches: dict[tuple[str, str], subprocess.Popen] = {}  # by node and tool: see `tell`

    def run(self) -> None:
        """Build the topology, send the traffic, leave samples. Raises NetError."""
        raise NotImplementedError

    def start(
        self,
        node: Any,
        what: str,
        argv: list[str],
        ready: str = "",
        output: str = "",
        stdin: int = subprocess.DEVNULL,
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen:
        """Start a program in a node; its words go to a log of its own, where `wait_ready` looks for `ready`, unless
        what it writes to standard output is a file of the run."""
        self.log_count += 1
        log = self.out / f"log-{self.log_count:02d}-{what}.txt"
        with open(log, "wb") as file, open(self.out / output if output else os.devnull, "wb") as data:
            stdout = data if output else file
            process = node.popen(argv, stdout=stdout, stderr=file, stdin=stdin, env=env)
        self.processes.append((log.name, process))
        if ready:
            self.awaited[log.name] = ready
        return process

    def wait_ready(self, limit_s: float = 10) -> None:
        """Wait until every awaited program is ready."""
        deadline = time.monotonic() + limit_s
        for name, process in self.processes:
            while name in self.awaited and self.awaited[name] not in (self.out / name).read_text():
                if process.poll() is not None:
                    raise NetError(f"{name}: ended with {process.returncode}: {(self.out / name).read_text().strip()}")
                if time.monotonic() > deadline:
                    raise NetError(f"{name}: not ready after {limit_s:g} s")
                time.sleep(0.01)
        self.awaited.clear()

    def tell(self, net: LabNet, node: str, tool: str, lines: list[str]) -> None:
        """Give lines to the `tc` or `ip` that runs in a node all the while: a process for each change would cost the
        exact lab 10 ms of wall time and more."""
        if (node, tool) not in self.batches:
            argv = [tool, "-batch", "-"]
            self.batches[node, tool] = self.start(net[node], f"{tool}-{node}", argv, stdin=subprocess.PIPE)
        batch = self.batches[node, tool]
        assert batch.stdin is not None  # started with a pipe
        try:
            batch.stdin.write("".join(f"{line}\n" for line in lines).encode())
            batch.stdin.flush()
        except BrokenPipeError:
            self.close_batches()
            raise NetError(f"node {node}: {tool} ended before it got {lines[0]!r}") from None

    def close_batches(self) -> None:
        """End the tools that made changes. Raises NetError if one refused a line."""
        for (node, tool), batch in self.batches.items():
            assert batch.stdin is not None  # started with a pipe
            batch.stdin.close()
            status = batch.wait(timeout=10)
            log = next(name for name, process in self.processes if process is batch)
            if status != 0 or (self.out / log).read_text().strip():
                raise NetError(f"node {node}: {tool}: {' '.join((self.out / log).read_text().split())}")

    def write_lines(self, name: str, lines: list[dict]) -> None:
        with open(self.out / name, "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def write_qdiscs(self, nodes: list) -> None:
        """Counters of the kernel's queues, for readers."""
        qdiscs = {node.name: _qdiscs(node) for node in nodes}
        (self.out / "qdiscs.json").write_text(json.dumps(qdiscs, sort_keys=True))

    def stop(self) -> None:
        for _name, process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for name, process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                print(f"{name}: did not end within 10 s of SIGTERM", file=sys.stderr)


def _qdiscs(node: LabNode) -> Any:
    """A node's queues by tc; as lines where a discipline unknown to it makes its JSON unreadable."""
    try:
        return json.loads(node.cmd("tc -s -j qdisc show"))
    except ValueError:
        return node.cmd("tc -s qdisc show").splitlines()


def main(driver: Callable[[dict, Path], Programs]) -> int:
    """Run `spec.json` of the run's folder; a NetError becomes one line and status 1."""
    out = Path(os.environ["WEIR_OUT"])
    spec = json.loads((out / "spec.json").read_text())
    try:
        barrier()  # the network's own draws, as netem's for loss, are made while it is built
        driver(spec, out).run()
    except NetError as error:
        print(f"{spec['scenario']} {spec['variant']}: {error}", file=sys.stderr)
        return 1
    return 0
