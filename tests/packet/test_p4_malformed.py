# SPDX-License-Identifier: Apache-2.0
"""Frames that end too early, lie about themselves or are noise: each is dropped and counted for the right reason, and
the switch goes on forwarding (`exchange` wants its markers back after every few frames)."""

import random
import struct

import pytest
from p4_packets import address4, address6, ether, ip4, ip6, routed, tagged
from p4_rig import P4Rig, host_mac
from scapy.all import ICMPv6EchoRequest, IPOption_Router_Alert, IPv6, Raw
from scapy.layers.inet import IP

ETHERNET, TAG = 14, 4
LEAST_TAGGED = ETHERNET + TAG + 2
"""Shorter ones, that end before the protocol behind the tag has begun, the kernel itself throws away."""


def icmp6():
    return ether() / IPv6(src=address6(1), dst=address6(2)) / ICMPv6EchoRequest() / Raw(b"weir")


SHORT = {
    "ipv4": (ip4(load=b"weir"), ETHERNET + 20),
    "ipv4_options": (ip4(load=b"weir", options=[IPOption_Router_Alert()]), ETHERNET + 24),
    "ipv6": (ip6(load=b"weir"), ETHERNET + 40),
    "icmpv6": (icmp6(), ETHERNET + 40 + 4),
    "vlan_ipv4": (tagged(ip4(load=b"weir"), 7), ETHERNET + TAG + 20),
    "vlan_ipv6": (tagged(ip6(load=b"weir"), 7), ETHERNET + TAG + 40),
    "vlan_icmpv6": (tagged(icmp6(), 7), ETHERNET + TAG + 40 + 4),
}
"""Packets, and how long the headers are that the switch reads of them."""


@pytest.mark.parametrize("kind", SHORT)
def test_every_prefix_of_a_packet(switch, kind):
    packet, headers = SHORT[kind]
    frame = bytes(packet)
    least = LEAST_TAGGED if kind.startswith("vlan") else ETHERNET
    got, dropped = switch.tell([(1, frame[:length]) for length in range(least, len(frame))])
    # The missing bytes are a header's, or those of the payload by the length field.
    assert dropped == {"truncated": headers - least, "bad_ip_header": len(frame) - headers}
    assert got == {}
    assert switch.tell([(1, frame)]) == ({2: [routed(packet, 2)]}, {})


def changed(frame: bytes, at: int, value: int, width: int = 1) -> bytes:
    return frame[:at] + value.to_bytes(width, "big") + frame[at + width :]


def fix_checksum(frame: bytes, length: int = 20) -> bytes:
    """The IPv4 header's checksum made right, so that it is not the reason."""
    frame = changed(frame, ETHERNET + 10, 0, 2)
    total = sum(struct.unpack(f"!{length // 2}H", frame[ETHERNET : ETHERNET + length]))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return changed(frame, ETHERNET + 10, total ^ 0xFFFF, 2)


def bad_ip4() -> dict[str, bytes]:
    frame = bytes(ip4(load=b"weir" * 20))
    return (
        {f"ihl_{n}": fix_checksum(changed(frame, ETHERNET, 0x40 | n)) for n in range(5)}
        | {f"version_{n}": fix_checksum(changed(frame, ETHERNET, n << 4 | 5)) for n in range(16) if n != 4}
        | {
            f"total_length_{n}": fix_checksum(changed(frame, ETHERNET + 2, n, 2))
            for n in (0, 1, 19, len(frame) - ETHERNET + 1, 65535)
        }
        | {"total_length_below_ihl": fix_checksum(changed(changed(frame, ETHERNET, 0x46), ETHERNET + 2, 23, 2), 24)}
    )


def bad_ip6() -> dict[str, bytes]:
    frame = bytes(ip6(load=b"weir" * 20))
    return {f"version_{n}": changed(frame, ETHERNET, n << 4) for n in range(16) if n != 6} | {
        f"payload_length_{n}": changed(frame, ETHERNET + 4, n, 2) for n in (len(frame) - ETHERNET - 40 + 1, 65535)
    }


@pytest.mark.parametrize("frames", [bad_ip4(), bad_ip6()], ids=["ipv4", "ipv6"])
def test_headers_that_can_not_be(switch, frames):
    wrong = {}
    for name, frame in frames.items():
        result = switch.tell([(1, frame)])
        if result != ({}, {"bad_ip_header": 1}):
            wrong[name] = result
    assert not wrong


def test_a_jumbogram_says_it_is_empty(switch):
    """RFC 2675: a payload length of 0; what is there is taken for padding."""
    packet = ip6(load=b"weir" * 20)
    frame = changed(bytes(packet), ETHERNET + 4, 0, 2)
    want = changed(routed(packet, 2), ETHERNET + 4, 0, 2)
    assert switch.tell([(1, frame)]) == ({2: [want]}, {})


NOISE_SEED = 20261120


def noise(kinds: random.Random, count: int) -> list[bytes]:
    """Random frames to a station: of a random protocol, or of one that the switch parses; some are packets with a few
    wrong bytes."""
    good = [bytes(packet) for packet, _ in SHORT.values()]
    frames = []
    for _ in range(count):
        if kinds.random() < 0.5:
            frame = bytearray(kinds.choice(good))
            for _ in range(kinds.randint(1, 4)):
                frame[kinds.randrange(ETHERNET, len(frame))] = kinds.randrange(256)
            frame = frame[: kinds.randint(ETHERNET, len(frame))]
        else:
            protocol = kinds.choice([0x0800, 0x86DD, 0x8100, 0x88A8, kinds.randrange(1 << 16)])
            frame = bytearray(ETHERNET) + kinds.randbytes(kinds.choice([0, 1, 3, 4, 19, 20, 39, 40, 200, 1400]))
            frame[12:14] = protocol.to_bytes(2, "big")
        if frame[12:14] in (b"\x81\x00", b"\x88\xa8"):
            frame = frame.ljust(LEAST_TAGGED, b"\0")
        frame[0:12] = host_mac(2).to_bytes(6, "big") + host_mac(1).to_bytes(6, "big")
        frames.append(bytes(frame))
    return frames


def test_noise_is_forwarded_or_counted(switch):
    """No frame disappears: it comes out once, or a counter says why it did not."""
    frames = noise(random.Random(NOISE_SEED), 600)
    got, dropped = switch.tell([(1, f) for f in frames])
    assert sum(map(len, got.values())) + sum(dropped.values()) == len(frames), (NOISE_SEED, dropped)
    # the seed makes both, so that the sum says something
    assert got
    assert set(dropped) >= {"truncated", "bad_ip_header", "bad_ipv4_checksum"}


@pytest.fixture(scope="module")
def jumbo_switch(target, tmp_path_factory):
    switch = P4Rig(target, tmp_path_factory.mktemp("jumbo"), mtu=9000)
    try:
        for node, name in ((switch.box, "p4"), (switch.stations, "s4")):
            node.sh(f"ip link set {name} mtu 1500")
        switch.deploy()
        yield switch
    finally:
        switch.close()


def test_jumbo_frames(jumbo_switch):
    """They pass where the line takes them, and are lost where it doesn't; the line goes on."""
    load = bytes(i % 251 for i in range(8900))
    fits, beyond = ip4(to=2, load=load), ip4(to=4, load=load)
    got, dropped = jumbo_switch.tell([(1, bytes(fits)), (1, bytes(beyond)), (1, bytes(ip4(to=4)))])
    assert (got, dropped) == ({2: [routed(fits, 2)], 4: [routed(ip4(to=4), 4)]}, {})


def test_a_frame_that_claims_all_that_a_length_can_say(jumbo_switch):
    packet = ether() / IP(src=address4(1), dst=address4(2), len=65535) / Raw(bytes(8900))
    assert jumbo_switch.tell([(1, bytes(packet))]) == ({}, {"bad_ip_header": 1})
