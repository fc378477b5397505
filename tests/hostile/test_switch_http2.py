# SPDX-License-Identifier: Apache-2.0
"""Who speaks HTTP/2 to break it: floods of frames that cost the sender little. weir-switch stays below 256 MB, goes on
forwarding, and the next controller is served."""

import contextlib
import random
import socket
import struct

import pytest
from hostile_rig import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    HELLO,
    MOST_MB,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    header,
    many,
    not_forwarded,
    open_files,
    peak_mb,
    request,
)
from p4_rig import hop
from packet_rig import until

from weir.p4runtime.client import Update

ACK = 1
READ = request(b"/p4.v1.P4Runtime/Read")
WRITE = request(b"/p4.v1.P4Runtime/Write")
MANY = many(2_000, 50_000)
"""Frames of a flood; a bound, since the server ends most of them early."""


def rapid_reset():
    """Requests that are taken back at once: each may cost the server more than the client (CVE-2023-44487)."""
    yield HELLO
    for n in range(MANY):
        stream = 2 * n + 1
        yield frame(HEADERS, END_HEADERS, stream, READ) + frame(RST_STREAM, 0, stream, struct.pack("!I", 8))


def endless_headers():
    """A header block that never ends (CVE-2024-27316): it must not be kept as it comes."""
    yield HELLO + frame(HEADERS, 0, 1, READ)
    for n in range(MANY):
        yield frame(CONTINUATION, 0, 1, header(b"x-%d" % n, b"y" * 100) * 8)


def many_streams():
    """Writes that never come: as many streams as there may be, and more."""
    yield HELLO
    for n in range(MANY):
        yield frame(HEADERS, END_HEADERS, 2 * n + 1, WRITE) + frame(DATA, 0, 2 * n + 1, b"\0\0\x10\0\0")


def pings():
    """Each wants an answer, which nobody reads."""
    yield HELLO
    for n in range(MANY):
        yield frame(PING, 0, 0, struct.pack("!Q", n)) * 8


def settings():
    """The same, and each may change all windows."""
    yield HELLO
    for n in range(MANY):
        yield frame(SETTINGS, 0, 0, struct.pack("!HI", 4, n % 2**31)) * 4


def empty_data():
    """Frames without a byte count against no window."""
    yield HELLO + frame(HEADERS, END_HEADERS, 1, WRITE)
    for _ in range(MANY):
        yield frame(DATA, 0, 1) * 16


def windows_beyond_all():
    """Windows that overflow, on streams that there are not."""
    yield HELLO
    for n in range(MANY):
        yield frame(WINDOW_UPDATE, 0, n % 99, struct.pack("!I", 2**31 - 1)) * 4


def lengths_that_lie():
    """A message of 4 GB is announced, and a compressed one that is none."""
    yield HELLO + frame(HEADERS, END_HEADERS, 1, WRITE) + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff" + bytes(1000))
    yield frame(HEADERS, END_HEADERS, 3, WRITE) + frame(DATA, 1, 3, b"\1\0\0\0\4abcd")


FLOODS = [
    rapid_reset, endless_headers, many_streams, pings, settings, empty_data, windows_beyond_all, lengths_that_lie,
]  # fmt: skip


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_a_flood_of_frames(switch, flood):
    held = []
    try:
        for _ in range(many(3, 10)):
            sock = switch.grpc_socket()
            held.append(sock)
            sock.settimeout(0.2)  # who is not read any more goes on with the next
            with contextlib.suppress(OSError):  # shown the door
                for words in flood():
                    sock.sendall(words)
        assert not_forwarded(switch) == 0
        assert peak_mb(switch.process.pid) < MOST_MB
        newcomer = switch.connect(election_id=2)
        newcomer.become_primary()
        assert newcomer.capabilities()
    finally:
        for sock in held:
            sock.close()


def test_noise_after_a_good_beginning(switch):
    """Frames of every kind with random flags, streams and contents: the parser's every branch."""
    rest = random.Random(17)
    for _ in range(many(60, 1500)):
        with switch.grpc_socket() as sock, contextlib.suppress(OSError):
            sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
            for _ in range(20):
                payload = rest.randbytes(rest.choice([0, 1, 4, 5, 8, 300]))
                sock.sendall(
                    frame(rest.randrange(12), rest.randrange(256), rest.choice([0, 1, 3, 2, 2**31 - 1]), payload)
                )
    assert not_forwarded(switch) == 0
    assert peak_mb(switch.process.pid) < MOST_MB
    assert switch.client.capabilities()


def test_resets_leave_nothing_open(switch):
    """Connections that are reset (RST in place of FIN), before a word, in the middle of one and with a request under
    way: no descriptor stays behind."""
    before = open_files(switch.process.pid)
    words = [b"", PREFACE[:10], HELLO, HELLO + frame(HEADERS, END_HEADERS, 1, READ)]
    for n in range(many(200, 5_000)):
        sock = switch.grpc_socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            sock.sendall(words[n % len(words)])
        sock.close()
    until(lambda: open_files(switch.process.pid) <= before, "all descriptors are given back", 60)
    assert not_forwarded(switch) == 0
    assert switch.client.capabilities()


@pytest.mark.parametrize(
    ("call", "announced_bytes", "streams"),
    [("Read", 512 << 10, 15), ("Write", 1 << 20, 7), ("SetForwardingPipelineConfig", 1 << 20, 7)],
)
def test_requests_that_never_come_whole(switch, call, announced_bytes, streams):
    """Large ones, without their last bytes, on many connections: all of them together are bounded, and who asks
    for little is served meanwhile. (As much as a connection's window of 8 MiB takes.)"""
    part = bytes(16 << 10)
    held = []
    try:
        for _ in range(many(40, 200)):
            sock = switch.grpc_socket()
            held.append(sock)
            sock.settimeout(10)
            sock.sendall(HELLO)
            assert sock.recv(9, socket.MSG_WAITALL)[3] == SETTINGS
            sock.sendall(frame(SETTINGS, ACK, 0))
            with contextlib.suppress(OSError):  # who goes on sending what was refused is shown the door
                for stream in range(1, 2 * streams, 2):
                    sock.sendall(frame(HEADERS, END_HEADERS, stream, request(b"/p4.v1.P4Runtime/" + call.encode())))
                    sock.sendall(frame(DATA, 0, stream, b"\0" + struct.pack("!I", announced_bytes)))
                    for _ in range(announced_bytes // len(part) - 1):
                        sock.sendall(frame(DATA, 0, stream, part))
        assert not_forwarded(switch) == 0
        newcomer = switch.connect(election_id=2)
        newcomer.become_primary()
        newcomer.write([Update.insert(hop(700, 2)), Update.delete(hop(700, 2))])
        assert peak_mb(switch.process.pid) < MOST_MB
    finally:
        for sock in held:
            sock.close()


def test_silent_connections_keep_no_controller_out(switch):
    """More connections than there may be, held without a word: for each newcomer the longest unused goes. The
    controller that has a stream open keeps it."""
    held = [switch.grpc_socket() for _ in range(many(600, 1500))]
    try:
        newcomer = switch.connect(election_id=2)
        assert newcomer.capabilities()
        assert switch.client.standing.is_primary
        assert not_forwarded(switch) == 0
        assert open_files(switch.process.pid) < 600
        assert peak_mb(switch.process.pid) < MOST_MB
    finally:
        for sock in held:
            sock.close()
