# SPDX-License-Identifier: Apache-2.0
"""A flood at one port gets no more of weir-switch's packet thread than its share, and P4Runtime gets less than packets.

The switch is stopped (SIGSTOP) while frames are laid into its receive rings, so that it finds all of them at once; then
the order in which they leave says whose turn it was how often. It is the same on a machine of any speed. Speeds beside
attacks are measured by `./run bench hostile`.
"""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from hostile_rig import MOST_MB, many, peak_mb
from p4_rig import EMBEDDED, P4Rig, missing
from packet_rig import take, until

from weirlab.bench.hostile import frames

PORTS = range(1, 17)
MEASURED = 512
"""Frames of a well-behaved port: half of a ring, eight iterations of the packet thread."""
GARBAGE = 5_000
"""As many frames as make a ring overflow several times."""
PATIENCE_S = 60
IPV4 = b"\x08\x00"


@pytest.fixture
def switch(tmp_path):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    rig = P4Rig(EMBEDDED, tmp_path, ports=PORTS, options=["--queue", "default:depth=1000p"])
    try:
        rig.deploy()
        yield rig
    finally:
        rig.process.send_signal(signal.SIGCONT)
        rig.close()


def threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def fields(task: Path) -> list[str]:
    """Of proc(5)'s stat, those behind the name: the state is the first, the nice value the 17th."""
    return (task / "stat").read_text().rpartition(")")[2].split()


@contextlib.contextmanager
def stopped(switch: P4Rig):
    """The switch does nothing for the length of a with."""
    pid = switch.process.pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(fields(task)[0] == "T" for task in threads(pid)), "all threads stop")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def lay(switch: P4Rig, port: int, some: list[bytes], count: int) -> None:
    """So many frames by a port, all of them at the switch's interface when this ends."""
    with contextlib.closing(switch.box.tap(f"p{port}")) as seen:
        for n in range(count):
            switch.send(port, some[n % len(some)])
        seen.settimeout(PATIENCE_S)
        for _ in range(count):
            seen.recv(64)


def until_all_measured(switch: P4Rig) -> list[bool]:
    """Frames at the measured stream's station, up to its last frame: True for each frame of the stream."""
    got: list[bool] = []
    tap = switch.taps[frames.MEASURED_OUT]
    tap.settimeout(PATIENCE_S)
    while sum(got) < MEASURED:
        frame = take(tap)
        if frame is not None:
            got.append(frame[12:14] == IPV4)
    return got


@pytest.mark.parametrize("flood", frames.FLOODS)
def test_a_flood_takes_nothing_from_another_port(switch, flood):
    """All frames of the measured stream come out, and by then a flood of frames that cost many times as much (each
    broadcast is fifteen frames to send) has had few turns: the work of a port in a turn is bounded, not only its
    frames."""
    for _ in range(many(1, 20)):
        with stopped(switch):
            lay(switch, frames.ATTACKER, frames.FLOODS[flood](), GARBAGE)
            lay(switch, frames.MEASURED_IN, frames.measured(), MEASURED)
        got = until_all_measured(switch)
        others = len(got) - MEASURED
        print(f"{flood}: {others} other frames had left before the last of {MEASURED}")
        # By frames alone there would be one for each of the stream's.
        assert others <= MEASURED / 4
        switch.drain()
    assert peak_mb(switch.process.pid) < MOST_MB


def test_the_threads_of_p4runtime_give_way_to_packets(switch):
    """Where they share a core, the kernel gives them 3 % of it while packets wait (sched(7): nice 15)."""
    pid = switch.process.pid
    nice = {(task / "comm").read_text().strip(): int(fields(task)[16]) for task in threads(pid)}
    packets = int(fields(Path(f"/proc/{pid}/task/{pid}"))[16])
    assert nice["p4runtime"] == packets + 15, nice
    # Those that compile programs and allocate their tables began with it.
    assert all(each == packets + 15 for name, each in nice.items() if name.startswith("tokio")), nice
