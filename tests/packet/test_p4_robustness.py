# SPDX-License-Identifier: Apache-2.0
"""Faults around a switch: cables, controllers, strangers. It goes on forwarding, and reports what it rejects."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from p4_packets import ip4, routed
from p4_rig import BMV2, PORTS, P4Rig, find, hop
from packet_rig import REPO, until
from scapy.packet import Raw

from weir.p4runtime.client import Client, NotPrimary, Update
from weir.p4runtime.entities import TableEntry


@pytest.fixture
def fresh(target, tmp_path_factory):
    """A switch of one's own: these tests break things."""
    switch = P4Rig(target, tmp_path_factory.mktemp("fresh"))
    try:
        switch.deploy()
        yield switch
    finally:
        switch.close()


def all_pairs(switch: P4Rig, stations: list[int]) -> None:
    """Asserts that each of these stations reaches the others."""
    pairs = [(a, b) for a in stations for b in stations if a != b]
    got = switch.exchange([(a, bytes(ip4(to=b, source=a))) for a, b in pairs], stations)
    for b in stations:
        assert sorted(got[b]) == sorted(routed(ip4(to=b, source=a), b) for a in stations if a != b)


def reaches(switch: P4Rig, a: int, b: int) -> bool:
    switch.send(a, bytes(ip4(to=b, source=a)))
    return any(port == b for port, _ in switch.arrivals(0.2))


def test_an_interface_down_and_up(fresh):
    if fresh.kind == BMV2:
        pytest.skip("BMv2 receives nothing any more, at any port, once one of its interfaces was down")
    fresh.box.sh("ip link set p3 down")
    fresh.exchange([(1, bytes(ip4(to=3)))] * 10, [1, 2, 4])
    all_pairs(fresh, [1, 2, 4])
    fresh.box.sh("ip link set p3 up")
    until(lambda: reaches(fresh, 1, 3) and reaches(fresh, 3, 1), "port 3 forwards again", 30)
    fresh.drain()
    all_pairs(fresh, list(PORTS))


def test_an_interface_goes_away_and_comes_back(fresh):
    fresh.unplug(4)
    fresh.exchange([(1, bytes(ip4(to=4)))] * 10, [1, 2, 3])
    all_pairs(fresh, [1, 2, 3])
    if fresh.kind == BMV2:
        pytest.skip("BMv2 does not take a port back that was gone")
    fresh.plug(4)
    until(lambda: reaches(fresh, 1, 4) and reaches(fresh, 4, 1), "port 4 forwards again", 30)
    fresh.drain()
    all_pairs(fresh, list(PORTS))


def test_frames_as_large_as_a_new_mtu(fresh):
    if fresh.kind == BMV2:
        pytest.skip("BMv2 reads what its capture library was told at the start")
    for n in (1, 2):
        fresh.stations.sh(f"ip link set s{n} mtu 9000")
        fresh.box.sh(f"ip link set p{n} mtu 9000")
    until(lambda: reaches(fresh, 1, 2) and reaches(fresh, 2, 1), "ports 1 and 2 forward again", 30)
    fresh.drain()
    large = ip4(to=2) / Raw(bytes(8000))
    assert fresh.exchange([(1, bytes(large))] * 20, [1, 2])[2] == [routed(large, 2)] * 20
    all_pairs(fresh, list(PORTS))


@pytest.mark.parametrize("interface", ["lo", "tun0"])
def test_an_interface_without_ethernet_is_refused(switch, interface):
    if switch.kind == BMV2:
        pytest.skip("BMv2 takes what its capture library takes")
    if interface == "tun0" and not Path("/dev/net/tun").exists():
        pytest.skip("no /dev/net/tun")
    if interface == "tun0":
        switch.box.sh("ip tuntap add tun0 mode tun")
    words = ["weir-switch", "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "-i", f"1@{interface}"]
    command = switch.box.command(find(words[0]), *words[1:])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert interface in done.stderr
    assert "Ethernet" in done.stderr


class Pushy(Client):
    """It writes whether it is primary or not."""

    def _require_primary(self) -> None:
        pass


def test_a_second_primary_is_refused(switch):
    switch.client.write([Update.insert(hop(501, 2))])
    twin = switch.connect()  # the same election id
    with pytest.raises(NotPrimary, match=r"arbitration .* was refused"):
        twin.become_primary()
    twin.close()
    switch.client.write([Update.delete(hop(501, 2))])  # the primary is unchanged
    all_pairs(switch, list(PORTS))


def test_a_backup_reads_and_may_not_write(switch):
    first = switch.client
    higher = switch.connect(Pushy, election_id=10)
    try:
        assert higher.arbitrate().is_primary
        until(lambda: not first.standing.is_primary, "the first hears that it is no longer primary")
        low = switch.connect(Pushy, election_id=2)
        assert not low.arbitrate().is_primary
        assert low.read(TableEntry("next_hop"))
        with pytest.raises(NotPrimary):
            low.write([Update.insert(hop(502, 2))])
        assert higher.find(hop(502, 2)) is None
        low.close()
        all_pairs(switch, list(PORTS))
    finally:
        higher.close()
    switch.reconnect(election_id=10)
    switch.client.write([Update.insert(hop(502, 2)), Update.delete(hop(502, 2))])


GARBAGE_SEED = 5


def test_strangers_at_the_grpc_port(switch):
    """Noise, other protocols, halves of the right one, and many who say nothing."""
    rest = random.Random(GARBAGE_SEED)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    said = [
        b"",
        b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rest.randbytes(400),
        preface,
        preface + rest.randbytes(5000),
        preface + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + rest.randbytes(100),
        preface + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x05\x01\x05\x00\x00\x00\x01" + rest.randbytes(5),
        *(rest.randbytes(rest.choice([1, 9, 100, 60000])) for _ in range(40)),
    ]
    quiet = [switch.grpc_socket() for _ in range(50)]
    for words in said:
        with switch.grpc_socket() as stranger:
            try:
                stranger.sendall(words)
            except OSError:
                continue  # shown the door before we had finished
    assert switch.client.read(TableEntry("next_hop"))
    all_pairs(switch, list(PORTS))
    for stranger in quiet:
        stranger.close()
    newcomer = switch.connect(election_id=3)
    assert newcomer.capabilities()
    newcomer.close()


WRITER = """
import sys
from weir.p4runtime.client import Client, Update
from weir.p4runtime.entities import Call, Lpm, TableEntry
with Client(sys.argv[1], election_id=100) as client:
    client.become_primary()
    for block in range(1000):
        client.write([
            Update.insert(TableEntry("ipv4_lpm", {"hdr.ipv4.dst": Lpm(0xAC000000 + (block * 250 + i << 4), 28)},
                                     Call("set_next_hop", {"next_hop": i % 4 + 1})))
            for i in range(250)
        ])
        print(block, flush=True)
"""


def test_a_controller_that_dies_in_mid_write(switch):
    before = sorted(map(repr, switch.client.read(TableEntry("ipv4_lpm"))))
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, switch.address],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(REPO / "controller"), "PATH": ""},
        text=True,
    )
    with writer:
        blocks = [int(writer.stdout.readline()) for _ in range(4)]
        writer.send_signal(signal.SIGKILL)
    assert blocks == [0, 1, 2, 3]
    # its place is free, and what it left is whole
    backup = switch.client
    until(lambda: backup.standing.is_primary or not backup.standing.has_primary, "the switch notices")
    switch.reconnect(election_id=100)
    theirs = [e for e in switch.client.read(TableEntry("ipv4_lpm")) if e.match["hdr.ipv4.dst"].value >> 24 == 0xAC]
    found = {e.match["hdr.ipv4.dst"].value - 0xAC000000 >> 4: e for e in theirs}
    assert len(found) >= 1000
    for number, entry in found.items():
        assert entry.match["hdr.ipv4.dst"].prefix_len == 28
        assert entry.action.params == {"next_hop": number % 250 % 4 + 1}
    packets = [
        (number, ip4(to=f"172.{number >> 12 & 255}.{number >> 4 & 255}.{number << 4 & 255 | 3}"))
        for number in (0, 1, 250, 999)
    ]
    got = switch.exchange([(1, bytes(p)) for _, p in packets])
    for number, packet in packets:
        port = number % 250 % 4 + 1
        assert routed(packet, port) in got[port]
    switch.client.write([Update.delete(e) for e in theirs])
    assert sorted(map(repr, switch.client.read(TableEntry("ipv4_lpm")))) == before
    all_pairs(switch, list(PORTS))


def test_it_ends_when_told_to_and_leaves_the_interfaces(fresh):
    if fresh.kind == BMV2:
        pytest.skip("how BMv2 ends is not ours to test")
    fresh.client.close()
    fresh.process.terminate()
    assert fresh.process.wait(30) == 0, fresh.log.read_text()
    fresh.box.sh("ip link show p1 up")
