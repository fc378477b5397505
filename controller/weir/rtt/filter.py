# SPDX-License-Identifier: Apache-2.0
"""A classic BPF program for a packet socket: of all that passes an interface it keeps only the packets from which a
round trip can be measured.

SYN and SYN/ACK, QUIC's long headers, and what a tracker wants just now: the ACK that ends a handshake by its ports, a
segment with data and then the ACK that covers it, the next edge of a spin bit by ports and value. So neither a flood of
ACKs nor the data itself costs user space anything.
The program is for SOCK_DGRAM packet sockets, whose data begins with the IP header on any kind of link.
"""

from __future__ import annotations

import struct

from .packets import QUIC_V1, QUIC_V2
from .tracker import Wanted

# linux/filter.h, linux/bpf_common.h
_LD_W_ABS, _LD_H_ABS, _LD_B_ABS = 0x20, 0x28, 0x30
_LD_W_IND, _LD_B_IND, _LD_LEN = 0x40, 0x50, 0x80
_LDX_IMM, _LDX_IHL = 0x01, 0xB1
_SUB, _RSH, _AND = 0x14, 0x74, 0x54
_JA, _JEQ, _JGT, _JSET = 0x05, 0x15, 0x25, 0x45
_RET = 0x06
_AD_PROTOCOL = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL

SNAP_BYTES = 2048  # QUIC's second packet in a datagram lies behind the first
_SNAP_TCP_BYTES = 128  # the longest headers
_NO_DATA_BYTES = 160  # a packet that is longer has a payload, whatever its options
NOTHING = struct.pack("HBBI", _RET, 0, 0, 0)
"""The program that lets nothing up."""


class _Program:
    """Instructions with jumps to labels, which lie ahead as the kernel demands."""

    def __init__(self) -> None:
        self._code: list[tuple[int, str | int, str | int, int]] = []
        self._labels: dict[str, int] = {}

    def add(self, code: int, k: int = 0, true: str | int = 0, false: str | int = 0) -> None:
        self._code.append((code, true, false, k))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def bytes(self) -> bytes:
        out = []
        for at, (code, true, false, k) in enumerate(self._code):
            jumps = [self._labels[to] - at - 1 if isinstance(to, str) else to for to in (true, false)]
            if code == _JA:  # the only jump whose reach is not 255
                k, jumps = jumps[0], [0, 0]
            out.append(struct.pack("HBBI", code, *jumps, k))
        return b"".join(out)


def program(wanted: Wanted = Wanted()) -> bytes:  # noqa: B008 (it is frozen)
    """The program's instructions, 8 bytes each (struct sock_filter)."""
    p = _Program()
    p.add(_LD_H_ABS, _AD_PROTOCOL)
    p.add(_JEQ, 0x0800, "v4")
    p.add(_JEQ, 0x86DD, "v6", "no-ip")
    p.label("no-ip")
    p.add(_RET, 0)
    p.label("v4")
    p.add(_LD_H_ABS, 6)
    p.add(_JSET, 0x3FFF, "no-ip-2")  # a fragment
    p.add(_LDX_IHL, 0)
    p.add(_LD_B_ABS, 9)
    p.add(_JA, 0, "transport")
    p.label("no-ip-2")
    p.add(_RET, 0)
    p.label("v6")
    p.add(_LDX_IMM, 40)
    p.add(_LD_B_ABS, 6)
    p.label("transport")
    p.add(_JEQ, 6, "tcp")
    p.add(_JEQ, 17, 1)
    p.add(_RET, 0)
    p.add(_JA, 0, "udp")  # too far for the others
    p.label("tcp")
    p.add(_LD_B_IND, 13)
    p.add(_JSET, 0x02, 0, 1)  # SYN
    p.add(_RET, _SNAP_TCP_BYTES)
    p.add(_AND, 0x17)
    p.add(_JEQ, 0x10, 1)  # ACK and neither RST nor FIN
    p.add(_RET, 0)
    p.add(_LD_W_IND, 0)
    for word in wanted.acks:
        p.add(_JEQ, word, 0, 1)
        p.add(_RET, _SNAP_TCP_BYTES)
    for word in wanted.data:
        p.add(_JEQ, word, 0, 4)
        p.add(_LD_LEN)
        p.add(_JGT, _NO_DATA_BYTES, 0, 1)
        p.add(_RET, _SNAP_TCP_BYTES)
        p.add(_RET, 0)
    for word, acked_by in wanted.covers:
        p.add(_JEQ, word, 0, 5)
        p.add(_LD_W_IND, 8)
        p.add(_SUB, acked_by)
        p.add(_JSET, 0x80000000, 1)  # before it
        p.add(_RET, _SNAP_TCP_BYTES)
        p.add(_RET, 0)
    p.add(_RET, 0)
    p.label("udp")
    p.add(_LD_B_IND, 8)
    p.add(_JSET, 0x80, "long")
    p.add(_JSET, 0x40, 1)
    p.add(_RET, 0)
    p.add(_JA, 0, "short")
    p.label("long")
    p.add(_LD_W_IND, 9)
    p.add(_JEQ, QUIC_V1, "take")
    p.add(_JEQ, QUIC_V2, "take")
    p.add(_RSH, 8)
    p.add(_JEQ, 0xFF0000, "take")  # the drafts'
    p.add(_RET, 0)
    p.label("take")
    p.add(_RET, SNAP_BYTES)
    p.label("short")
    for word, value in wanted.spins:
        p.add(_LD_W_IND, 0)
        if value is None:
            p.add(_JEQ, word, 0, 1)
        else:
            p.add(_JEQ, word, 0, 3)
            p.add(_LD_B_IND, 8)
            p.add(_JSET, 0x20, *((0, 1) if value else (1, 0)))
        p.add(_RET, SNAP_BYTES)
    p.add(_RET, 0)
    return p.bytes()
