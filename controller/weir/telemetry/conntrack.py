# SPDX-License-Identifier: Apache-2.0
"""Hosts behind source NAT, from the kernel's table of connections (/proc/net/nf_conntrack)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from .flow_records import FlowKey, Reading

TABLE = Path("/proc/net/nf_conntrack")
_End = tuple[str, int]


def translations(lines: Iterable[str]) -> dict[tuple[int, _End, _End], str]:
    """Original source by protocol, translated end and other end, of connections whose source is translated."""
    found = {}
    for line in lines:
        words = line.split()
        pairs = [word.partition("=")[::2] for word in words if "=" in word]
        ends = {name: [value for key, value in pairs if key == name] for name in ("src", "dst", "sport", "dport")}
        if len(words) < 4 or not words[3].isdigit() or len(ends["src"]) != 2 or len(ends["dst"]) != 2:
            continue
        ports = [ends[name][1] if len(ends[name]) == 2 else "0" for name in ("dport", "sport")]
        if not all(port.isdigit() for port in ports) or ends["src"][0] == ends["dst"][1]:
            continue
        translated, other = (ends["dst"][1], int(ports[0])), (ends["src"][1], int(ports[1]))
        found[int(words[3]), translated, other] = ends["src"][0]
    return found


def host_of(reading: Reading, table: Path = TABLE) -> Callable[[FlowKey], str]:
    """The local host of a flow, before translation where the table can be read."""
    try:
        with table.open() as lines:
            known = translations(lines)
    except OSError:
        known = {}

    def host(key: FlowKey) -> str:
        source, destination = (key.source, key.source_port), (key.destination, key.destination_port)
        local, other = (source, destination) if reading.local_is_source else (destination, source)
        return known.get((key.protocol, local, other), local[0])

    return host
