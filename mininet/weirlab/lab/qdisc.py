# SPDX-License-Identifier: Apache-2.0
"""Queueing disciplines over netlink: reads them (RTM_GETQDISC) without a process per sample as tc would be, and sets
options of those that tc does not know (RTM_NEWQDISC)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLMSG_ERROR, NLMSG_DONE = 0x1, 0x4, 0x300, 2, 3
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK, NLMSGERR_ATTR_MSG = 270, 10, 11, 1
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
NLA_F_NESTED = 0x8000
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 1, 3, 4


@dataclass(frozen=True)
class QdiscStats:
    """One qdisc: cumulative `sent_*` and drops, momentary backlog. None where that kind of qdisc does not say.

    `drops_aqm` were made to control the queue, `drops_limit` because it was full; `drops` are those that the qdisc does
    not distinguish. `probability` is 0 to 1.
    """

    device_index: int
    handle: int
    kind: str
    sent_bytes: int
    sent_packets: int
    backlog_bytes: int
    backlog_packets: int
    drops: int | None
    drops_aqm: int | None = None
    drops_limit: int | None = None
    probability: float | None = None
    marks: int | None = None


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each netlink attribute in `data`. Raises ValueError where a length runs over the end."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            raise ValueError(f"netlink attribute of {length} bytes at {at} in {len(data)}")
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """A netlink attribute, with what fills it up to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def causes(kind: str, drops: int, own: bytes | None, overlimits: int = 0) -> dict[str, Any]:
    """Causes of `drops` and marks from a qdisc's own statistics (struct tc_KIND_xstats of linux/pkt_sched.h)."""
    if kind in ("pfifo", "bfifo"):
        return {"drops": None, "drops_limit": drops}
    if not own:
        return {"drops": drops}
    if kind == "pie":
        probability, _delay, _rate, _estimating, _in, dropped, overlimit, _most, marks = struct.unpack_from("=Q8I", own)
        limits = {"drops_aqm": dropped - overlimit, "drops_limit": overlimit}
        return {"drops": None, **limits, "probability": probability / 2**64, "marks": marks}
    if kind == "fq_pie":
        _in, dropped, overlimit, _memory, marks = struct.unpack_from("=5I", own)
        return {"drops": None, "drops_aqm": dropped - overlimit, "drops_limit": overlimit, "marks": marks}
    if kind == "red":
        early, limit, other, marks = struct.unpack_from("=4I", own)
        return {"drops": None, "drops_aqm": early, "drops_limit": limit + other, "marks": marks}
    if kind == "codel":
        _packet, _count, _last, _delay, _next, limit, marks = struct.unpack_from("=3IiiII", own)
        return {"drops": None, "drops_aqm": drops - limit, "drops_limit": limit, "marks": marks}
    if kind == "fq_codel":
        _type, _packet, limit, marks = struct.unpack_from("=4I", own)
        return {"drops": None, "drops_aqm": drops - limit, "drops_limit": limit, "marks": marks}
    if kind == "dualpi2":
        base, _delay_c, _delay_l, _packets_c, _packets_l, _most, marks = struct.unpack_from("=7I", own)
        limits = {"drops_aqm": drops - overlimits, "drops_limit": overlimits}  # it counts a full queue as overlimits
        return {"drops": None, **limits, "probability": (base / 2**32) ** 2, "marks": marks}
    return {"drops": drops}


def parse_message(payload: bytes) -> QdiscStats:
    """`payload` is one RTM_NEWQDISC message without its netlink header (linux/rtnetlink.h, struct tcmsg)."""
    _family, index, handle, _parent, _info = struct.unpack_from("=B3xiIII", payload)
    kind, packets, sent_bytes, backlog, qlen, drops, overlimits, own = "", 0, 0, 0, 0, 0, 0, None
    for attribute, value in attributes(payload[20:]):
        if attribute == TCA_KIND:
            kind = value.rstrip(b"\0").decode()
        elif attribute == TCA_STATS2:
            for inner, data in attributes(value):
                if inner == TCA_STATS_BASIC:
                    sent_bytes, packets = struct.unpack_from("=QI", data)
                elif inner == TCA_STATS_QUEUE:
                    qlen, backlog, drops, _requeues, overlimits = struct.unpack_from("=5I", data)
                elif inner == TCA_STATS_APP:
                    own = data
    return QdiscStats(index, handle, kind, sent_bytes, packets, backlog, qlen, **causes(kind, drops, own, overlimits))


class QdiscReader:
    """Reads all qdiscs of the network namespace in which it was made."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)

    def close(self) -> None:
        self.socket.close()

    def read(self) -> list[QdiscStats]:
        """Every qdisc with its statistics. Raises OSError when the kernel answers with an error."""
        request = struct.pack("=B3xiIII", socket.AF_UNSPEC, 0, 0, 0, 0)
        self.socket.send(
            struct.pack("=IHHII", 16 + len(request), RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + request
        )
        found: list[QdiscStats] = []
        while True:
            data, at = self.socket.recv(1 << 16), 0
            while at < len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == NLMSG_DONE:
                    return found
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", data, at + 16)[0]
                    raise OSError(code, "the kernel refused to list its qdiscs")
                found.append(parse_message(data[at + 16 : at + length]))
                at += (length + 3) & ~3


def set_options(device: str, handle: int, kind: str, options: bytes) -> None:
    """Give the qdisc `handle` of a device of this namespace these options (attributes of its kind). Raises OSError with
    the kernel's words."""
    head = struct.pack("=B3xiIII", socket.AF_UNSPEC, socket.if_nametoindex(device), handle, 0, 0)
    body = head + attribute(TCA_KIND, kind.encode() + b"\0") + attribute(TCA_OPTIONS | NLA_F_NESTED, options)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
        kernel.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        kernel.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)  # an answer without our own message in it
        kernel.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
        answer = kernel.recv(1 << 16)
    code = -struct.unpack_from("=i", answer, 16)[0]
    if code:
        # After our header, which the kernel repeats.
        said = [value for attr, value in attributes(answer[36:]) if attr == NLMSGERR_ATTR_MSG]
        raise OSError(code, said[0].rstrip(b"\0").decode() if said else f"the kernel refused options of {kind}")
