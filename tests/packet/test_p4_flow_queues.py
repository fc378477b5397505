# SPDX-License-Identifier: Apache-2.0
"""Flow queues of weir-switch (`--queue PORT:...,flows`) on real interfaces: order, shares in bytes, drops, and the law
above them. A packet of 1200 bytes takes 25 ms on the slow line, so that packets sent at once wait together."""

import json

import pytest
from p4_packets import ip4, ip6, routed, tagged
from p4_rig import BMV2, P4Rig, host_mac, mac_text
from packet_rig import until
from scapy.all import ARP, UDP, Ether, IPv6, IPv6ExtHdrHopByHop, Packet, Raw

from weir.p4runtime.entities import RegisterEntry
from weir.programs import PID_DELAY, PortLaw
from weir.settings import profile

LARGE_BYTES = 1200
QUANTUM_BYTES = 1514
STILL = {"kp": 0.0, "ki": 0.0, "kd": 0.0, "delay_bound_share": 0.0, "delay_limit_share": 0.0}
"""Changes of `tuned` for which the law drops nothing."""


def hop_by_hop6(to: int, load: bytes) -> Packet:
    packet = ip6(to, load=load)
    packet[IPv6].payload = IPv6ExtHdrHopByHop() / packet[UDP]
    return packet


MAKES = {
    "ipv4": ip4,
    "ipv6": ip6,
    "hop_by_hop6": hop_by_hop6,
    "vlan": lambda **fields: tagged(ip4(**fields), 7),
    "vlan6": lambda **fields: tagged(ip6(**fields), 7),
}


def flow(port: int, count: int, length: int = LARGE_BYTES, make=ip4) -> list[Packet]:
    """Frames of one flow and this length, numbered in their last bytes."""
    head = len(make(to=2, load=b""))
    packets = []
    for number in range(count):
        packet = make(to=2, load=bytes(length - head - 2) + bytes([port % 256, number]))
        packet[UDP].sport = port
        packets.append(packet)
    return packets


class Line:
    """A switch whose port 2 is a line of 384 kbit/s with flow queues."""

    def __init__(self, target: str, folder, limits: str = "", priorities: int = 1):
        self.stats = folder / "stats.json"
        options = ["--queue", f"2:rate=384kbit,flows{limits}", "--stats-json", str(self.stats)]
        self.switch = P4Rig(target, folder, ports=(1, 2), options=options, priorities=priorities)

    def __enter__(self) -> "Line":
        self.switch.deploy()
        return self

    def __exit__(self, *_) -> None:
        self.switch.close()

    def send(self, packets: list[Packet], *more: bytes) -> list[bytes]:
        """Sends all at once, `more` last; the frames that station 2 is to get for the packets."""
        for frame in [*map(bytes, packets), *more]:
            self.switch.send(1, frame)
        return [routed(packet, 2) for packet in packets]

    def take(self, count: int) -> list[bytes]:
        """So many frames in the order in which they come."""
        arrivals = self.switch.arrivals(60)
        return [next(arrivals)[1] for _ in range(count)]

    def queue(self) -> dict:
        """Statistics of the line's queue at the end."""
        self.switch.close()
        queues = json.loads(self.stats.read_text())["queues"]
        return next(q for q in queues if (q["port"], q["priority"]) == (2, 0))


@pytest.fixture
def line(target, tmp_path):
    if target == BMV2:
        pytest.skip("BMv2 has no flow queues")
    with Line(target, tmp_path) as made:
        yield made


def test_a_call_leaves_before_a_flood(line):
    for kind, make in MAKES.items():
        frames = line.send([*flow(5001, 16, make=make), *flow(5002, 3, 200, make)])
        flood, call = frames[:16], frames[16:]
        came = line.take(19)
        assert [frame for frame in came if frame in flood] == flood, f"{kind}: a flow keeps its order"
        assert [frame for frame in came if frame in call] == call, kind
        assert came[-8:] == flood[-8:], f"{kind}: bulk that was sent first leaves last"
    arp = bytes(Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(2))) / ARP(op=2) / Raw(bytes(18)))
    flood = line.send(flow(5001, 16), arp)
    came = line.take(17)
    assert came[-4:] == flood[-4:], "frames that are not IP are a flow of their stations"
    stats = line.queue()
    assert stats["flows_begun"] >= 2 * len(MAKES)
    assert stats["flows_active"] == 0


def test_flows_of_unequal_packets_share_the_line_in_bytes(line):
    large, small = flow(5001, 10), flow(5002, 40, 300)
    mixed = [packet for n in range(10) for packet in (large[n], *small[4 * n : 4 * n + 4])]
    frames = line.send(mixed)
    ports = {frame: packet[UDP].sport for frame, packet in zip(frames, mixed, strict=True)}
    sent = {5001: 0, 5002: 0}
    for frame in line.take(len(frames)):
        sent[ports[frame]] += len(frame)
        if max(sent.values()) < 10 * LARGE_BYTES:  # both wait
            assert abs(sent[5001] - sent[5002]) <= QUANTUM_BYTES + 2 * LARGE_BYTES
    assert sent == {5001: 10 * LARGE_BYTES, 5002: 10 * LARGE_BYTES}


def test_a_full_queue_drops_the_first_packets_of_its_fattest_flow(target, tmp_path):
    if target == BMV2:
        pytest.skip("BMv2 has no flow queues")
    with Line(target, tmp_path, ",depth=20p") as line:
        frames = line.send([*flow(5001, 40), *(flow(port, 1, 100)[0] for port in range(6000, 6005))])
        flood, others = frames[:40], frames[40:]
        came = []
        while not {flood[-1], *others} <= set(came):
            came += line.take(1)
        lost = [frame for frame in flood if frame not in came]
        stats = line.queue()
    assert [frame for frame in came if frame in flood] == [frame for frame in flood if frame not in lost]
    assert stats["tail_dropped_packets"] == 0
    assert stats["head_dropped_packets"] == len(lost) > 0
    for unit in ("packets", "bytes"):
        gone = [stats[f"{what}_{unit}"] for what in ("dequeued", "head_dropped", "purged", "backlog")]
        assert stats[f"enqueued_{unit}"] == sum(gone)


def test_the_law_counts_what_waits(line):
    """A packet that overtakes does not hide the backlog that it leaves behind."""
    switch = line.switch
    law = PortLaw(profile("tuned").with_changes(STILL), 0, "flows")
    with switch.entries(PID_DELAY.law_entry(2, law, switch.info)):
        frames = line.send([*flow(5001, 30), *flow(5002, 1, 200)])
        flood, call = frames[:30], frames[30:]
        arrivals = switch.arrivals(60)
        came = []
        while call[0] not in came:
            came.append(next(arrivals)[1])
        asked = [RegisterEntry(name, 2) for name in ("aqm_enqueued", "aqm_drained")]
        enqueued, drained = (cell.value for cell in switch.client.read(*asked))
        not_come = len(flood) + 1 - len(came)
        waiting = enqueued - drained
        packets, size = waiting >> 48, waiting & (1 << 48) - 1
        assert size == packets * LARGE_BYTES
        after = [frame for _, frame in switch.arrivals(0)]  # these may have left before the registers were read
        later = not_come - len(after)
        after += [next(arrivals)[1] for _ in range(later)]
        assert sorted(came + after) == sorted(flood + call)
        (left,) = switch.client.read(RegisterEntry("aqm_dequeued", 2))
        assert left.value >> 48 == len(flood) + 1
        assert later <= packets <= not_come


def test_the_law_drops_from_its_delay_limit_on(line):
    switch = line.switch
    limit = {"delay_limit_share": 1.75, "target_us": 1000, "m1_us": 1000, "m2_us": 500}
    law = PortLaw(profile("tuned").with_changes(STILL | limit), 0, "flows")
    packets = flow(5001, 30)

    def decided() -> int:
        (enqueued,) = switch.client.read(RegisterEntry("aqm_enqueued", 2))
        return (enqueued.value >> 48) + switch.count("aqm_drops", 2)[0]

    with switch.entries(PID_DELAY.law_entry(2, law, switch.info)):
        wanted = line.send(packets[:8])
        came = line.take(5)  # the last of these has waited
        wanted += line.send(packets[8:])
        until(lambda: decided() == len(packets), "a verdict on each packet")
        dropped = switch.count("aqm_drops", 2)[0]
        came += line.take(len(packets) - dropped - 5)
    assert 0 < dropped <= len(packets) - 8
    assert set(came) < set(wanted)
    assert came[:8] == wanted[:8]
