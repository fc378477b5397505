# SPDX-License-Identifier: Apache-2.0
"""The model of a switch's names: invariants for any input. tests/packet shows that P4 does the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.names import groups
from weir.names.hashing import half_sip_hash
from weir.names.packet import DATA, INTEREST, NACK, Header, frame
from weir.names.switch import Count, Limits, Names, Route

UP, OTHER = 4, 5
ROUTES = [Route(0, 0, UP, OTHER)]
NAME = 77


def interest(segment: int = 0, **fields: int) -> bytes:
    return frame(Header(**{"name": NAME, "segment": segment, "lifetime": 400, **fields}))  # 102.4 ms


def data(segment: int = 0, **fields: int) -> bytes:
    return frame(Header(**{"kind": DATA, "name": NAME, "segment": segment, **fields}))


@pytest.mark.parametrize(("length", "value"), [(0, 0x5814C896), (4, 0x7E059EA6), (12, 0x6B28096C), (20, 0x911BB605)])
def test_the_hash_is_what_other_implementations_give(length: int, value: int) -> None:
    assert half_sip_hash(0x0706050403020100, bytes(range(length))) == value


def test_each_set_of_eight_ports_has_its_groups() -> None:
    made = dict(groups.groups())
    assert len(made) == 510
    assert made[0x4000 + 0b10000001] == (1, 8)
    assert made[0x4100 + 0b10000001] == (1, 8, 9)


def once(model: Names) -> int:
    """Packets, by the counters that count each once."""
    return sum(model.counts) - model.counts[Count.DATA_COPIES] - model.counts[Count.ENTRIES_DISPLACED]


PACKETS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, UP, OTHER]),  # port
        st.sampled_from([INTEREST, INTEREST, INTEREST, DATA, NACK]),
        st.integers(0, 11),  # segment
        st.sampled_from([1, 400, 4000, 65535]),  # lifetime
        st.sampled_from([0, 300, 50_000, 2_000_000, 9_000_000]),  # time since the one before
    ),
    max_size=120,
)


@given(PACKETS, st.integers(1, 6))
def test_every_live_entry_is_paid_for_and_no_port_has_more_than_its_quota(packets: list, quota: int) -> None:
    limits = Limits(quota=quota, port_quotas={1: 9})
    model, now_us = Names(ROUTES, limits), 0
    for port, kind, segment, lifetime, step_us in packets:
        now_us += step_us
        header = Header(kind, code=int(kind == NACK), name=NAME, segment=segment, lifetime=lifetime)
        before = once(model)
        model.packet(frame(header), port, now_us)
        assert once(model) == before + 1, "each packet is counted once"
        live = [e for ways in model.sets.values() for e in ways if e and e.lives(now_us)]
        for payer in range(6):
            used = replace(model.used[payer])
            used.bring_up_to(now_us)
            assert sum(entry.payer == payer for entry in live) <= used.now + used.before <= limits.quota_of(payer)
        assert all(entry.ports and entry.asked and entry.ports - {port} for entry in live if port in entry.asked)


def test_a_flood_takes_nothing_from_another_port() -> None:
    model = Names(ROUTES, Limits(key=0x1234567890ABCDEF))
    for segment in range(20_000):
        model.packet(interest(segment, lifetime=65535), 0, segment)
    assert model.counts[Count.INTERESTS_FORWARDED] == 2048
    assert model.counts[Count.NACKED_QUOTA] + model.counts[Count.NACKED_FULL] == 20_000 - 2048
    for segment in range(1000):
        (sent,) = model.packet(interest(segment, name=99), 1, 30_000)
        assert sent[0] == UP
        if len(model.packet(data(segment, name=99), UP, 30_001)) != 1:
            raise AssertionError("what another port asked gave way")


def test_who_asks_again_and_again_keeps_no_more_than_its_quota() -> None:
    model, most = Names(ROUTES, Limits(quota=10)), 0
    for epoch in range(12):
        now_us = epoch * 4_000_000
        for segment in range(epoch * 5, epoch * 5 + 10):
            model.packet(interest(segment, lifetime=65535), 0, now_us)
        for segment in range(epoch * 5):
            model.packet(interest(segment, lifetime=1), 0, now_us + 10_000)
        live = [e for ways in model.sets.values() for e in ways if e and e.lives(now_us + 10_000)]
        most = max(most, len(live))
    assert most == 10


def test_nobody_makes_an_entry_die_while_others_wait() -> None:
    model = Names(ROUTES)
    model.packet(interest(lifetime=4000), 0, 0)  # 1 s
    model.packet(interest(lifetime=1), 1, 2000)
    assert [port for port, _ in model.packet(data(), UP, 1_500_000)] == [0, 1]


def test_a_cache_that_asks_on_gets_the_data_too() -> None:
    model = Names(ROUTES)
    assert [port for port, _ in model.packet(interest(), 0, 0)] == [UP]
    assert [port for port, _ in model.packet(interest(), UP, 10)] == [OTHER]
    assert model.packet(interest(), UP, 20) == []
    assert [port for port, _ in model.packet(data(), OTHER, 30)] == [0, UP]
    assert model.packet(data(), UP, 40) == []
    assert model.counts[Count.DATA_UNASKED] == 1


def test_another_prefix_takes_no_data_from_those_who_asked_by_the_right_one() -> None:
    model = Names([Route(1 << 48, 16, UP), Route(2 << 48, 16, OTHER)])
    right, wrong = 1 << 48, 2 << 48
    for first, second in ((right, wrong), (wrong, right)):
        model.packet(interest(prefix=first, lifetime=65535), int(first == wrong), 0)
        model.packet(interest(prefix=second, lifetime=1), int(second == wrong), 2000)
        assert model.packet(data(prefix=right), OTHER, 2100) == []
        assert [port for port, _ in model.packet(data(prefix=right), UP, 2200)] == [0]
        assert [port for port, _ in model.packet(data(prefix=wrong), OTHER, 2300)] == [1]


def test_a_small_hop_limit_keeps_nobody_back_in_a_tree() -> None:
    """The first one is dropped at the second switch, which never hears of it."""
    near, far = Names([Route(0, 0, UP)]), Names([Route(0, 0, UP)])

    def through(port: int, now_us: int, **fields: int) -> list[tuple[int, bytes]]:
        return [out for _, made in near.packet(interest(**fields), port, now_us) for out in far.packet(made, 0, now_us)]

    assert through(0, 0, hop_limit=2, lifetime=65535) == []
    assert [port for port, _ in through(1, 100)] == [UP]
    assert through(2, 200) == []
    (answer,) = far.packet(data(), UP, 300)
    assert [port for port, _ in near.packet(answer[1], UP, 400)] == [0, 1, 2]
    # the last one forwarded counts: who repeats with less keeps nobody back either
    through(0, 500, segment=1)
    assert through(1, 5000, segment=1, hop_limit=2, lifetime=1) == []
    assert [port for port, _ in near.packet(interest(segment=1), 2, 5100)] == [UP]


def test_those_nearer_and_farther_become_one() -> None:
    model = Names(ROUTES)
    for port, hop_limit in enumerate((61, 64, 62, 255)):
        sent = model.packet(interest(hop_limit=hop_limit), port, port)
        assert bool(sent) == (port == 0)


def test_a_nack_does_not_come_from_the_asker() -> None:
    """A bridge between them would take the asker to be where the switch is."""
    asked = interest()
    ((port, refused),) = Names([]).packet(asked, 3, 0)
    assert port == 3
    assert (refused[:6], refused[6:12].hex(":")) == (asked[:6], "02:57:45:49:52:01")


def test_a_loop_of_two_switches_ends() -> None:
    """Each has the other on both of its ports, and the asker's Interest goes round once."""
    first, second = Names([Route(0, 0, 1, 2)]), Names([Route(0, 0, 2, 1)])
    here, there = [(0, interest())], []
    hops = 0
    while here or there:
        for port, made in here:
            there += first.packet(made, port, hops * 100)
        here = [(to, out) for port, made in there for to, out in second.packet(made, port, hops * 100)]
        there = []
        hops += 1
        assert hops < 10
    assert first.counts[Count.INTERESTS_FORWARDED] == 1
    assert first.counts[Count.INTERESTS_JOINED] == 1
