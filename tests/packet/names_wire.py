# SPDX-License-Identifier: Apache-2.0
"""`weir-icn` as users run it, over a switch that forwards by name, with someone on the publisher's wire.

get (s1) --- 1 [switch] 11 --- (s11) whoever is on the wire (mid) --- publish (pub)
anyone (s2) --- 2 [switch] 10 --- (s10) a cache, where a test starts one
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from p4_rig import PROGRAM as L3
from p4_rig import P4Rig, basic_config
from packet_rig import REPO, take, until

from weir.names.packet import DATA, ETHER_TYPE, HEADER_BYTES, INTEREST, Header, frame
from weir.names.switch import Count

ICN = REPO / "build" / "bin" / "weir-icn"
PORTS = (1, 2, 10, 11)
ASKER, STRANGER, CACHE, UP = PORTS
EDGE = L3.with_name("edge.p4")
FOLDER = "/weir/files"
FILM = f"{FOLDER}/film"
SEGMENT_BYTES = 1440
ADDRESS = "127.0.0.1:4434"

Packet = tuple[Header, bytes]
Change = Callable[[Header, bytes], list[Packet]]


def parsed(raw: bytes) -> Packet | None:
    """A frame's packet; None if it is none of ours."""
    if raw[12:14] != ETHER_TYPE.to_bytes(2, "big"):
        return None
    header = Header.unpack(raw[14:])
    return header and (header, raw[14 + HEADER_BYTES :][: header.payload_bytes])


def unchanged(header: Header, payload: bytes) -> list[Packet]:
    return [(header, payload)]


class Middle(threading.Thread):
    """Someone on the wire between switch and publisher, who passes on what `asks` and `answers` make of a packet.
    `reply`: what it answers itself before an Interest goes on."""

    def __init__(self, near: socket.socket, far: socket.socket):
        super().__init__(daemon=True)
        self._near, self._far = near, far
        self.answers: Change = unchanged
        self.reply: Change = lambda _header, _payload: []
        self.passed_data = 0
        self._end = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.is_set():
            for tap in select.select([self._near, self._far], [], [], 0.1)[0]:
                raw = take(tap)
                if raw and (packet := parsed(raw)):
                    self._packet(tap is self._near, *packet)

    def _packet(self, is_from_switch: bool, header: Header, payload: bytes) -> None:
        if is_from_switch:
            for made in self.reply(header, payload):
                self._near.send(frame(*made))
            self._far.send(frame(header, payload))
        else:
            for made in self.answers(header, payload):
                self.passed_data += made[0].kind == DATA
                self._near.send(frame(*made))

    def close(self) -> None:
        self._end.set()
        self.join()


class Wire:
    """All of it. `folder` has what is published, and what was fetched."""

    def __init__(self, rig: P4Rig, folder: Path, cache: bool):
        self.rig, self.folder, self.hosts = rig, folder, rig.stations
        way = f"port = {CACHE}\nother = {UP}" if cache else f"port = {UP}"
        rig.set_program(EDGE)  # registers and counters begin at 0
        rig.deploy(basic_config(PORTS, f'[names]\n[[names.route]]\nprefix = "{FOLDER}"\n{way}\n'), main=EDGE)
        self._closing = contextlib.ExitStack()
        self.hosts.sh("ip link add mid type veth peer name pub; ip link set mid up; ip link set pub up")
        self._closing.callback(self.hosts.sh, "ip link del mid")
        near, far = self.hosts.tap(f"s{UP}"), self.hosts.tap("mid")
        self._closing.callback(near.close)
        self._closing.callback(far.close)
        self.middle = Middle(near, far)
        self._closing.callback(self.middle.close)
        (folder / "files").mkdir()

    def close(self) -> None:
        self._closing.close()

    def file(self, bytes_count: int) -> bytes:
        """A new file to publish."""
        content = os.urandom(bytes_count)
        (self.folder / "files" / "film").write_bytes(content)
        return content

    def start(self, *words: object, before: tuple[object, ...] = ()) -> subprocess.Popen:
        process = self.hosts.start(*before, ICN, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._closing.callback(process.communicate)
        self._closing.callback(process.kill)
        return process

    def publish(self, *options: object, before: tuple[object, ...] = ()) -> subprocess.Popen:
        """`before`: words in front of the program's, such as env."""
        words = ["--name", FOLDER, "--interface", "pub", "--listen", ADDRESS, "--state-dir", self.folder / "state"]
        publisher = self.start("publish", *words, *options, self.folder / "files", before=before)
        assert publisher.stdout.readline() == f"listening {ADDRESS}\n"
        assert publisher.stdout.readline().startswith("publisher ")
        return publisher

    def cache(self) -> subprocess.Popen:
        cache = self.start("cache", "--interface", f"s{CACHE}")
        assert cache.stdout.readline() == "ready\n"
        return cache

    def get(self, output: Path, *options: object) -> subprocess.Popen:
        return self.start(*self.words_to_get(output), *options)

    def words_to_get(self, output: Path) -> list[object]:
        words = ["get", FILM, "--from", ADDRESS, "--ca", self.folder / "state" / "weir-server-ca.pem"]
        words += ["--known-publishers", "none", "--interface", f"s{ASKER}", "--output", output]
        return [*words, "--json", "--quiet"]

    def got(self, output: Path, content: bytes, *options: object) -> dict:
        """Fetches the file, which must be right; the counts of it."""
        out, errors = (getter := self.get(output, *options)).communicate()
        assert getter.returncode == 0, errors
        assert output.read_bytes() == content
        assert not list(output.parent.glob(f"{output.name}.part*"))
        return json.loads(out)["objects"][0]["counts"]

    def ended(self, process: subprocess.Popen) -> dict:
        """Ends a publisher or a cache; what it says of itself."""
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        return json.loads(out)

    def count(self, what: Count) -> int:
        return self.rig.count("names", what)[0]

    def waits_for(self, what: Count, at_least: int) -> None:
        until(lambda: self.count(what) >= at_least, f"{at_least} {what.name}")

    def forget(self, port: int) -> None:
        """Packets that a station has heard so far."""
        while select.select([self.rig.taps[port]], [], [], 0)[0]:
            take(self.rig.taps[port])

    def heard(self, port: int, count: int) -> list[Packet]:
        """The next packets by name that a station gets, other than Interests."""
        found: list[Packet] = []
        tap = self.rig.taps[port]
        while len(found) < count and select.select([tap], [], [], 10)[0]:
            raw = take(tap)
            if raw and (packet := parsed(raw)) and packet[0].kind != INTEREST:
                found.append(packet)
        return found


def packets_name(content: bytes, level: int = 0) -> str:
    """The name of a file's packets (docs/design/icn-formats.md, "Objects")."""
    return f"{FILM}/~{sha256(content).hexdigest()[:16]}" + (f"/~h{level}" if level else "")


@contextlib.contextmanager
def wire(rig: P4Rig, folder: Path, cache: bool = False) -> Iterator[Wire]:
    made = Wire(rig, folder, cache)
    try:
        yield made
    finally:
        made.close()
