# SPDX-License-Identifier: Apache-2.0
"""`[names]` of the file of `weir p4 deploy`: forwarding by name (docs/design/icn.md). Pure.

[names]
quota = 2048                # entries of one port that nobody has answered
least_lifetime_us = 1000    # a shorter lifetime of an Interest counts as this; at most 2000 with `other`
[names.port.4]
quota = 8192                # of this port alone, behind which is another switch
[[names.route]]             # the longest prefix wins; "/" is the beginning of all names
prefix = "/weir/files"
port = 2                    # where these names are asked for
other = 3                   # where what came from port 2 itself is asked for; without it: nowhere
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..names.switch import AGE_MOST_US, LEAST_LIFETIME_US, PORT_QUOTA, SETS, WAYS
from ..names.switch import PORTS as NAMED_PORTS
from ..names.text import BadName, route_bits
from ..settings import nearest

__all__ = ["NAMED_PORTS", "NameRoute", "NamesConfig", "names_config"]

Wrong = Callable[[str, str], None]
"""Takes a key and its fault."""

_RANGES = {"quota": (1, SETS * WAYS), "least_lifetime_us": (1, AGE_MOST_US // 2)}
CACHE_ASKS_AGAIN_US = 2000
"""A cache (`other`) asks on for repeated Interests so much later. A switch that counts shorter lifetimes as more joins
each such Interest, and what was lost behind the cache is never asked for again."""


@dataclass(frozen=True)
class NameRoute:
    """Where names that begin with `prefix` are asked for; `other` None: nowhere for those who ask from `port`."""

    prefix: str
    port: int
    other: int | None = None


@dataclass(frozen=True)
class NamesConfig:
    """`routes`: by the bits of their prefix and how many of them count. `port_quotas`: those that differ."""

    routes: dict[tuple[int, int], NameRoute]
    quota: int = PORT_QUOTA
    least_lifetime_us: int = LEAST_LIFETIME_US
    port_quotas: dict[int, int] = field(default_factory=dict)


def names_config(raw: Any, wrong: Wrong) -> NamesConfig:
    """Valid part of the table; `wrong` gets the rest."""
    if not isinstance(raw, dict):
        wrong("names", "must be a table, [names]")
        return NamesConfig({})
    for key in raw:
        if key not in ("route", "port", *_RANGES):
            wrong(f"names.{key}", f"unknown; {nearest(key, ['route', 'port', *_RANGES])}")
    numbers = {
        key: raw[key] for key in _RANGES if key in raw and _number(raw[key], f"names.{key}", _RANGES[key], wrong)
    }
    quotas = _port_quotas(raw.get("port", {}), wrong)
    routes: dict[tuple[int, int], NameRoute] = {}
    entries = raw.get("route", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        wrong("names.route", "must be tables, each under [[names.route]]")
        return NamesConfig({}, **numbers, port_quotas=quotas)
    for number, entry in enumerate(entries, 1):
        _route(entry, f"names.route.{number}", routes, wrong)
    least_us = numbers.get("least_lifetime_us", LEAST_LIFETIME_US)
    cached = next((route.prefix for route in routes.values() if route.other is not None), None)
    if cached is not None and least_us > CACHE_ASKS_AGAIN_US:
        wrong(
            "names.least_lifetime_us",
            f"{least_us}: must be at most {CACHE_ASKS_AGAIN_US} since the route of {cached!r} has other: a cache asks "
            "on again so long after it was asked, and the switch would never pass that on",
        )
    return NamesConfig(routes, **numbers, port_quotas=quotas)


def _port_quotas(ports: Any, wrong: Wrong) -> dict[int, int]:
    """Those of `[names.port.N]`."""
    if not isinstance(ports, dict):
        wrong("names.port", "must be a table for each port, [names.port.1]")
        return {}
    quotas = {}
    for name, table in ports.items():
        path = f"names.port.{name}"
        if name not in map(str, range(NAMED_PORTS)):
            wrong(path, f"must be a port's number, 0 .. {NAMED_PORTS - 1}")
        elif not isinstance(table, dict):
            wrong(path, f"must be a table, [{path}]")
        else:
            for key in table:
                if key != "quota":
                    wrong(f"{path}.{key}", f"unknown; {nearest(key, ['quota'])}")
            if "quota" not in table:
                wrong(f"{path}.quota", "missing")
            elif _number(table["quota"], f"{path}.quota", _RANGES["quota"], wrong):
                quotas[int(name)] = table["quota"]
    return quotas


def _route(entry: dict[str, Any], path: str, routes: dict[tuple[int, int], NameRoute], wrong: Wrong) -> None:
    keys = ("prefix", "port", "other")
    for key in entry:
        if key not in keys:
            wrong(f"{path}.{key}", f"unknown key; {nearest(key, list(keys))}")
    missing = [key for key in ("prefix", "port") if key not in entry]
    for key in missing:
        wrong(f"{path}.{key}", "missing")
    ports = [_number(entry[key], f"{path}.{key}", (0, NAMED_PORTS - 1), wrong) for key in keys[1:] if key in entry]
    if missing or not all(ports):
        return
    prefix, port, other = entry["prefix"], entry["port"], entry.get("other")
    if port == other:
        wrong(f"{path}.other", f"{other} is port too; must be another, or left out")
        return
    try:
        if not isinstance(prefix, str):
            raise BadName(f'{prefix!r}: must be text like "/weir/files"')
        bits = route_bits(prefix)
    except BadName as error:
        wrong(f"{path}.prefix", str(error))
        return
    if bits in routes:
        same = routes[bits].prefix
        why = "is there twice" if same == prefix else f"has the same bits as {same!r} for a switch; rename one of them"
        wrong(f"{path}.prefix", f"{prefix!r} {why}")
        return
    routes[bits] = NameRoute(prefix, port, other)


def _number(value: Any, path: str, between: tuple[int, int], wrong: Wrong) -> bool:
    least, most = between
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return True
    wrong(path, f"{value!r}: must be a whole number, {least} .. {most}")
    return False
