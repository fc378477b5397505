# SPDX-License-Identifier: Apache-2.0
"""Routes of several switches that lead round in a circle: what goes round ends, and is counted."""

import contextlib
import select
import threading
import time
from collections.abc import Iterator

import pytest
from p4_name_packets import LONG, SHORT, Name, interest
from p4_rig import PROGRAM, P4Rig, basic_config
from packet_rig import take, until

from weir.names.packet import ETHER_TYPE, NACK, NO_ROUTE
from weir.names.switch import Count

HOST, ONWARD, BACK = PORTS = (1, 2, 3)
EDGE = PROGRAM.with_name("edge.p4")
CABLE_S = 0.003
"""Time that a cable holds a packet: above twice the least lifetime of 1 ms: the entry is dead when it is back."""


class Cable(threading.Thread):
    """Between port ONWARD of one switch and port BACK of the next."""

    def __init__(self, one: P4Rig, other: P4Rig):
        super().__init__(daemon=True)
        self.ends = one.taps[ONWARD], other.taps[BACK]
        self.carried = 0
        self._end = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.is_set():
            for tap in select.select(self.ends, [], [], 0.1)[0]:
                frame = take(tap)
                if frame and frame[12:14] == ETHER_TYPE.to_bytes(2, "big"):
                    time.sleep(CABLE_S)
                    self.carried += 1
                    self.ends[tap is self.ends[0]].send(frame)

    def close(self) -> None:
        self._end.set()
        self.join()


@pytest.fixture(scope="module")
def switches(target, tmp_path_factory) -> Iterator[list[P4Rig]]:
    with contextlib.ExitStack() as closing:
        made = []
        for n in range(3):
            made.append(P4Rig(target, tmp_path_factory.mktemp(f"switch{n}"), ports=PORTS, goes_round=True))
            closing.callback(made[-1].close)
        yield made


@contextlib.contextmanager
def joined(some: list[P4Rig], ways: list[int]) -> Iterator[None]:
    """Each switch cabled to the next, with its way to the files."""
    for rig, way in zip(some, ways, strict=True):
        rig.set_program(EDGE)  # registers and counters begin at 0
        route = f'[names]\n[[names.route]]\nprefix = "/weir/files"\nport = {way}\n'
        rig.deploy(basic_config(PORTS, route), main=EDGE)
    nexts = some[1:] + some[:1] if len(some) > 2 else some[1:]
    with contextlib.ExitStack() as closing:
        for one, other in zip(some, nexts, strict=False):
            closing.callback(Cable(one, other).close)
        yield


def counted(some: list[P4Rig], what: Count) -> int:
    return sum(rig.count("names", what)[0] for rig in some)


def test_in_a_circle_of_three_the_hop_limit_ends_what_no_entry_does(switches):
    with joined(switches, [ONWARD] * 3):
        switches[0].taps[HOST].send(interest(lifetime=SHORT))
        until(lambda: counted(switches, Count.HOP_LIMIT), "the end of it", 60)
    # 64 at first; who gets 1 drops it.
    assert counted(switches, Count.HOP_LIMIT) == 1
    assert counted(switches, Count.INTERESTS_FORWARDED) == 63
    assert counted(switches, Count.INTERESTS_JOINED) + counted(switches, Count.INTERESTS_REPEATED) == 0


def test_in_a_circle_of_three_the_entry_that_waits_ends_it_after_one_round(switches):
    with joined(switches, [ONWARD] * 3):
        switches[0].taps[HOST].send(interest(lifetime=LONG))
        until(lambda: counted(switches, Count.INTERESTS_JOINED), "the end of it", 60)
    assert counted(switches, Count.INTERESTS_FORWARDED) == 3
    assert counted(switches, Count.INTERESTS_JOINED) == 1
    assert counted(switches, Count.HOP_LIMIT) + counted(switches, Count.INTERESTS_REPEATED) == 0


def test_between_two_that_send_to_each_other_the_asker_gets_a_nack(switches):
    pair = switches[:2]
    with joined(pair, [ONWARD, BACK]):
        host = pair[0].taps[HOST]
        host.send(interest(lifetime=LONG))
        found = None
        while found is None and select.select([host], [], [], 10)[0]:
            frame = take(host)
            found = Name(frame[14:]) if frame and frame[12:14] == ETHER_TYPE.to_bytes(2, "big") else None
    assert (found.kind, found.code) == (NACK, NO_ROUTE)
    assert [counted([rig], Count.NACKED_NO_ROUTE) for rig in pair] == [0, 1]
    assert counted(pair, Count.NACKS_FORWARDED) == 1
    assert counted(pair, Count.INTERESTS_FORWARDED) == 1
