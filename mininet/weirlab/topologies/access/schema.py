# SPDX-License-Identifier: Apache-2.0
"""The sections of a scenario file with a client that has several paths to one server.

Paths, server, client and timed changes; variants are settings of the client. `schedule.py` turns a checked spec into a
timeline.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from weirlab.scenario.checker import Checker
from weirlab.scenario.congestion import LEARNED, QuicControl
from weirlab.scenario.errors import nearest
from weirlab.scenario.policies import WEIGHTS, text_of_weights, without_policy
from weirlab.scenario.schema import Schema
from weirlab.scenario.sections import (
    Fraction,
    Head,
    NotNegative,
    Percent,
    QueuePackets,
    RateMbit,
    Seconds,
    SecondsFrom0,
    Section,
    Whole,
)
from weirlab.topologies.access.metrics import METRICS
from weirlab.topologies.access.name import NAME
from weirlab.topologies.access.schedule import CHANGED

# An interface's name: Linux takes 15 bytes; `up`, `lo` and the like would be read by `ip` as words of its own.
RESERVED_NAMES = ("lo", "up", "down", "dev", "via", "default", "auto", "all")
InterfaceName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=15)]
Size = Annotated[int, Field(ge=1, le=10**12)]
WindowBytes = Annotated[int, Field(ge=1024, le=1 << 40)]


class Path(Section):
    """One access network. `rtt_ms` is the round trip's propagation, half of it each way.

    With `draw = "round"` each round has a delay of its own: normal with `rtt_sd_ms`, cut off at `rtt_min_ms` and as far
    above the mean, which so stays the mean; with `tail = "lognormal"` lognormal above `rtt_min_ms`, with the same mean
    and deviation. With `draw = "packet"` netem draws for each packet and each way, so that
    the round trip has that deviation; packets then overtake each other. `loss_percent` is on the data's way, server to
    client; `loss_up_percent` on the other. `rate_mbit_s` and the drop-tail queue are each way's own.
    """

    name: InterfaceName
    rate_mbit_s: RateMbit
    rtt_ms: NotNegative
    rtt_sd_ms: NotNegative = 0.0
    rtt_min_ms: NotNegative = 0.0
    draw: Literal["round", "packet"] = "round"
    tail: Literal["lognormal"] | None = None
    loss_percent: Percent = 0.0
    loss_up_percent: Percent = 0.0
    queue_limit_packets: QueuePackets = 1000

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name in RESERVED_NAMES:
            raise ValueError(f"name: {self.name!r} is a keyword of ip; write another name, as wan1")
        if self.rtt_sd_ms and self.rtt_min_ms >= self.rtt_ms:
            raise ValueError(
                f"rtt_min_ms: {self.rtt_min_ms:g} is not below rtt_ms {self.rtt_ms:g}; write a smaller rtt_min_ms"
            )
        if self.tail is not None and (self.draw != "round" or not self.rtt_sd_ms):
            raise ValueError('tail: has no effect here; write rtt_sd_ms and draw = "round", or remove tail')
        return self


class Server(Section):
    """`[server]`: weir-server's sending side. `cc_weights` is a file beside the scenario's with the policy of a learned
    congestion control; without it the programs' own decides. The client only acknowledges: it needs no control."""

    cc: QuicControl = "cubic"
    cc_weights: Annotated[str, Field(min_length=1)] | None = None
    initial_window_packets: Annotated[int, Field(ge=1, le=10_000)] = 10

    @model_validator(mode="after")
    def _learned(self) -> Self:
        if self.cc_weights is not None and self.cc not in LEARNED:
            raise ValueError(without_policy(WEIGHTS, self.cc))
        return self


class Client(Section):
    """`[client]`, and a variant's overrides: one connection of weir-client and its tasks.

    Task n of `requests` downloads `bytes`, or each of `sizes_bytes` in turn. It starts no sooner than n times
    `interval_ms` after the run's start; rounds are counted in these intervals. At most `parallel` tasks run at once.
    The rest are weir-client's options.
    """

    requests: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    interval_ms: NotNegative = 0.0
    bytes: Size | None = None
    sizes_bytes: Annotated[list[Size], Field(min_length=2, max_length=1000)] | None = None
    parallel: Annotated[int, Field(ge=1, le=10_000)] = 1
    strategy: Literal["weir", "ops", "pps", "epsilon-greedy", "polling", "best-single", "oracle"] = "weir"
    model: Literal["lognormal", "gaussian"] = "lognormal"
    memory_tasks: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    weight_a: Fraction = 0.8
    epsilon: Fraction = 0.05
    per_byte: Literal[True] | None = None
    explore_c: Literal["adaptive"] | NotNegative = "adaptive"
    standby: Literal["validated", "cold"] = "validated"
    aggregate: Literal["never", "auto", "always"] = "never"
    window: Literal["double", "static", "fast", "weir"] = "double"
    stream_window_bytes: WindowBytes = 1 << 20
    max_stream_window_bytes: WindowBytes = 16 << 20
    conn_window_bytes: WindowBytes = 1536 << 10
    max_conn_window_bytes: WindowBytes = 24 << 20
    memory_budget_bytes: Annotated[int, Field(ge=16 << 10, le=1 << 40)] = 64 << 20

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.bytes is None) == (self.sizes_bytes is None):
            raise ValueError("needs either bytes or sizes_bytes; write one, as bytes = 5000")
        if not self.interval_ms.is_integer():
            raise ValueError(f"interval_ms: {self.interval_ms:g} is not valid; write whole milliseconds")
        for key in ("stream_window_bytes", "conn_window_bytes"):
            if (least := getattr(self, key)) > (most := getattr(self, f"max_{key}")):
                raise ValueError(f"{key}: {least} is above max_{key} = {most}; write less, or a larger max_{key}")
        if self.aggregate == "always" and self.requests > 1:
            raise ValueError('aggregate: "always" is for one request; write requests = 1')
        return self


class Change(Section):
    """`[[changes]]`: from a round or a time on, for some rounds or seconds or for good, `path` is otherwise.

    Times count from the start of round 0; a round's change is there 1 ms before it. `link = "down"` takes
    the client's interface down, `"silent"` loses every packet both ways without the interface showing it. Of two
    changes of one thing that are in force at once the later in the file counts.
    """

    path: InterfaceName
    round: Whole | None = None
    at_s: SecondsFrom0 | None = None
    for_rounds: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    for_s: Seconds | None = None
    rate_mbit_s: RateMbit | None = None
    rtt_ms: NotNegative | None = None
    rtt_sd_ms: NotNegative | None = None
    loss_percent: Percent | None = None
    loss_up_percent: Percent | None = None
    link: Literal["up", "down", "silent"] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.round is None) == (self.at_s is None):
            raise ValueError("needs either round or at_s; write one, as round = 100")
        if self.for_rounds is not None and self.for_s is not None:
            raise ValueError("has both for_rounds and for_s; write one of them, or none for good")
        if all(getattr(self, key) is None for key in CHANGED):
            raise ValueError(f"changes nothing; write at least one of {', '.join(CHANGED)}")
        return self


class AccessSchema(Schema):
    """The sections of `access`."""

    name = NAME
    head = Head
    sections = ("paths", "server", "client", "changes")
    figures = METRICS
    variant_example = ("ops", 'strategy = "ops"')
    sweep_example = "client.bytes"

    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        common = self.common(checker, raw)
        clients = checker.variants(
            raw["variants"],
            self.variant_example,
            lambda options, path: self.client(checker, raw["client"], options, path, common),
        )
        return {label: {**common, "client": client} for label, client in clients.items()}

    def common(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Common part of all variants."""
        head = checker.section(Head, raw["scenario"], "scenario")
        server = checker.section(Server, {} if raw["server"] is None else raw["server"], "server")
        paths = checker.listed(Path, raw["paths"], "paths")
        changes = checker.listed(Change, [] if raw["changes"] is None else raw["changes"], "changes")
        if raw["paths"] is None or raw["paths"] == []:
            checker.problem("paths", 'no paths; write at least one table [[paths]] with name = "wan1", for example')
        names = [path.name for path in paths.values()]
        given = raw["paths"] if isinstance(raw["paths"], list) else []
        known = [table["name"] for table in given if isinstance(table, dict) and isinstance(table.get("name"), str)]
        for i, path in paths.items():
            if names.count(path.name) > 1:
                checker.problem(f"paths.{i}.name", f"{path.name!r} is there twice; write another name")
        for i, change in changes.items():
            if change.path not in known:
                checker.problem(f"changes.{i}.path", f"no such path {change.path!r}; {nearest(change.path, known)}")
            if head is not None and change.at_s is not None and change.at_s >= head.duration_s:
                checker.problem(
                    f"changes.{i}.at_s", f"not before the end, duration_s = {head.duration_s:g}; write less"
                )
        if head is None or server is None:
            return {}
        if server.cc_weights is not None:
            server.cc_weights = text_of_weights(checker, server.cc_weights, f"server.{WEIGHTS}")
        return {
            "scenario": head.name,
            "topology": head.topology,
            "duration_s": head.duration_s,
            "warmup_s": 0.0,
            "reference_target_ms": 15.0,
            "paths": [path.model_dump(exclude_none=True) for path in paths.values()],
            "server": server.model_dump(exclude_none=True),
            "changes": [change.model_dump(exclude_none=True) for change in changes.values()],
        }

    def client(
        self, checker: Checker, base: Any, options: dict[str, Any], path: str, common: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The client's settings with a variant's over them, and whether the paths' and changes' times fit."""
        if not isinstance(base, dict):
            checker.problem("client", "missing or not a table; write a table [client] with bytes in it")
            return None
        for key in options:
            if f"client.{key}" in checker.swept:
                checker.problem(f"{path}.{key}", f"is in [sweep] too; remove it here, or client.{key} there")
        client = checker.section(Client, {**base, **options}, "client", under=dict.fromkeys(options, path))
        if client is None or not common:
            return None
        for i, change in enumerate(common["changes"]):
            if change.get("round", 0) >= client.requests:
                checker.problem(f"changes.{i}.round", f"there are {client.requests} rounds, from 0; write less")
            if not client.interval_ms and ("round" in change or "for_rounds" in change):
                checker.problem(f"changes.{i}", "rounds without time; write at_s and for_s, or interval_ms in [client]")
        for i, way in enumerate(common["paths"]):
            if way["rtt_sd_ms"] and way["draw"] == "round" and client.requests > 1 and not client.interval_ms:
                checker.problem(
                    f"paths.{i}.draw", 'rounds without time; write draw = "packet", or interval_ms in [client]'
                )
        last_s = (client.requests - 1) * client.interval_ms / 1000
        if last_s >= common["duration_s"]:
            checker.problem(
                "client.interval_ms", f"the last task starts at {last_s:g} s, not before duration_s; write less"
            )
        return client.model_dump(exclude_none=True)
