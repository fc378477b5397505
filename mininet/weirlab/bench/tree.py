# SPDX-License-Identifier: Apache-2.0
"""Load of each element of a tree of switches when one file goes to many, by name and as a download for each: a
simulation without packets, from the cost of each packet. Pure; `./run bench scale` gives it the costs that it measured.

The publisher is above one switch. Each switch has up to `fan_out` below it, those of the last level have receivers.
Receivers are filled in from one side, so that the first switches are the fullest. A cache or an edge server stands
beside each switch of the last level, if at all. Every receiver takes the file at the same rate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

SEGMENT_BYTES = 1440
"""Of content, in a packet by name (docs/design/icn.md)."""
SEGMENTS_A_HASHES = 39
"""Segments of content that one segment of hashes comes with, about: 188 for the 7,282 of a file of 10 MiB."""
MOST_FAN_OUT = 30
"""Names are forwarded on 32 ports of a switch: one leads up, and one to a cache."""


class TreeError(ValueError):
    """A tree that can't be: its fault, and the right form."""


@dataclass(frozen=True)
class Costs:
    """Processor time in us. The switch's costs are without its reading and sending of frames, which is `switch_io_us`
    for a frame that comes and goes, half of it for one of the two."""

    publisher_data_us: float
    """To answer an Interest with Data."""
    publisher_member_us: float
    """To take a receiver in: handshake, manifest, key."""
    publisher_behind_edge_us: float
    """The same for a receiver that comes by an edge server."""
    edge_member_us: float
    cache_miss_us: float
    """An Interest, passed on, and the Data kept."""
    cache_hit_us: float
    receiver_data_us: float
    """An Interest sent and its Data checked and written."""
    switch_interest_us: float
    switch_merged_us: float
    switch_data_us: float
    """Data to one port."""
    switch_copy_us: float
    """To each further port."""
    switch_ip_us: float
    """An IP packet routed."""
    switch_io_us: float
    sender_packet_us: float
    """Of a QUIC server, for a packet sent, with the acknowledgements that come for it."""
    client_packet_us: float
    """Of a QUIC client, for a packet received."""
    quic_payload_bytes: float
    """Content in a packet of QUIC."""
    quic_acks: float
    """Packets that a QUIC client sends, for each that it receives."""


@dataclass(frozen=True)
class Tree:
    """`late`: part of what is below a switch, but for the first, whose Interests come too late to be merged with those
    of the first, 0 to 1; the Data has passed then in the switches above too.
    `rate_mbit_s`, `file_bytes`: of content, at each receiver."""

    receivers: int
    fan_out: int = 10
    depth: int = 3
    rate_mbit_s: float = 10.0
    file_bytes: float = 100e6
    late: float = 0.0
    caches: bool = False
    edges: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.fan_out <= MOST_FAN_OUT:
            raise TreeError(f"fan_out {self.fan_out}: must be 1 to {MOST_FAN_OUT}, as names have 32 ports of a switch")
        if not 1 <= self.depth <= 10:
            raise TreeError(f"depth {self.depth}: must be 1 to 10 levels of switches")
        if not 1 <= self.receivers <= self.fan_out**self.depth:
            raise TreeError(
                f"receivers {self.receivers}: must be 1 to {self.fan_out**self.depth}, what {self.depth} levels of "
                f"fan-out {self.fan_out} have room for"
            )
        if not 0 <= self.late <= 1:
            raise TreeError(f"late {self.late}: must be 0 to 1, a part of the Interests")
        if self.rate_mbit_s <= 0 or self.file_bytes <= 0:
            raise TreeError("rate_mbit_s and file_bytes must be above 0")


@dataclass
class Element:
    """Load of one element in a second."""

    received: float = 0.0
    sent: float = 0.0
    busy_us: float = 0.0

    def does(self, times: float, cost_us: float, received: float = 0.0, sent: float = 0.0) -> None:
        """Something so many times a second, with so many packets each time."""
        self.received += times * received
        self.sent += times * sent
        self.busy_us += times * cost_us


@dataclass(frozen=True)
class Level:
    """Equal elements. Packets in a second: `received` and `sent` of all, `busiest_packets` in and out of one."""

    name: str
    elements: int
    received: float
    sent: float
    busiest_packets: float
    busiest_core_share: float
    """Of one core, of the element that has most to do: above 1 it can't be done."""


@dataclass
class _Load:
    publisher: Element = field(default_factory=Element)
    switches: list[list[Element]] = field(default_factory=list)
    caches: list[Element] = field(default_factory=list)
    edges: list[Element] = field(default_factory=list)
    receivers: list[Element] = field(default_factory=list)

    def levels(self) -> list[Level]:
        rows = [("publisher", [self.publisher])]
        rows += [(f"switch, level {at + 1}", level) for at, level in enumerate(self.switches)]
        rows += [("cache", self.caches), ("edge server", self.edges), ("receiver", self.receivers)]
        return [
            Level(
                name,
                len(elements),
                sum(one.received for one in elements),
                sum(one.sent for one in elements),
                max(one.received + one.sent for one in elements),
                max(one.busy_us for one in elements) / 1e6,
            )
            for name, elements in rows
            if elements
        ]


def by_name(tree: Tree, costs: Costs) -> list[Level]:
    """Each element's load when the file goes by name."""
    load = _Load(switches=[[] for _ in range(tree.depth)])
    segments_s = tree.rate_mbit_s * 1e6 / 8 / SEGMENT_BYTES * (1 + 1 / SEGMENTS_A_HASHES)
    asked_s = _names_below(tree, costs, load, 0, tree.receivers, segments_s)
    load.publisher.does(asked_s, costs.publisher_data_us, received=1, sent=1)
    joins_s = tree.rate_mbit_s * 1e6 / 8 / tree.file_bytes * tree.receivers
    load.publisher.does(joins_s, costs.publisher_behind_edge_us if tree.edges else costs.publisher_member_us)
    return load.levels()


def _shares(tree: Tree, level: int, receivers: int) -> list[int]:
    """Receivers below each of a switch's children, or 1 for each child that is one."""
    room = tree.fan_out ** (tree.depth - level - 1)
    return [min(room, receivers - start) for start in range(0, receivers, room)]


def _names_below(tree: Tree, costs: Costs, load: _Load, level: int, receivers: int, segments_s: float) -> float:
    """Adds a switch with all below it; Interests a second that it sends up."""
    switch = Element()
    load.switches[level].append(switch)
    last = level == tree.depth - 1
    shares = _shares(tree, level, receivers)
    half_us = costs.switch_io_us / 2
    if last:
        for _ in shares:
            receiver = Element()
            receiver.does(segments_s, costs.receiver_data_us, received=1, sent=1)
            load.receivers.append(receiver)
        asked_s = segments_s * len(shares)
    else:
        asked_s = sum(_names_below(tree, costs, load, level + 1, share, segments_s) for share in shares)
    # Of each segment the first Interest goes on, and those that are late: here, or already at a switch below.
    merged_s = (1 - tree.late) * segments_s * (len(shares) - 1)
    late_s = asked_s - segments_s - merged_s
    switch.does(segments_s + late_s, costs.switch_interest_us + costs.switch_io_us, received=1, sent=1)
    switch.does(merged_s, costs.switch_merged_us + half_us, received=1)
    up_s = segments_s + late_s
    if last and tree.caches:
        cache = Element()
        load.caches.append(cache)
        cache.does(segments_s, costs.cache_miss_us, received=2, sent=1)
        cache.does(late_s, costs.cache_hit_us, received=1, sent=1)
        # On a miss the cache asks through this switch, and Data is copied to it as well.
        switch.does(segments_s, costs.switch_interest_us + costs.switch_io_us, received=1, sent=1)
        switch.does(segments_s, costs.switch_copy_us + half_us, sent=1)
        up_s = segments_s
    # Data comes once for each Interest that went on, and leaves once for each that came.
    switch.does(segments_s + late_s, costs.switch_data_us + costs.switch_io_us, received=1, sent=1)
    switch.does(merged_s, costs.switch_copy_us + half_us, sent=1)
    if last and tree.edges:
        edge = Element()
        load.edges.append(edge)
        edge.does(tree.rate_mbit_s * 1e6 / 8 / tree.file_bytes * receivers, costs.edge_member_us)
    return up_s


def unicast(tree: Tree, costs: Costs) -> list[Level]:
    """Each element's load when every receiver has a QUIC download of its own, by the same switches."""
    load = _Load(switches=[[] for _ in range(tree.depth)])
    packets_s = tree.rate_mbit_s * 1e6 / 8 / costs.quic_payload_bytes
    _routed_below(tree, costs, load, 0, tree.receivers, packets_s)
    load.publisher.does(tree.receivers * packets_s, costs.sender_packet_us, received=costs.quic_acks, sent=1)
    return load.levels()


def _routed_below(tree: Tree, costs: Costs, load: _Load, level: int, receivers: int, packets_s: float) -> None:
    switch = Element()
    load.switches[level].append(switch)
    each_us = costs.switch_ip_us + costs.switch_io_us
    switch.does(receivers * packets_s * (1 + costs.quic_acks), each_us, received=1, sent=1)
    for share in _shares(tree, level, receivers):
        if level < tree.depth - 1:
            _routed_below(tree, costs, load, level + 1, share, packets_s)
        else:
            receiver = Element()
            receiver.does(packets_s, costs.client_packet_us, received=1, sent=costs.quic_acks)
            load.receivers.append(receiver)


def first_full(levels: list[Level], rate_mbit_s: float) -> tuple[str, float]:
    """Level that is full first when the rate grows, one core for each element, and the rate at each receiver then."""
    fullest = max(levels, key=lambda level: level.busiest_core_share)
    return fullest.name, rate_mbit_s / fullest.busiest_core_share


def table(trees: list[Tree], costs: Costs) -> list[dict]:
    """For each tree and each way: the levels, and the level that is full first."""
    rows = []
    for tree in trees:
        ways = (
            ("names", by_name, replace(tree, caches=False, edges=False)),
            ("names, caches and edge servers", by_name, replace(tree, caches=True, edges=True)),
            ("unicast", unicast, tree),
        )
        for way, simulate, of in ways:
            levels = simulate(of, costs)
            name, rate_mbit_s = first_full(levels, tree.rate_mbit_s)
            rows.append({
                "receivers": tree.receivers, "way": way, "full_first": name, "full_at_mbit_s": rate_mbit_s,
                "levels": [asdict(level) for level in levels],
            })  # fmt: skip
    return rows


def show(tree: Tree, rows: list[dict]) -> None:
    print(
        f"a tree: fan-out {tree.fan_out}, {tree.depth} levels of switches, {tree.rate_mbit_s:g} Mbit/s at each "
        f"receiver, {tree.file_bytes / 1e6:g} MB, {tree.late:.0%} of Interests late"
    )
    print(f"{'receivers':>9}  {'way':30}  {'element':17}  {'elements':>8}  {'packets/s':>10}  {'of a core':>9}")
    for row in rows:
        for level in row["levels"]:
            print(f"{row['receivers']:9}  {row['way']:30}  {level['name']:17}  {level['elements']:8}  "
                  f"{level['busiest_packets']:10,.0f}  {level['busiest_core_share']:9.2%}")  # fmt: skip
        print(f"{'':9}  {row['way']:30}  first full: {row['full_first']}, at {row['full_at_mbit_s']:.1f} Mbit/s")
