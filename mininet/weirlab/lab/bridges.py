# SPDX-License-Identifier: Apache-2.0
"""ip's lines for bridges in nodes: segments that everybody hears, and hosts that move between two switches."""

from __future__ import annotations

BRIDGE = "bridge"


def bridge() -> list[str]:
    """ip's lines for a bridge that passes everything on at once and remembers nobody."""
    return [
        f"link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ageing_time 0",
        f"link set dev {BRIDGE} addrgenmode none up",
    ]


def join(*devices: str) -> list[str]:
    """ip's lines that make devices ports of the bridge; the bridge learns nothing from them."""
    return [
        line
        for device in devices
        for line in (f"link set dev {device} master {BRIDGE}", f"link set dev {device} type bridge_slave learning off")
    ]


def move_lines(from_edge: int, to_edge: int) -> list[str]:
    """ip's lines, in the node with the bridge of a host that moves, by which the host leaves one edge switch and is at
    another. The bridge has a device eN for each."""
    return [f"link set dev e{from_edge} nomaster", *join(f"e{to_edge}")]
