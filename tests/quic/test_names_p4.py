# SPDX-License-Identifier: Apache-2.0
"""QUIC programs that know nothing of names, through a P4 switch that forwards by name: routes by P4Runtime, as `weir p4
deploy` brings them, and the law on its ports.

client's host (ic) --- 1 [switch: icn.p4 or edge.p4] 2 --- (is) server's host
one who floods (s3) --- 3                            4 --- (s4) nobody"""

import contextlib
import select
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import names_rig
import pytest
import quic_rig
from names_rig import PHONE, SERVER, Link, converters, exchange_client, exchange_server
from p4_rig import BMV2, EMBEDDED, ONE, P4Rig, Queue, fixed, missing
from p4_rig import PROGRAM as L3
from packet_rig import Holder, take
from quic_rig import HERE, Authority
from test_names_exchanges import CASES, MODES

from weir.names.packet import INTEREST, Header, frame
from weir.names.switch import PORT_QUOTA
from weir.names.text import name_bits, prefix_bits
from weir.switch import show

PORTS = NEAR, FAR, STRANGER, NOWHERE = 1, 2, 3, 4
PROGRAMS = ("icn.p4", "edge.p4")
UNANSWERED = "/weir/nowhere"
LONG = 65535
"""A lifetime: 16 s."""
LOST_S = 0.5
"""When nothing came for so long, the rest of what a flood sent at once was lost on the way."""
ROUTES = f"""
[[names.route]]
prefix = "{PHONE}"
port = {NEAR}
[[names.route]]
prefix = "{SERVER}"
port = {FAR}
[[names.route]]
prefix = "{UNANSWERED}"
port = {NOWHERE}
"""
CONFIG = f"""
{ROUTES}
[aqm.port.{NEAR}]
profile = "tuned"
[aqm.port.{FAR}]
profile = "tuned"
"""
BYTES = 500_000
"""Both ways on one stream, beside what the other streams carry."""
FILE_BYTES = 1_000_000
DEPTH = 1000
"""Packets of each queue: a slow switch must not lose a burst."""
SHAPED_PPS = 1500
"""The client's port where it is the bottleneck: 16 Mbit/s or so of Data."""
FIRST_FLIGHT = 4
"""Datagrams that may come with the Interests that open a session, and not as Data."""


@dataclass
class Switched:
    rig: P4Rig
    link: Link

    def names(self) -> dict[str, int]:
        """The switch's counters of names, as `weir p4 show` has them; those that are 0 are left out."""
        return show.as_data(show.read_names(self.rig.client))["names"]["packets"]


@contextlib.contextmanager
def switched(
    kind: str, program: str, folder: Path, near_pps: int | None = None, config: str = CONFIG
) -> Iterator[Switched]:
    """The stations' ends of two cables in hosts of their own, without an address: only names can be what carries."""
    with contextlib.ExitStack() as closing:
        queues = {port: Queue(rate_pps=near_pps if port == NEAR else None, depth=DEPTH) for port in PORTS}
        rig = P4Rig(kind, folder, ports=PORTS, queues=queues)
        closing.callback(rig.close)
        rig.deploy(config, main=L3.with_name(program))
        hosts = []
        for port, interface in ((NEAR, "ic"), (FAR, "is")):
            hosts.append(host := Holder())
            closing.callback(host.close)
            rig.taps.pop(port).close()
            host.sh("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
            rig.stations.sh(f"ip link set s{port} netns {host.process.pid} name {interface}")
            host.sh(f"ip link set {interface} up")
        yield Switched(rig, (hosts[0], hosts[1]))


@pytest.fixture(scope="module", params=[EMBEDDED, BMV2])
def kind(request) -> str:
    if reason := missing(request.param) or names_rig.why_not():
        pytest.skip(reason)
    return request.param


@pytest.mark.parametrize("program", PROGRAMS)
@MODES
def test_all_at_the_same_time_through_a_switch(kind, program, mode, authority, tmp_path):
    stack = "quic-go"  # aioquic's programs exchange the same where there is congestion, below
    if reason := quic_rig.why_not(stack):
        pytest.skip(reason)
    with switched(kind, program, tmp_path) as net:
        server = exchange_server(stack, tmp_path, authority, net.link[1])
        with contextlib.closing(server), converters(net.link, server.address, *mode) as (port, reports):
            seen = exchange_client(stack, server, port, net.link[0], "--bytes", BYTES)
        names = net.names()
    assert seen.pop("bulk") >= BYTES
    assert seen == CASES
    given = sum(report["datagrams_given"] for report in reports)
    assert names["data_forwarded"] >= given - FIRST_FLIGHT > 2 * BYTES / 1500
    # Each Data took out what an Interest had put in.
    assert names["interests_forwarded"] >= names["data_forwarded"]
    assert not {"nacked_no_route", "malformed", "bad_port", "hop_limit"} & set(names)
    assert [report["face"]["malformed_frames"] for report in reports] == [0, 0]


@pytest.mark.parametrize(
    ("stack", "mode"),
    [("quic-go", ()), ("aioquic", ()), ("aioquic", ("--reliable",))],
    ids=["marked", "dropped", "marked for what takes no marks"],
)
def test_congestion_at_the_switch_reaches_the_programs(kind, stack, mode, authority, tmp_path):
    """The client's port takes one packet in 50 for too many. quic-go's datagrams are ECT and take marks, aioquic's are
    not: they are dropped, or (reliable) their Data is marked, and the client's side drops what is in it."""
    if reason := quic_rig.why_not(stack):
        pytest.skip(reason)
    congested = fixed(NEAR, ONE // 50, ecn_bound=ONE)
    with switched(kind, "edge.p4", tmp_path, config=ROUTES) as net, net.rig.entries(congested):
        server = exchange_server(stack, tmp_path, authority, net.link[1])
        with contextlib.closing(server), converters(net.link, server.address, *mode) as (port, reports):
            seen = exchange_client(stack, server, port, net.link[0], "--bytes", BYTES)
        marked, dropped = net.rig.count("aqm_marks", NEAR)[0], net.rig.count("aqm_drops", NEAR)[0]
    assert seen.pop("bulk") >= BYTES
    assert seen == CASES
    near, _ = reports
    if stack == "quic-go":
        assert 0 < near["marks"] <= marked
    elif mode:
        assert marked > 0
        assert near["congestion_losses"] > 0
    else:
        assert (marked, near["marks"]) == (0, 0)
        assert dropped > 0
        assert near["segments_lost"] > 0


@contextlib.contextmanager
def get_of_aioquic(net: Switched, authority: Authority, folder: Path) -> Iterator[tuple[Callable, list[dict]]]:
    """aioquic's client and our server: what GETs a file of zeros, which must come whole, and the list that has the
    reports after it."""
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    server = quic_rig.weir(folder, authority, names_rig.LISTEN, net.link[1])
    with contextlib.closing(server), converters(net.link, server.address) as (port, reports):

        def get() -> None:
            words = [HERE / "aioquic_get.py", f"https://127.0.0.1:{port}/bytes/{FILE_BYTES}", "--ca", server.ca]
            done = names_rig.run(net.link[0], sys.executable, *words)
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout == bytes(FILE_BYTES)

        yield get, reports


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_get_of_aioquic_from_our_server(kind, program, authority, tmp_path):
    with switched(kind, program, tmp_path, SHAPED_PPS) as net:
        with get_of_aioquic(net, authority, tmp_path) as (get, reports):
            get()
        names = net.names()
    assert names["data_forwarded"] >= reports[0]["datagrams_given"] > FILE_BYTES / 1500


class Flood(threading.Thread):
    """Interests of one port for what nobody answers, each for another segment, until it is ended: so many at once, and
    more when each of them has gone on or was refused."""

    AT_ONCE = 32
    PAUSE_S = 0.005  # else it would take the processor from the others, and not only room in the switch

    def __init__(self, rig: P4Rig):
        super().__init__(daemon=True)
        self._rig, self._end = rig, threading.Event()
        self.sent = self.refused = 0

    def run(self) -> None:
        asking, nowhere = self._rig.taps[STRANGER], self._rig.taps[NOWHERE]
        name = {"prefix": prefix_bits(UNANSWERED), "name": name_bits(UNANSWERED)}
        while not self._end.is_set():
            for _ in range(self.AT_ONCE):
                asking.send(frame(Header(INTEREST, **name, segment=self.sent, lifetime=LONG)))
                self.sent += 1
            self._end.wait(self.PAUSE_S)
            missing = self.AT_ONCE
            while missing and (ready := select.select([asking, nowhere], [], [], LOST_S)[0]):
                for tap in ready:
                    if take(tap) is not None:
                        missing -= 1
                        self.refused += tap is asking

    def end(self) -> None:
        self._end.set()
        self.join()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_flood_from_another_port_takes_nothing_from_a_get(kind, program, authority, tmp_path):
    """More than a quota is under way before the GET begins, and the flood goes on until the file is there."""
    with switched(kind, program, tmp_path) as net:
        flood = Flood(net.rig)
        with get_of_aioquic(net, authority, tmp_path) as (get, reports):
            flood.start()
            try:
                quic_rig.until(lambda: flood.refused > PORT_QUOTA, "a flood above its quota")
                get()
                quic_rig.until(lambda: flood.sent > 4 * PORT_QUOTA, "a flood of several quotas")
            finally:
                flood.end()
        names = net.names()
    assert names["nacked_quota"] > PORT_QUOTA
    assert reports[0]["segments_asked"] > FILE_BYTES / 1500
    for report in reports:
        assert report["nacks"] <= 0.05 * report["segments_asked"], "Interests of others are refused"
