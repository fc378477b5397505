# SPDX-License-Identifier: Apache-2.0
"""Fields of a packet that an RTT observer needs: addresses, TCP's flags and numbers, QUIC's packet types and spin bit.

Packets come without their link layer, may be cut short (a snapshot) and may be anything at all: unreadable parts are
None, never an error.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

QUIC_V1, QUIC_V2 = 0x00000001, 0x6B3343CF
INITIAL, ZERO_RTT, HANDSHAKE, RETRY = "initial", "0-rtt", "handshake", "retry"
_TYPES_V1 = (INITIAL, ZERO_RTT, HANDSHAKE, RETRY)  # RFC 9000 17.2
_TYPES_V2 = (RETRY, INITIAL, ZERO_RTT, HANDSHAKE)  # RFC 9369 3.2
_CID_MAX = 20  # RFC 9000 17.2

Address = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment: `payload_bytes` by the IP header, whatever was cut off."""

    source: Address
    destination: Address
    flags: int
    seq: int
    ack: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """A UDP datagram that may be QUIC's: the types of the long-header packets in it, first to last as far as they could
    be read, whether an Initial carries a token, and the spin bit if the datagram begins with a short header."""

    source: Address
    destination: Address
    types: tuple[str, ...]
    token: bool
    spin: bool | None


def text(address: Address) -> str:
    """`192.0.2.1:443` or `[2001:db8::1]:443`."""
    ip, port = address
    if len(ip) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, ip)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, ip)}]:{port}"


def parse(data: bytes) -> Segment | Datagram | None:
    """A packet from its IP header on. None for fragments, extension headers, other protocols, and nonsense."""
    if len(data) < 20:
        return None
    if data[0] >> 4 == 4:
        start = (data[0] & 15) * 4
        total = int.from_bytes(data[2:4], "big")
        protocol, source, destination = data[9], data[12:16], data[16:20]
        if start < 20 or int.from_bytes(data[6:8], "big") & 0x3FFF:
            return None
    elif data[0] >> 4 == 6 and len(data) >= 40:
        start = 40
        total = 40 + int.from_bytes(data[4:6], "big")
        protocol, source, destination = data[6], data[8:24], data[24:40]
    else:
        return None
    if protocol == TCP:
        return _segment(data, start, total, source, destination)
    if protocol == UDP:
        return _datagram(data, start, total, source, destination)
    return None


def _segment(data: bytes, start: int, total: int, source: bytes, destination: bytes) -> Segment | None:
    if len(data) < start + 20 or total < start + 20:
        return None
    header = (data[start + 12] >> 4) * 4
    payload = total - start - header
    if header < 20 or payload < 0:
        return None
    return Segment(
        source=(source, int.from_bytes(data[start : start + 2], "big")),
        destination=(destination, int.from_bytes(data[start + 2 : start + 4], "big")),
        flags=data[start + 13],
        seq=int.from_bytes(data[start + 4 : start + 8], "big"),
        ack=int.from_bytes(data[start + 8 : start + 12], "big"),
        payload_bytes=payload,
    )


def _datagram(data: bytes, start: int, total: int, source: bytes, destination: bytes) -> Datagram | None:
    length = int.from_bytes(data[start + 4 : start + 6], "big")
    if len(data) < start + 9 or length < 9 or start + length > total:
        return None
    first = data[start + 8]
    if not first & 0x40:  # RFC 9000 17: the fixed bit; without it it is not QUIC (or greased, RFC 9287: passed over)
        return None
    types, token = ((), False) if not first & 0x80 else _long_headers(data[start + 8 : start + length])
    if first & 0x80 and not types:
        return None
    return Datagram(
        source=(source, int.from_bytes(data[start : start + 2], "big")),
        destination=(destination, int.from_bytes(data[start + 2 : start + 4], "big")),
        types=types,
        token=token,
        spin=None if first & 0x80 else bool(first & 0x20),  # RFC 9000 17.4
    )


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """RFC 9000 16: value and the position behind it."""
    if at >= len(data):
        return None
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        return None
    return int.from_bytes(data[at : at + size], "big") & ((1 << (8 * size - 2)) - 1), at + size


def _long_headers(data: bytes) -> tuple[tuple[str, ...], bool]:
    """Types of the long-header packets coalesced in a datagram (RFC 9000 12.2), and whether an Initial has a token."""
    types: list[str] = []
    token = False
    at = 0
    while at + 7 <= len(data) and data[at] & 0xC0 == 0xC0:
        version = int.from_bytes(data[at + 1 : at + 5], "big")
        if version == QUIC_V2:
            kind = _TYPES_V2[data[at] >> 4 & 3]
        elif version == QUIC_V1 or version >> 8 == 0xFF0000:  # and the drafts'
            kind = _TYPES_V1[data[at] >> 4 & 3]
        else:
            break
        destination_id = data[at + 5]
        source_id_at = at + 6 + destination_id
        if destination_id > _CID_MAX or source_id_at >= len(data) or data[source_id_at] > _CID_MAX:
            break
        at = source_id_at + 1 + data[source_id_at]
        if kind == RETRY:  # it has no length and fills its datagram
            types.append(kind)
            break
        if kind == INITIAL:
            found = _varint(data, at)
            if found is None:
                break
            token = token or found[0] > 0
            at = found[1] + found[0]
        found = _varint(data, at)
        if found is None:
            break
        types.append(kind)
        at = found[1] + found[0]
    return tuple(types), token
