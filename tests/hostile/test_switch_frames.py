# SPDX-License-Identifier: Apache-2.0
"""Malformed frames against an oracle: what becomes of each is predicted by a few lines of Python that read headers as
RFC 791, RFC 8200 and IEEE 802.1Q have them, and the switch's own counters of reasons must agree to the last frame."""

import random
import struct
from collections import Counter

from hostile_rig import MOST_MB, many, not_forwarded, peak_mb
from p4_packets import ip4, ip6
from p4_rig import PORTS, host_mac, port_mac
from scapy.all import IPOption_Router_Alert

ETHERNET, ICMPV6 = 14, 58
AT_ONCE = 2_000
"""Frames between two readings of the counters."""


def checksum(header: bytes | bytearray) -> int:
    """RFC 1071 over whole 16-bit words."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


ROUTED, LAYER_2 = "", "layer 2"
"""Fates that are not among the reasons of p4/include/l3.p4."""


def fate4(packet: bytes) -> tuple[str, int]:
    """Why an IPv4 packet is dropped, or ROUTED and to which port."""
    if not packet:
        return "truncated", 0
    version, header_bytes = packet[0] >> 4, 4 * (packet[0] & 15)
    if version != 4 or header_bytes < 20:
        return "bad_ip_header", 0
    if len(packet) < header_bytes:
        return "truncated", 0
    total_bytes = int.from_bytes(packet[2:4], "big")
    if total_bytes > len(packet) or total_bytes < header_bytes:
        return "bad_ip_header", 0
    if checksum(packet[:header_bytes]):
        return "bad_ipv4_checksum", 0
    if packet[8] <= 1:
        return "ttl_expired", 0
    port = packet[18] if packet[16:18] == bytes([10, 0]) and packet[18] in PORTS else 0
    return (ROUTED, port) if port else ("no_route", 0)


def fate6(packet: bytes) -> tuple[str, int]:
    if not packet:
        return "truncated", 0
    if packet[0] >> 4 != 6:
        return "bad_ip_header", 0
    if len(packet) < 40:
        return "truncated", 0
    if packet[6] == ICMPV6:
        if len(packet) < 44:
            return "truncated", 0
        if 133 <= packet[40] <= 137:  # neighbour discovery, RFC 4861 4
            return LAYER_2, 0
    if packet[24] == 0xFE and packet[25] >> 6 == 2:  # link-local
        return LAYER_2, 0
    if int.from_bytes(packet[4:6], "big") + 40 > len(packet):
        return "bad_ip_header", 0
    if packet[7] <= 1:
        return "ttl_expired", 0
    number = int.from_bytes(packet[28:30], "big")
    port = number if packet[24:28] == bytes([0x20, 1, 0xD, 0xB8]) and number in PORTS else 0
    return (ROUTED, port) if port else ("no_route", 0)


def sent_on(frame: bytes, port: int) -> bytes:
    """A frame that is routed, as it leaves."""
    out = bytearray(frame)
    out[:12] = host_mac(port).to_bytes(6, "big") + port_mac(port).to_bytes(6, "big")
    if frame[12:14] == b"\x08\x00":
        end = ETHERNET + 4 * (frame[ETHERNET] & 15)
        out[ETHERNET + 8] -= 1
        out[ETHERNET + 10 : ETHERNET + 12] = b"\0\0"
        out[ETHERNET + 10 : ETHERNET + 12] = checksum(out[ETHERNET:end]).to_bytes(2, "big")
    else:
        out[ETHERNET + 7] -= 1
    return bytes(out)


def mutated(rest: random.Random, seeds: list[bytes]) -> bytes:
    """A good frame with bits turned, bytes changed, the end cut off or noise behind it. Its addresses of Ethernet stay:
    it is meant for the switch."""
    frame = bytearray(rest.choice(seeds))
    for _ in range(rest.choice([0, 1, 1, 2, 4, 8])):
        at = rest.randrange(ETHERNET, len(frame))
        frame[at] = rest.choice([frame[at] ^ 1 << rest.randrange(8), rest.randrange(256), 0, 255])
    if rest.random() < 0.3:
        del frame[rest.randrange(ETHERNET + 6, len(frame)) :]
    if rest.random() < 0.1:
        frame += rest.randbytes(rest.randrange(1, 200))
    return bytes(frame)


SEEDS = (20261125, 7)


def test_malformed_frames_against_an_oracle(switch):
    """Forwarded frames come out once, at the right port, in order and right to the byte; the counters give the number
    of others, by reason."""
    good = [
        bytes(p) for to in PORTS for p in (ip4(to=to), ip6(to=to), ip4(to=to, options=[IPOption_Router_Alert()] * 3))
    ]
    rest = random.Random(SEEDS[0])
    fates: Counter[str] = Counter()
    left = many(4_000, 80_000)
    while left > 0:
        frames = [frame for frame in (mutated(rest, good) for _ in range(AT_ONCE))]
        judged = [(frame, *(fate4 if frame[12:14] == b"\x08\x00" else fate6)(frame[ETHERNET:])) for frame in frames]
        # where layer 2 sends them is another test's
        judged = [(frame, fate, port) for frame, fate, port in judged if fate != LAYER_2]
        want = {n: [sent_on(frame, n) for frame, _, port in judged if port == n] for n in PORTS}
        reasons = Counter(fate for _, fate, _ in judged)
        fates += reasons
        del reasons[ROUTED]
        got, dropped = switch.tell([(1, frame) for frame, _, _ in judged])
        assert dropped == reasons, SEEDS[0]
        assert got == {n: some for n, some in want.items() if some}, SEEDS[0]
        left -= len(judged)
    # the seed makes all of them, so that the sums say something
    assert set(fates) >= {ROUTED, "truncated", "bad_ip_header", "bad_ipv4_checksum", "ttl_expired", "no_route"}
    assert peak_mb(switch.process.pid) < MOST_MB


def test_noise_that_is_no_packet(switch):
    """Random bytes behind the addresses, of every length that the line takes: nothing comes out of the switch's memory,
    and what comes after is forwarded."""
    rest = random.Random(SEEDS[1])
    to_switch = host_mac(2).to_bytes(6, "big") + host_mac(1).to_bytes(6, "big")
    frames = [to_switch + rest.randbytes(rest.randrange(2, 1500)) for _ in range(many(2_000, 40_000))]
    for start in range(0, len(frames), AT_ONCE):
        # one that claims to be tagged and is too short is dropped by the kernel: it is in no counter
        switch.exchange([(1, f) for f in frames[start : start + AT_ONCE]])
    assert not_forwarded(switch) == 0
    assert peak_mb(switch.process.pid) < MOST_MB
