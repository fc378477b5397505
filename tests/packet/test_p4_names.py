# SPDX-License-Identifier: Apache-2.0
"""Forwarding by name (docs/design/icn.md) on real interfaces, beside IP: `p4/programs/edge.p4` as `weir p4 deploy`
brings it. The expected output comes from the model in `controller/weir/names`; scapy builds the packets anew.

Lifetimes are 16 s where an entry is to live, and 1 ms where it is to die."""

import io
import itertools
import re
import time
from collections.abc import Iterator

import pytest
from p4_name_packets import FILE, SHORT, Name, data, interest, nack, packet
from p4_packets import ip4, routed
from p4_rig import BMV2, EMBEDDED, ONE, PROGRAM, P4Rig, basic_config, fixed
from rich.console import Console
from scapy.layers.l2 import Ether

from weir.names.hashing import pit_set
from weir.names.packet import (
    BUSY,
    CE,
    DATA,
    ECT,
    FULL,
    LAST,
    NACK,
    NO_ROUTE,
    QUOTA,
)
from weir.names.switch import PORT_QUOTA, SETS, Count, Limits, Names, Route
from weir.names.text import name_bits, prefix_bits, route_bits
from weir.p4runtime.client import Update
from weir.p4runtime.entities import MulticastGroup, Replica, TableEntry
from weir.switch import config as configuration
from weir.switch import show
from weir.switch.deploy import deploy

PORTS = range(1, 12)
UP, OTHER, PHONE = 11, 10, 9
EDGE = PROGRAM.with_name("edge.p4")
QUOTA_OF_PORT, QUOTA_OF_PORT_8 = 40, 60
COUNTS_S = 60
"""Limit for counters of BMv2 that hangs."""
CONFIG = f"""
[names]
quota = {QUOTA_OF_PORT}
[names.port.8]
quota = {QUOTA_OF_PORT_8}
[[names.route]]
prefix = "/weir/files"
port = {UP}
other = {OTHER}
[[names.route]]
prefix = "/weir/files/here"
port = 1
[[names.route]]
prefix = "/weir/hosts/phone"
port = {PHONE}
"""


class Names11:
    """The switch, and the model that is given the same packets. A new name for each test: none finds another's."""

    def __init__(self, rig: P4Rig):
        self.rig = rig
        params = rig.client.find(TableEntry("names_limits", is_default=True)).action.params
        key = params["hash_key_high"] << 32 | params["hash_key_low"]
        assert key, "a key was drawn"
        self.model = Names(
            [
                Route(*route_bits("/weir/files"), UP, OTHER),
                Route(*route_bits("/weir/files/here"), 1),
                Route(*route_bits("/weir/hosts/phone"), PHONE),
            ],
            Limits(key, quota=QUOTA_OF_PORT, port_quotas={8: QUOTA_OF_PORT_8}),
        )
        self.before = self.counts()
        self.now_us = 0

    def counts(self) -> list[int]:
        return [self.rig.count("names", index)[0] for index in Count]

    def send(self, port: int, frame: bytes, after_s: float = 0) -> dict[int, list[bytes]]:
        """Frames that result from a frame: the same as with the model, for which `after_s` has passed before."""
        time.sleep(after_s)
        self.now_us += 1 + int(after_s * 1e6)
        wanted: dict[int, list[bytes]] = {}
        for to, made in self.model.packet(frame, port, self.now_us):
            wanted.setdefault(to, []).append(made)
        came = self.rig.exchange([(port, frame)], awaited=sum(map(len, wanted.values())))
        got = {to: some for to, some in came.items() if some}
        assert got == wanted
        return got

    def check_counts(self, **wanted: int) -> None:
        """Since the start: these, and as the model says. BMv2 may still count packets that go round."""
        limit = time.monotonic() + (COUNTS_S if self.rig.kind == BMV2 else 0)
        while True:
            after = [now - before for now, before in zip(self.counts(), self.before, strict=True)]
            if after == self.model.counts or time.monotonic() >= limit:
                break
            time.sleep(0.05)
        assert after == self.model.counts
        found = {count.name.lower(): after[count] for count in Count if after[count]}
        assert found == wanted


@pytest.fixture(scope="module")
def edge(target, tmp_path_factory) -> Iterator[P4Rig]:
    rig = P4Rig(target, tmp_path_factory.mktemp("edge"), ports=PORTS, goes_round=True)
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def names(edge) -> Names11:
    edge.set_program(EDGE)  # registers and counters begin at 0
    edge.deploy(basic_config(PORTS, CONFIG), main=EDGE)
    return Names11(edge)


def test_interests_of_several_ports_become_one_and_data_goes_to_all(names):
    assert set(names.send(1, interest())) == {UP}
    for port in (2, 3, 2):
        assert names.send(port, interest()) == {}
    assert set(names.send(UP, data(flags=LAST, epoch=7))) == {1, 2, 3}
    assert names.send(UP, data()) == {}
    names.check_counts(
        interests_forwarded=1, interests_joined=3, data_forwarded=1, data_copies=3, data_unasked=1
    )  # fmt: skip


def test_data_goes_to_ten_ports(names):
    for port in range(1, 11):
        names.send(port, interest())
    assert set(names.send(UP, data(load=bytes(1400)))) == set(range(1, 11))
    names.check_counts(interests_forwarded=1, interests_joined=9, data_forwarded=1, data_copies=10)


def test_one_asks_again_after_its_lifetime_and_late_data_comes_too_late(names):
    names.send(1, interest())
    assert set(names.send(2, interest(lifetime=SHORT), after_s=0.01)) == {UP}
    assert set(names.send(UP, data())) == {1, 2}
    names.send(1, interest(1, lifetime=SHORT))
    assert names.send(UP, data(1), after_s=0.01) == {}
    assert set(names.send(1, interest(1))) == {UP}
    assert set(names.send(UP, data(1))) == {1}
    names.check_counts(
        interests_forwarded=3, interests_repeated=1, data_forwarded=2, data_copies=3, data_unasked=1
    )  # fmt: skip


def test_what_is_refused_gets_a_nack_with_the_reason(names):
    (refused,) = names.send(2, interest(prefix=prefix_bits("/elsewhere")))[2]
    assert (Name(refused[14:]).kind, Name(refused[14:]).code) == (NACK, NO_ROUTE)
    assert Ether(refused).src == "02:57:45:49:52:01"
    (refused,) = names.send(1, packet(b"open", prefix=prefix_bits("/weir/files/here"), lifetime=1))[1]
    assert (Name(refused[14:]).code, Name(refused[14:]).payload_bytes) == (NO_ROUTE, 0)
    for segment in range(QUOTA_OF_PORT):
        names.send(3, interest(100 + segment))
    (refused,) = names.send(3, interest(99))[3]
    assert Name(refused[14:]).code == QUOTA
    assert set(names.send(4, interest(99))) == {UP}
    assert names.send(3, interest(99)) == {}
    names.send(UP, data(100))
    assert set(names.send(3, interest(98))) == {UP}
    names.check_counts(
        interests_forwarded=QUOTA_OF_PORT + 2,
        interests_joined=1,
        data_forwarded=1,
        data_copies=1,
        nacked_no_route=2,
        nacked_quota=1,
    )


def test_a_port_may_have_a_quota_of_its_own(names):
    for port, quota in ((8, QUOTA_OF_PORT_8), (7, QUOTA_OF_PORT)):
        first = 1000 * port
        got = names.rig.exchange([(port, interest(segment)) for segment in range(first, first + quota + 5)])
        assert len(got[UP]) == quota
        assert {Name(frame[14:]).code for frame in got[port]} <= {QUOTA, FULL}
        assert len(got[port]) == 5


def test_a_flood_of_one_port_takes_nothing_from_seven_others_that_ask_meanwhile(names):
    """Three quotas and more, at the quota that ports have by default. Floods that fill the table:
    p4/switch/weir-p4/tests/it/floods.rs."""
    of_all = re.sub(r"^quota = .*\n|^\[names.port.8\]\n", "", CONFIG, flags=re.MULTILINE)
    names.rig.deploy(basic_config(PORTS, of_all), main=EDGE)
    flooder, others = 1, range(2, 9)
    rounds, flood_each = 130, 7 * len(others)
    assert rounds * flood_each > 3 * PORT_QUOTA
    went_on = refused = 0
    answered = dict.fromkeys(others, 0)
    for this in range(rounds):
        flood = [(flooder, interest(1_000_000 + this * flood_each + k)) for k in range(flood_each)]
        asks = [(port, interest(this * len(others) + k)) for k, port in enumerate(others)]
        both = [frame for k, ask in enumerate(asks) for frame in (*flood[7 * k : 7 * k + 7], ask)]
        got = names.rig.exchange(both, stations=(flooder, UP))
        went_on += sum(Name(frame[14:]).segment >= 1_000_000 for frame in got[UP])
        refused += sum(Name(frame[14:]).kind == NACK for frame in got[flooder])
        there = [Name(frame[14:]).segment for frame in got[UP] if Name(frame[14:]).segment < 1_000_000]
        came = names.rig.exchange([(UP, data(segment)) for segment in there], stations=others)
        for port, frames in came.items():
            answered[port] += sum(Name(frame[14:]).kind == DATA for frame in frames)
    assert went_on + refused == rounds * flood_each
    assert went_on >= PORT_QUOTA - QUOTA_OF_PORT, "the flood takes what it may"
    if names.rig.kind == EMBEDDED:  # BMv2 reads no registers
        used = show.as_data(show.read_names(names.rig.client))["names"]["quotas"][flooder]
        assert used["this_epoch"] + used["epoch_before"] <= used["quota"] == PORT_QUOTA
    assert min(answered.values()) >= 0.95 * rounds, answered


def in_the_set_of(key: int, label: int, segment: int, count: int) -> list[int]:
    """Segments of the file that fall into one set with a name's segment, as who has this key finds them."""
    prefix = prefix_bits(FILE)
    wanted = pit_set(key, prefix, label, segment, SETS)
    fitting = (each for each in itertools.count(1) if pit_set(key, prefix, name_bits(FILE), each, SETS) == wanted)
    return list(itertools.islice(fitting, count))


def test_who_does_not_know_the_key_can_not_aim_at_a_set(names):
    others = name_bits("/weir/files/others")
    for guess in (0, names.model.limits.key ^ 1):
        for segment in in_the_set_of(guess, others, 7, 8):
            names.send(3, interest(segment))
    assert set(names.send(1, interest(7, label=others))) == {UP}
    assert set(names.send(UP, data(7, label=others))) == {1}
    names.check_counts(interests_forwarded=17, data_forwarded=1, data_copies=1)


def test_who_has_the_key_fills_a_set_and_gives_way_to_who_asks_for_less(names):
    others = name_bits("/weir/files/others")
    first, second, third = in_the_set_of(names.model.limits.key, others, 7, 3)
    for segment in (first, second):
        assert set(names.send(3, interest(segment))) == {UP}
    (refused,) = names.send(3, interest(third))[3]
    assert Name(refused[14:]).code == FULL
    assert set(names.send(1, interest(7, label=others))) == {UP}
    # It does not get the place back while the other waits.
    (refused,) = names.send(3, interest(third))[3]
    assert Name(refused[14:]).code == FULL
    assert set(names.send(UP, data(7, label=others))) == {1}
    names.check_counts(
        interests_forwarded=3, entries_displaced=1, nacked_full=2, data_forwarded=1, data_copies=1
    )  # fmt: skip


def test_answers_from_elsewhere_or_unasked_are_dropped(names):
    for frame in (data(), nack()):
        assert names.send(UP, frame) == {}
    names.send(1, interest())
    for port in (1, 2, OTHER):
        for frame in (data(), nack(code=BUSY)):
            assert names.send(port, frame) == {}
    assert names.send(UP, data(1)) == {}
    assert names.send(UP, data(label=1)) == {}
    assert set(names.send(UP, nack(code=BUSY))) == {1}
    names.check_counts(
        interests_forwarded=1,
        nacks_forwarded=1,
        data_unasked=3,
        nacks_unasked=1,
        data_from_elsewhere=3,
        nacks_from_elsewhere=3,
    )


def test_another_prefix_takes_no_data_from_those_who_asked_by_the_right_one(names):
    """The prefix says where an Interest goes, so one with another prefix for the same name is another's."""
    phone = prefix_bits("/weir/hosts/phone")
    assert set(names.send(2, interest())) == {UP}
    assert set(names.send(3, interest(prefix=phone, lifetime=SHORT), after_s=0.01)) == {PHONE}
    assert set(names.send(UP, data())) == {2}
    # the other way round: who asks first by another prefix keeps nobody's Interest back
    assert set(names.send(3, interest(1, prefix=phone))) == {PHONE}
    assert set(names.send(2, interest(1))) == {UP}
    assert set(names.send(PHONE, nack(1, prefix=phone))) == {3}
    assert names.send(PHONE, nack(1)) == {}
    assert set(names.send(UP, data(1))) == {2}
    names.check_counts(
        interests_forwarded=4, data_forwarded=2, data_copies=2, nacks_forwarded=1, nacks_from_elsewhere=1
    )  # fmt: skip


def test_hop_limits_and_circles(names):
    for limit in (0, 1):
        assert names.send(1, interest(hop_limit=limit)) == {}
    (left,) = names.send(1, interest())[UP]
    # an Interest that comes back by another port, as in a loop of switches, is held back
    assert names.send(2, left) == {}
    # the asked port asks on, and gets the data too
    assert set(names.send(UP, interest())) == {OTHER}
    assert set(names.send(OTHER, data())) == {1, 2, UP}
    names.check_counts(
        interests_forwarded=1, interests_joined=1, interests_repeated=1, data_forwarded=1, data_copies=3, hop_limit=2
    )  # fmt: skip


def test_a_small_hop_limit_keeps_nobody_back(names):
    """The next switch drops what has none left: who could get farther is not to wait for its answer."""
    assert set(names.send(1, interest(hop_limit=2))) == {UP}
    assert names.send(2, interest(hop_limit=2)) == {}
    assert set(names.send(3, interest())) == {UP}
    # far enough: those who are nearer or farther become one
    assert names.send(4, interest(hop_limit=255)) == {}
    assert set(names.send(UP, data())) == {1, 2, 3, 4}
    assert set(names.send(1, interest(1, hop_limit=32))) == {UP}
    assert names.send(2, interest(1, hop_limit=33)) == {}
    names.check_counts(
        interests_forwarded=2, interests_repeated=1, interests_joined=3, data_forwarded=1, data_copies=4
    )  # fmt: skip


def test_one_packet_asks_for_seventeen_segments(names):
    got = names.send(1, interest(50, holes=0xFFFF))
    assert [Name(frame[14:]).segment for frame in got[UP]] == list(range(50, 67))
    assert {Name(frame[14:]).holes for frame in got[UP]} == {0}
    names.send(2, interest(40, holes=0xFFFF))
    names.check_counts(interests_forwarded=27, interests_joined=7)


def test_every_prefix_of_a_packet_and_what_cannot_be(names):
    whole = data()
    for length in range(14, len(whole)):
        assert names.send(UP, whole[:length]) == {}
    wrong = [
        interest(version=0), interest(version=2), interest(kind=0), interest(kind=4), interest(label=0),
        interest(lifetime=0), interest(payload_bytes=1), nack(code=0), data(holes=1), nack(holes=1),
        packet(b"x", lifetime=1, holes=1), packet(b"x", kind=NACK, code=1),
    ]  # fmt: skip
    for frame in wrong:
        assert names.send(1, frame) == {}
    names.check_counts(malformed=len(whole) - 14 + len(wrong))


def test_show_says_what_became_of_packets_and_how_full_the_table_is(names):
    for port in (1, 2):
        names.send(port, interest())
    names.send(2, interest(1))
    names.send(3, interest(prefix=prefix_bits("/elsewhere")))
    told = show.as_data(show.read_all(names.rig.client))
    assert told["names"]["packets"] == {"interests_forwarded": 2, "interests_joined": 1, "nacked_no_route": 1}
    assert "names" not in told["counters"]
    alone = show.as_data(show.read_counters(names.rig.client))
    assert alone["names"] == {"packets": told["names"]["packets"]}
    fib = told["tables"]["fib"]["entries"][0]
    assert fib["key"].startswith("0x9e1b3d7d")
    assert fib["count"] == {"packets": 3, "bytes": 3 * len(interest())}
    assert not any("hash_key" in name for name in told["tables"]["names_limits"]["default"]["params"])
    if names.rig.kind == EMBEDDED:  # BMv2 reads no registers
        assert told["names"]["pit"] == {"cells": 16384, "held": 2, "live": 2, "live_by_port": {1: 1, 2: 1}}
        assert [name for name in told["registers"] if name.startswith("pit_")] == []
        assert told["names"]["quotas"] == {
            port: {"this_epoch": 1, "epoch_before": 0, "quota": QUOTA_OF_PORT} for port in (1, 2)
        }
        assert set(told["registers"]["quota_used"]) == {1, 2}, "as it is in the switch too"
    assert told["names"]["copies"] == {"groups": 510, "missing": []}
    assert len(told["multicast_groups"]) == 511, "programs see each"


def printed(snapshot: show.Snapshot, prefixes: show.Prefixes | None = None) -> str:
    text = io.StringIO()
    show.print_snapshot(snapshot, Console(file=text, width=200), prefixes)
    return text.getvalue()


def test_show_prints_what_an_operator_can_read(names):
    """Not 510 groups, nor hashes that nobody knows, nor a register of three numbers in one."""
    names.send(8, interest())
    client = names.rig.client
    routes = configuration.loads(basic_config(PORTS, CONFIG), "test", names.rig.folder).names.routes
    prefixes = {bits: route.prefix for bits, route in routes.items()}
    for snapshot in (show.read_all(client), show.read_names(client)):
        text = printed(snapshot, prefixes)
        assert len(re.findall("^multicast group", text, re.MULTILINE)) <= 1, "that of flooding"
        assert "copies of names: 510 multicast groups, all that are needed" in text
        assert "/weir/files/here (0x" in text
        assert "quota_used" not in text
        assert re.search("^ *interests_forwarded +1 *$", text, re.MULTILINE)
        if names.rig.kind == EMBEDDED:
            assert re.search(f"^ *8 +1 +0 +{QUOTA_OF_PORT_8} *$", text, re.MULTILINE)
    assert "/weir/files" not in printed(show.read_all(client)), "no file says which prefix it is"
    alone = printed(show.read_names(client))
    assert not any(word in alone for word in ("ipv4_lpm", "multicast group 1:", "aqm"))


def test_show_says_which_groups_are_missing_or_wrong(names):
    gone, wrong = MulticastGroup(0x4003), MulticastGroup(0x4107, (Replica(1),))
    names.rig.client.write([Update.delete(gone), Update.modify(wrong)])  # the next test's deploy mends it
    text = printed(show.read_names(names.rig.client))
    assert "copies of names: 2 of 510 multicast groups are missing or wrong, the first is 16387" in text
    assert "multicast group 16647: ports 1\n" in text


def test_deploying_again_writes_nothing(names):
    wanted = configuration.loads(basic_config(PORTS, CONFIG), "test", names.rig.folder)
    report = deploy(names.rig.client, wanted, switch=names.rig.kind, main=EDGE, precompiled=names.rig._files(EDGE))
    assert (report.program_pushed, report.updates) == (False, [])


def test_ip_is_routed_beside_names(names):
    packets = [ip4(to=2, load=bytes([n])) for n in range(3)]
    frames = [(1, bytes(packets[0])), (1, interest(7)), (1, bytes(packets[1])), (1, bytes(packets[2]))]
    got = names.rig.exchange(frames)
    assert got[2] == [routed(packet, 2) for packet in packets]
    assert len(got[UP]) == 1
    assert len(names.rig.exchange([(UP, data(7))])[1]) == 1


def test_the_law_marks_data_and_drops_the_rest_at_each_port(names):
    """Port 2 marks or drops every packet, port 1 none: copies are decided on one by one."""
    rig = names.rig
    with rig.entries(fixed(2, ONE, ecn_bound=ONE)):
        rig.exchange([(port, interest(segment)) for segment in range(3) for port in (1, 2)])
        answers = [data(0, flags=ECT), data(1, flags=LAST), nack(2, code=BUSY)]
        got = rig.exchange([(UP, answer) for answer in answers])
    assert [Name(frame[14:]).flags for frame in got[1]] == [ECT, LAST, 0]
    assert [Name(frame[14:]).flags for frame in got[2]] == [ECT | CE]
    assert rig.count("aqm_marks", 2)[0] == 1
    assert rig.count("aqm_drops", 2)[0] == 2
