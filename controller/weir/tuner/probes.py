# SPDX-License-Identifier: Apache-2.0
"""Round trips to reflectors by ICMP echo, past the shaper of the device that they leave by.

Requests carry the priority of htb's handle, which htb sends at once (tc-htb(8): the direct queue). Answers are taken
where the device receives them, before any ingress qdisc, ifb and shaper. Needs CAP_NET_RAW and CAP_NET_ADMIN.
"""

from __future__ import annotations

import ctypes
import os
import random
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass

_ETH_P_ALL, _PACKET_HOST = 0x0003, 0
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 26, 35
_SO_BINDTODEVICE, _SO_PRIORITY = 25, 12
_ECHO, _ECHO_REPLY, _ECHO6, _ECHO6_REPLY = 8, 0, 128, 129
_HEADER = struct.Struct("!BBHHH")
_PAYLOAD = bytes(24)
_LATE_MOST_US = 1_000_000
MISSED_MOST = 8
"""A reflector that misses so many answers in a row, while others answer, is left out."""
RETRY_US = 5_000_000
"""One probe to it after so long."""
ANSWERED_US = 1_000_000
"""Others answer: one did in this time."""


class ProbeError(Exception):
    """A reflector, device or socket that can't be used: which, and why."""


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _filter(ident: int) -> bytes:
    """Echo replies with this identifier, IPv4 or IPv6 without extension headers (linux/filter.h)."""
    code = [
        (0x30, 0, 0, 0),  # ldb [0]
        (0x54, 0, 0, 0xF0),  # and #0xf0
        (0x15, 0, 6, 0x40),  # jeq IPv4, else to IPv6
        (0x30, 0, 0, 9),  # ldb [9], the protocol
        (0x15, 0, 13, socket.IPPROTO_ICMP),
        (0xB1, 0, 0, 0),  # ldxb 4*([0]&0xf)
        (0x50, 0, 0, 0),  # ldb [x + 0], ICMP's type
        (0x15, 0, 10, _ECHO_REPLY),
        (0x05, 0, 0, 6),  # ja to the identifier
        (0x15, 0, 8, 0x60),  # jeq IPv6
        (0x30, 0, 0, 6),  # ldb [6], the next header
        (0x15, 0, 6, socket.IPPROTO_ICMPV6),
        (0x30, 0, 0, 40),  # ldb [40], ICMPv6's type
        (0x15, 0, 4, _ECHO6_REPLY),
        (0x01, 0, 0, 40),  # ldx #40
        (0x48, 0, 0, 4),  # ldh [x + 4], the identifier
        (0x15, 0, 1, ident),
        (0x06, 0, 0, 0xFFFF),  # ret: the packet
        (0x06, 0, 0, 0),  # ret: nothing
    ]
    return b"".join(struct.pack("HBBI", *one) for one in code)


def _attach(sock: socket.socket, code: bytes) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(code) // 8, ctypes.addressof(buffer)))


@dataclass
class _Reflector:
    name: str
    missed: int = 0
    next_us: int = 0
    is_out: bool = False


class Rotation:
    """Reflectors in turn; those that stopped answering only once in RETRY_US. Pure."""

    def __init__(self, names: list[str]) -> None:
        self.reflectors = [_Reflector(name) for name in names]
        self._turn = 0
        self._answered_us: int | None = None

    def next(self, now_us: int) -> int:
        """Place of the reflector that is to be probed now."""
        count = len(self.reflectors)
        for step in range(count):
            place = (self._turn + step) % count
            one = self.reflectors[place]
            if not one.is_out or now_us >= one.next_us:
                break
        else:
            place = self._turn % count
        self._turn = place + 1
        return place

    def sent(self, place: int, now_us: int) -> bool:
        """A probe has left. True where the reflector has just been left out."""
        one = self.reflectors[place]
        one.missed += 1
        one.next_us = now_us + RETRY_US
        others = self._answered_us is not None and now_us - self._answered_us < ANSWERED_US
        if one.missed > MISSED_MOST and others and not one.is_out:
            one.is_out = True
            return True
        return False

    def answered(self, place: int, now_us: int) -> bool:
        """An answer came. True where the reflector had been left out."""
        one = self.reflectors[place]
        was_out, one.is_out, one.missed = one.is_out, False, 0
        self._answered_us = now_us
        return was_out


@dataclass(frozen=True)
class Answer:
    """An answer to probe `key`."""

    key: int
    place: int
    now_us: int


class Prober:
    """Sends probes by `device` and hands their answers on. `fileno` is for poll."""

    def __init__(self, device: str, hosts: list[str], priority: int | None) -> None:
        self._sockets: dict[int, socket.socket] = {}
        self._keys: deque[tuple[int, int]] = deque(maxlen=4096)
        self._ident = random.SystemRandom().randrange(1, 1 << 16)
        self._key = 0
        self.targets = [_resolved(host) for host in hosts]
        try:
            for family in {family for family, _ in self.targets}:
                self._sockets[family] = _sender(family, device, priority)
            self._receiver = _receiver(device, self._ident)
        except OSError as error:
            self.close()
            hint = "; probes need CAP_NET_RAW and CAP_NET_ADMIN" if isinstance(error, PermissionError) else ""
            raise ProbeError(f"{device}: {error.strerror}{hint}") from None

    def close(self) -> None:
        for sock in [*self._sockets.values(), *([self._receiver] if hasattr(self, "_receiver") else [])]:
            sock.close()

    def fileno(self) -> int:
        return self._receiver.fileno()

    def send(self, place: int) -> int | None:
        """Sends to the reflector at `place`; the probe's key, None where it could not leave."""
        family, address = self.targets[place]
        self._key += 1
        kind = _ECHO if family == socket.AF_INET else _ECHO6
        sequence = self._key & 0xFFFF
        packet = _HEADER.pack(kind, 0, 0, self._ident, sequence) + _PAYLOAD
        if family == socket.AF_INET:  # the kernel has ICMPv6's checksum
            packet = _HEADER.pack(kind, 0, _checksum(packet), self._ident, sequence) + _PAYLOAD
        try:
            self._sockets[family].sendto(packet, (address, 0))
        except OSError:
            return None
        self._keys.append((self._key, place))
        return self._key

    def receive(self) -> list[Answer]:
        """All answers that have come."""
        found: list[Answer] = []
        while True:
            try:
                data, ancillary, _, address = self._receiver.recvmsg(256, 64)
            except BlockingIOError:
                return found
            if address[2] != _PACKET_HOST or len(data) < 48:
                continue
            at = (data[0] & 0xF) * 4 if data[0] >> 4 == 4 else 40
            sequence = struct.unpack_from("!H", data, at + 6)[0]
            for key, place in reversed(self._keys):
                if key & 0xFFFF == sequence:
                    found.append(Answer(key, place, _seen_us(ancillary)))
                    break


def _resolved(host: str) -> tuple[int, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_RAW)
    except OSError as error:
        raise ProbeError(f"--reflector {host}: {error.strerror}") from None
    family, *_, address = found[0]
    return int(family), str(address[0])


def _sender(family: int, device: str, priority: int | None) -> socket.socket:
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    sock = socket.socket(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol)
    _attach(sock, struct.pack("HBBI", 0x06, 0, 0, 0))  # it receives nothing
    sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, device.encode() + b"\0")
    if priority is not None:
        sock.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
    return sock


def _receiver(device: str, ident: int) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0)
    _attach(sock, _filter(ident))
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.bind((device, _ETH_P_ALL))
    if wrong := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        sock.close()
        raise OSError(wrong, os.strerror(wrong))
    return sock


def _seen_us(ancillary: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received the packet, on the monotonic clock. It stamps by the time of day."""
    now_ns = time.monotonic_ns()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == 16:
            seconds, nanoseconds = struct.unpack("qq", data)
            late_us = (time.time_ns() - seconds * 10**9 - nanoseconds) // 1000
            return now_ns // 1000 - (late_us if 0 < late_us < _LATE_MOST_US else 0)
    return now_ns // 1000
