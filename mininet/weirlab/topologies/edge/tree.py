# SPDX-License-Identifier: Apache-2.0
"""Places of hosts on `edge`: switches, their ports, addresses and routes, from a spec. Pure.

                 the bottleneck
    publisher -- core ============ hub -- edge1 -- r1, r3, ...
                                       \\-- edge2 -- r2, r4, ...

With one edge switch there is no hub: edge1 is behind the bottleneck. Port 0 of each switch leads towards the publisher.
Receivers are dealt out to the edge switches in turn. With `medium = "links"` each has a port of its own; with
`"broadcast"` all that an edge switch has are on one segment behind its port 1. The last port of an edge switch and of
the hub leads to its cache, if there is one. On the host with the cache of an edge switch there may be an edge server
(weir-icn edge).

With no edge switch there is no switch at all: publisher and receivers are on one broadcast segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UP = 0
"""The port of every switch that leads towards the publisher."""
NAME_PORTS = 32
"""Names are forwarded on ports 0 to 31 (docs/design/icn.md)."""
PUBLISHER = "publisher"
PUBLISHER_ADDRESS = "10.1.0.2"
PUBLISHER_GATEWAY = "10.1.0.1"
CORE = "core"
AIR_RATE_DEVICE = "air"
"""Device that all frames on a broadcast segment go through, at its one rate."""


@dataclass(frozen=True)
class Receiver:
    """The `number`-th receiver, from 1, at its edge switch, from 1, or on the publisher's segment, 0; the `place`-th
    there, from 1."""

    number: int
    edge: int
    place: int

    @property
    def name(self) -> str:
        return f"r{self.number}"

    @property
    def address(self) -> str:
        return f"10.2.{self.edge}.{self.place + 1}"

    @property
    def gateway(self) -> str:
        return gateway_of(self.edge)

    @property
    def mac(self) -> str:
        return f"02:00:00:02:{self.number >> 8:02x}:{self.number & 255:02x}"


@dataclass(frozen=True)
class Below:
    """Contents of a port: a switch, receivers (several on a broadcast segment, and one that only visits), or the
    switch's cache, with an edge server beside it or without."""

    switch: Switch | None = None
    receivers: tuple[Receiver, ...] = ()
    visitor: bool = False
    cache: bool = False
    server: bool = False


@dataclass(frozen=True)
class Switch:
    """One P4 switch. `below` is by port, from 1 on."""

    name: str
    number: int
    below: dict[int, Below]
    edge: int = 0

    def mac(self, port: int) -> str:
        return f"02:00:00:01:{self.number:02x}:{port:02x}"

    @property
    def cache_port(self) -> int | None:
        """The port with its cache, if there is one."""
        return next((port for port, below in self.below.items() if below.cache), None)

    @property
    def server_port(self) -> int | None:
        """The port with its edge server, if there is one."""
        return next((port for port, below in self.below.items() if below.server), None)

    def all_below(self) -> list[tuple[int, Receiver]]:
        """Every receiver that lives below, with the port that leads there."""
        found = []
        for port, below in self.below.items():
            if below.switch is not None:
                found += [(port, receiver) for _, receiver in below.switch.all_below()]
            elif not below.visitor:
                found += [(port, receiver) for receiver in below.receivers]
        return found


@dataclass(frozen=True)
class Tree:
    """All of it. `switches` from the publisher's on, none if it is on the receivers' segment; `edges` by number;
    `visits` by receiver: the edges that it is at in the course of the run, its own first."""

    switches: tuple[Switch, ...]
    edges: dict[int, Switch]
    receivers: tuple[Receiver, ...]
    broadcast: bool
    visits: dict[int, tuple[int, ...]]

    @property
    def segments(self) -> dict[str, tuple[str, str]]:
        """The node of each broadcast segment, with the node and the device through which the file comes to it."""
        if not self.broadcast:
            return {}
        if not self.switches:
            return {air_of(0): (PUBLISHER, "eth0")}
        return {air_of(edge): (switch.name, "p1") for edge, switch in self.edges.items()}

    @property
    def core(self) -> Switch:
        return self.switches[0]

    @property
    def top(self) -> Switch:
        """The switch behind the bottleneck."""
        below = self.core.below[1].switch
        assert below is not None  # made so below
        return below

    def port_of(self, edge: int, receiver: Receiver) -> int:
        """The port of an edge switch where a receiver is, or where it will come to."""
        return next(port for port, below in self.edges[edge].below.items() if receiver in below.receivers)

    def address_at(self, edge: int, receiver: Receiver) -> str:
        """A receiver's address at an edge switch: its own at home, else one of the network there."""
        if edge == receiver.edge:
            return receiver.address
        return visitor_address(edge, self.port_of(edge, receiver))


def ports_needed(
    receivers: int, edges: int, broadcast: bool, visits: Mapping[int, tuple[int, ...]], cached: bool = False
) -> int:
    """The most ports that an edge switch has, the one upwards counted, and one to its cache."""
    if not edges:
        return 0
    if broadcast:
        return 2 + cached
    return (
        1
        + cached
        + max(
            -(-(receivers - edge + 1) // edges) + sum(edge in places[1:] for places in visits.values())
            for edge in range(1, edges + 1)
        )
    )


def visits_of(moves: list[dict[str, Any]], edges: int) -> dict[int, tuple[int, ...]]:
    """The edges of each receiver that moves, its own first."""
    found: dict[int, list[int]] = {}
    for move in moves:
        places = found.setdefault(move["receiver"], [home_of(move["receiver"], edges)])
        if move["to_edge"] not in places:
            places.append(move["to_edge"])
    return {number: tuple(places) for number, places in found.items()}


def gateway_of(edge: int) -> str:
    """The address of an edge switch in its network."""
    return f"10.2.{edge}.1"


def visitor_address(edge: int, port: int) -> str:
    """Address in an edge switch's network for a visitor of this port. Residents are below 100."""
    return f"10.2.{edge}.{100 + port}"


def server_address(edge: int) -> str:
    """The address of an edge switch's edge server, in a network of its own."""
    return f"10.3.{edge}.2"


def server_gateway(edge: int) -> str:
    """The edge switch's address there."""
    return f"10.3.{edge}.1"


def server_mac(edge: int) -> str:
    return f"02:00:00:04:00:{edge:02x}"


def home_of(receiver: int, edges: int) -> int:
    return (receiver - 1) % edges + 1 if edges else 0


def air_of(edge: int) -> str:
    """The node with the broadcast segment of an edge switch; of the publisher, 0."""
    return f"air{edge}"


def cache_of(edge: int) -> str:
    """The node with the cache of an edge switch; of the hub, 0."""
    return f"cache{edge}"


def tree_of(spec: Mapping[str, Any]) -> Tree:
    """The tree of a checked spec."""
    edges, count = spec["tree"]["edges"], spec["transfer"]["receivers"]
    broadcast = spec["last_hop"]["medium"] == "broadcast"
    visits = visits_of(spec["moves"], edges)
    receivers = tuple(
        Receiver(number, home_of(number, edges), (number - 1) // max(edges, 1) + 1) for number in range(1, count + 1)
    )
    if not edges:
        return Tree((), {}, receivers, broadcast, {})
    first = 3 if edges > 1 else 2  # numbers of the edge switches; 1 is the core, 2 the hub if there is one
    leaves = {}
    cached = spec["carrying"]["cache_mb"] is not None
    caches = [Below(cache=True)] if cached else []
    at_edge = [Below(cache=True, server=spec["carrying"]["edge_server"])] if cached else []
    for edge in range(1, edges + 1):
        own = [receiver for receiver in receivers if receiver.edge == edge]
        groups = [Below(receivers=tuple(own))] if broadcast else [Below(receivers=(receiver,)) for receiver in own]
        guests = [Below(receivers=(r,), visitor=True) for r in receivers if edge in visits.get(r.number, ())[1:]]
        below = dict(enumerate([*groups, *guests, *at_edge], start=1))
        leaves[edge] = Switch(f"edge{edge}", first + edge - 1, below, edge)
    top = leaves[1]
    if edges > 1:
        # Edges drift apart: what one has asked for long ago is not to cross the bottleneck again for another.
        top = Switch("hub", 2, dict(enumerate([*(Below(switch=leaf) for leaf in leaves.values()), *caches], start=1)))
    core = Switch(CORE, 1, {1: Below(switch=top)})
    between = [top] if edges > 1 else []
    return Tree((core, *between, *leaves.values()), leaves, receivers, broadcast, visits)
