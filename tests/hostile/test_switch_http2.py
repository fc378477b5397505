# SPDX-License-Identifier: Apache-2.0
"""Attacks by HTTP/2: floods of frames that cost the sender little. weir-switch stays below 256 MB, goes on forwarding,
and the next controller is served."""

import contextlib
import random
import socket
import struct

import pytest
from hostile_rig import MOST_MB, many, not_forwarded, open_files, peak_mb
from p4_rig import hop
from packet_rig import until

from weir.p4runtime.client import Update
from weirlab.bench.hostile.http2 import (
    ACK,
    DATA,
    END_HEADERS,
    FLOODS,
    HEADERS,
    HELLO,
    PREFACE,
    READ,
    SETTINGS,
    frame,
    request,
)

MANY = many(2_000, 50_000)
"""Frames of a flood; a bound, since the server ends most of them early."""


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_a_flood_of_frames(switch, flood):
    held = []
    try:
        for _ in range(many(3, 10)):
            sock = switch.grpc_socket()
            held.append(sock)
            sock.settimeout(0.2)  # an unread connection is followed by the next
            with contextlib.suppress(OSError):  # shown the door
                for words in flood(MANY):
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
            with contextlib.suppress(OSError):  # a client that repeats rejected frames is disconnected
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
