# SPDX-License-Identifier: Apache-2.0
"""A subscriber whose path to the publisher dies: it has another address, or the publisher is down for a while. Its
fetches by name go on, and the group's next key reaches it."""

import itertools
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from names_net import PUBLISHER, Net, bridged, events_of, progressed, slow, wait_for
from packet_rig import Holder

ROUND_BYTES = 4000


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path) as net:
        yield net


def keys_told(path: Path) -> list[list[int]]:
    """Epochs of the keys that came after the first, line by line."""
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
    stream.until(lambda: keys_told(events) or mover.poll() is not None)
    assert [len(epochs) for epochs in keys_told(events)] == [1]
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


def film(net: Net, bytes_count: int) -> bytes:
    (net.folder / "files").mkdir()
    content = os.urandom(bytes_count)
    (net.folder / "files" / "film").write_bytes(content)
    return content


def test_a_publisher_that_vanishes_and_comes_back(net):
    content = film(net, 2_500_000)
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


@dataclass
class Datagram:
    """One that came to a relay: from which of its clients, and what was in it."""

    client: tuple[str, int]
    content: bytes


class Relay:
    """Passes on UDP datagrams between subscribers and a server, and remembers what came from subscribers."""

    def __init__(self, host: Holder, address: str, to: str) -> None:
        ip, port = address.split(":")
        to_ip, to_port = to.split(":")
        self.to = (to_ip, int(to_port))
        self.host = host
        with host.inside():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((ip, int(port)))
        self.ways: dict[tuple[str, int], socket.socket] = {}
        self.seen: list[Datagram] = []
        self.begun: set[tuple[str, int]] | None = None
        self.ending = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.ending:
            ready, _, _ = select.select([self.socket, *self.ways.values()], [], [], 0.05)
            for each in ready:
                content, sender = each.recvfrom(65535)
                if each is not self.socket:
                    client = next(client for client, way in self.ways.items() if way is each)
                    if self.passes(client, b""):
                        self.socket.sendto(content, client)
                    continue
                if not self.passes(sender, content):
                    continue
                if sender not in self.ways:
                    with self.host.inside():
                        self.ways[sender] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self.seen.append(Datagram(sender, content))
                self.ways[sender].sendto(content, self.to)

    def cut(self) -> None:
        """From now on only what begins a connection passes, and what is of such a one."""
        self.begun = set()

    def passes(self, client: tuple[str, int], content: bytes) -> bool:
        if self.begun is not None and content and content[0] & 0x80 and client not in self.ways:
            self.begun.add(client)  # a long header (RFC 9000 17.2)
        return self.begun is None or client in self.begun

    def last_flight(self) -> list[bytes]:
        """Datagrams that the client of the last connection sent before it knew anything of the server."""
        flight = [datagram.content for datagram in self.seen if datagram.client == self.seen[-1].client]
        first_id = flight[0][5 : 6 + flight[0][5]]
        return [content for content in flight if content[5:].startswith(first_id)]

    def replay(self, flight: list[bytes]) -> None:
        """Sends a flight as somebody who saw it passing."""
        with self.host.inside():
            stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for content in flight:
            stranger.sendto(content, self.to)
        stranger.close()

    def close(self) -> None:
        self.ending = True
        self.thread.join()
        for each in (self.socket, *self.ways.values()):
            each.close()


@pytest.mark.parametrize("shared", [True, False], ids=["known", "refused"])
def test_a_ticket_of_a_publisher_that_ended(net, shared):
    """With the same ticket keys the next publisher takes it, and the request in the first packets. Else the handshake
    is a full one. The new publisher does not know the object until it is asked for it."""
    content = film(net, 2_500_000)
    slow(net)
    keys = ["--ticket-keys", net.folder / "tickets"] if shared else []
    first = net.publish(net.folder / "files", *keys)
    events = net.folder / "events"
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--events", events)
    wait_for(lambda: progressed(events), getter)
    first.kill()
    first.wait()
    second = net.publish(net.folder / "files", *keys)
    out, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert (net.folder / "out").read_bytes() == content
    group = json.loads(out)["group"]
    assert (group["reconnected"], group["resumed"], group["early_data"]) == (1, int(shared), int(shared))
    report = net.end(second)
    assert (report["group"]["resumed"], report["group"]["early_data"]) == (int(shared), int(shared))
    if shared:
        assert (net.folder / "tickets").stat().st_mode & 0o777 == 0o600


@dataclass
class AtEdges:
    """A live stream, two edge servers with the same ticket keys, one who knows both and is at the first, and one who is
    at the publisher. Both have heard something."""

    stream: Stream
    first: subprocess.Popen
    second: subprocess.Popen
    getter: subprocess.Popen
    leaver: subprocess.Popen
    events: Path
    out: Path

    @staticmethod
    def begun(net: Net) -> "AtEdges":
        publish = ["--live", "--host", "10.9.0.13", "--host", "10.9.0.14"]
        stream = Stream(net.publish(*publish, name="/weir/radio", stdin=subprocess.PIPE))
        keys = ["--ticket-keys", net.folder / "tickets"]
        first, second = net.edge(3, *keys), net.edge(4, *keys)
        events, out = net.folder / "events", net.folder / "out"
        options = ["--from", "10.9.0.14:4434", "--events", events]
        getter = net.get(1, "/weir/radio", out, *options, at="10.9.0.13:4434")
        leaver = net.get(2, "/weir/radio", net.folder / "left")
        heard = [Path(f"{out}.part"), net.folder / "left.part"]
        stream.until(lambda: all(size(path) for path in heard))
        return AtEdges(stream, first, second, getter, leaver, events, out)

    def leave(self) -> None:
        self.leaver.send_signal(signal.SIGINT)
        self.leaver.communicate()

    def end(self) -> dict:
        """Ends the stream; what became of the connections of the one at the first edge server, which has all of it."""
        self.stream.more(5 * ROUND_BYTES)
        self.stream.publisher.stdin.close()
        told, errors = self.getter.communicate()
        assert self.getter.returncode == 0, errors
        assert bytes(self.stream.said).endswith(self.out.read_bytes())
        return json.loads(told)["group"]

    def rekeys(self) -> int:
        return json.loads(self.stream.publisher.stdout.read())["publisher"]["rekeys"]


def test_the_next_edge_server_takes_the_ticket_of_the_first(tmp_path):
    """A subscriber's edge server has ended. The next one has the same ticket keys: the subscriber asks in its first
    packets, is the same member, and gets the key that was drawn meanwhile."""
    with bridged(tmp_path, subscribers=4) as net:
        at = AtEdges.begun(net)
        at.first.kill()
        at.leave()
        # Data comes under a key that it has not: it finds that its edge server has ended, and goes to the next.
        at.stream.until(
            lambda: any(len(epochs) == 2 for epochs in keys_told(at.events)) or at.getter.poll() is not None
        )
        group = at.end()
        assert (group["lost"], group["reconnected"], group["resumed"], group["early_data"]) == (1, 1, 1, 1)
        report = net.end(at.second)
        assert (report["group"]["resumed"], report["group"]["early_data"]) == (1, 1)
        assert at.rekeys() <= 2, "it was a member all the time"


def test_who_moves_out_of_reach_of_its_edge_server_goes_on_at_another(tmp_path):
    """From its new address the first edge server can't be reached. It asks the other one at once, in its first packets,
    while it still informs the first that it has moved; it is the same member, and gets the key that is drawn then."""
    with bridged(tmp_path, subscribers=4) as net:
        at = AtEdges.begun(net)
        net.hosts[3].sh("ip route add blackhole 10.9.0.101/32")
        move(net, 1)

        def there() -> list[dict]:
            return [event["data"] for event in events_of(at.events) if event["name"] == "icn:group"]

        at.stream.until(lambda: there() or at.getter.poll() is not None)
        assert [back["server"] for back in there()] == ["10.9.0.14:4434"]
        at.leave()
        at.stream.until(lambda: len({*itertools.chain(*keys_told(at.events))}) > 1 or at.getter.poll() is not None)
        group = at.end()
        assert (group["migrated"], group["reconnected"], group["resumed"], group["early_data"]) == (0, 1, 1, 1)
        assert net.end(at.second)["group"]["early_data"] == 1
        assert net.end(at.first)["group"]["migrated"] == 0
        assert at.rekeys() <= 2, "moving is not leaving"


def test_what_an_edge_server_says_without_its_publisher(net):
    """No answer comes from there: the subscriber is informed, and the edge server goes on."""
    film(net, 100_000)
    net.end(net.publish(net.folder / "files", "--host", "10.9.0.13"))  # makes the certificate
    edge = net.edge(3)
    getter = net.get(1, "/weir/files/film", net.folder / "out", at="10.9.0.13:4434")
    _, errors = getter.communicate()
    assert getter.returncode == 7, errors
    assert "the publisher can't be reached from this edge server" in errors
    publisher = net.publish(net.folder / "files")
    getter = net.get(1, "/weir/files/film", net.folder / "out", at="10.9.0.13:4434")
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    report = net.end(edge)
    assert (report["members"], report["handed_on"]) == (0, 2)
    assert net.end(publisher)["members"] == 0


def test_a_first_flight_that_is_sent_again(net):
    """A replayed first flight is not early at this publisher any more, and makes no member. At another one with the
    same keys it is early once: the cost of sharing them."""
    content = film(net, 2_500_000)
    (net.folder / "files" / "note").write_text("a marker")
    slow(net)
    at = "10.9.0.13:5000"
    options = [net.folder / "files", "--ticket-keys", net.folder / "tickets", "--host", "10.9.0.13"]
    publisher = net.publish(*options)
    relay = Relay(net.hosts[3], at, PUBLISHER)
    try:
        events = net.folder / "events"
        getter = net.get(1, "/weir/files/film", net.folder / "out", "--events", events, at=at)
        wait_for(lambda: progressed(events), getter)
        # The connection is dead, at the earlier address and at the next: another one is begun.
        relay.cut()
        move(net, 1)
        out, errors = getter.communicate()
        assert getter.returncode == 0, errors
        assert (net.folder / "out").read_bytes() == content
        assert json.loads(out)["group"]["early_data"] == 1
        flight = relay.last_flight()
        # The connection that it was sent for drains for some probe timeouts, and takes copies until then.
        for _ in range(30):
            relay.replay(flight)
            time.sleep(0.1)
        fetch_marker(net)
        report = net.end(publisher)
        assert report["group"]["replays"] >= 1
        assert report["group"]["early_data"] == 1, "the copy's was not taken"
        assert report["members"] == 0
        second = net.publish(*options)
        for _ in range(3):
            relay.replay(flight)
        fetch_marker(net)
        report = net.end(second)
        assert report["group"]["early_data"] == 1, report
        assert report["members"] <= 1, "three copies are one member, until it was silent for 20 s"
    finally:
        relay.close()


def fetch_marker(net: Net) -> None:
    """A small object, after which the publisher has taken in what was sent to it before."""
    getter = net.get(2, "/weir/files/note", net.folder / "marker")
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert (net.folder / "marker").read_text() == "a marker"
