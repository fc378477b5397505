# SPDX-License-Identifier: Apache-2.0
"""The sections of a scenario file with one publisher, edge switches and receivers.

Tree, bottleneck, last hop, transfer and moves; variants are ways to bring the same file to all receivers.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from weirlab.scenario.checker import Checker
from weirlab.scenario.congestion import QuicControl
from weirlab.scenario.schema import Schema
from weirlab.scenario.sections import (
    Count,
    Head,
    NotNegative,
    Percent,
    QueuePackets,
    RateMbit,
    SecondsFrom0,
    Section,
)
from weirlab.topologies.edge.metrics import METRICS
from weirlab.topologies.edge.name import NAME
from weirlab.topologies.edge.tree import NAME_PORTS, ports_needed, visits_of

MOST_RECEIVERS = 250


class TreeSection(Section):
    """`[tree]`: edge switches. With more than one there is a hub between them and the bottleneck. With 0 there is no
    switch and no bottleneck: the publisher is on the receivers' broadcast segment."""

    edges: Annotated[int, Field(ge=0, le=16)] = 1


class Bottleneck(Section):
    """`[bottleneck]`: the way from the publisher to the edge, `delay_ms` each way; the queue is under the law of
    `[aqm]`. None with `edges = 0`."""

    rate_mbit_s: RateMbit
    delay_ms: NotNegative
    queue_limit_packets: QueuePackets = 1000


class LastHop(Section):
    """`[last_hop]`: from an edge switch to a receiver. `links`: one each, `rate_mbit_s` each way (none: no limit).
    `broadcast`: one segment for all at an edge switch, `rate_mbit_s` shared by both directions. Losses are drawn for
    each receiver by itself: `loss_percent` of what comes to it, `loss_up_percent` of what it sends. A publisher on the
    segment loses `loss_percent` of what comes to it, too."""

    medium: Literal["links", "broadcast"] = "links"
    rate_mbit_s: RateMbit | None = None
    delay_ms: NotNegative = 0.0
    loss_percent: Percent = 0.0
    loss_up_percent: Percent = 0.0
    queue_limit_packets: QueuePackets = 1000


class Aqm(Section):
    """`[aqm]`: the law on every queue that has a rate."""

    profile: str = "tuned"
    target_us: Annotated[int, Field(ge=1, le=10**7)] | None = None


class Transfer(Section):
    """`[transfer]`: the file, and how many want it at once."""

    receivers: Annotated[int, Field(ge=1, le=MOST_RECEIVERS)] = 1
    bytes: Annotated[int, Field(ge=1, le=10**11)]


class Move(Section):
    """`[[moves]]`: at `at_s` from the start the receiver leaves its edge switch and is at `to_edge`. `address_after_s`
    later it has an address of the network there."""

    receiver: Count
    at_s: SecondsFrom0
    to_edge: Count
    address_after_s: SecondsFrom0 = 0.1


class Leave(Section):
    """`[[leaves]]`: at `at_s` from the start the receiver wants the file no longer."""

    receiver: Count
    at_s: SecondsFrom0


class Carrying(Section):
    """A variant: how the file comes to the receivers.

    `names`: an object that the publisher offers, fetched by Interests (weir-icn publish and get). `unicast`: a QUIC
    download each (weir-server and weir-client over UDP and IP). `unicast-names`: the same two programs, their datagrams
    carried by name (weir-icn server and client). `beta`, `gaps`: of what asks again; "default" is the program's own.
    `cache_mb`: each edge switch, and the hub, has a cache with so much memory (weir-icn cache). `edge_server`: beside
    the cache of each edge switch is an edge server (weir-icn edge), which its receivers ask before the publisher;
    "local": nobody at another edge switch can reach it. `repair`: of `names`, the publisher offers repair symbols
    (weir-icn publish --repair). `reliable`: of `unicast-names`. `cc`: of the QUIC server. `most_total_bytes`: settings
    in which all receivers together want more than this are left out.
    """

    carry: Literal["names", "unicast", "unicast-names"]
    beta: Annotated[float, Field(ge=1, le=100)] | Literal["default"] = "default"
    gaps: bool = True
    cache_mb: Annotated[int, Field(ge=1, le=100_000)] | None = None
    edge_server: bool | Literal["local"] = False
    repair: bool = False
    reliable: bool = False
    cc: QuicControl = "cubic"
    most_total_bytes: Count | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = self.model_fields_set
        not_for = {
            "names": ("reliable", "cc"),
            "unicast": ("beta", "gaps", "cache_mb", "edge_server", "repair", "reliable"),
            "unicast-names": ("cache_mb", "edge_server", "repair"),
        }[self.carry]
        for key in not_for:
            if key in given:
                raise ValueError(f'{key}: carry = "{self.carry}" has none; remove it')
        if self.edge_server and self.cache_mb is None:
            raise ValueError(
                "edge_server: it stands on the host of the cache; write cache_mb, as cache_mb = 64, or remove it"
            )
        return self


class EdgeSchema(Schema):
    """The sections of `edge`."""

    name = NAME
    head = Head
    sections = ("tree", "bottleneck", "last_hop", "aqm", "transfer", "moves", "leaves")
    figures = METRICS
    variant_example = ("names", 'carry = "names"')
    sweep_example = "transfer.receivers"

    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        common = self.common(checker, raw)

        def carrying(options: dict[str, Any], path: str) -> dict[str, Any] | None:
            found = checker.section(Carrying, options, path)
            if found is None or not common:
                return None
            wanted = common["transfer"]["receivers"] * common["transfer"]["bytes"]
            if found.most_total_bytes is not None and wanted > found.most_total_bytes:
                return None
            if found.cache_mb is not None:
                self.check_cache(checker, common, f"{path}.cache_mb")
            beta = None if found.beta == "default" else found.beta
            return {**found.model_dump(exclude={"most_total_bytes"}), "beta": beta}

        variants = checker.variants(raw["variants"], self.variant_example, carrying)
        return {label: {**common, "carrying": found} for label, found in variants.items()}

    def common(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Common part of all variants; empty if it has mistakes."""
        head = checker.section(Head, raw["scenario"], "scenario")
        edges = raw["tree"].get("edges") if isinstance(raw["tree"], dict) else None
        on_air = type(edges) is int and edges == 0
        if on_air:
            self.check_no_switch(checker, raw)
        found = {
            key: checker.section(model, {} if raw[key] is None and not needed else raw[key], key)
            for key, model, needed in (
                ("tree", TreeSection, False),
                *((("bottleneck", Bottleneck, True),) if not on_air else ()),
                ("last_hop", LastHop, False),
                ("aqm", Aqm, False),
                ("transfer", Transfer, True),
            )
        }
        moves = checker.listed(Move, raw["moves"] or [], "moves")
        leaves = checker.listed(Leave, raw["leaves"] or [], "leaves")
        if head is None or any(section is None for section in found.values()):
            return {}
        spec: dict[str, Any] = {
            "scenario": head.name,
            "topology": head.topology,
            "duration_s": head.duration_s,
            "warmup_s": 0.0,
            "reference_target_ms": 15.0,
            "bottleneck": None,
            **{key: section.model_dump(exclude_none=key == "aqm") for key, section in found.items() if section},
            "moves": sorted((move.model_dump() for move in moves.values()), key=lambda move: move["at_s"]),
            "leaves": sorted((leave.model_dump() for leave in leaves.values()), key=lambda leave: leave["at_s"]),
        }
        self.check_moves(checker, moves, spec)
        self.check_leaves(checker, leaves, spec)
        self.check_ports(checker, spec)
        if on_air and spec["last_hop"]["medium"] != "broadcast":
            checker.problem(
                "tree.edges", 'without a switch all are on one segment; write medium = "broadcast" in [last_hop], or 1'
            )
        if spec["last_hop"]["medium"] == "broadcast" and spec["last_hop"]["rate_mbit_s"] is None:
            checker.problem("last_hop.rate_mbit_s", "a broadcast segment needs its rate; write it, as rate_mbit_s = 20")
        return spec

    @staticmethod
    def check_no_switch(checker: Checker, raw: Mapping[str, Any]) -> None:
        """Rejects keys of switches in a file without one."""
        why = {"bottleneck": "the segment's rate is rate_mbit_s of [last_hop]", "aqm": "no queue has the law"}
        for key, what in why.items():
            if raw[key] is not None:
                checker.problem(key, f"edges = 0 has no switch, and {what}; remove the section")

    @staticmethod
    def check_moves(checker: Checker, moves: Mapping[int, Move], spec: Mapping[str, Any]) -> None:
        edges, receivers = spec["tree"]["edges"], spec["transfer"]["receivers"]
        for i, move in moves.items():
            if move.receiver > receivers:
                checker.problem(f"moves.{i}.receiver", f"there are {receivers} receivers, from 1; write less")
            if move.to_edge > edges:
                checker.problem(f"moves.{i}.to_edge", f"there are {edges} edge switches, from 1; write less")
            if move.at_s >= spec["duration_s"]:
                checker.problem(
                    f"moves.{i}.at_s", f"not before the end, duration_s = {spec['duration_s']:g}; write less"
                )
        if moves and spec["last_hop"]["medium"] == "broadcast":
            checker.problem("moves", 'only with medium = "links"; remove them, or write that in [last_hop]')

    @staticmethod
    def check_leaves(checker: Checker, leaves: Mapping[int, Leave], spec: Mapping[str, Any]) -> None:
        receivers = spec["transfer"]["receivers"]
        for i, leave in leaves.items():
            if leave.receiver > receivers:
                checker.problem(f"leaves.{i}.receiver", f"there are {receivers} receivers, from 1; write less")
            if leave.at_s >= spec["duration_s"]:
                checker.problem(
                    f"leaves.{i}.at_s", f"not before the end, duration_s = {spec['duration_s']:g}; write less"
                )
        told = [leave.receiver for leave in leaves.values()]
        if len(told) != len(set(told)):
            checker.problem("leaves", "a receiver leaves once; remove the others")

    @staticmethod
    def check_ports(checker: Checker, spec: Mapping[str, Any]) -> None:
        edges, receivers, needed = spec["tree"]["edges"], spec["transfer"]["receivers"], ports_of(spec)
        if needed > NAME_PORTS:
            checker.problem(
                "tree.edges",
                f"{edges} for {receivers} receivers takes {needed} ports of a switch, and names have {NAME_PORTS}; "
                f"write more edge switches",
            )

    @staticmethod
    def check_cache(checker: Checker, spec: Mapping[str, Any], key: str) -> None:
        if not spec["tree"]["edges"]:
            checker.problem(key, "a cache stands beside a switch, and edges = 0 has none; remove it")
        elif ports_of(spec) <= NAME_PORTS < ports_of(spec, cached=True):
            checker.problem(
                key,
                f"a cache takes a port of each edge switch, and {spec['transfer']['receivers']} receivers leave none "
                f"of {NAME_PORTS}; remove it, or write more edge switches in [tree]",
            )


def ports_of(spec: Mapping[str, Any], cached: bool = False) -> int:
    """The most ports that an edge switch has, a cache's among them or not."""
    edges, receivers = spec["tree"]["edges"], spec["transfer"]["receivers"]
    moves = [move for move in spec["moves"] if move["receiver"] <= receivers]
    return ports_needed(receivers, edges, spec["last_hop"]["medium"] == "broadcast", visits_of(moves, edges), cached)
