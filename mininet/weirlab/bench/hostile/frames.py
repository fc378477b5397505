# SPDX-License-Identifier: Apache-2.0
"""Frames of the measured stream and of attackers."""

from __future__ import annotations

import random
import socket
from pathlib import Path

SEED = 17
MANY = 256
"""Different frames of an attack, sent in turn."""
PORTS = tuple(range(1, 9))
MEASURED_IN, MEASURED_OUT, ATTACKER, BYSTANDER = PORTS[:4]
"""The measured stream comes by one port and leaves by another; the attacker has one; one more receives."""


def checksum(header: bytes) -> int:
    """RFC 1071."""
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, len(header), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def host_mac(port: int) -> bytes:
    return (0x020000000000 + port).to_bytes(6)


def port_mac(port: int) -> bytes:
    return (0x020000000100 + port).to_bytes(6)


def text(mac: bytes) -> str:
    return mac.hex(":")


def udp4(source: str, to: str, payload: bytes, ports: tuple[int, int] = (1000, 2000)) -> bytes:
    """An IPv4 packet with UDP without a checksum (RFC 768 allows that)."""
    udp = b"".join(n.to_bytes(2) for n in (*ports, 8 + len(payload), 0)) + payload
    header = bytearray.fromhex("450000000000400040110000") + socket.inet_aton(source) + socket.inet_aton(to)
    header[2:4] = (len(header) + len(udp)).to_bytes(2)
    header[10:12] = checksum(bytes(header)).to_bytes(2)
    return bytes(header) + udp


def to_station(source: int, to: int | str, payload_bytes: int = 18) -> bytes:
    """From the station of a port to that of another, or to an address."""
    address = f"10.0.{to}.1" if isinstance(to, int) else to
    ether = port_mac(source) + host_mac(source) + b"\x08\x00"
    return ether + udp4(f"10.0.{source}.1", address, bytes(payload_bytes))


def measured() -> list[bytes]:
    return [to_station(MEASURED_IN, MEASURED_OUT)]


def malformed() -> list[bytes]:
    """Good frames with some bytes of the IP header changed or cut off, and noise."""
    rest = random.Random(SEED)
    found = []
    for _ in range(MANY):
        frame = bytearray(to_station(ATTACKER, MEASURED_OUT))
        for _ in range(rest.randrange(1, 4)):
            frame[rest.randrange(14, 34)] ^= rest.randrange(1, 256)
        found.append(bytes(frame[: rest.choice([20, 33, 60, 60])]) if rest.random() < 0.8 else rest.randbytes(60))
    return found


def to_nowhere() -> list[bytes]:
    """Valid, to addresses without a route."""
    rest = random.Random(SEED)
    return [to_station(ATTACKER, f"203.0.113.{rest.randrange(256)}") for _ in range(MANY)]


def long_ones() -> list[bytes]:
    """Valid, of 1500 bytes, and forwarded: to a port beside the measured stream's."""
    return [to_station(ATTACKER, BYSTANDER, 1472)]


def broadcasts() -> list[bytes]:
    """ARP requests, of which each port of the group gets a copy."""
    arp = bytes.fromhex("0001080006040001") + host_mac(ATTACKER) + socket.inet_aton(f"10.0.{ATTACKER}.1") + bytes(6)
    return [b"\xff" * 6 + host_mac(ATTACKER) + b"\x08\x06" + arp + socket.inet_aton("10.0.3.9") + bytes(18)]


FLOODS = {
    "malformed frames": malformed,
    "frames to nowhere": to_nowhere,
    "frames of 1500 bytes": long_ones,
    "broadcasts": broadcasts,
}


def written(folder: Path, name: str, some: list[bytes]) -> Path:
    """A file of frames for weir-frames."""
    path = folder / f"{name.replace(' ', '-')}.hex"
    path.write_text("".join(frame.hex() + "\n" for frame in some))
    return path


def tables() -> str:
    """A configuration for `weir p4 deploy`. Broadcasts go to all ports but the measured stream's last one, whose frames
    are counted. The law on that port has a target out of reach: losses are the switch's own."""
    lines = [f"[flood]\nports = {[n for n in PORTS if n != MEASURED_OUT]}", "[routes]"]
    lines += [f'"10.0.{n}.0/24" = "h{n}"' for n in PORTS]
    for n in PORTS:
        lines.append(f'[ports.{n}]\nmac = "{text(port_mac(n))}"')
        lines.append(f'[neighbours.h{n}]\nport = {n}\nmac = "{text(host_mac(n))}"')
    lines.append(f'[aqm.port.{MEASURED_OUT}]\nprofile = "tuned"\ntarget_us = 100000')
    return "\n".join(lines) + "\n"
