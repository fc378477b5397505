# SPDX-License-Identifier: Apache-2.0
"""Timeline of the paths of an `access` scenario: pure, from the spec and the seed alone.

The same seed draws the same delays whatever the variant (common random numbers): a round's delay depends on the seed,
the path's name and the round, so that strategies are compared on the same network.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

STANDARD = NormalDist()
CHANGED = ("rate_mbit_s", "rtt_ms", "rtt_sd_ms", "loss_percent", "loss_up_percent", "link")
BEFORE_ROUND_US = 1000  # a round's network is there this long before the round


@dataclass(frozen=True)
class State:
    """A path at one moment. `rtt_ms` is the drawn one, `mean_ms` the mean it was drawn around, and `jitter_ms` the
    standard deviation that netem is to draw with, packet by packet."""

    rate_mbit_s: float
    rtt_ms: float
    mean_ms: float
    jitter_ms: float
    loss_percent: float
    loss_up_percent: float
    link: str
    queue_limit_packets: int


@dataclass(frozen=True)
class Step:
    """From `at_us` after round 0's start on (below 0: before it), in round `round`, these paths are as given."""

    at_us: int
    round: int
    paths: dict[str, State]


def drawn(mean: float, sd: float, least: float, chance: float, tail: str | None = None) -> float:
    """The value below which a share `chance` of a distribution lies: of a normal one that is cut off at `least` and as
    far above the mean, so that the mean stays; with `tail = "lognormal"` of a lognormal one above `least`."""
    if sd == 0 or mean <= least:
        return mean
    if tail == "lognormal":
        variance = math.log1p((sd / (mean - least)) ** 2)
        return least + (mean - least) * math.exp(math.sqrt(variance) * STANDARD.inv_cdf(chance) - variance / 2)
    below = STANDARD.cdf((least - mean) / sd)
    value = mean + sd * STANDARD.inv_cdf(below + chance * (1 - 2 * below))
    # Eight deviations out, the two functions no longer undo each other.
    return min(max(value, least), 2 * mean - least)


def sizes_of(client: dict[str, Any]) -> list[int]:
    """Sizes of the client's tasks, in turn, in bytes."""
    return client.get("sizes_bytes") or [client["bytes"]]


def chances(seed: int, path: str, rounds: int) -> list[float]:
    """A number between 0 and 1, neither of them, for each round of a path."""
    source = random.Random(f"{seed} {path}")
    return [(source.getrandbits(52) + 0.5) / (1 << 52) for _ in range(rounds)]


class Schedule:
    """`steps`: the states of all paths at the start, then of each that changes."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.paths: list[dict[str, Any]] = spec["paths"]
        self.changes: list[dict[str, Any]] = spec["changes"]
        self.interval_us = round(spec["client"]["interval_ms"] * 1000)
        self.rounds = spec["client"]["requests"]
        self.sizes = sizes_of(spec["client"])
        # The size by which paths are compared where tasks are paced; of several sizes the mean.
        self.size_bytes = round(sum(self.sizes) / len(self.sizes)) if self.interval_us else 0
        self.chances = {path["name"]: chances(spec["seed"], path["name"], self.rounds) for path in self.paths}
        self.spans = [self.span(change) for change in self.changes]
        self.steps = list(self.all_steps())

    def round_us(self, number: int) -> int:
        """When the network of a round is there; round 0's from the beginning."""
        return number * self.interval_us - BEFORE_ROUND_US

    def span(self, change: dict[str, Any]) -> tuple[int, int | None]:
        """First moment of a change, and the first after it."""
        start_us = self.round_us(change["round"]) if "round" in change else round(change["at_s"] * 1e6)
        if "for_rounds" in change:
            return start_us, start_us + change["for_rounds"] * self.interval_us
        return start_us, start_us + round(change["for_s"] * 1e6) if "for_s" in change else None

    def round_at(self, at_us: int) -> int:
        if not self.interval_us:
            return 0
        return max(0, min((at_us + BEFORE_ROUND_US) // self.interval_us, self.rounds - 1))

    def state(self, path: dict[str, Any], at_us: int) -> State:
        values = {**path, "link": "up"}
        for change, (start_us, end_us) in zip(self.changes, self.spans, strict=True):
            if change["path"] == path["name"] and start_us <= at_us and (end_us is None or at_us < end_us):
                values.update({key: change[key] for key in CHANGED if key in change})
        mean_ms, by_round = values["rtt_ms"], path["draw"] == "round"
        chance = self.chances[path["name"]][self.round_at(at_us)]
        rtt_ms = mean_ms
        if by_round:
            rtt_ms = drawn(mean_ms, values["rtt_sd_ms"], values["rtt_min_ms"], chance, path.get("tail"))
        return State(
            rtt_ms=rtt_ms,
            mean_ms=mean_ms,
            jitter_ms=0.0 if by_round else values["rtt_sd_ms"],
            **{key: values[key] for key in ("rate_mbit_s", "loss_percent", "loss_up_percent", "link")},
            queue_limit_packets=path["queue_limit_packets"],
        )

    def all_steps(self) -> Iterable[Step]:
        begin_us = self.round_us(0)
        moments = {begin_us}
        for span in self.spans:
            moments.update(at_us for at_us in span if at_us is not None and at_us > begin_us)
        if self.interval_us:
            moments.update(self.round_us(number) for number in range(self.rounds))
        before: dict[str, State] = {}
        for at_us in sorted(moments):
            now = {path["name"]: self.state(path, at_us) for path in self.paths}
            changed = {name: state for name, state in now.items() if before.get(name) != state}
            if changed:
                yield Step(at_us, self.round_at(at_us), changed)
            before = now

    def truth(self) -> list[dict[str, Any]]:
        """The lines of `truth.jsonl`: the state of each path in each round where that is new, each start and end of a
        change, and the best path (`best`) where it is another."""
        lines: list[tuple[int, int, dict[str, Any]]] = []
        now: dict[str, State] = {}
        favourite = ""
        for step in self.steps:
            now.update(step.paths)
            for name, state in step.paths.items():
                told = {"rtt_ms": round(state.rtt_ms, 6), "mean_ms": state.mean_ms}
                lines.append((step.at_us, 1, {"k": "truth", "round": step.round, "path": name, **told}))
            if best(now, self.size_bytes) != favourite:
                favourite = best(now, self.size_bytes)
                lines.append((step.at_us, 2, {"k": "best", "round": step.round, "path": favourite}))
        for change, (start_us, end_us) in zip(self.changes, self.spans, strict=True):
            what = ", ".join(f"{key} = {change[key]}" for key in CHANGED if key in change)
            for at_us, word in ((start_us, what), (end_us, f"as before: {what} is over")):
                if at_us is not None:
                    line = {"k": "change", "round": self.round_at(at_us), "path": change["path"]}
                    lines.append((at_us, 0, {**line, "at_s": at_us / 1e6, "what": word}))
        return [line for _, _, line in sorted(lines, key=lambda each: each[:2])]

    def plan(self) -> list[dict[str, Any]]:
        """For the oracle: from task `task` on, `path` is the best. A path that gets better within a round is taken from
        the next on; without an interval there is no telling when a task starts, and the first best path stays."""
        now: dict[str, State] = {}
        plan: dict[int, str] = {}
        if len(self.sizes) > 1 and self.interval_us:
            return self.plan_of_sizes()
        for step in self.steps:
            now.update(step.paths)
            if plan and not self.interval_us:
                break
            plan[max(0, -(-step.at_us // self.interval_us)) if self.interval_us else 0] = best(now, self.size_bytes)
        names = list(plan.values())
        changes = [True, *(name != before for before, name in itertools.pairwise(names))]
        return [{"task": task, "path": plan[task]} for task, new in zip(plan, changes, strict=True) if new]

    def plan_of_sizes(self) -> list[dict[str, Any]]:
        """The oracle's path for each task, by the task's size."""
        now: dict[str, State] = {}
        steps = iter(self.steps)
        step = next(steps, None)
        plan = []
        for task in range(self.rounds):
            while step is not None and step.at_us <= task * self.interval_us:
                now.update(step.paths)
                step = next(steps, None)
            plan.append({"task": task, "path": best(now, self.sizes[task % len(self.sizes)])})
        return plan


def best(paths: dict[str, State], size_bytes: int = 0) -> str:
    """The path that is up, of the least mean RTT with the time of so many bytes at its rate; of these the one that
    loses least, of these the fastest."""
    return min(
        paths,
        key=lambda name: (
            paths[name].link != "up",
            paths[name].mean_ms + size_bytes * 8e-3 / paths[name].rate_mbit_s,
            paths[name].loss_percent + paths[name].loss_up_percent,
            -paths[name].rate_mbit_s,
        ),
    )
