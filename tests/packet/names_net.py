# SPDX-License-Identifier: Apache-2.0
"""`weir-icn` as a user runs it: a publisher and subscribers on a Linux bridge, each in a namespace of its own."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from packet_rig import REPO, Holder

PROGRAM = REPO / "build" / "cargo" / "release" / "weir-icn"
SUBSCRIBERS = 3
SEGMENT_BYTES, OVERHEAD_BYTES = 1440, 14 + 32 + 16
PUBLISHER = "10.9.0.1:4434"


@dataclass
class Net:
    """The bridge, and the hosts at it: the publisher is 10.9.0.1, subscriber i 10.9.0.1i."""

    folder: Path
    bridge: Holder
    hosts: list[Holder]
    running: list[subprocess.Popen] = field(default_factory=list)

    def publish(self, *options: object, name: str = "/weir/files", **kwargs: object) -> subprocess.Popen:
        words = [PROGRAM, "publish", "--name", name, "--interface", "e0", "--listen", PUBLISHER, "--broadcast"]
        words += ["--state-dir", self.folder / "state", *options]
        publisher = self.hosts[0].start(*words, stdout=subprocess.PIPE, **kwargs)
        self.running.append(publisher)
        assert publisher.stdout.readline() == f"listening {PUBLISHER}\n"
        assert publisher.stdout.readline().startswith("publisher ")
        return publisher

    def end(self, publisher: subprocess.Popen) -> dict:
        """Ends a publisher; what it says of itself."""
        publisher.send_signal(signal.SIGINT)
        report = json.loads(publisher.stdout.read())
        assert publisher.wait() == 0
        return report

    def edge(self, i: int, *options: object) -> subprocess.Popen:
        """An edge server of the publisher, at the host of subscriber i; with the publisher's certificate, in which its
        address must be."""
        address, state = f"10.9.0.1{i}:4434", self.folder / "state"
        words = [PROGRAM, "edge", "--of", PUBLISHER, "--ca", state / "weir-server-ca.pem", "--listen", address]
        server = self.hosts[i].start(*words, "--state-dir", state, *options, stdout=subprocess.PIPE)
        self.running.append(server)
        assert server.stdout.readline() == f"listening {address}\n"
        return server

    def get(
        self, i: int, name: str, output: Path | str, *options: object, at: str = PUBLISHER, known: Path | str = "none"
    ) -> subprocess.Popen:
        ca = self.folder / "state" / "weir-server-ca.pem"
        words = [PROGRAM, "get", name, "--from", at, "--ca", ca, "--interface", "e0", "--output", output]
        words += ["--known-publishers", known]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        getter = self.hosts[i].start(*words, "--json", *options, **pipes)
        self.running.append(getter)
        return getter


@contextmanager
def bridged(folder: Path, subscribers: int = SUBSCRIBERS) -> Iterator[Net]:
    if os.geteuid():
        pytest.skip("needs root, for namespaces and packet sockets")
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    bridge, hosts = Holder(), [Holder() for _ in range(1 + subscribers)]
    bridge.sh("ip link add br0 type bridge mcast_snooping 0; ip link set br0 up")
    for i, host in enumerate(hosts):
        bridge.sh(f"ip link add v{i} type veth peer name e0 netns {host.process.pid}; ip link set v{i} master br0 up")
        host.sh(f"ip addr add 10.9.0.{10 * (i > 0) + i + (i == 0)}/24 dev e0; ip link set e0 up; ip link set lo up")
    net = Net(folder, bridge, hosts)
    yield net
    for process in net.running:
        process.kill()
        process.wait()
    for holder in [bridge, *hosts]:
        holder.close()


def events_of(path: Path) -> list[dict]:
    """Whole lines of a file of events."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def slow(net: Net) -> None:
    """Limits the publisher to 4 Mbit/s, so that a transfer lasts."""
    net.hosts[0].sh("tc qdisc add dev e0 root tbf rate 4mbit burst 4kb limit 60kb")


def progressed(events: Path) -> bool:
    return any(e["name"] == "icn:progress" and e["data"]["segments"] > 100 for e in events_of(events))


def wait_for(said: Callable[[], bool], process: subprocess.Popen) -> None:
    while not said():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
