# SPDX-License-Identifier: Apache-2.0
"""p4/programs/pid_delay_l4s.p4 on real interfaces: which packets go into which band, who leaves first, what is marked
and dropped, and what `weir p4 deploy` makes of two bands (docs/design/coupled.md)."""

import collections
import itertools

import pytest
from chances import bounds
from p4_packets import CE, ECT0, ECT1, NOT_ECT, ip4, ip6, routed
from p4_rig import BMV2, ONE, PROGRAM, P4Rig, Queue, basic_config, fixed
from scapy.layers.inet import IP

from weir.coupled import DEFAULT, Coupling
from weir.p4runtime.entities import Call, Exact, TableEntry

L4S = PROGRAM.with_name("pid_delay_l4s.p4")
NO_RAMP = Coupling(DEFAULT.coupling_q16, 2**24 - 1, DEFAULT.ramp_slope_q32_per_us, DEFAULT.floor_bytes)
"""The law of L itself marks nothing: only U does."""
LARGE = bytes(1158)
"""Makes a frame of 1200 bytes."""


def coupled(port: int, coupling: Coupling) -> TableEntry:
    return TableEntry("coupling", {"egress_port": Exact(port)}, Call("coupled", vars(coupling)))


def numbered(make, count: int, **fields) -> list:
    """Packets to station 2 that differ in their last bytes."""
    return [make(to=2, load=k.to_bytes(4, "big"), **fields) for k in range(count)]


@pytest.fixture(scope="module")
def bands(target, tmp_path_factory):
    switch = P4Rig(target, tmp_path_factory.mktemp("bands"), ports=(1, 2), priorities=2)
    try:
        switch.deploy(main=L4S)
        yield switch
    finally:
        switch.close()


def fates(switch: P4Rig, packets: list) -> dict[str, int]:
    """Numbers of packets that came as they should, came marked, and did not come."""
    got = switch.exchange([(1, bytes(packet)) for packet in packets])[2]
    as_sent = {routed(packet, 2) for packet in packets}
    passed = sum(frame in as_sent for frame in got)
    marked = {routed(packet, 2, **{_ecn_field(packet): CE}) for packet in packets} - as_sent
    found = {"passed": passed, "marked": sum(frame in marked for frame in got), "dropped": len(packets) - len(got)}
    assert sum(found.values()) == len(packets), "what came was neither as sent nor marked"
    return found


def _ecn_field(packet) -> str:
    return "tos" if "IP" in packet else "tc"


@pytest.mark.parametrize("make", [ip4, ip6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize(("u", "low_marked", "low_dropped"), [(0, 0, 0), (0.2, 0.4, 0), (0.5, 1, 0.25)])
def test_l_is_marked_with_k_u_and_c_hit_with_its_square(bands, make, u, low_marked, low_dropped):
    count = 400
    field = "tos" if make is ip4 else "tc"
    with bands.entries(fixed(2, int(u * ONE), squared=True, ecn_bound=ONE), coupled(2, NO_RAMP)):
        marks, drops = bands.count("low_marks", 2)[0], bands.count("aqm_drops", 2)[0]
        low = fates(bands, numbered(make, count, **{field: ECT1}))
        marked, dropped = bands.count("low_marks", 2)[0] - marks, bands.count("aqm_drops", 2)[0] - drops
        classic = fates(bands, numbered(make, count, **{field: ECT0}))
        others = fates(bands, numbered(make, count, **{field: NOT_ECT}))
    assert (low["marked"], low["dropped"]) == (marked, dropped)
    least, most = bounds(count, low_dropped)
    assert least <= low["dropped"] <= most
    least, most = bounds(count - low["dropped"], low_marked)
    assert least <= low["marked"] <= most
    least, most = bounds(count, u * u)
    assert classic["dropped"] == 0
    assert least <= classic["marked"] <= most
    assert others["marked"] == 0
    assert least <= others["dropped"] <= most


def test_ce_goes_into_l_and_stays(bands):
    with bands.entries(fixed(2, ONE // 2, squared=True, ecn_bound=ONE), coupled(2, Coupling(0, 2**24 - 1, 1, 0))):
        before = bands.count("aqm_drops", 2), bands.count("low_marks", 2)
        found = fates(bands, numbered(ip4, 100, tos=CE))
    assert found == {"passed": 100, "marked": 0, "dropped": 0}
    assert (bands.count("aqm_drops", 2), bands.count("low_marks", 2)) == before


def test_without_coupling_ect1_is_as_ect0(bands):
    with bands.entries(fixed(2, ONE // 2, squared=True)):
        found = fates(bands, numbered(ip4, 400, tos=ECT1))
    least, most = bounds(400, 0.25)
    assert found["marked"] == 0
    assert least <= found["dropped"] <= most


# Queues that are filled: a packet of 1200 bytes takes 0.1 s, so that what is sent at once waits together.


@pytest.fixture(scope="module")
def slow(target, tmp_path_factory):
    """L may have nine tenths of the line."""
    if target == BMV2:
        pytest.skip("BMv2 has no rate that two queues of a port share")
    switch = P4Rig(
        target,
        tmp_path_factory.mktemp("slow"),
        ports=(1, 2),
        queues={2: Queue(rate_pps=9, priority=1)},
        options=["--queue", "2:rate=96kbit"],
        priorities=2,
    )
    try:
        switch.deploy(main=L4S)
        yield switch
    finally:
        switch.close()


def in_order(switch: P4Rig, *kinds: int) -> list[tuple[int, bool]]:
    """Sends a packet of each ECN codepoint; which came in what order, and whether marked."""
    packets = [ip4(to=2, load=LARGE, id=number, tos=ecn) for number, ecn in enumerate(kinds)]
    for packet in packets:
        switch.send(1, bytes(packet))
    known = {routed(packet, 2): (number, False) for number, packet in enumerate(packets)}
    for number, packet in enumerate(packets):
        known.setdefault(routed(packet, 2, tos=CE), (number, True))
    arrivals = switch.arrivals(60)
    return [known[frame] for _, frame in (next(arrivals) for _ in packets)]


def test_l_overtakes_c(slow):
    with slow.entries(fixed(2, 0, squared=True), coupled(2, NO_RAMP)):
        came = in_order(slow, *[NOT_ECT] * 12, *[ECT1, CE] * 2)
    order = [number for number, _ in came]
    assert [number for number in order if number < 12] == list(range(12)), "C keeps its order"
    assert [number for number in order if number >= 12] == list(range(12, 16)), "L keeps its order"
    assert order[-5:] == list(range(7, 12)), "what was sent first leaves last"
    assert not any(marked for _, marked in came)


def test_c_is_not_starved_by_l(slow):
    with slow.entries(fixed(2, 0, squared=True), coupled(2, NO_RAMP)):
        came = in_order(slow, *[ECT1] * 24, *[NOT_ECT] * 2)
    assert all(number < 24 for number, _ in came[-2:]), "L waits for C once in ten packets"


def test_l_is_marked_by_its_own_delay(slow):
    with slow.entries(fixed(2, 0, squared=True), coupled(2, DEFAULT)):
        came = in_order(slow, *[ECT1] * 6)
    assert came[-1] == (5, True), "half a second is beyond the ramp"


def test_a_switch_with_one_queue_counts_what_it_has_no_band_for(target, tmp_path):
    switch = P4Rig(target, tmp_path, ports=(1, 2))
    try:
        switch.deploy(main=L4S)
        with switch.entries(coupled(2, DEFAULT)):
            assert fates(switch, numbered(ip4, 20, tos=ECT0)) == {"passed": 20, "marked": 0, "dropped": 0}
            assert fates(switch, numbered(ip4, 20, tos=ECT1)) == {"passed": 0, "marked": 0, "dropped": 20}
    finally:
        switch.close()


def test_traffic_of_both_bands_is_marked_in_l_and_dropped_in_c(target, tmp_path):
    """The law itself: C's backlog lets U rise, L's own queue marks nothing."""
    if target == BMV2:
        pytest.skip("BMv2 has no rate that two queues of a port share")
    law = '[aqm.port.2]\nprofile = "coupled"\n[coupled.port.2]\nramp_least_us = 16777215\n'
    switch = P4Rig(target, tmp_path, (1, 2), options=["--queue", "2:rate=1mbit,depth=2000p"], priorities=2)
    try:
        switch.deploy(basic_config((1, 2), law), main=L4S)
        count = itertools.count()

        def send(number: int, ecn: int) -> None:
            for _ in range(number):
                switch.send(1, bytes(ip4(to=2, load=next(count).to_bytes(4, "big") + LARGE[4:], tos=ecn)))

        def low(number: int) -> collections.Counter:
            """ECN codepoints of as many packets of L. They leave first: after some of C, L's law has dropped them."""
            came = collections.Counter()
            for _, frame in switch.arrivals(60):
                came[IP(frame[14:]).tos & CE] += len(frame) > 1000
                if came[ECT1] + came[CE] == number or came[NOT_ECT] > 2 * number:
                    break
            del came[NOT_ECT]
            return came

        # One packet: behind more of L a packet of this machine in C would wait, and U rise.
        send(1, ECT1)
        assert low(1) == {ECT1: 1}, "no mark without a queue in C"
        came = collections.Counter()
        for _ in range(400):
            send(4, NOT_ECT)
            send(3, ECT1)
            came += low(3)
            if came[CE] and switch.count("aqm_drops", 2)[0]:
                break
        dropped, marked = switch.count("aqm_drops", 2)[0], switch.count("low_marks", 2)[0]
        assert dropped > 0
        assert came[CE] > 0
        assert marked >= came[CE]
    finally:
        switch.close()


# weir p4 deploy


def test_deploy_writes_the_coupling_and_changes_it_while_the_switch_runs(target, tmp_path):
    switch = P4Rig(target, tmp_path, ports=(1, 2), priorities=2)
    try:
        for text, wanted in (
            ("coupling = 2", DEFAULT),
            ("coupling = 4.5\nramp_us = 1", Coupling(9 << 15, 800, ONE, 3028)),
        ):
            switch.deploy(basic_config((1, 2), f"[aqm.port.2]\n[coupled.port.2]\n{text}\n"), main=L4S)
            (entry,) = switch.client.read(TableEntry("coupling"))
            assert entry.match == {"egress_port": Exact(2)}
            assert entry.action.params == vars(wanted)
            came = fates(switch, numbered(ip4, 20, tos=ECT1))
            # 20 packets may take BMv2 longer than the ramp is: then some are marked.
            assert came["passed"] + (came["marked"] if target == BMV2 else 0) == 20
        switch.deploy(basic_config((1, 2), "[aqm.port.2]\n"), main=L4S)
        assert list(switch.client.read(TableEntry("coupling"))) == []
    finally:
        switch.close()
