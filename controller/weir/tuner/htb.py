# SPDX-License-Identifier: Apache-2.0
"""A class of the htb qdisc over netlink: its byte counter, and its rate while packets wait in it.

`tc class change` would be a process for each of twenty changes a second. The layouts are those of linux/rtnetlink.h and
linux/pkt_sched.h.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_NEWTCLASS, _GETTCLASS, _GETQDISC = 40, 42, 38
_REQUEST, _ACK, _DUMP, _ERROR, _DONE = 0x1, 0x4, 0x300, 2, 3
_KIND, _OPTIONS, _STATS2, _STATS_BASIC, _NESTED = 1, 2, 7, 1, 0x8000
_HTB_PARMS, _HTB_RATE64, _HTB_CEIL64 = 1, 6, 7
_ROOT = 0xFFFFFFFF
_TCMSG = struct.Struct("=B3xiIII")
_RATESPEC = struct.Struct("=BBHhHI")  # cell_log, linklayer, overhead, cell_align, mpu, rate
_HTB_OPT_BYTES = 2 * _RATESPEC.size + 5 * 4
_TICKS_PER_S = 15_625_000
"""Of htb's buffers: PSCHED_SHIFT is 6, and a tick 64 ns."""
_RATE32_MOST = 0xFFFFFFFF


class HtbError(Exception):
    """A device, qdisc or class that can't be used: which, and why."""


@dataclass(frozen=True)
class HtbClass:
    """A class as the kernel has it. `parms`: struct tc_htb_opt."""

    index: int
    classid: int
    parent: int
    sent_bytes: int
    rate_bytes_s: int
    ceil_bytes_s: int
    parms: bytes

    @property
    def name(self) -> str:
        return f"{self.classid >> 16:x}:{self.classid & 0xFFFF:x}"


def classid_of(text: str) -> int:
    """A class's number from tc's form MAJOR:MINOR, in hexadecimal. Raises ValueError."""
    found = re.fullmatch("([0-9a-fA-F]{1,4}):([0-9a-fA-F]{1,4})", text)
    numbers = [int(part, 16) for part in found.groups()] if found else [0, 0]
    if not all(numbers):
        raise ValueError(f"{text!r}: must be MAJOR:MINOR, as 1:1")
    return numbers[0] << 16 | numbers[1]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            raise HtbError(f"netlink attribute of {length} bytes in {len(data)}")
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _class(payload: bytes) -> HtbClass | None:
    """One RTM_NEWTCLASS message without its netlink header; None of another qdisc's class."""
    _, index, classid, parent, _ = _TCMSG.unpack_from(payload)
    found = dict(_attributes(payload[_TCMSG.size :]))
    options = dict(_attributes(found.get(_OPTIONS, b"")))
    parms = options.get(_HTB_PARMS, b"")
    if found.get(_KIND, b"").rstrip(b"\0") != b"htb" or len(parms) < _HTB_OPT_BYTES:
        return None
    rates = [_RATESPEC.unpack_from(parms, at)[5] for at in (0, _RATESPEC.size)]
    for place, kind in enumerate((_HTB_RATE64, _HTB_CEIL64)):
        if kind in options:
            rates[place] = struct.unpack("=Q", options[kind])[0]
    basic = dict(_attributes(found.get(_STATS2, b""))).get(_STATS_BASIC, bytes(8))
    return HtbClass(index, classid, parent, struct.unpack_from("=Q", basic)[0], rates[0], rates[1], parms)


def _options(found: HtbClass, rate_bytes_s: int, ceil_bytes_s: int) -> bytes:
    """The class's options with other rates. Bursts keep their bytes: htb counts them as time at the rate. With the
    rates that the class has the options are those that it has."""
    parms = bytearray(found.parms[:_HTB_OPT_BYTES])
    at_buffers = 2 * _RATESPEC.size
    buffers = list(struct.unpack_from("=II", parms, at_buffers))
    wide = b""
    pairs = ((found.rate_bytes_s, rate_bytes_s, _HTB_RATE64), (found.ceil_bytes_s, ceil_bytes_s, _HTB_CEIL64))
    for place, (before, after, kind) in enumerate(pairs):
        spec = list(_RATESPEC.unpack_from(parms, place * _RATESPEC.size))
        spec[5] = min(after, _RATE32_MOST)
        _RATESPEC.pack_into(parms, place * _RATESPEC.size, *spec)
        buffers[place] = min(max(buffers[place] * before // after, 1), 0xFFFFFFFF)
        if after > _RATE32_MOST:
            wide += _attribute(kind, struct.pack("=Q", after))
    struct.pack_into("=II", parms, at_buffers, *buffers)
    return _attribute(_HTB_PARMS, bytes(parms)) + wide


class Htb:
    """One class of a device of this network namespace. Without `classid` the only class below the root."""

    def __init__(self, device: str, classid: int | None = None) -> None:
        try:
            self.index = socket.if_nametoindex(device)
        except OSError:
            raise HtbError(f"{device}: no such device") from None
        self.device = device
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(5.0)
        try:
            self.classid = self._chosen(classid)
            self.first = self.read()
            """The class at the start: later bursts follow from its own, or rounding would add up."""
        except HtbError:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _chosen(self, classid: int | None) -> int:
        classes = self._classes()
        if not classes:
            raise HtbError(f"{self.device}: no htb class there; shape it first, as with weir-xdp attach --shape")
        if classid is not None:
            if all(found.classid != classid for found in classes):
                names = ", ".join(found.name for found in classes)
                raise HtbError(f"{self.device}: no htb class {classid >> 16:x}:{classid & 0xFFFF:x}; there are {names}")
            return classid
        inner = {found.classid for found in classes}
        top = [found for found in classes if found.parent not in inner]
        if len(top) > 1:
            names = ", ".join(found.name for found in top)
            raise HtbError(f"{self.device}: {len(top)} htb classes below the root; name one with --class: {names}")
        return top[0].classid

    def _ask(self, kind: int, flags: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Messages of an answer, to its end."""
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | flags, 1, 0) + body)
        while True:
            data, at = self._socket.recv(1 << 16), 0
            while at + 16 <= len(data):
                length, answer = struct.unpack_from("=IH", data, at)
                if answer == _DONE:
                    return
                if answer == _ERROR:
                    code = -struct.unpack_from("=i", data, at + 16)[0]
                    if code:
                        raise HtbError(f"{self.device}: {os.strerror(code)}")
                    return
                yield answer, data[at + 16 : at + length]
                at += (length + 3) & ~3

    def _classes(self) -> list[HtbClass]:
        body = _TCMSG.pack(socket.AF_UNSPEC, self.index, 0, 0, 0)
        found = (_class(payload) for kind, payload in self._ask(_GETTCLASS, _DUMP, body) if kind == _NEWTCLASS)
        return [one for one in found if one is not None]

    def read(self) -> HtbClass:
        """The class now. Raises HtbError where it no longer exists."""
        for found in self._classes():
            if found.classid == self.classid:
                return found
        raise HtbError(f"{self.device}: htb class {self.classid >> 16:x}:{self.classid & 0xFFFF:x} no longer exists")

    def set_rate(self, rate_bytes_s: int, ceil_bytes_s: int | None = None) -> None:
        """Rate and ceil of the class; both equal without `ceil_bytes_s`."""
        ceil_bytes_s = rate_bytes_s if ceil_bytes_s is None else ceil_bytes_s
        options = _options(self.first, max(rate_bytes_s, 1), max(ceil_bytes_s, 1))
        body = _TCMSG.pack(socket.AF_UNSPEC, self.index, self.classid, self.first.parent, 0)
        body += _attribute(_KIND, b"htb\0") + _attribute(_OPTIONS | _NESTED, options)
        for _ in self._ask(_NEWTCLASS, _ACK, body):
            pass


def root_handle(device: str) -> int | None:
    """Handle of a device's root htb; None where the root is another qdisc."""
    index = socket.if_nametoindex(device)
    body = _TCMSG.pack(socket.AF_UNSPEC, index, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), _GETQDISC, _REQUEST | _DUMP, 1, 0) + body)
        found = None
        while True:
            data, at = kernel.recv(1 << 16), 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind in (_DONE, _ERROR):
                    return found
                _, of, handle, parent, _ = _TCMSG.unpack_from(data, at + 16)
                attributes = dict(_attributes(data[at + 16 + _TCMSG.size : at + length]))
                if of == index and parent == _ROOT and attributes.get(_KIND, b"").rstrip(b"\0") == b"htb":
                    found = handle
                at += (length + 3) & ~3
