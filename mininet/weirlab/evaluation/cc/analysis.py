# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in many scenarios: who is on the front of delay and throughput, who beats whom, what is met.

Pure: rows of figures in, conclusions out. A control in a scenario is one point: its delay (less is better) and its
throughput (more is better), means over seeds. Delay is the mean RTT, of short transfers the median completion time.

- **Throughput** of two controls of one stack is what their applications received. Of two stacks it is bytes on the
  wire, since their headers differ by more than the 1 % that decides here.
- **A duel** is a pair in a scenario, seed by seed (`shared.ratios`): a win is better in one and as good in the other,
  each by its 95 % interval.
- **On the front** is a control that no other is ahead of by more than 1 %, by the means, and that loses no duel. One
  that loses a duel is not on it. Where a peer is ahead by the means and the intervals do not show it, that is not
  decided.
- **Claims** (`claims.py`) are met, missed or not shown, by the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weirlab.evaluation.plan import Controls
from weirlab.evaluation.shared.ratios import SAME, behind, figures_of, front, overall, paired_ratio, verdict
from weirlab.evaluation.shared.rows import RunRow, by_group, by_scenario
from weirlab.metrics.estimate import Estimate

THROUGHPUT, WIRE = "throughput_mbit_s", "wire_mbit_s"
RTT, RTT_P95 = "rtt_mean_ms", "rtt_p95_ms"
LOSS, JAIN, JAIN_LATER, CONVERGENCE = "loss_percent", "jain_index", "jain_after_10s_index", "convergence_s"
NEIGHBOUR, NEIGHBOUR_SHARE = "neighbour_mbit_s", "neighbour_share"
ALONE_RTT, ALONE_THROUGHPUT = "alone_rtt_mean_ms", "alone_throughput_mbit_s"
COMPLETION, COMPLETION_P95 = "completion_p50_s", "completion_p95_s"
OUTSIDE = "decisions_outside_percent"
REFERENCE = "bbr2_gcongestion"
PAPER_GROUPS = ("loss", "flows")
PAPERS_LINK = (*PAPER_GROUPS, "upload")  # the groups on it
FAIRNESS, FRIENDLINESS = "fairness", "friendliness"
NOBODY = Estimate(None, None, None, 0)


@dataclass(frozen=True)
class Standing:
    """Where a control is in a scenario: how far behind those that are no worse in either, by the means; who beats it,
    by the intervals."""

    behind: float
    beaten_by: tuple[str, ...]

    @property
    def on_front(self) -> bool | None:
        """None: not decided."""
        return False if self.beaten_by else True if self.behind <= SAME else None


@dataclass(frozen=True)
class Duel:
    """Two controls in one scenario: ratios of the one over the other, and the verdicts for the one."""

    one: str
    other: str
    delay: Estimate
    throughput: Estimate

    @property
    def delay_verdict(self) -> str | None:
        return verdict(self.delay, less_is_better=True)

    @property
    def throughput_verdict(self) -> str | None:
        return verdict(self.throughput, less_is_better=False)

    @property
    def verdict(self) -> str | None:
        return overall(self.delay_verdict, self.throughput_verdict)


@dataclass(frozen=True)
class ScenarioResult:
    """A scenario's controls: figures over seeds, duels of all pairs, and where each is. `queue` is the queue under
    test, `about` what the scenario file says."""

    name: str
    group: str
    queue: str
    delay: str
    rows: tuple[RunRow, ...]
    figures: Mapping[str, Mapping[str, Estimate]]
    duels: Mapping[tuple[str, str], Duel]
    standings: Mapping[str, Standing]
    about: Mapping[str, Any]

    @property
    def title(self) -> str:
        return self.about.get("title", self.name)

    def figure(self, control: str, metric: str) -> Estimate:
        return self.figures.get(control, {}).get(metric, NOBODY)

    def mean(self, control: str, metric: str) -> float | None:
        return self.figure(control, metric).mean

    def ratio(self, one: str, other: str, metric: str) -> Estimate:
        """One's figure over the other's of the same seed."""
        return paired_ratio(self.rows, one, other, metric)

    @cached_property
    def front(self) -> tuple[str, ...]:
        """Those that no other equals or beats in both, by the means, with bytes on the wire for throughput."""
        points = {
            control: (delay, wire)
            for control in self.figures
            if (delay := self.mean(control, self.delay)) is not None and (wire := self.mean(control, WIRE)) is not None
        }
        return front(points)


@dataclass(frozen=True)
class Bench:
    """All of it. `controls` says of each its stack and whether it is ours."""

    scenarios: tuple[ScenarioResult, ...]
    controls: Controls
    titles: Mapping[str, str]

    @property
    def groups(self) -> dict[str, list[ScenarioResult]]:
        return by_group(self.scenarios)

    @property
    def there(self) -> list[str]:
        """The controls that were run, in the suite's order."""
        ran = {control for scenario in self.scenarios for control in scenario.figures}
        return [control for control in self.controls.stacks if control in ran]

    @property
    def ours(self) -> list[str]:
        return [control for control in self.there if control in self.controls.ours]

    @property
    def beyond(self) -> list[ScenarioResult]:
        """The scenarios beyond the paper's links."""
        return [scenario for scenario in self.scenarios if scenario.group not in PAPERS_LINK]

    def throughput(self, one: str, other: str) -> str:
        """By which figure the throughput of these two is compared."""
        return throughput_of(self.controls, one, other)


def throughput_of(controls: Controls, one: str, other: str) -> str:
    return THROUGHPUT if controls.stacks[one] == controls.stacks[other] else WIRE


def analyse(
    rows: Sequence[RunRow],
    controls: Controls,
    titles: Mapping[str, str] | None = None,
    about: Mapping[str, Mapping[str, Any]] | None = None,
) -> Bench:
    """Conclusions from rows. `titles` are the groups', `about` facts of each scenario by name, both for readers.

    Scenarios keep the order of their first rows. Raises ValueError where a run is there twice.
    """
    found = by_scenario(rows)
    scenarios = tuple(_scenario(name, of, controls, (about or {}).get(name, {})) for name, of in found.items())
    return Bench(scenarios, controls, titles or {})


def _scenario(name: str, rows: Sequence[RunRow], controls: Controls, about: Mapping[str, Any]) -> ScenarioResult:
    figures = figures_of(rows)
    delay = delay_of(figures.values())
    duels = {
        (one, other): Duel(
            one,
            other,
            paired_ratio(rows, one, other, delay),
            paired_ratio(rows, one, other, throughput_of(controls, one, other)),
        )
        for one in figures
        for other in figures
        if one != other
    }
    standings = {
        control: standing
        for control in figures
        if (standing := _standing(control, figures, delay, controls, duels)) is not None
    }
    queue = controls.queues.get(name, "")
    return ScenarioResult(name, rows[0].group, queue, delay, tuple(rows), figures, duels, standings, about)


def delay_of(figures: Iterable[Mapping[str, Estimate]]) -> str:
    """Name of the delay metric: the completion time where the flows under test are short transfers."""
    return COMPLETION if any(found.get(COMPLETION, NOBODY).mean is not None for found in figures) else RTT


def _standing(
    control: str,
    figures: Mapping[str, Mapping[str, Estimate]],
    delay: str,
    controls: Controls,
    duels: Mapping[tuple[str, str], Duel],
) -> Standing | None:
    """None where the control has no point in the plane."""
    found = 0.0
    for other in figures:
        metric = THROUGHPUT if other == control else throughput_of(controls, control, other)
        points = [
            (found_delay * (1000 if delay == COMPLETION else 1), throughput)
            for name in (control, other)
            if (found_delay := figures[name].get(delay, NOBODY).mean) is not None
            and (throughput := figures[name].get(metric, NOBODY).mean) is not None
        ]
        if len(points) == 2:
            found = max(found, behind(points[0], points[1:]))
        elif other == control:
            return None
    beaten = tuple(other for other in figures if other != control and duels[other, control].verdict == "win")
    return Standing(found, beaten)


def share_of_best(scenario: ScenarioResult, control: str) -> tuple[float, float] | None:
    """Delay over the least in the scenario, and bytes on the wire over the most; None where it has no such point."""
    delays, wires = (
        {c: mean for c in scenario.figures if (mean := scenario.mean(c, metric)) is not None and mean > 0}
        for metric in (scenario.delay, WIRE)
    )
    if control not in delays or control not in wires:
        return None
    return delays[control] / min(delays.values()), wires[control] / max(wires.values())


def power(shares: Iterable[tuple[float, float]]) -> float | None:
    """Throughput over delay, each beside the best of its scenario: the geometric mean. 1 is the best in both."""
    logs = [math.log(throughput / delay) for delay, throughput in shares]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
