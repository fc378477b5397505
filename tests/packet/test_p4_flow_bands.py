# SPDX-License-Identifier: Apache-2.0
"""Two bands of flows on real interfaces (docs/design/flows.md): which packets go ahead, in what order packets leave,
the bounds on new flows, and configuration. A packet of 1200 bytes takes 0.1 s on the slow line, so that packets
sent at once wait together. The bits are in test_p4_law."""

import subprocess
from collections.abc import Callable, Iterable

import pytest
from p4_packets import ip4, ip6, routed, tagged
from p4_rig import BMV2, PROGRAM, P4Rig, basic_config, find, host_mac, mac_text
from packet_rig import REPO
from scapy.all import ARP, UDP, Ether, IPv6, IPv6ExtHdrFragment, Packet, Raw

from weir.bands import DEFAULT, FREE_BYTES, Bands
from weir.dataplane.p4runtime import P4RuntimeDevice
from weir.p4runtime.entities import Call, Exact, RegisterEntry, TableEntry
from weir.programs import PID_DELAY, PortLaw
from weir.settings import profile

EDGE = REPO / "p4" / "programs" / "edge.p4"
LARGE_BYTES = 1200
LARGE = bytes(LARGE_BYTES - 42)
"""Makes an IPv4 frame of LARGE_BYTES."""
STILL = {"kp": 0.0, "ki": 0.0, "kd": 0.0, "delay_bound_share": 0.0, "delay_limit_share": 0.0, "share_shift": 24}
"""Changes of `tuned` for which the law drops nothing, and bytes count for 16 s."""
MARKER = 1
"""Frames that `exchange` adds for station 2."""
TWO_PACKETS = Bands(0, 2 * LARGE_BYTES, 1)
"""The first two large packets of a flow go ahead."""

Make = Callable[..., Packet]


def with_bands(switch: P4Rig, bands: Bands = TWO_PACKETS, **changes: float) -> TableEntry:
    gains = profile("tuned").with_changes(STILL | changes)
    return PID_DELAY.law_entry(2, PortLaw(gains, 0, bands=bands), switch.info)


def flow(make: Make, port: int, count: int, load: bytes = LARGE) -> list[Packet]:
    """Packets of one flow, numbered in their last bytes."""
    packets = []
    for number in range(count):
        packet = make(to=2, load=load + bytes([port % 256, number]))
        if UDP in packet:
            packet[UDP].sport = port
        packets.append(packet)
    return packets


def fragment6(to: int, load: bytes) -> Packet:
    packet = ip6(to, load=load)
    packet[IPv6].payload = IPv6ExtHdrFragment(nh=17, id=7, m=1) / Raw(bytes(packet[UDP]))
    return packet


MAKES: dict[str, Make] = {
    "ipv4": ip4,
    "ipv6": ip6,
    "vlan": lambda **fields: tagged(ip4(**fields), 7),
    "vlan6": lambda **fields: tagged(ip6(**fields), 7),
    "fragments": lambda **fields: ip4(flags="MF", **fields),
    "fragments6": fragment6,
}


@pytest.fixture(params=[PROGRAM, EDGE], ids=["pid_delay", "edge"])
def slow(target, tmp_path, request):
    """A switch without state whose port 2 is a line of 96 kbit/s."""
    if target == BMV2:
        pytest.skip("BMv2 has no rate that two queues of a port share")
    switch = P4Rig(target, tmp_path, ports=(1, 2), options=["--queue", "2:rate=96kbit"], priorities=2)
    try:
        switch.deploy(main=request.param)
        yield switch
    finally:
        switch.close()


def send(switch: P4Rig, packets: Iterable[Packet]) -> list[bytes]:
    """Sends all; the frames that station 2 is to get."""
    wanted = []
    for packet in packets:
        switch.send(1, bytes(packet))
        wanted.append(routed(packet, 2))
    return wanted


def order(switch: P4Rig, wanted: list[bytes], patience_s: float = 60.0) -> list[int]:
    """Numbers of these frames as they come, until all are there or nothing came for so long."""
    place = {frame: number for number, frame in enumerate(wanted)}
    came = []
    for _, frame in switch.arrivals(patience_s):
        came.append(place[frame])
        if len(came) == len(wanted):
            break
    return came


@pytest.mark.parametrize("kind", MAKES)
def test_a_sparse_flow_passes_a_long_one(slow, kind):
    long, sparse = flow(MAKES[kind], 5001, 14), flow(ip4, 5002, 2, b"")
    with slow.entries(with_bands(slow)):
        came = order(slow, send(slow, [*long, *sparse]))
    assert sorted(came) == list(range(16))
    assert [number for number in came if number < 14] == list(range(14)), "a flow keeps its order"
    assert [number for number in came if number >= 14] == [14, 15]
    assert came[-5:] == list(range(9, 14)), "bulk that was sent first leaves last"
    ahead = 2 * len(long[0]) + sum(map(len, sparse))
    assert slow.count("aqm_ahead", 2) == (4, ahead)
    assert slow.count("aqm_drops", 2) == (0, 0)
    (last,) = slow.client.read(RegisterEntry("bands_budget_last_us", 2))
    if last.value == 0:  # nothing was halved yet
        (budget,) = slow.client.read(RegisterEntry("bands_budget", 2))
        counted = [budget.value >> shift & 0xFFFFFFFF for shift in (64, 32, 0)]
        assert counted == [ahead, ahead - len(long[0]), 12 * len(long[0])]


def test_band_a_does_not_change_the_measurement_of_band_b(slow):
    """The last packet of A leaves its queue empty, and B's stays as long as it is."""
    with slow.entries(with_bands(slow)):
        wanted = send(slow, flow(ip4, 5001, 24))
        arrivals = slow.arrivals(60)
        came = [next(arrivals)[1] for _ in range(4)]
        wanted += send(slow, flow(ip4, 5002, 1, b""))
        while wanted[-1] not in came:
            came.append(next(arrivals)[1])
        asked = [RegisterEntry(name, 2) for name in ("aqm_dequeued", "aqm_drained", "aqm_enqueued")]
        dequeued, drained, enqueued = (cell.value >> 48 for cell in slow.client.read(*asked))
    assert enqueued == 22, "A is not in B's backlog"
    assert drained - dequeued <= 1, "what waits is not lost"


def test_the_rate_is_that_of_the_line(slow):
    """The bytes in the count at the end are those of both bands (docs/design/flows.md)."""
    chunk_bytes = 1 << 13

    def remainder(lengths: list[int]) -> int:
        count = 0
        for length in lengths:
            count += length
            count -= chunk_bytes if count >= chunk_bytes else 0
        return count

    with slow.entries(with_bands(slow, dq_shift=13)):
        packets = [*flow(ip4, 5001, 16), *flow(ip4, 5002, 3, bytes(100))]
        wanted = send(slow, packets)
        came = order(slow, wanted)
        (cell,) = slow.client.read(RegisterEntry("law_dq_count_bytes", 2))
    assert sorted(came) == list(range(len(packets)))
    lengths = [len(packets[number]) for number in came]
    # the measurement begins with the departure of one of the first, when enough packets wait
    assert cell.value in {remainder(lengths[first:]) for first in range(1, 5)}
    assert cell.value not in {remainder([n for n in lengths[first:] if n > LARGE_BYTES]) for first in range(1, 5)}


def test_without_bands_packets_leave_in_order(slow):
    long, sparse = flow(ip4, 5001, 8), flow(ip4, 5002, 2, b"")
    gains = profile("tuned").with_changes(STILL)
    with slow.entries(PID_DELAY.law_entry(2, PortLaw(gains, 0), slow.info)):
        assert order(slow, send(slow, [*long, *sparse])) == list(range(10))
    assert slow.count("aqm_ahead", 2) == (0, 0)
    assert slow.client.read(RegisterEntry("bands_budget", 2))[0].value == 0


def test_other_frames_are_one_flow_that_the_law_leaves_alone(slow):
    """The first two large ones go ahead; the others wait, and are neither refused nor dropped."""

    head = Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(2))) / ARP(op=2) / Raw(LARGE)
    frames = [bytes(head) + bytes([number]) for number in range(16)]
    limit = {"delay_limit_share": 1.75, "target_us": 1000, "m1_us": 1000, "m2_us": 500}
    with slow.entries(with_bands(slow, **limit)):
        arrivals = slow.arrivals(60)
        for frame in frames[:8]:
            slow.send(1, frame)
        came = [next(arrivals)[1] for _ in range(5)]  # the last of these has waited
        for frame in frames[8:]:
            slow.send(1, frame)
        came += [next(arrivals)[1] for _ in range(11)]
    assert came == frames
    assert slow.count("aqm_ahead", 2)[0] == 2
    assert slow.count("aqm_drops", 2)[0] == 0


def test_the_law_drops_bulk_alone(slow):
    """Each packet that meets a delay above the limit is dropped, but for band A."""
    long, sparse = flow(ip4, 5001, 38), flow(ip4, 5002, 10, bytes(100))
    limit = {"delay_limit_share": 1.75, "target_us": 1000, "m1_us": 1000, "m2_us": 500}
    with slow.entries(with_bands(slow, **limit)):
        wanted = send(slow, long[:8])
        arrivals = slow.arrivals(60)
        came = [next(arrivals)[1] for _ in range(5)]  # the last of these has waited
        for number in range(10):
            wanted += send(slow, [*long[8 + 3 * number : 11 + 3 * number], sparse[number]])
        while wanted[-1] not in came:  # behind it nothing is undecided
            came.append(next(arrivals)[1])
        dropped = slow.count("aqm_drops", 2)[0]
        while len(came) < len(wanted) - dropped:
            came.append(next(arrivals)[1])
    assert dropped > 0
    assert set(wanted) >= set(came) >= {routed(packet, 2) for packet in sparse}
    assert slow.count("aqm_ahead", 2)[0] == 2 + len(sparse)


def test_band_a_has_a_limit_in_time(slow):
    """Two flows that send at once what takes 0.8 s, with a limit of 0.54 s; a frame that is not IP is not dropped."""
    with slow.entries(with_bands(slow, Bands(0, 4 * LARGE_BYTES, 1), delay_limit_share=36, dq_shift=12)):
        bulk = flow(ip4, 5001, 15)
        for wave in range(0, 15, 5):  # the rate is learnt from the last ones, which are in bulk
            assert len(order(slow, send(slow, bulk[wave : wave + 5]))) == 5
        wanted = send(slow, [*flow(ip4, 5002, 4), *flow(ip4, 5003, 4)])
        other = bytes(Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(2))) / ARP(op=2) / Raw(LARGE))
        slow.send(1, other)
        came = []
        for _, frame in slow.arrivals(60):
            if frame == other:
                break
            came.append(frame)
    dropped = slow.count("aqm_drops", 2)[0]
    assert 0 < dropped == len(wanted) - len(came)
    assert came == [frame for frame in wanted if frame in came]
    assert slow.count("aqm_ahead", 2)[0] == 3 + 8 + 1


def test_a_flood_of_new_ports_leaves_bulk_its_share(slow):
    bulk = flow(ip4, 5001, 24)
    flood = [packet for port in range(6000, 6040) for packet in flow(ip4, port, 1)]
    with slow.entries(with_bands(slow)):
        wanted = send(slow, bulk)
        place = {frame: number for number, frame in enumerate(wanted)}
        arrivals = slow.arrivals(60)
        came = [place[next(arrivals)[1]] for _ in range(5)]  # the last of these has waited
        place |= {frame: len(bulk) + number for number, frame in enumerate(send(slow, flood))}
        while len(bulk) - 1 not in came:
            came.append(place[next(arrivals)[1]])
    assert [number for number in came if number < len(bulk)] == list(range(len(bulk)))
    ahead = sum(number >= len(bulk) for number in came) * LARGE_BYTES
    in_bulk = (len(bulk) - 2) * len(bulk[0])
    assert 0 < ahead <= (in_bulk + FREE_BYTES) / 2, "new flows have half of the budget"
    refused = slow.count("aqm_refused", 2)[0]
    assert 0 < refused == slow.count("aqm_drops", 2)[0]
    assert refused + slow.count("aqm_ahead", 2)[0] == len(flood) + 2
    assert slow.count("aqm_ahead", 2)[1] <= in_bulk + FREE_BYTES


def test_scripts_pass_on_the_embedded_target():
    """As test_p4_programs has them for BMv2."""
    runner = find("weir-stf")
    if runner is None:
        pytest.skip("embedded: weir-stf is not built")
    for main in (PROGRAM, EDGE, PROGRAM.with_name("pid_delay_l4s.p4")):
        command = [runner, "--p4", str(main), str(REPO / "p4" / "tests" / "flow_bands")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# weir p4 deploy and weir gains


@pytest.fixture
def two_queues(target, tmp_path):
    switch = P4Rig(target, tmp_path, ports=(1, 2), priorities=2)
    try:
        yield switch
    finally:
        switch.close()


@pytest.mark.parametrize("main", [PROGRAM, EDGE], ids=["pid_delay", "edge"])
def test_deploy_sets_bands_and_takes_them_back(two_queues, main):
    switch = two_queues
    for text, wanted in (
        ("[bands.port.2]\n", DEFAULT),
        (
            "[bands.port.2]\nahead_share = 1.5\nahead_most_bytes = 9000\nahead_least_bytes = 3000\n",
            Bands(98304, 9000, 3000),
        ),
        ("", None),
    ):
        switch.deploy(basic_config((1, 2), f"[aqm.port.2]\n{text}"), main=main)
        (entry,) = switch.client.read(TableEntry("aqm"))
        assert entry.match == {"egress_port": Exact(2)}
        assert isinstance(entry.action, Call)
        law = PID_DELAY.law_of(entry, switch.info)
        assert law.bands == wanted
        assert law.gains.to_params() == profile("tuned").to_params()
        assert len(switch.exchange([(1, bytes(packet)) for packet in flow(ip4, 5001, 4, b"")])[2]) == 4
    assert switch.count("aqm_ahead", 2)[0] == 2 * (4 + MARKER)


def test_gains_and_status_of_a_port_with_bands(two_queues):
    switch = two_queues
    switch.deploy(basic_config((1, 2), "[aqm.port.2]\n[bands.port.2]\nahead_share = 0\n"))
    switch.exchange([(1, bytes(packet)) for packet in flow(ip4, 5001, 4, b"")])
    ahead = switch.count("aqm_ahead", 2)
    switch.client.close()
    device = P4RuntimeDevice("s1", switch.address)
    try:
        device.change("2", None, {"ahead_most_bytes": 9000})
        device.change("2", None, {"target_us": 5000})
        device.change("2", profile("paper"), {})
        (port,) = device.read_status().ports
    finally:
        device.close()
    assert port.settings.own.items() >= {"ahead_share": 0, "ahead_most_bytes": 9000}.items()
    assert port.settings.gains.to_params() == profile("paper").to_params()
    assert port.bands == {"ahead_packets": ahead[0], "ahead_bytes": ahead[1], "refused_packets": 0}
    assert ahead[0] == 4 + MARKER
