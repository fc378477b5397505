# SPDX-License-Identifier: Apache-2.0
"""A subscriber whose way to the publisher dies: it has another address, or the publisher is gone for a while. What it
fetches by name goes on, and the group's next key reaches it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from names_net import Net, bridged

ROUND_BYTES = 4000


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path) as net:
        yield net


def events_of(path: Path) -> list[dict]:
    """Whole lines of a file of events."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def keys_told(path: Path) -> list[list[int]]:
    """Epochs of the keys that came, line by line."""
    return [event["data"]["epochs"] for event in events_of(path) if event["name"] == "icn:keys"]


class Stream:
    """A live stream that lasts as long as the test needs it."""

    def __init__(self, publisher: subprocess.Popen) -> None:
        self.publisher = publisher
        self.said = bytearray()

    def until(self, done: Callable[[], bool]) -> None:
        """Goes on until this is so."""
        while not done():
            line = os.urandom(ROUND_BYTES // 2).hex()
            self.publisher.stdin.write(line)
            self.publisher.stdin.flush()
            self.said += line.encode()
            time.sleep(0.02)

    def more(self, bytes_count: int) -> None:
        end = len(self.said) + bytes_count
        self.until(lambda: len(self.said) >= end)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def move(net: Net, i: int) -> None:
    """The host has another address from now on, and the earlier one no longer."""
    net.hosts[i].sh(f"ip addr flush dev e0; ip addr add 10.9.0.10{i}/24 dev e0")


def test_who_moves_gets_the_key_that_comes_after(net):
    stream = Stream(net.publish("--live", name="/weir/radio", stdin=subprocess.PIPE))
    events, out = net.folder / "events", net.folder / "out"
    mover = net.get(1, "/weir/radio", out, "--give-up-s", 5, "--events", events)
    leaver = net.get(2, "/weir/radio", net.folder / "left")
    heard = [Path(f"{out}.part"), net.folder / "left.part"]
    stream.until(lambda: all(size(path) for path in heard))
    move(net, 1)
    stream.more(5 * ROUND_BYTES)
    leaver.send_signal(signal.SIGINT)
    leaver.communicate()
    # The new key reached the one that moved: what comes after is opened.
    stream.until(
        lambda: any(e["name"] == "icn:keys" and e["data"]["epochs"] == [2] for e in events_of(events)) or mover.poll()
    )
    stream.more(5 * ROUND_BYTES)
    stream.publisher.stdin.close()
    told_out, errors = mover.communicate()
    assert mover.returncode == 0, errors
    found = json.loads(told_out)
    assert found["group"]["migrated"] == 1, found["group"]
    assert found["group"]["lost"] == 0
    got = out.read_bytes()
    assert len(got) > 10 * ROUND_BYTES
    assert bytes(stream.said).endswith(got)
    report = json.loads(stream.publisher.stdout.read())
    assert report["group"]["migrated"] == 1
    assert report["publisher"]["rekeys"] <= 2, "moving is not leaving"


def slow(net: Net) -> None:
    """What the publisher sends leaves at 4 Mbit/s, so that a transfer lasts."""
    net.hosts[0].sh("tc qdisc add dev e0 root tbf rate 4mbit burst 4kb limit 60kb")


def progressed(events: Path) -> bool:
    return any(e["name"] == "icn:progress" and e["data"]["segments"] > 100 for e in events_of(events))


def wait_for(said: Callable[[], bool], process: subprocess.Popen) -> None:
    while not said():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_publisher_that_vanishes_and_comes_back(net):
    (net.folder / "files").mkdir()
    content = os.urandom(2_500_000)
    (net.folder / "files" / "film").write_bytes(content)
    slow(net)
    first = net.publish(net.folder / "files")
    events = net.folder / "events"
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--events", events)
    wait_for(lambda: progressed(events), getter)
    first.kill()
    wait_for(lambda: any(e["name"] == "icn:group_lost" for e in events_of(events)), getter)
    second = net.publish(net.folder / "files")
    out, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert (net.folder / "out").read_bytes() == content
    lines = errors.splitlines()
    assert len(lines) == 2, errors
    assert "10.9.0.1:4434 does not answer; it goes on with the keys there are" in lines[0]
    assert "10.9.0.1:4434 answers" in lines[1]
    group = json.loads(out)["group"]
    assert (group["lost"], group["reconnected"], group["migrated"]) == (1, 1, 0)
    assert net.end(second)["publisher"]["data"] > 0
