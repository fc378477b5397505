# SPDX-License-Identifier: Apache-2.0
"""The file for `weir p4 deploy` of each switch on `edge`: next hops, routes, names and the law. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from weirlab.topologies.edge.tree import (
    CORE,
    PUBLISHER_ADDRESS,
    UP,
    Receiver,
    Switch,
    Tree,
    server_address,
    server_mac,
    visitor_address,
)

EDGE_SERVER = "server"
"""The next hop that is an edge switch's edge server."""
LOCAL = "local"
"""An `edge_server` that nobody at another edge switch can reach."""
BOTTLENECK_PORT = 1
"""Of the core."""
PUBLISHER_MAC = "02:00:00:03:00:01"
FILES = "/weir/files"
"""Objects of the publisher are below this name."""
SERVER = "/weir/web"
"""The publisher's side of unchanged applications."""
HOSTS = "/weir/hosts"
"""A receiver N at edge switch E is HOSTS/eE/rN."""


WHOLE_PIT = 2 * 8192
"""Entries of a switch's table of pending Interests (docs/design/icn.md)."""


def host_name(edge: int, number: int) -> str:
    return f"{HOSTS}/e{edge}/r{number}"


def name_routes(switch: Switch) -> dict[str, int]:
    """Prefixes of names, and the port that each leads to; the longest that fits counts. Files lead to the cache, where
    there is one, and what it has not leads on up."""
    routes = {FILES: UP if switch.cache_port is None else switch.cache_port, SERVER: UP}
    if switch.edge:
        routes |= {host_name(receiver.edge, receiver.number): port for port, receiver in switch.all_below()}
    elif len(switch.below) == 1:
        routes[HOSTS] = 1
    else:
        routes |= {f"{HOSTS}/e{below.switch.edge}": port for port, below in switch.below.items() if below.switch}
    return routes


def deploy_config(tree: Tree, switch: Switch, spec: Mapping[str, Any]) -> str:
    """The whole file for one switch."""
    lines: list[str] = []
    for port in (UP, *switch.below):
        lines += [f"[ports.{port}]", f'mac = "{switch.mac(port)}"']
    for name, port, mac in neighbours(tree, switch):
        lines += [f"[neighbours.{name}]", f"port = {port}", f'mac = "{mac}"']
    lines += [
        "[routes]",
        *(f'"{prefix}" = "{via}"' for prefix, via in ip_routes(switch, spec["carrying"]["edge_server"]).items()),
    ]
    lines += names_section(switch)
    law = [f"{key} = {json.dumps(value)}" for key, value in spec["aqm"].items()]
    for port in sorted(queues_of(switch, spec)):
        lines += [f"[aqm.port.{port}]", *law]
    return "\n".join([*lines, ""])


def names_section(switch: Switch) -> list[str]:
    """Routes of names. Between switches one port asks for all that is below, so the quota is no bound there."""
    lines = ["[names]", *([] if switch.edge else [f"quota = {WHOLE_PIT}"])]
    for prefix, port in name_routes(switch).items():
        lines += ["[[names.route]]", f'prefix = "{prefix}"', f"port = {port}"]
        if port == switch.cache_port:
            lines.append(f"other = {UP}")
    return lines


def neighbours(tree: Tree, switch: Switch) -> Iterator[tuple[str, int, str]]:
    """Name, port and MAC of every station that the switch routes to."""
    above = next(
        ((other, port) for other in tree.switches for port, below in other.below.items() if below.switch is switch),
        None,
    )
    yield "up", UP, PUBLISHER_MAC if above is None else above[0].mac(above[1])
    for port, below in switch.below.items():
        if below.switch is not None:
            yield below.switch.name, port, below.switch.mac(UP)
        if below.server:
            yield EDGE_SERVER, port, server_mac(switch.edge)
        for receiver in below.receivers:
            yield neighbour_name(receiver, below.visitor), port, receiver.mac


def neighbour_name(receiver: Receiver, visitor: bool) -> str:
    return f"{receiver.name}-visiting" if visitor else receiver.name


def ip_routes(switch: Switch, served: bool | str = False) -> dict[str, str]:
    """IPv4 prefixes by next hop. `served`: there are edge servers; LOCAL: each for those at its edge switch alone."""
    routes = {f"{PUBLISHER_ADDRESS}/32": "up"}
    if switch.edge:
        routes |= {f"{receiver.address}/32": receiver.name for _, receiver in switch.all_below()}
        guests = [(port, below.receivers[0]) for port, below in switch.below.items() if below.visitor]
        routes |= {f"{visitor_address(switch.edge, port)}/32": neighbour_name(guest, True) for port, guest in guests}
        if switch.server_port is not None:
            routes[f"{server_address(switch.edge)}/32"] = EDGE_SERVER
            if served != LOCAL:
                routes["10.3.0.0/16"] = "up"
        return routes | {"10.2.0.0/16": "up"}
    for below in switch.below.values():
        if below.switch is not None:
            for network in ("10.2", *(("10.3",) if served else ())):
                there = f"{network}.{below.switch.edge}.0/24" if len(switch.below) > 1 else f"{network}.0.0/16"
                routes[there] = below.switch.name
    return routes


def queues_of(switch: Switch, spec: Mapping[str, Any]) -> dict[int, tuple[float, int]]:
    """The ports whose queue has a rate, with rate (Mbit/s) and depth (packets): the law is on these."""
    found = {}
    if switch.name == CORE:
        bottleneck = spec["bottleneck"]
        found[BOTTLENECK_PORT] = bottleneck["rate_mbit_s"], bottleneck["queue_limit_packets"]
    last = spec["last_hop"]
    if switch.edge and last["rate_mbit_s"] and last["medium"] == "links":
        ports = [port for port in switch.below if port != switch.cache_port]
        found |= {port: (last["rate_mbit_s"], last["queue_limit_packets"]) for port in ports}
    return found
