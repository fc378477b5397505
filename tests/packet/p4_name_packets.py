# SPDX-License-Identifier: Apache-2.0
"""Packets that are forwarded by name, built anew by scapy; only numbers are from controller/weir/names."""

from scapy.fields import BitField, ByteField, IntField, ShortField, XLongField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from weir.names.packet import DATA, ETHER_TYPE, INTEREST, NACK, NO_SUCH_NAME
from weir.names.text import name_bits, prefix_bits

FILE = "/weir/files/film.mp4"
LONG, SHORT = 65535, 1
"""Lifetimes: 16 s, and 256 us, which counts as the switch's least."""


class Name(Packet):
    """The header of docs/design/icn-formats.md, "The packet"."""

    name = "Name"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        BitField("version", 1, 4),
        BitField("kind", INTEREST, 4),
        ByteField("flags", 0),
        ByteField("hop_limit", 64),
        ByteField("code", 0),
        XLongField("prefix", prefix_bits(FILE)),
        XLongField("label", name_bits(FILE)),
        IntField("segment", 0),
        ShortField("holes", 0),
        ShortField("lifetime", 0),
        ShortField("payload_bytes", None),
        ShortField("epoch", 0),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.payload_bytes is None:
            pkt = pkt[:28] + len(pay).to_bytes(2, "big") + pkt[30:]
        return pkt + pay


def packet(load: bytes = b"", **fields: int) -> bytes:
    return bytes(Ether(dst="03:57:45:49:52:01", src="02:00:00:00:00:77", type=ETHER_TYPE) / Name(**fields) / Raw(load))


def interest(segment: int = 0, lifetime: int = LONG, **fields: int) -> bytes:
    return packet(segment=segment, lifetime=lifetime, **fields)


def data(segment: int = 0, load: bytes = b"weir", **fields: int) -> bytes:
    return packet(load, kind=DATA, segment=segment, **fields)


def nack(segment: int = 0, code: int = NO_SUCH_NAME, **fields: int) -> bytes:
    return packet(kind=NACK, segment=segment, code=code, **fields)
