# SPDX-License-Identifier: Apache-2.0
"""Datagrams that no client of weir-server would send; pure."""

from __future__ import annotations

import random
from collections.abc import Callable

LEAST_INITIAL_BYTES = 1200
"""RFC 9000 14.1."""


def long_header(rest: random.Random, version: int, dcid_bytes: int = 8, bytes_: int = LEAST_INITIAL_BYTES) -> bytes:
    """A first packet of noise, as well formed as can be seen without keys (RFC 9000 17.2.2)."""
    head = bytes([0xC3]) + version.to_bytes(4, "big")
    head += bytes([dcid_bytes]) + rest.randbytes(dcid_bytes) + bytes([8]) + rest.randbytes(8) + b"\0"
    left = bytes_ - len(head) - 2
    return head + (0x4000 | left).to_bytes(2, "big") + rest.randbytes(left)


def garbage(rest: random.Random) -> bytes:
    return rest.randbytes(rest.choice([0, 1, 2, 20, 100, 1200, 1472]))


def noise_in_initials(rest: random.Random) -> bytes:
    return long_header(rest, 1)


def versions(rest: random.Random) -> bytes:
    return long_header(rest, rest.choice([0, 2, 0x0A0A0A0A, rest.randrange(1 << 32)]))


def odd_ids(rest: random.Random) -> bytes:
    return long_header(rest, 1, rest.choice([0, 1, 7, 20, 21, 255]))


def short_headers(rest: random.Random) -> bytes:
    return bytes([0x40 | rest.randrange(64)]) + rest.randbytes(rest.choice([10, 40, 1200]))


def mutated_initials(rest: random.Random) -> bytes:
    datagram = bytearray(long_header(rest, 1))
    for _ in range(rest.randrange(1, 8)):
        datagram[rest.randrange(40)] = rest.randrange(256)
    return bytes(datagram)


KINDS: list[Callable[[random.Random], bytes]] = [
    garbage, noise_in_initials, versions, odd_ids, short_headers, mutated_initials,
]  # fmt: skip
