# SPDX-License-Identifier: Apache-2.0
"""The sections of a scenario on the topology `access`: a client with several paths to one server.

What the paths, the server, the client and the timed changes may say. `weirlab.scenario` reads files with these,
`weirlab.schedule` turns a checked spec into what happens when.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weirlab.schedule import CHANGED
from weirlab.sections import (
    Fraction,
    Name,
    NotNegative,
    Percent,
    QueuePackets,
    RateMbit,
    Seconds,
    SecondsFrom0,
    Section,
    Seed,
    SeedCount,
    Whole,
)

# An interface's name: Linux takes 15 bytes; `up`, `lo` and the like would be read by `ip` as words of its own.
RESERVED_NAMES = ("lo", "up", "down", "dev", "via", "default", "auto", "all")
InterfaceName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=15)]
WindowBytes = Annotated[int, Field(ge=1024, le=1 << 40)]


class AccessHead(Section):
    """`[scenario]`. A run ends when the client has done all its tasks; `duration_s` is what it may take at most."""

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    topology: Literal["access"]
    duration_s: Seconds
    seeds: SeedCount | list[Seed] = 3


class Path(Section):
    """One access network. `rtt_ms` is the round trip's propagation, half of it each way.

    With `draw = "round"` each round has a delay of its own: normal with `rtt_sd_ms`, cut off at `rtt_min_ms` and as far
    above the mean, which so stays the mean. With `draw = "packet"` netem draws for each packet and each way, so that
    the round trip has that deviation; packets then overtake each other. `loss_percent` is on the data's way, server to
    client; `loss_up_percent` on the other. `rate_mbit_s` and the drop-tail queue are each way's own.
    """

    name: InterfaceName
    rate_mbit_s: RateMbit
    rtt_ms: NotNegative
    rtt_sd_ms: NotNegative = 0.0
    rtt_min_ms: NotNegative = 0.0
    draw: Literal["round", "packet"] = "round"
    loss_percent: Percent = 0.0
    loss_up_percent: Percent = 0.0
    queue_limit_packets: QueuePackets = 1000

    @model_validator(mode="after")
    def _consistent(self):
        if self.name in RESERVED_NAMES:
            raise ValueError(f"name: {self.name!r} means something else to ip; write another, as wan1")
        if self.rtt_sd_ms and self.rtt_min_ms >= self.rtt_ms:
            raise ValueError(
                f"rtt_min_ms: {self.rtt_min_ms:g} is not below rtt_ms {self.rtt_ms:g}; write a smaller rtt_min_ms"
            )
        return self


class Server(Section):
    """`[server]`: weir-server's sending side."""

    cc: Literal["reno", "cubic", "bbr2_gcongestion"] = "cubic"
    initial_window_packets: Annotated[int, Field(ge=1, le=10_000)] = 10


class Client(Section):
    """`[client]`, and what a variant may override: one connection of weir-client and its tasks.

    Task n of `requests`, a download of `bytes`, starts no sooner than n times `interval_ms` after the run's start;
    rounds are counted in these intervals. At most `parallel` tasks run at once. The rest are weir-client's options.
    """

    requests: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    interval_ms: NotNegative = 0.0
    bytes: Annotated[int, Field(ge=1, le=10**12)]
    parallel: Annotated[int, Field(ge=1, le=10_000)] = 1
    strategy: Literal["weir", "ops", "pps", "epsilon-greedy", "polling", "best-single", "oracle"] = "weir"
    model: Literal["lognormal", "gaussian"] = "lognormal"
    memory_tasks: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    weight_a: Fraction = 0.8
    epsilon: Fraction = 0.05
    explore_c: Literal["adaptive"] | NotNegative = "adaptive"
    standby: Literal["validated", "cold"] = "validated"
    window: Literal["double", "static", "fast", "weir"] = "double"
    stream_window_bytes: WindowBytes = 1 << 20
    max_stream_window_bytes: WindowBytes = 16 << 20
    conn_window_bytes: WindowBytes = 1536 << 10
    max_conn_window_bytes: WindowBytes = 24 << 20
    memory_budget_bytes: Annotated[int, Field(ge=16 << 10, le=1 << 40)] = 64 << 20

    @model_validator(mode="after")
    def _consistent(self):
        if not self.interval_ms.is_integer():
            raise ValueError(f"interval_ms: {self.interval_ms:g} won't do; write whole milliseconds")
        for key in ("stream_window_bytes", "conn_window_bytes"):
            if (least := getattr(self, key)) > (most := getattr(self, f"max_{key}")):
                raise ValueError(f"{key}: {least} is above max_{key} = {most}; write less, or a larger max_{key}")
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
    def _consistent(self):
        if (self.round is None) == (self.at_s is None):
            raise ValueError("needs either round or at_s; write one, as round = 100")
        if self.for_rounds is not None and self.for_s is not None:
            raise ValueError("has both for_rounds and for_s; write one of them, or none for good")
        if all(getattr(self, key) is None for key in CHANGED):
            raise ValueError(f"changes nothing; write at least one of {', '.join(CHANGED)}")
        return self
