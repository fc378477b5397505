# SPDX-License-Identifier: Apache-2.0
"""Packets that are forwarded by name, as bytes and as fields (docs/design/icn-formats.md, "The packet")."""

from __future__ import annotations

import struct
from dataclasses import dataclass

ETHER_TYPE = 0x88B5
ETHERNET_BYTES = 14
HEADER_BYTES = 32
MOST_PAYLOAD_BYTES = 1500 - HEADER_BYTES
VERSION = 1
INTEREST, DATA, NACK = 1, 2, 3
ECT, CE, MORE, WAITED, LAST, BARE, FRESH = 1, 2, 4, 8, 16, 32, 64
NO_ROUTE, FULL, QUOTA, NO_SUCH_NAME, NO_SUCH_SEGMENT, BUSY = range(1, 7)
HOP_LIMIT = 64
HOP_LIMIT_ENOUGH = 32
"""An Interest with this hop limit gets to where it is going."""
GROUP_ADDRESS = bytes.fromhex("035745495201")
SWITCH_ADDRESS = bytes.fromhex("025745495201")
"""Where a switch's own Nacks come from."""
LIFETIME_UNIT_US = 256

_LAYOUT = struct.Struct("!BBBBQQIHHHH")


@dataclass(frozen=True)
class Header:
    """The 32 bytes behind Ethernet's. `lifetime` is in units of 256 us. A value that does not fit its field raises
    struct.error on packing."""

    kind: int = INTEREST
    flags: int = 0
    hop_limit: int = HOP_LIMIT
    code: int = 0
    prefix: int = 0
    name: int = 0
    segment: int = 0
    holes: int = 0
    lifetime: int = 0
    payload_bytes: int = 0
    epoch: int = 0
    version: int = VERSION

    @classmethod
    def unpack(cls, data: bytes) -> Header | None:
        """None: it ends within the header."""
        if len(data) < HEADER_BYTES:
            return None
        first, flags, hop_limit, code, prefix, name, segment, holes, lifetime, payload_bytes, epoch = (
            _LAYOUT.unpack_from(data)
        )
        version, kind = first >> 4, first & 0xF
        return cls(kind, flags, hop_limit, code, prefix, name, segment, holes, lifetime, payload_bytes, epoch, version)

    def pack(self) -> bytes:
        return _LAYOUT.pack(
            self.version << 4 | self.kind,
            self.flags,
            self.hop_limit,
            self.code,
            self.prefix,
            self.name,
            self.segment,
            self.holes,
            self.lifetime,
            self.payload_bytes,
            self.epoch,
        )

    def malformed(self, bytes_behind: int) -> bool:
        """Whether a switch drops it; `bytes_behind` the header in the frame."""
        return (
            bytes_behind < self.payload_bytes
            or self.payload_bytes > MOST_PAYLOAD_BYTES
            or self.version != VERSION
            or self.kind not in (INTEREST, DATA, NACK)
            or self.name == 0
            or (self.kind == INTEREST and self.lifetime == 0)
            or (self.kind == NACK and (self.code == 0 or self.payload_bytes != 0))
            or (self.holes != 0 and (self.kind != INTEREST or self.payload_bytes != 0))
        )


def frame(header: Header, payload: bytes = b"", source: bytes = bytes.fromhex("020000000001")) -> bytes:
    """A whole Ethernet frame."""
    return GROUP_ADDRESS + source + ETHER_TYPE.to_bytes(2, "big") + header.pack() + payload
