# SPDX-License-Identifier: Apache-2.0
"""Packet traces of `weir-switch --trace` and `weir-stf --trace`: lines of JSON in, trees of text out.

A line is one pass of a packet through ingress or egress; its results name the passes that it makes. A packet is
complete once each of them has its line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1
FOLLOW_S = 0.2  # interval of reading a file that is followed
PENDING_PACKETS = 10_000  # incomplete packets kept; the oldest are printed as they are


class TraceError(ValueError):
    """A line that is none of a trace: where it is, and what is wrong."""


@dataclass
class Packet:
    """The passes of one received packet, by their numbers."""

    number: int
    passes: dict[int, dict[str, Any]] = field(default_factory=dict)
    expected: set[int] = field(default_factory=set)

    def add(self, line: dict[str, Any]) -> None:
        self.passes[line["pass"]] = line
        self.expected.update(result["pass"] for result in line["results"] if "pass" in result)

    @property
    def is_complete(self) -> bool:
        return self.expected <= self.passes.keys() and any("parent" not in line for line in self.passes.values())

    def roots(self) -> list[dict[str, Any]]:
        """Passes whose parent has no line; one, unless lines are missing."""
        return [line for line in self.passes.values() if line.get("parent") not in self.passes]


def parse(text: str, where: str) -> dict[str, Any]:
    """One line, checked as far as this module reads it. TraceError otherwise."""
    try:
        line = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TraceError(f"{where}: not a line of JSON, as `weir-switch --trace FILE` writes them: {error}") from None
    if not isinstance(line, dict) or not isinstance(line.get("v"), int):
        raise TraceError(f"{where}: not a line of a trace: has no version `v`")
    if line["v"] != VERSION:
        raise TraceError(f"{where}: version {line['v']} of the format; this command reads version {VERSION}")
    if "lines_lost" in line:
        return line
    numbers = all(isinstance(line.get(key), int) for key in ("packet", "pass"))
    events, results = line.get("events", []), line.get("results")
    lists = all(isinstance(x, list) and all(isinstance(e, dict) for e in x) for x in (events, results))
    if not (numbers and lists and isinstance(line.get("stage"), str)):
        raise TraceError(f"{where}: `packet`, `pass`, `stage` or `results` is missing or of another type")
    return line


def read(path: str, follow: bool = False, sleep: Callable[[float], None] = time.sleep) -> Iterator[dict[str, Any]]:
    """Lines of a file, or of standard input for `-`; with `follow` also those that are added later, and those of the
    next file of that name. OSError, TraceError."""
    if path == "-":
        for number, text in enumerate(sys.stdin, 1):
            # The first line that the switch itself writes.
            if text.strip() and not text.startswith("ready:"):
                yield parse(text, f"standard input:{number}")
        return
    while True:
        with open(path, encoding="utf-8", errors="replace") as file:
            number, begun = 0, ""
            while True:
                text = begun + file.readline()
                if text.endswith("\n") or (text and not follow):
                    number, begun = number + 1, ""
                    if text.strip():
                        yield parse(text, f"{path}:{number}")
                elif not follow:
                    return
                elif _is_replaced(path, file.fileno()):
                    break
                else:
                    begun = text
                    sleep(FOLLOW_S)


def _is_replaced(path: str, descriptor: int) -> bool:
    """Whether the name is another file's now."""
    mine = os.fstat(descriptor)
    try:
        now = Path(path).stat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def packets(lines: Iterable[dict[str, Any]], tell: Callable[[str], None] = lambda _: None) -> Iterator[Packet]:
    """Packets, each when its last line is there; at the end those that lack one. `tell` gets remarks."""
    pending: dict[int, Packet] = {}
    for line in lines:
        if "lines_lost" in line:
            tell(f"{line['lines_lost']} lines were lost: the trace was written slower than packets came")
            continue
        packet = pending.setdefault(line["packet"], Packet(line["packet"]))
        packet.add(line)
        if packet.is_complete:
            yield pending.pop(packet.number)
        elif len(pending) > PENDING_PACKETS:
            yield pending.pop(next(iter(pending)))
    yield from pending.values()


def ports_of(packet: Packet) -> set[int]:
    """Ports by which the packet came in, and by which it or a copy left."""
    lines = packet.passes.values()
    sent = [r.get("port") for line in lines for r in line["results"] if r.get("result") == "sent"]
    came = [line.get("port") for line in lines if line["stage"] == "ingress"]
    return {port for port in (*came, *sent) if isinstance(port, int)}


def tables_of(packet: Packet) -> set[str]:
    """Names of the tables that were applied to the packet."""
    events = [event for line in packet.passes.values() for event in line.get("events", [])]
    return {event["table"] for event in events if isinstance(event.get("table"), str)}


def is_wanted(packet: Packet, port: int | None = None, table: str | None = None, dropped: bool = False) -> bool:
    """Whether the packet came in or went out by `port`, met `table` (its whole name or the last part) and was dropped,
    or a copy of it."""
    results = [result for line in packet.passes.values() for result in line["results"]]
    if dropped and not any(result.get("result") == "drop" for result in results):
        return False
    if port is not None and port not in ports_of(packet):
        return False
    return table is None or any(name == table or name.endswith(f".{table}") for name in tables_of(packet))


class Seen:
    """Ports and tables of the packets of a trace, for the message that none of these is wanted."""

    def __init__(self) -> None:
        self.packets = 0
        self.ports: set[int] = set()
        self.tables: set[str] = set()

    def add(self, packet: Packet) -> None:
        self.packets += 1
        self.ports |= ports_of(packet)
        self.tables |= tables_of(packet)

    def none_wanted(self, port: int | None, table: str | None, dropped: bool) -> str:
        """Message for filters that no packet passes; they have the meaning of `is_wanted`."""
        given = {"--port": port, "--table": table}
        words = [f"{option} {value}" for option, value in given.items() if value is not None]
        words += ["--dropped"] if dropped else []
        seen = [f"packets in the trace: {self.packets}"]
        seen += [f"ports: {_list(sorted(self.ports))}"] if port is not None else []
        seen += [f"tables: {_list(sorted(self.tables))}"] if table is not None else []
        return f"no packet matches {' '.join(words)}; {'; '.join(seen)}"


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values)) or "none"


@dataclass
class Node:
    """A line of a tree, and the lines below it."""

    text: str
    below: list[Node] = field(default_factory=list)

    def lines(self, head: str = "", below: str = "") -> Iterator[str]:
        yield head + self.text
        for i, node in enumerate(self.below):
            last = i == len(self.below) - 1
            yield from node.lines(below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def tree(packet: Packet) -> Node:
    """The packet's path."""
    roots = packet.roots()
    first = roots[0] if len(roots) == 1 and "parent" not in roots[0] else None
    if first is None:
        node = Node(f"packet {packet.number}: its beginning is not in the trace")
        node.below = [_pass(packet, line) for line in roots]
        return node
    node = Node(f"packet {packet.number}: {first.get('length')} bytes on port {first.get('port')}")
    node.text += f" at {first.get('time_us', 0) / 1e6:.6f} s"
    node.below = [_pass(packet, first)]
    return node


def _pass(packet: Packet, line: dict[str, Any]) -> Node:
    if line["stage"] == "queue":
        node = Node("queue")
    else:
        kind = line.get("kind", "normal")
        node = Node(line["stage"] + ("" if kind == "normal" else f" ({kind})"))
        queue = line.get("queue")
        if queue:
            node.text += f" of port {line.get('port')}: waited {queue['waited_us']} us, priority {queue['priority']}"
            node.text += f", depth {queue['enq_depth']} packets"
    node.below += [_event(event) for event in line.get("events", [])]
    if "events_left_out" in line:
        node.below.append(Node(f"{line['events_left_out']} more events are not in the trace"))
    node.below += [_result(packet, result) for result in line["results"]]
    return node


def _result(packet: Packet, result: dict[str, Any]) -> Node:
    kind = result.get("result")
    if kind == "sent":
        return Node(f"sent: {result.get('length')} bytes on port {result.get('port')}")
    if kind == "drop":
        return Node(f"dropped: {result.get('reason')}")
    where = f"to port {result.get('port')}" if kind == "queue" else "parsed again"
    what = "" if result.get("kind") in ("normal", None) else f" ({result['kind']})"
    rid = f", rid {result['rid']}" if "rid" in result else ""
    node = Node(f"{where}{what}{rid}")
    child = packet.passes.get(result.get("pass", 0))
    node.below = [_pass(packet, child) if child else Node("no more lines: it waits, or the program was replaced")]
    return node


def _place(event: dict[str, Any]) -> str:
    at, source = event.get("at"), event.get("source")
    return (f"  [{at}]" if at else "") + (f" {source}" if source else "")


def _call(item: dict[str, Any]) -> str:
    params = ", ".join(f"{name}={value}" for name, value in item.get("params", {}).items())
    return f"{item.get('action', 'no action')}({params})"


def _table(event: dict[str, Any]) -> Node:
    node = Node(f"table {event.get('table')}: {'hit' if event.get('hit') else 'miss'}{_place(event)}")
    for key in event.get("keys", []):
        name = key.get("name") or "selector"
        node.below.append(Node(f"key {name} = {key.get('value')} ({key.get('match')})"))
    entry = event.get("entry")
    if entry:
        priority = f", priority {entry['priority']}" if "priority" in entry else ""
        node.below.append(Node(f"entry {entry.get('handle')}: {', '.join(entry.get('keys', []))}{priority}"))
    member = f"member {event['member']}: " if "member" in event else ""
    node.below.append(Node(member + _call(event) + ("" if event.get("hit") else " (default)")))
    outcomes = event.get("outcomes", [])
    if outcomes:
        chosen = Node(f"possible outcomes of group {event.get('group')}")
        for outcome in outcomes:
            mark = "*" if outcome.get("member") == event.get("member") else "-"
            weight = f", weight {outcome['weight']}" if outcome.get("weight", 1) != 1 else ""
            chosen.below.append(Node(f"{mark} member {outcome.get('member')}: {_call(outcome)}{weight}"))
        node.below.append(chosen)
    return node


def _event(event: dict[str, Any]) -> Node:
    """One event; kinds that are not known are printed with their members."""
    kind = event.get("event", "event")
    place = _place(event)
    if kind == "table":
        return _table(event)
    if kind == "state":
        return Node(f"state {event.get('state')}" + (f"  [{event['at']}]" if "at" in event else ""))
    if kind == "select":
        return Node(f"select {', '.join(event.get('values', []))}")
    if kind == "transition":
        no_match = event.get("next") == "no_match"
        return Node("reject: no case of the select matches" if no_match else str(event.get("next")))
    if kind == "condition":
        return Node(f"condition is {'true' if event.get('value') else 'false'}{place}")
    if event.get("condition") is False:
        return Node(f"{kind}: condition is false{place}")
    if kind == "verify_checksum":
        return Node(f"checksum is {'right' if event.get('right') else 'wrong'}{place}")
    if kind == "random":
        return Node(f"random {event.get('value')} of {event.get('lowest')} .. {event.get('highest')}{place}")
    shown = [f"{k} {v}" for k, v in event.items() if k not in ("event", "at", "source")]
    return Node(f"{kind}{': ' if shown else ''}{', '.join(shown)}{place}")
