# SPDX-License-Identifier: Apache-2.0
"""Reads a run's samples on `edge`: lines in, objects out.

One JSON object a line, `t_us` the lab's CLOCK_MONOTONIC in microseconds. Kinds (`k`):

- `start`: the moment at which all receivers began to fetch the file; exactly one.
- `link`: counts of a network interface since it was made: `node`, `device`, `sent_bytes`, `sent_packets`,
  `received_bytes`, `received_packets`, Ethernet headers included. Each has two lines, of the start and of the end. The
  device `air` of a broadcast segment has sent what crossed it.
- `switch`: at the end, `packets` of a switch (`node`) by the names of its counter `names` (docs/design/icn.md),
  those of 0 left out; of the switches that saw none it is empty.
- `cache`: at the end, what the cache of an edge switch or of the hub (`node`) counted: `asked` segments, `hits` of
  these that it had, `passed_on` (Interests that it sent for the others), `kept`, `evicted`, and `held_bytes`.
- `receiver`: what became of the file at a receiver: `receiver` (from 1), `edge`, `started_us`, `ended_us` (null: it was
  not done in time), `bytes`, `outcome` (`complete`, `corrupt`: other bytes than the publisher's, `failed`: its program
  said so, `unfinished`, `left`: it wanted it no longer), and what its program counted. By name: `asked` and
  `asked_again` segments, `data`, `overheard`, `duplicates`, `marked`, the `beta` that it asked with, its
  `response_time_us` at the end, and what became of its connection to the group: `lost`, `migrated`, `reconnected`,
  `resumed`, `early_data`, each with `group_` before it. Of one that moves, too: `stalls`, pairs of the time at which
  content came and how long there was none before, both in us, if that was 10 ms or more; and `back_us`, the times at
  which a server answered that it went on with. Of a download over QUIC: `sent` and `lost` packets of the
  server, and `handshake_us` and `first_byte_us`, from the client's first packet on.
- `move`: a receiver left an edge switch for another: `receiver`, `from_edge`, `to_edge`.
- `leave`: a receiver's program was ended before it had the file: `receiver`.
- `publisher`: what the publisher says at its end: `rekeys`, keys drawn because receivers left.
- `arrived`: bytes that have come to the interface of a receiver that moves, every millisecond about the move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.metrics.samples import SamplesError, read_kinds

FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("t_us",),
    "link": ("t_us", "node", "device", "sent_bytes", "sent_packets", "received_bytes", "received_packets"),
    "switch": ("node", "packets"),
    "cache": ("node", "asked", "hits", "passed_on", "kept", "evicted", "held_bytes"),
    "receiver": ("receiver", "edge", "started_us", "ended_us", "bytes", "outcome"),
    "move": ("t_us", "receiver", "from_edge", "to_edge"),
    "leave": ("t_us", "receiver"),
    "publisher": ("rekeys",),
    "arrived": ("t_us", "receiver", "bytes"),
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "start": ("t_us",),
    "link": ("t_us", "sent_bytes", "sent_packets", "received_bytes", "received_packets"),
    "cache": ("asked", "hits", "passed_on", "kept", "evicted", "held_bytes"),
    "receiver": ("receiver", "edge", "started_us", "bytes"),
    "move": ("t_us", "receiver", "from_edge", "to_edge"),
    "leave": ("t_us", "receiver"),
    "publisher": ("rekeys",),
    "arrived": ("t_us", "receiver", "bytes"),
}


@dataclass(frozen=True)
class Samples:
    """One run's samples. `links`: by node and device what passed between start and end, by the names of a `link` line.
    `switches`: packets by counter, by switch. `caches`: what each counted, by node. `arrived`: times (us) and
    bytes, by receiver."""

    receivers: tuple[dict[str, Any], ...]
    links: dict[tuple[str, str], dict[str, int]]
    switches: dict[str, dict[str, int]]
    caches: dict[str, dict[str, int]]
    moves: tuple[dict[str, Any], ...]
    arrived: dict[int, tuple[tuple[int, int], ...]]
    rekeys: int | None


def read_samples(path: str | Path, spec: Mapping[str, Any]) -> Samples:
    """Read a samples file (`.gz` or plain). Raises SamplesError naming file and line, OSError if it can't be read."""
    path = Path(path)
    by_kind = read_kinds(path, FIELDS, NUMBERS)
    wanted = set(range(1, spec["transfer"]["receivers"] + 1))
    told = [line["receiver"] for line in by_kind["receiver"]]
    if sorted(told) != sorted(wanted):
        raise SamplesError(f"{path}: lines of the receivers {told}; there must be one of each of {len(wanted)}")
    arrived: dict[int, list[tuple[int, int]]] = {}
    for line in by_kind["arrived"]:
        arrived.setdefault(line["receiver"], []).append((line["t_us"], line["bytes"]))
    return Samples(
        receivers=tuple(sorted(by_kind["receiver"], key=lambda line: line["receiver"])),
        links=_passed(path, by_kind["link"]),
        switches={line["node"]: line["packets"] for line in by_kind["switch"]},
        caches={line["node"]: {key: line[key] for key in NUMBERS["cache"]} for line in by_kind["cache"]},
        moves=tuple(by_kind["move"]),
        arrived={number: tuple(points) for number, points in arrived.items()},
        rekeys=sum(line["rekeys"] for line in by_kind["publisher"]) if by_kind["publisher"] else None,
    )


def _passed(path: Path, lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, int]]:
    """Growth of each interface's counters."""
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        pairs.setdefault((line["node"], line["device"]), []).append(line)
    found = {}
    for (node, device), pair in pairs.items():
        if len(pair) != 2:
            raise SamplesError(f"{path}: {len(pair)} lines of {node}:{device}; there must be one at start and end each")
        first, last = sorted(pair, key=lambda line: line["t_us"])
        found[node, device] = {key: last[key] - first[key] for key in FIELDS["link"][3:]}
    return found
