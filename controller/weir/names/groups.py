# SPDX-License-Identifier: Apache-2.0
"""Multicast groups that copies of names need on a switch, for eight ports at a time, whose copies come back into it."""

from collections.abc import Iterator

AGAIN_PORT = 510
"""Has no interface: packets sent there go through the switch again."""
AGAIN_SESSION = 510
"""The clone session of Interests with holes."""
GROUPS, GROUPS_GO_ON = 0x4000, 0x4100
GOES_ON = 9
"""The instance of the copy that goes on with the ports behind these eight."""


def groups() -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each group's number and the instances of its copies, all to AGAIN_PORT."""
    for value in range(1, 256):
        instances = tuple(bit + 1 for bit in range(8) if value >> bit & 1)
        yield GROUPS + value, instances
        yield GROUPS_GO_ON + value, (*instances, GOES_ON)
