# SPDX-License-Identifier: Apache-2.0
"""The AQM of p4/pid_delay.p4 on real interfaces: at a fixed probability packet by packet, and PID-Delay on a queue that
is asked for more than it can carry. The lab measures the quality of control, test_p4_law tests the bits."""

import functools
import itertools
import threading
import time
from dataclasses import dataclass

import pytest
from chances import bounds
from p4_packets import CE, ECT0, ECT1, NOT_ECT, ip4, ip6, routed, tagged
from p4_rig import BMV2, ONE, P4Rig, Queue, basic_config, fixed, hop, host_mac, mac_text, route
from scapy.all import ARP, UDP, Ether, Packet

from weir.p4runtime.client import Update
from weir.p4runtime.entities import DigestConfig, Exact, RegisterEntry, TableEntry
from weir.programs import PID_DELAY, PortLaw
from weir.settings import profile

EACH = 200
"""Packets of a kind: family and ECN codepoint."""


@dataclass(frozen=True)
class Kind:
    family: str
    ecn: int
    sent: bytes
    passed: bytes
    marked: bytes
    """As it left and as it comes, without the four bytes at the end that distinguish packets."""


@functools.cache
def kinds(to: int) -> list[Kind]:
    made = []
    for family, make, field in (("ipv4", ip4, "tos"), ("ipv6", ip6, "tc")):
        for ecn in (NOT_ECT, ECT0, ECT1, CE):
            dscp = 46 << 2
            packet = make(to=to, load=bytes(40), **{field: dscp | ecn})
            marked = routed(packet, to, **{field: dscp | CE})
            made.append(Kind(family, ecn, bytes(packet)[:-4], routed(packet, to)[:-4], marked[:-4]))
    return made


@dataclass
class Fate:
    sent: int = 0
    passed: int = 0
    marked: int = 0

    @property
    def dropped(self) -> int:
        return self.sent - self.passed - self.marked


def offer(switch: P4Rig, ports: list[int], each: int = EACH) -> dict[int, dict[tuple[str, int], Fate]]:
    """Every kind of packet to every port, mixed; what became of them. A CE packet that passes counts as passed.
    Fails on a frame that is neither a packet as routed nor the same with CE."""
    frames, want, fates = [], {}, {}
    for number in range(each):
        for to in ports:
            for kind in kinds(to):
                tail = len(frames).to_bytes(4, "big")
                frames.append((1, kind.sent + tail))
                fate = fates.setdefault(to, {}).setdefault((kind.family, kind.ecn), Fate())
                fate.sent += 1
                want[to, kind.passed + tail] = fate, "passed"
                if kind.ecn != CE:
                    want[to, kind.marked + tail] = fate, "marked"
        assert number < each
    for port, some in switch.exchange(frames).items():
        for frame in some:
            fate, what = want.pop((port, frame))
            setattr(fate, what, getattr(fate, what) + 1)
    return fates


def counts(switch: P4Rig, port: int) -> tuple[int, int]:
    return switch.count("aqm_drops", port)[0], switch.count("aqm_marks", port)[0]


def check(fates: dict[tuple[str, int], Fate], p: float, marking: bool) -> None:
    """Checks that all kinds were dropped or marked with probability p, each by itself and all together."""
    hits = []
    for (family, ecn), fate in fates.items():
        assert fate.passed + fate.marked + fate.dropped == fate.sent
        if marking and ecn != NOT_ECT:
            assert fate.dropped == 0, (family, ecn, fate)
            if ecn == CE:
                continue  # marked or not looks the same
            hit = fate.marked
        else:
            assert fate.marked == 0, (family, ecn, fate)
            hit = fate.dropped
        low, high = bounds(fate.sent, p)
        assert low <= hit <= high, (family, ecn, fate)
        hits.append(hit)
    low, high = bounds(EACH * len(hits), p)
    assert low <= sum(hits) <= high


@pytest.mark.parametrize(
    ("u", "squared", "p"),
    [(0, False, 0), (0.25, False, 0.25), (0.5, True, 0.25), (0.25, True, 0.0625), (1, False, 1), (1, True, 1)],
)
@pytest.mark.parametrize("marking", [False, True], ids=["drops", "marks"])
def test_fixed_probability(switch, u, squared, p, marking):
    if marking and u == 1:
        u = 1 - 2**-32  # marks are for a U below the bound, and that can't be above 1
    with switch.entries(fixed(2, int(u * ONE), squared=squared, ecn_bound=ONE if marking else 0)):
        drops, marks = counts(switch, 2)
        fates = offer(switch, [2])[2]
        after = counts(switch, 2)
    check(fates, p, marking)
    assert after[0] - drops == sum(f.dropped for f in fates.values())
    seen_marks = sum(f.marked for f in fates.values())
    if not marking:
        assert after[1] - marks == seen_marks == 0
        return
    # a packet that came with CE is counted when it is marked again
    low, high = bounds(2 * EACH, p)
    assert low <= after[1] - marks - seen_marks <= high


def test_above_the_bound_all_are_dropped(switch):
    """RFC 8033 5.1: a flow that ignores marks is not to have the line for itself."""
    with switch.entries(fixed(2, ONE // 2, ecn_bound=ONE // 4)):
        fates = offer(switch, [2])[2]
    check(fates, 0.5, marking=False)


def test_ports_do_not_influence_each_other(switch):
    settings = {1: (None, 0), 2: (0, 0), 3: (ONE // 4, 0.25), 4: (ONE, 1)}
    before = {port: counts(switch, port) for port in settings}
    with switch.entries(*(fixed(port, u) for port, (u, _) in settings.items() if u is not None)):
        by_port = offer(switch, list(settings))
    for port, (_, p) in settings.items():
        check(by_port[port], p, marking=False)
        drops, marks = counts(switch, port)
        assert drops - before[port][0] == sum(f.dropped for f in by_port[port].values())
        assert marks == before[port][1]


def _with_port(packet: Packet, port: int) -> Packet:
    packet[UDP].sport = port
    return packet


def test_flows_are_told_by_addresses_protocol_and_ports(switch):
    """Each has a counter, which holds its bytes; fragments and what has no ports go without."""
    if switch.kind == BMV2:
        pytest.skip("stock BMv2 gives no registers over P4Runtime")
    gains = profile("tuned").with_changes({"share_least": 1.0, "share_shift": 24})

    def counted() -> list[list[int]]:
        """Each counter with the time it is of: what it holds may have been halved, and be the same as before."""
        registers = [switch.client.read(RegisterEntry(name)) for name in ("law_flows", "law_flows_last_us")]
        found = [[cell.value for cell in sorted(cells, key=lambda cell: cell.index)] for cells in registers]
        return [list(both) for both in zip(*found, strict=True)]

    def places(packets: list[Packet]) -> list[int]:
        found, before = [], counted()
        for packet in packets:
            switch.exchange([(1, bytes(packet))] * 4)
            after = counted()
            found += [number for number, (then, now) in enumerate(zip(before, after, strict=True)) if then != now]
            before = after
        assert len(found) == len(packets)
        return found

    many = {
        "ports": [_with_port(ip4(), port) for port in range(1, 9)],
        "ports6": [_with_port(ip6(), port) for port in range(1, 9)],
        "tagged": [_with_port(tagged(ip4(), 7), port) for port in range(1, 9)],
        "protocols": [ip4(proto=number) for number in range(200, 208)],
        "protocols6": [ip6(nh=number) for number in range(200, 208)],
    }
    one = {
        "fragments": [_with_port(ip4(flags="MF"), port) for port in range(1, 4)],
        "no ports": [_with_port(ip4(proto=253), port) for port in range(1, 4)],
        "no ports6": [_with_port(ip6(nh=253), port) for port in range(1, 4)],
        "other fields": [ip4(tos=tos, id=tos, ttl=60 + tos) for tos in (0, 4, 8)],
        "tag or not": [ip4(), tagged(ip4(), 7)],
    }
    with switch.entries(PID_DELAY.law_entry(2, PortLaw(gains), switch.info)):
        for name, packets in many.items():
            assert len(set(places(packets))) > 4, name
        for name, packets in one.items():
            assert len(set(places(packets))) == 1, name
    before = counted()
    switch.exchange([(1, bytes(ip4()))])
    assert counted() == before


def test_what_is_not_ip_is_left_alone(switch):
    arp = {n: bytes(Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(n))) / ARP(op=2)) for n in switch.ports}
    with switch.entries(*(fixed(port, ONE) for port in switch.ports)):
        got, _ = switch.tell([(1, frame) for frame in arp.values()] * 20)
    assert got == {n: [frame] * 20 for n, frame in arp.items()}


@pytest.mark.parametrize("action", ["forward", "forward_tagged", "forward_untagged"])
def test_a_tag_put_on_or_taken_off_is_no_loss(switch, action):
    """Packets that joined the queue are those that left it, in bytes too, though the packet has another length when it
    leaves."""
    name = switch.info.digests[DIGEST].name
    packet = ip4(to="203.0.113.5")
    frame = bytes(tagged(packet, 7) if action == "forward_untagged" else packet)
    vid = {"vid": 30} if action == "forward_tagged" else {}
    entry, reporting = fixed(3, 0), fixed(3, 0)
    reporting.action.params["digest_interval_us"] = 1
    with (
        switch.entries(entry, hop(250, 3, action, **vid), route("203.0.113.0/24", 250)),
        switch.entries(DigestConfig(name, max_list_size=1, ack_timeout_ns=10**9)),
    ):
        assert len(switch.exchange([(1, frame)] * 5)[3]) == 5
        switch.client.write([Update.modify(reporting)])
        switch.exchange([(1, frame)])
        record = next(switch.client.digests(30)).records[0]  # nothing else was under way then
        for _ in switch.client.digests(0.5):
            pass  # digests of the marker are not for the next test
    assert record["port"] == 3
    assert (record["tail_dropped_packets"], record["tail_dropped_bytes"]) == (0, 0)
    assert record["backlog_bytes"] == len(frame)


# A queue that is asked for more than it can carry

RATE_PPS, DEPTH, TARGET_US = 1000, 300, 20_000
FULL_US = DEPTH * 1_000_000 // RATE_PPS
OVERLOAD = 1.6
DIGEST_INTERVAL_US = 50_000
DIGEST = "aqm_state_t"


class Load:
    """Packets from station 1 to station 2, faster than the queue lets them out; it is the switch's clock that
    measures, so a machine that halts halts both."""

    def __init__(self, switch: P4Rig):
        self.frame = bytes(ip4(to=2, load=bytes(400)))
        self.switch = switch
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        start, sent = time.monotonic(), 0
        while not self.ends.wait(0.004):
            due = int((time.monotonic() - start) * RATE_PPS * OVERLOAD) - sent
            if due > DEPTH // 4:  # we were not let run: what is lost is lost, no burst instead
                sent += due - DEPTH // 4
                due = DEPTH // 4
            for _ in range(due):
                self.switch.send(1, self.frame)
            sent += due

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


@pytest.fixture(scope="module")
def slow_switch(target, tmp_path_factory):
    """Port 2 has a rate, and PID-Delay with the tuned profile."""
    switch = P4Rig(target, tmp_path_factory.mktemp("slow"), ports=(1, 2), queues={2: Queue(RATE_PPS, DEPTH)})
    try:
        law = f'[aqm.port.2]\nprofile = "tuned"\ntarget_us = {TARGET_US}\ndigest_interval_us = {DIGEST_INTERVAL_US}\n'
        switch.deploy(basic_config((1, 2), law))
        yield switch
    finally:
        switch.close()


def states(switch: P4Rig, count: int) -> list[dict]:
    """So many digests of port 2 while the load lasts."""
    name = switch.info.digests[DIGEST].name
    found = []
    with switch.entries(DigestConfig(name, max_list_size=1, ack_timeout_ns=10**9)), Load(switch):
        for digests in switch.client.digests(60):
            found += [record for record in digests.records if record["port"] == 2]
            if len(found) >= count:
                return found
    raise AssertionError(f"only {len(found)} of {count} digests came")


def mean(records: list[dict], key: str) -> float:
    return sum(r[key] for r in records) / len(records)


def test_pid_delay_holds_the_delay_and_others_fill_the_queue(slow_switch):
    (law,) = slow_switch.client.read(TableEntry("aqm"))
    held = states(slow_switch, 100)[50:]
    assert TARGET_US / 3 < mean(held, "delay_us") < 3 * TARGET_US
    assert held[-1]["aqm_dropped_packets"] > held[0]["aqm_dropped_packets"]
    assert held[-1]["tail_dropped_packets"] == held[0]["tail_dropped_packets"]
    assert mean(held, "backlog_bytes") < DEPTH * 442 / 3

    for u in (0, ONE // 8):
        entry = fixed(2, u)
        entry.action.params["digest_interval_us"] = DIGEST_INTERVAL_US
        slow_switch.client.write([Update.modify(entry)])
        filled = states(slow_switch, 60)[40:]
        assert mean(filled, "delay_us") > 0.7 * FULL_US
        assert filled[-1]["tail_dropped_packets"] > filled[0]["tail_dropped_packets"]
        drops = filled[-1]["aqm_dropped_packets"] - filled[0]["aqm_dropped_packets"]
        assert (drops > 0) == (u > 0)
        if not u:
            enqueued = filled[-1]["enqueued_packets"] - filled[0]["enqueued_packets"]
            lost = filled[-1]["tail_dropped_packets"] - filled[0]["tail_dropped_packets"]
            assert 0 < lost < enqueued
    slow_switch.client.write([Update.modify(law)])


def test_digests_tell_what_counters_count(slow_switch):
    found = states(slow_switch, 20)
    for key in ("enqueued_packets", "aqm_dropped_packets", "tail_dropped_packets", "now_us"):
        values = [r[key] for r in found]
        assert values == sorted(values), key
    gaps = [b["now_us"] - a["now_us"] for a, b in itertools.pairwise(found)]
    assert min(gaps) >= DIGEST_INTERVAL_US
    assert slow_switch.count("aqm_drops", 2)[0] >= found[-1]["aqm_dropped_packets"]


def test_without_a_controller_it_goes_on_with_its_gains(slow_switch):
    slow_switch.drain()
    (law,) = slow_switch.client.read(TableEntry("aqm"))
    dropped = slow_switch.count("aqm_drops", 2)[0]
    slow_switch.client.close()
    arrived = 0
    with Load(slow_switch):
        for port, _ in slow_switch.arrivals(30):
            arrived += port == 2
            if arrived == 2 * RATE_PPS:
                break
    slow_switch.reconnect(election_id=2)
    assert slow_switch.client.read(TableEntry("aqm")) == [law]
    assert law.match["egress_port"] == Exact(2)
    assert slow_switch.count("aqm_drops", 2)[0] > dropped
