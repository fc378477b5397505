# SPDX-License-Identifier: Apache-2.0
"""Every table, group, counter and register of p4/pid_delay.p4 over P4Runtime, each change seen by the next packets."""

from dataclasses import replace

import pytest
from p4_packets import CE, ECT0, ip4, ip6, routed
from p4_rig import BMV2, ONE, fixed, hop, host_mac, route
from scapy.all import Ether, Raw

from weir.p4runtime.client import DeviceError, Update, WriteError
from weir.p4runtime.entities import (
    Call,
    Count,
    CounterEntry,
    DirectCounterEntry,
    Exact,
    MulticastGroup,
    RegisterEntry,
    Replica,
    TableEntry,
)

ROUTES = {
    "ipv4_lpm": ("198.51.100.0/24", lambda: ip4(to="198.51.100.77")),
    "ipv6_lpm": ("2001:db8:cafe::/48", lambda: ip6(to="2001:db8:cafe::77")),
}


@pytest.mark.parametrize("table", ROUTES)
def test_routes_come_change_and_go(switch, table):
    prefix, make = ROUTES[table]
    frame = [(1, bytes(make()))]
    assert switch.tell(frame) == ({}, {"no_route": 1})
    with switch.entries(hop(102, 2), hop(103, 3)):
        switch.client.write([Update.insert(route(prefix, 102))])
        assert switch.tell(frame) == ({2: [routed(make(), 2)]}, {})
        switch.client.write([Update.modify(route(prefix, 103))])
        assert switch.tell(frame) == ({3: [routed(make(), 3)]}, {})
        drop = replace(route(prefix, 103), action=Call("no_route"))
        switch.client.write([Update.modify(drop)])
        assert switch.tell(frame) == ({}, {"no_route": 1})
        switch.client.write([Update.delete(drop)])
        assert switch.tell(frame) == ({}, {"no_route": 1})


@pytest.mark.parametrize("table", ROUTES)
def test_a_default_route_can_be_the_default_action(switch, table):
    make = ROUTES[table][1]
    with switch.entries(hop(104, 4)), switch.default_action(table, Call("set_next_hop", {"next_hop": 104})):
        assert switch.tell([(1, bytes(make()))]) == ({4: [routed(make(), 4)]}, {})
    assert switch.tell([(1, bytes(make()))]) == ({}, {"no_route": 1})


def test_next_hops_come_change_and_go(switch):
    make = ROUTES["ipv4_lpm"][1]
    frame = [(1, bytes(make()))]
    with switch.entries(route("198.51.100.0/24", 105)):
        assert switch.tell(frame) == ({}, {"no_next_hop": 1})
        switch.client.write([Update.insert(hop(105, 2))])
        assert switch.tell(frame) == ({2: [routed(make(), 2)]}, {})
        switch.client.write([Update.modify(hop(105, 4))])
        assert switch.tell(frame) == ({4: [routed(make(), 4)]}, {})
        switch.client.write([Update.delete(hop(105, 4))])
        assert switch.tell(frame) == ({}, {"no_next_hop": 1})


def station(mac: int, action: str, **params: int) -> TableEntry:
    return TableEntry("l2_forward", {"hdr.ethernet.dst": Exact(mac)}, Call(action, params))


def other_protocol(mac: int) -> bytes:
    return mac.to_bytes(6, "big") + host_mac(1).to_bytes(6, "big") + b"\x88\xb5" + b"weir" * 20


def test_stations_come_change_and_go(switch):
    mac = 0x02000000AAAA
    frame = other_protocol(mac)
    with switch.default_action("l2_forward", Call("no_l2_entry")):
        assert switch.tell([(1, frame)]) == ({}, {"no_l2_entry": 1})
        switch.client.write([Update.insert(station(mac, "to_port", port=3))])
        assert switch.tell([(1, frame)]) == ({3: [frame]}, {})
        switch.client.write([Update.modify(station(mac, "flood", group=1))])
        assert switch.tell([(1, frame)]) == ({2: [frame], 3: [frame], 4: [frame]}, {})
        switch.client.write([Update.modify(station(mac, "no_l2_entry"))])
        assert switch.tell([(1, frame)]) == ({}, {"no_l2_entry": 1})
        switch.client.write([Update.delete(station(mac, "no_l2_entry"))])
        assert switch.tell([(1, frame)]) == ({}, {"no_l2_entry": 1})


def test_groups_come_change_and_go(switch):
    mac = 0x02000000BBBB
    frame = [(1, other_protocol(mac))]
    with switch.entries(station(mac, "flood", group=7)):
        assert switch.tell(frame) == ({}, {})  # a group that is not there reaches nobody
        switch.client.write([Update.insert(MulticastGroup(7, (Replica(2), Replica(3))))])
        assert switch.tell(frame) == ({n: [frame[0][1]] for n in (2, 3)}, {})
        switch.client.write([Update.modify(MulticastGroup(7, (Replica(1), Replica(4))))])
        assert switch.tell(frame) == ({4: [frame[0][1]]}, {})
        switch.client.write([Update.delete(MulticastGroup(7))])
        assert switch.tell(frame) == ({}, {})


def test_the_aqm_comes_changes_and_goes(switch):
    frame = [(1, bytes(ip4(to=2, tos=ECT0)))]
    passed, marked = routed(ip4(to=2, tos=ECT0), 2), routed(ip4(to=2, tos=ECT0), 2, tos=CE)
    assert switch.exchange(frame)[2] == [passed]
    switch.client.write([Update.insert(fixed(2, ONE))])
    assert switch.exchange(frame)[2] == []
    switch.client.write([Update.modify(fixed(2, ONE - 1, ecn_bound=ONE))])
    assert switch.exchange(frame)[2] == [marked]
    switch.client.write([Update.modify(fixed(2, 0))])
    assert switch.exchange(frame)[2] == [passed]
    switch.client.write([Update.delete(fixed(2, 0))])
    assert switch.exchange(frame)[2] == [passed]
    with switch.default_action("aqm", fixed(2, ONE).action):
        assert switch.exchange(frame)[2] == []
    assert switch.exchange(frame)[2] == [passed]


def test_wrong_updates_are_refused_and_change_nothing(switch):
    before = sorted(map(repr, switch.client.read(TableEntry("next_hop"))))
    for update, code in (
        (Update.insert(hop(1, 2)), "ALREADY_EXISTS"),
        (Update.modify(hop(777, 2)), "NOT_FOUND"),
        (Update.delete(hop(777, 2)), "NOT_FOUND"),
    ):
        with pytest.raises(WriteError) as failed:
            switch.client.write([update])
        assert [failure.code for failure in failed.value.failures] == [code]
    assert sorted(map(repr, switch.client.read(TableEntry("next_hop")))) == before


def test_in_a_batch_each_update_has_its_own_fate(switch):
    good, twice = [hop(301, 2), hop(302, 3)], hop(1, 2)
    with pytest.raises(WriteError) as failed:
        switch.client.write([Update.insert(e) for e in (good[0], twice, good[1])])
    assert ([f.index for f in failed.value.failures], failed.value.applied) == ([1], [0, 2])
    found = {e.match["next_hop"].value for e in switch.client.read(TableEntry("next_hop"))}
    assert found >= {301, 302}
    switch.client.write([Update.delete(e) for e in good])


@pytest.mark.parametrize("table", ROUTES)
def test_direct_counters_of_routes(switch, table):
    prefix, make = ROUTES[table]
    entry = route(prefix, 106)
    with switch.entries(hop(106, 2), entry):
        frame = bytes(make())
        switch.exchange([(1, frame)] * 5)
        (found,) = switch.client.read(DirectCounterEntry(entry))
        assert (found.count.packets, found.count.bytes) == (5, 5 * len(frame))
        switch.client.write([Update.modify(DirectCounterEntry(entry, Count(0, 0)))])
        switch.exchange([(1, frame)] * 2)
        assert switch.client.read(DirectCounterEntry(entry))[0].count == Count(2, 2 * len(frame))


def test_direct_counters_of_stations(switch):
    entry = station(0x02000000CCCC, "to_port", port=2)
    with switch.entries(entry):
        frame = other_protocol(0x02000000CCCC)
        switch.exchange([(1, frame)] * 3)
        assert switch.client.read(DirectCounterEntry(entry))[0].count == Count(3, 3 * len(frame))


def test_forwarded_counts_what_leaves_by_port(switch):
    frames = {n: [bytes(ip4(to=n, load=b"x" * 11 * i)) for i in range(n)] for n in switch.ports}
    # a marker's bytes and packets are counted too: one exchange without any frame tells how many
    before = {n: switch.count("forwarded", n) for n in switch.ports}
    switch.exchange([(1, f) for some in frames.values() for f in some])
    after = {n: switch.count("forwarded", n) for n in switch.ports}
    for n, some in frames.items():
        marker = len(switch.marker(1, n))
        packets, length = (b - a for a, b in zip(before[n], after[n], strict=True))
        assert (packets, length) == (len(some) + 1, sum(map(len, some)) + marker)


def test_counters_can_be_set(switch):
    switch.client.write([Update.modify(CounterEntry("forwarded", 99, Count(1234, 5678)))])
    assert switch.count("forwarded", 99) == (1234, 5678)
    switch.client.write([Update.modify(CounterEntry("forwarded", 99, Count(0, 0)))])
    assert switch.count("forwarded", 99) == (0, 0)


def test_drop_reasons_are_counted_in_bytes_too(switch):
    frame = bytes(ip4(to="203.0.113.1"))
    no_route = 4
    before = switch.count("dropped", no_route)
    switch.exchange([(1, frame)] * 3)
    after = switch.count("dropped", no_route)
    assert (after[0] - before[0], after[1] - before[1]) == (3, 3 * len(frame))


def test_registers(switch):
    """The embedded target gives what BMv2's P4Runtime server does not."""
    entry = RegisterEntry("aqm_enqueued", 3)
    if switch.kind == BMV2:
        with pytest.raises(DeviceError) as refused:
            switch.client.read(entry)
        assert refused.value.code == "UNIMPLEMENTED"
        return

    def enqueued() -> tuple[int, int]:
        (cell,) = switch.client.read(entry)
        return cell.value >> 48, cell.value & (1 << 48) - 1

    before, frame = enqueued(), bytes(ip4(to=3))
    switch.exchange([(1, frame)] * 4)
    after = enqueued()
    sent = 4 * len(frame) + len(switch.marker(1, 3))
    assert (after[0] - before[0], after[1] - before[1]) == (5, sent)
    assert len(switch.client.read(RegisterEntry("aqm_enqueued"))) == 512
    switch.client.write([Update.modify(RegisterEntry("aqm_dropped_packets", 4, 41))])
    with switch.entries(fixed(4, ONE)):
        switch.exchange([(1, bytes(ip4(to=4)))])
    assert switch.client.read(RegisterEntry("aqm_dropped_packets", 4))[0].value == 42


def test_packets_from_and_to_the_controller(switch):
    """Out by a route, as if it had come in at the CPU port; the program sends none up unless a route says so."""
    frame = bytes(Ether(src="02:00:00:00:00:ff", dst="02:00:00:00:01:01") / Raw(b""))[:12] + bytes(ip4(to=3))[12:]
    switch.send_from_controller(frame)
    got = next(f for n, f in switch.arrivals(30) if n == 3)
    assert got == routed(ip4(to=3), 3)
    with switch.entries(hop(355, 255), route("198.51.100.0/24", 355)):
        switch.exchange([(1, bytes(ip4(to="198.51.100.1")))])
        packet = next(switch.client.packets(30))
    assert packet.payload == routed(ip4(to="198.51.100.1"), 255)
