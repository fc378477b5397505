# SPDX-License-Identifier: Apache-2.0
"""Files `topology.json` of p4lang's tutorials. The reader is pure.

    {"hosts": {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["ip route add ..."]}},
     "switches": {"s1": {"runtime_json": "s1-runtime.json"}, "s2": {"cli_input": "s2-commands.txt"}},
     "links": [["h1", "s1-p1"], ["s1-p2", "s2-p1", "5ms", 0.5]]}

A link has two ends, a delay (a number is in ms) and a rate in Mbit/s. A switch may have `program`, `cpu_port` and
`priority_queues`. Other keys are ignored, as the tutorials' reader does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_END = re.compile(r"(?P<switch>[^-]+)-p(?P<port>\d{1,3})")
_DELAY = re.compile(r"\d+(\.\d+)?\s*(s|sec|secs|ms|msec|msecs|us|usec|usecs)?")


class TopologyError(ValueError):
    """A topology that can't be used; the message has the file and the key."""


@dataclass(frozen=True)
class HostSpec:
    """A host. `commands` run in it once the network is up."""

    ip: str | None = None
    mac: str | None = None
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchSpec:
    """A switch. `runtime_json` goes to it over P4Runtime, `cli_input` over Thrift; `program` None: the exercise's."""

    runtime_json: str | None = None
    cli_input: str | None = None
    program: str | None = None
    cpu_port: int | None = None
    priority_queues: int | None = None


@dataclass(frozen=True)
class LinkSpec:
    """A link between two nodes; the port of a host is None. `delay` is text for tc, `rate_mbit_s` None: no limit."""

    ends: tuple[tuple[str, int | None], tuple[str, int | None]]
    delay: str = "0ms"
    rate_mbit_s: float | None = None


@dataclass(frozen=True)
class Topology:
    """A topology by the names of its nodes."""

    hosts: Mapping[str, HostSpec]
    switches: Mapping[str, SwitchSpec]
    links: tuple[LinkSpec, ...]


def load(path: Path) -> Topology:
    """The topology in a file. Raises TopologyError and OSError."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: not UTF-8 at byte {error.start}; must be JSON") from None


def parse(text: str, source: str) -> Topology:
    """The topology in a file's text; `source` is for messages. Raises TopologyError."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{source}: not JSON: {error}") from None
    parts = _object(raw, source)
    hosts = {name: _host(host, at) for name, host, at in _members(parts, "hosts", source)}
    switches = {name: _switch(switch, at) for name, switch, at in _members(parts, "switches", source)}
    links = parts.get("links")
    if not isinstance(links, list):
        raise TopologyError(f"{source}: links: must be a list, [...]")
    read = tuple(_link(link, f"{source}: links[{n}]", hosts, switches) for n, link in enumerate(links))
    _check_ends(read, source)
    return Topology(hosts, switches, read)


def _object(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise TopologyError(f"{where}: must be an object, {{...}}")
    return raw


def _members(parts: Mapping[str, Any], key: str, source: str) -> list[tuple[str, dict[str, Any], str]]:
    found = _object(parts.get(key), f"{source}: {key}")
    return [(name, _object(each, at), at) for name, each in found.items() for at in [f"{source}: {key}.{name}"]]


def _text(raw: Mapping[str, Any], key: str, where: str) -> str | None:
    value = raw.get(key)
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise TopologyError(f"{where}: {key}: {value!r}: must be text")
    return value


def _number(raw: Mapping[str, Any], key: str, where: str) -> int | None:
    value = raw.get(key)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):  # the tutorials' flowcache
        value = int(value)
    if value is not None and (type(value) is not int or value < 1):
        raise TopologyError(f"{where}: {key}: {value!r}: must be a whole number of 1 or more")
    return value


def _host(raw: Mapping[str, Any], where: str) -> HostSpec:
    commands = raw.get("commands", [])
    if not isinstance(commands, list) or not all(isinstance(each, str) for each in commands):
        raise TopologyError(f"{where}: commands: must be a list of texts")
    return HostSpec(_text(raw, "ip", where), _text(raw, "mac", where), tuple(commands))


def _switch(raw: Mapping[str, Any], where: str) -> SwitchSpec:
    runtime_json, cli_input, program = (_text(raw, key, where) for key in ("runtime_json", "cli_input", "program"))
    cpu_port, priority_queues = (_number(raw, key, where) for key in ("cpu_port", "priority_queues"))
    return SwitchSpec(runtime_json, cli_input, program, cpu_port, priority_queues)


def _link(raw: Any, where: str, hosts: Mapping[str, Any], switches: Mapping[str, Any]) -> LinkSpec:
    if not isinstance(raw, list) or not 2 <= len(raw) <= 4:
        raise TopologyError(f"{where}: must be [END, END], [END, END, DELAY] or [END, END, DELAY, RATE]")
    first, second = (_end(end, where, hosts, switches) for end in raw[:2])
    return LinkSpec((first, second), _delay(raw[2], where) if len(raw) > 2 else "0ms", _rate(raw[3:], where))


def _end(raw: Any, where: str, hosts: Mapping[str, Any], switches: Mapping[str, Any]) -> tuple[str, int | None]:
    if isinstance(raw, str) and raw in hosts:
        return raw, None
    found = _END.fullmatch(raw) if isinstance(raw, str) else None
    if found is None or found["switch"] not in switches:
        raise TopologyError(f"{where}: {raw!r}: must be a host, or a switch and its port, SWITCH-pPORT")
    return found["switch"], int(found["port"])


def _delay(raw: Any, where: str) -> str:
    if isinstance(raw, str) and _DELAY.fullmatch(raw.strip()):
        return raw.strip()
    if type(raw) in (int, float) and 0 <= raw < 1e9:
        return f"{raw}ms"
    raise TopologyError(f"{where}: delay {raw!r}: must be a number of ms, or text as '5ms'")


def _rate(given: list[Any], where: str) -> float | None:
    if not given or given[0] is None:
        return None
    if type(given[0]) not in (int, float) or not 0.01 <= given[0] <= 1e6:
        raise TopologyError(f"{where}: rate {given[0]!r}: must be a number of Mbit/s, 0.01 to 1000000")
    return float(given[0])


def _check_ends(links: tuple[LinkSpec, ...], source: str) -> None:
    seen: set[tuple[str, int]] = set()
    for number, link in enumerate(links):
        for node, port in link.ends:
            if port is not None and (node, port) in seen:
                raise TopologyError(f"{source}: links[{number}]: port {port} of {node} has another link")
            if port is not None:
                seen.add((node, port))
