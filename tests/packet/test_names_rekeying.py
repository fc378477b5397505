# SPDX-License-Identifier: Apache-2.0
"""New keys of a live stream while somebody comes and leaves at a high rate, and while somebody on the bridge sends the
publisher's datagrams again, unchanged and changed, and keeps some back."""

import json
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from names_net import Net, bridged, events_of
from packet_rig import until

NAME = "/weir/radio"
COMES = 400
UDP, PORT = 17, 4434

STORM = """
import asyncio, json, ssl, sys
from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration

async def main():
    configuration = QuicConfiguration(alpn_protocols=["weir-icn/1"], verify_mode=ssl.CERT_NONE)
    async with connect("10.9.0.1", 4434, configuration=configuration) as connection:
        for _ in range(int(sys.argv[1])):
            reader, writer = await connection.create_stream()
            writer.write(b'{"get":"/weir/radio"}\\n')
            assert "keys" in json.loads(await reader.readline())
            writer.write_eof()
            while await reader.read(65536):
                pass

asyncio.run(main())
"""
"""A member that comes and leaves as often as that, on one connection."""


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    pytest.importorskip("aioquic")
    with bridged(tmp_path, subscribers=2) as net:
        yield net


class Stream(threading.Thread):
    """Lines on a live stream, until it is to end."""

    def __init__(self, publisher: subprocess.Popen):
        super().__init__(daemon=True)
        self.publisher, self.said, self.end = publisher, "", threading.Event()
        self.start()

    def run(self) -> None:
        number = 0
        while not self.end.wait(0.01):
            line = f"{number:0999}\n"
            self.publisher.stdin.write(line)
            self.publisher.stdin.flush()
            self.said += line
            number += 1
        self.publisher.stdin.close()

    def close(self) -> None:
        self.end.set()
        self.join()


class Replayer(threading.Thread):
    """Sends each datagram of the publisher to a subscriber two times more: changed in a byte, and a while later as it
    was."""

    def __init__(self, net: Net, port: str):
        super().__init__(daemon=True)
        self.tap = net.bridge.tap(port)
        self.sent = 0
        self.seen: set[bytes] = set()
        self.end = threading.Event()
        self.start()

    def run(self) -> None:
        kept: list[bytes] = []
        while not self.end.is_set():
            if not select.select([self.tap], [], [], 0.1)[0]:
                continue
            frame, address = self.tap.recvfrom(65536)
            is_quic = frame[12:14] == b"\x08\x00" and frame[23] == UDP and frame[34:36] == PORT.to_bytes(2, "big")
            # 4: PACKET_OUTGOING, here to the subscriber.
            if address[2] != 4 or not is_quic or frame in self.seen:
                continue
            at = len(frame) - 20
            changed = frame[:40] + b"\0\0" + frame[42:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
            kept.append(frame)
            again = [changed] + ([kept.pop(0)] if len(kept) > 8 else [])
            self.seen |= {frame, changed}
            for made in again:
                self.tap.send(made)
                self.sent += 1

    def close(self) -> None:
        self.end.set()
        self.join()
        self.tap.close()


def told(events: Path) -> list[int]:
    """Epochs of the keys that came, in their order."""
    return [epoch for e in events_of(events) if e["name"] == "icn:keys" for epoch in e["data"]["epochs"]]


def test_members_that_come_and_leave_all_the_time_cost_few_keys(net):
    publisher = net.publish("--live", name=NAME, stdin=subprocess.PIPE)
    stream = Stream(publisher)
    events, out = net.folder / "events", net.folder / "out"
    stays = net.get(1, NAME, out, "--events", events)
    until(lambda: told(events), "the first key")
    replayer = Replayer(net, "v1")
    storm = net.hosts[2].start(sys.executable, "-c", STORM, COMES, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    net.running.append(storm)
    _, errors = storm.communicate()
    assert storm.returncode == 0, errors
    until(lambda: len(told(events)) > 1 or stays.poll() is not None, "a key after one that left")
    replayer.close()
    stream.close()
    _, errors = stays.communicate()
    assert stays.returncode == 0, errors
    got = out.read_bytes()
    assert got
    assert stream.said.encode().endswith(got)
    report = json.loads(publisher.stdout.read())
    epochs = told(events)
    assert epochs == sorted(set(epochs)), "each key is told once, whatever comes again"
    # One for all who left within a second, and few at once.
    assert 2 <= len(epochs) <= report["publisher"]["rekeys"] + 1 <= COMES / 4
    assert replayer.sent > 0
