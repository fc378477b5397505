# SPDX-License-Identifier: Apache-2.0
"""Listens on an interface and hands on the round-trip times seen there. Needs CAP_NET_RAW, and CAP_SYS_ADMIN to listen
in another network namespace. Sends nothing, changes nothing.

    with observe("eth0", print):
        ...
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .filter import NOTHING, SNAP_BYTES, program
from .tracker import RttSample, RttTracker, Wanted

_ETH_P_ALL = 0x0003
_SO_ATTACH_FILTER = 26
_SO_TIMESTAMPNS = 35
_CLONE_NEWNET = 0x40000000
_DIRECTIONS = {0: "in", 4: "out"}  # PACKET_HOST, PACKET_OUTGOING
RETRY_S = 1.0
IDLE_MS = 500  # interval of checks of open handshakes without packets
MOST_PACKETS_S = 2000  # more handshakes than this in a second are a flood: the rest of the second goes unseen
LATE_MAX_US = 1_000_000  # a packet that the kernel says it saw earlier than this: the time of day was set

Callback = Callable[[list[RttSample]], None]


class ObserveError(Exception):
    """An interface that can't be listened on: which, why."""


def _enter(netns: str) -> None:
    """Move this thread to a network namespace, a path or the name of one of `ip netns`."""
    path = Path(netns) if "/" in netns else Path("/run/netns") / netns
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ObserveError(f"network namespace {path}: {error.strerror}") from None
    try:
        libc = ctypes.CDLL(None, use_errno=True)  # os.setns is Python 3.12's
        if libc.setns(file, _CLONE_NEWNET):
            raise ObserveError(f"network namespace {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(file)


def _attach(sock: socket.socket, code: bytes) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(code) // 8, ctypes.addressof(buffer)))


def _open(interface: str) -> socket.socket:
    """A packet socket with its filter in place before it hears anything."""
    sock = None
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0)
        _attach(sock, program())
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.bind((interface, _ETH_P_ALL))
        if wrong := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # it is down
            raise OSError(wrong, os.strerror(wrong))
    except OSError as error:
        if sock is not None:
            sock.close()
        hint = "; listening to packets needs CAP_NET_RAW" if isinstance(error, PermissionError) else ""
        raise ObserveError(f"{interface}: {error.strerror}{hint}") from None
    return sock


def _seen_us(ancillary: list[tuple[int, int, bytes]]) -> int:
    """When the kernel saw the packet, on the monotonic clock. It stamps by the time of day."""
    now_ns = time.monotonic_ns()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == 16:
            seconds, nanoseconds = struct.unpack("qq", data)
            late_us = (time.time_ns() - seconds * 10**9 - nanoseconds) // 1000
            return now_ns // 1000 - (late_us if 0 < late_us < LATE_MAX_US else 0)
    return now_ns // 1000


class Observer:
    """A thread that listens from `start` (or `with`) to `close`. `callback` gets samples, `say` a line when the
    interface goes away and when it is back; both are called from that thread. An interface that went away is looked for
    until it is back. `heard`: packets that came up from the kernel, which is what observing costs."""

    def __init__(
        self, interface: str, callback: Callback, netns: str | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        self._interface, self._netns, self._callback = interface, netns, callback
        self._say = say or (lambda text: None)
        self.heard = 0
        self._tracker = RttTracker()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._started = threading.Event()
        self._wrong: ObserveError | None = None
        self._thread = threading.Thread(target=self._run, name=f"rtt {interface}", daemon=True)

    def start(self) -> Observer:
        """Returns when it listens. ObserveError when it can't."""
        self._thread.start()
        self._started.wait()
        if self._wrong:
            self.close()
            raise self._wrong
        return self

    def close(self) -> None:
        """Stop listening. A second time does nothing."""
        if self._stop < 0:
            return
        os.eventfd_write(self._stop, 1)
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._stop)
        self._stop = -1

    def __enter__(self) -> Observer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            if self._netns is not None:
                _enter(self._netns)
            sock = _open(self._interface)
        except ObserveError as error:
            self._wrong = error
            return
        finally:
            self._started.set()
        while True:
            try:
                with sock:
                    self._listen(sock)
                return
            except OSError as error:
                self._say(f"{self._interface}: {error.strerror}; round trips are not seen until it is back")
            self._tracker.forget()
            while True:
                if self._stopped_within(RETRY_S):
                    return
                try:
                    sock = _open(self._interface)
                    break
                except ObserveError:
                    continue
            self._say(f"{self._interface}: is back")

    def _stopped_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._stop, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _listen(self, sock: socket.socket) -> None:
        """Until `close`. OSError when the interface goes down or away."""
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        armed: Wanted | None = Wanted()
        second = heard = 0
        while True:
            ready = poll.poll(IDLE_MS if self._tracker.pending else None)
            if any(file == self._stop for file, _ in ready):
                return
            done = []
            if ready:
                try:
                    data, ancillary, _, address = sock.recvmsg(SNAP_BYTES, 64)
                except BlockingIOError:
                    continue
                now_us = _seen_us(ancillary)
                if now_us // 1_000_000 != second:
                    second, heard = now_us // 1_000_000, 0
                heard += 1
                self.heard += 1
                if address[2] in _DIRECTIONS:
                    done = self._tracker.packet(now_us, _DIRECTIONS[address[2]], data)
            else:
                done = self._tracker.expire(time.monotonic_ns() // 1000)
            wanted = self._tracker.wanted()
            if heard > MOST_PACKETS_S:
                if self._pause(sock):
                    return
                wanted, armed, heard = Wanted(), None, 0
            if wanted != armed:
                _attach(sock, program(wanted))
                armed = wanted
            if done:
                self._hand_on(done)

    def _hand_on(self, done: list[RttSample]) -> None:
        try:
            self._callback(done)
        except OSError as error:  # not the interface's, which would be waited for
            raise RuntimeError(f"{self._interface}: what takes the round trips failed") from error

    def _pause(self, sock: socket.socket) -> bool:
        """Hear nothing for a second, and trust nothing that was under way. True when `close` was called meanwhile."""
        _attach(sock, NOTHING)
        self._tracker.forget()
        stopped = self._stopped_within(1.0)
        while True:
            try:
                sock.recv(1)
            except BlockingIOError:
                return stopped


def observe(
    interface: str, callback: Callback, netns: str | None = None, say: Callable[[str], None] | None = None
) -> Observer:
    """An observer of `interface`, not yet started: `with observe(...)`, or `start()` and `close()`."""
    return Observer(interface, callback, netns, say)
