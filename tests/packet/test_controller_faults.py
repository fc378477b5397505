# SPDX-License-Identifier: Apache-2.0
"""`weir tune` over a P4 switch that forwards all the while: the controller killed at any moment, the switch killed
under it, gains set by hand beside it. The eBPF side of the same is in test_controller_bpf.py."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from p4_packets import ip4, routed
from p4_rig import P4Rig, Queue, basic_config
from packet_rig import REPO, until

from weir.p4runtime.client import Client, Update
from weir.p4runtime.entities import TableEntry
from weir.programs import PID_DELAY, PortLaw
from weir.programs.pid_delay import law_of_data

PATIENCE_S = 60.0
QUEUES = {2: Queue(rate_pps=200, depth=100)}
LOAD_PPS = 400
"""Of which half is what port 2 carries: a queue stands there, and each interval has its report."""

CONFIG = basic_config((1, 2), '[aqm.port.2]\nprofile = "tuned"\ntarget_us = 40000\n')
PACKET = bytes(ip4(to=2, load=bytes(60)))
TAIL = 4
ARRIVED = routed(ip4(to=2, load=bytes(60)), 2)[:-TAIL]


class Load:
    """Numbered packets from station 1 to station 2 without a break, for the length of a with."""

    def __init__(self, switch: P4Rig):
        self.switch, self.ends, self.sent = switch, threading.Event(), 0
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.ends.wait(4 / LOAD_PPS):
            for _ in range(4):
                self.switch.send(1, PACKET[:-TAIL] + self.sent.to_bytes(TAIL, "big"))
                self.sent += 1

    def __enter__(self) -> "Load":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()

    def forwarded(self, count: int) -> None:
        """Until so many packets have arrived, as they should, that are not yet on their way."""
        first, seen = self.sent, 0
        end_s = time.monotonic() + PATIENCE_S
        for port, frame in self.switch.arrivals(PATIENCE_S):
            if port == 2 and frame[:-TAIL] == ARRIVED and int.from_bytes(frame[-TAIL:], "big") >= first:
                seen += 1
            if seen == count:
                return
            if time.monotonic() > end_s:
                break
        self.switch.check()
        pytest.fail(f"{seen} packets arrive in {PATIENCE_S:g} s, of {self.sent - first} sent")


class Tune:
    """A `weir tune` and what it says."""

    def __init__(self, folder: Path, name: str, address: str):
        self.fleet, self.samples = folder / "fleet.toml", folder / f"{name}.samples"
        self.fleet.write_text(f'[devices.s1]\nkind = "p4runtime"\naddress = "{address}"\nconfig = "s1.toml"\n')
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        words = ["-m", "weir.cli", "tune", "--json", "--fleet", str(self.fleet), "--samples", str(self.samples)]
        with self.out.open("w") as out, self.err.open("w") as err:
            # it ends with us, whatever ends us
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, *words], stdout=out, stderr=err,
                env={**os.environ, "PYTHONPATH": str(REPO / "controller")},
            )  # fmt: skip

    def until_said(self, text: str) -> None:
        self._until(lambda: text in self.err.read_text() + self.out.read_text(), f"{text!r}")

    def until_samples(self, count: int) -> None:
        """So many more."""
        there = self._count()
        self._until(lambda: self._count() >= there + count, f"{count} samples more than {there}")

    def _count(self) -> int:
        return self.samples.read_bytes().count(b"\n") if self.samples.exists() else 0

    def _until(self, true: Callable, what: str) -> None:
        until(lambda: self.process.poll() is not None or true(), f"{what}; it said {self.err.read_text()}", PATIENCE_S)
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.err.read_text()}"

    def decisions(self) -> list[dict]:
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def kill(self) -> None:
        """As kill -9 does it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def bottleneck(target: str, tmp_path: Path) -> Iterator[P4Rig]:
    """A switch with a line of 200 packets/s at port 2 and the law before it; nobody is in charge of it."""
    switch = P4Rig(target, tmp_path, (1, 2), QUEUES)
    try:
        switch.deploy(CONFIG)
        switch.client.close()
        (tmp_path / "s1.toml").write_text(CONFIG)
        yield switch
        switch.check()
    finally:
        switch.close()


@pytest.fixture
def tune(bottleneck: P4Rig, tmp_path: Path) -> Iterator[Callable[[], Tune]]:
    started = []

    def start() -> Tune:
        started.append(Tune(tmp_path, f"tune{len(started)}", bottleneck.address))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def law(switch: P4Rig) -> PortLaw:
    """Law of port 2, read by a client that is not primary."""
    with Client(switch.address, connect_timeout_s=PATIENCE_S) as reader:
        (entry,) = reader.read(TableEntry(PID_DELAY.law_table))
        return law_of_data(entry.action.params)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_controller_leaves_a_switch_that_forwards(bottleneck: P4Rig, tune: Callable, seed: int) -> None:
    moments = random.Random(seed)
    with Load(bottleneck) as load:
        for _ in range(3):
            running = tune()
            if moments.random() < 0.5:
                running.until_said("tuning")
            time.sleep(moments.uniform(0.0, 2.0))  # any moment is one
            running.kill()
            left = law(bottleneck)
            load.forwarded(50)
            assert law(bottleneck) == left
        running = tune()
        running.until_said("tuning")
        running.until_samples(20)
        load.forwarded(50)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_S) == 0, running.err.read_text()
        left = law(bottleneck)
        load.forwarded(50)
        assert law(bottleneck) == left


def test_a_killed_switch_forwards_again_with_the_gains_it_had(bottleneck: P4Rig, tune: Callable) -> None:
    with Load(bottleneck) as load:
        running = tune()
        running.until_said("tuning")
        running.until_samples(5)
        with Client(bottleneck.address, election_id=50) as operator:  # as `weir gains --election-id 50` does it
            operator.become_primary()
            before = law(bottleneck)
            by_hand = replace(before, gains=replace(before.gains, target_us=33_000))
            operator.write([Update.modify(PID_DELAY.law_entry(2, by_hand, operator.info))])
        running.until_said('"stand-down"')
        running.until_samples(5)
        assert law(bottleneck) == by_hand

        bottleneck.kill()
        running.until_said("tried again in")
        bottleneck.start_again(QUEUES)
        running.until_said("brought to what s1.toml says: program")
        load.forwarded(50)
        running.until_samples(5)
        assert law(bottleneck) == by_hand
        assert [line["action"] for line in running.decisions()].count("stand-down") == 1


def test_of_two_controllers_the_second_waits_for_the_first_to_end(bottleneck: P4Rig, tune: Callable) -> None:
    with Load(bottleneck) as load:
        first = tune()
        first.until_said("tuning")
        first.until_samples(5)
        second = tune()
        second.until_said("another controller (election id 1) is in charge")
        first.until_samples(5)
        assert second.samples.read_text() == ""
        first.kill()
        second.until_said("in charge now, with samples")
        second.until_samples(5)
        load.forwarded(50)
