# SPDX-License-Identifier: Apache-2.0
"""An envelope: the disciplines' curves in each scenario, compared; what was to be reached and what was.

Pure: rows of figures in, conclusions out. Curves are of means over seeds; `curves.py` says how they are compared.

- **At equal goodput** two disciplines are compared where their curves of p99 have the most goodput that both reach,
  less 0.5 %. Mean delay, loss and Jain's index are those of the same places on these two curves.
- **The best peer** of one of ours, in a scenario, is the discipline with a single queue beside which ours looks worst:
  that with the highest ratio of our p99 to its own at equal goodput. For areas it is that with the highest area.
- Delays below 1 ms count as 1 ms, losses below 0.01 % as 0.01 %: ratios of nearly nothing say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.evaluation.envelope.curves import (
    At,
    Curve,
    Interval,
    area,
    at_equal_x,
    curve_of,
    jackknife,
    x_at_equal_y,
)
from weirlab.evaluation.shared.rows import (
    BULK_GOODPUT,
    COMPLETION,
    DELAY,
    DELAY_FLOOR_MS,
    GOODPUT,
    JAIN,
    LOSS,
    P99,
    RunRow,
    Setting,
    by_group,
    by_scenario,
)
from weirlab.metrics.estimate import Estimate, estimate

LOSS_FLOOR_PERCENT = 0.01
OURS, SINGLE, ISOLATING = "ours", "single", "isolating"


@dataclass(frozen=True)
class Plane:
    """Two figures that are drawn against each other; of `x` more is better, or less if `x_sign` is -1."""

    name: str
    x: str
    y: str
    x_sign: int = 1


MEAN_PLANE = Plane("mean", GOODPUT, DELAY)
P99_PLANE = Plane("p99", GOODPUT, P99)
LOSS_PLANE = Plane("loss", LOSS, P99, -1)
SHORT_PLANE = Plane("short", BULK_GOODPUT, COMPLETION)
PLANES = (MEAN_PLANE, P99_PLANE, LOSS_PLANE, SHORT_PLANE)


@dataclass(frozen=True)
class ScenarioCurves:
    """One scenario: every discipline's figures over seeds at each of its settings, and its curves by plane."""

    name: str
    group: str
    rows: tuple[RunRow, ...]
    figures: Mapping[str, Mapping[Setting, Mapping[str, Estimate]]]
    curves: Mapping[str, Mapping[str, Curve]]
    about: Mapping[str, Any]

    @property
    def title(self) -> str:
        return self.about.get("title", self.name)

    @property
    def seeds(self) -> list[int]:
        return sorted({row.seed for row in self.rows})

    @property
    def planes(self) -> list[Plane]:
        return [plane for plane in PLANES if self.curves[plane.name]]


@dataclass(frozen=True)
class Comparison:
    """One of ours beside a peer in one scenario; ratios ours over theirs, None where there is nothing to compare.

    `places` are both curves' places at equal goodput, and `p99`, `mean`, `loss` the ratios there; `jain` is Jain's
    index less theirs. `goodput` is at equal mean delay, `reach` the most goodput of either; `areas` are by plane.
    """

    scenario: str
    group: str
    ours: str
    peer: str
    places: tuple[At, At]
    p99: Interval
    mean: Interval | None
    loss: Interval | None
    jain: float | None
    goodput: Interval | None
    reach: float | None
    areas: Mapping[str, Interval]


@dataclass(frozen=True)
class Case:
    """A scenario under a claim: the figures with their limits, and against whom."""

    scenario: str
    peer: str
    figures: tuple[tuple[Interval, float], ...]

    @property
    def met(self) -> bool:
        return all(figure.ratio <= limit for figure, limit in self.figures)

    @property
    def shown(self) -> bool:
        """Met with the whole of each interval."""
        return all(figure.high is not None and figure.high <= limit for figure, limit in self.figures)


@dataclass(frozen=True)
class Claim:
    """A figure to reach, in so large a share of its cases."""

    ours: str
    text: str
    least_share: float
    cases: tuple[Case, ...]

    @property
    def met(self) -> int:
        return sum(case.met for case in self.cases)

    @property
    def shown(self) -> int:
        return sum(case.shown for case in self.cases)

    @property
    def reached(self) -> bool | None:
        """None where nothing was measured."""
        return self.met >= self.least_share * len(self.cases) - 1e-9 if self.cases else None


@dataclass(frozen=True)
class Envelope:
    """All of it. `kinds` says of each variant "ours", "single", "isolating" or "reference"."""

    scenarios: tuple[ScenarioCurves, ...]
    comparisons: tuple[Comparison, ...]
    claims: tuple[Claim, ...]
    kinds: Mapping[str, str]

    @property
    def groups(self) -> dict[str, list[ScenarioCurves]]:
        return by_group(self.scenarios)

    @property
    def variants(self) -> list[str]:
        """Those that were run, in the suite's order."""
        there = {variant for scenario in self.scenarios for variant in scenario.figures}
        return [variant for variant in self.kinds if variant in there]

    def of_kind(self, kind: str) -> list[str]:
        return [variant for variant in self.variants if self.kinds[variant] == kind]

    def compared(self, ours: str, scenario: str, peers: Iterable[str]) -> list[Comparison]:
        wanted = set(peers)
        return [c for c in self.comparisons if (c.ours, c.scenario) == (ours, scenario) and c.peer in wanted]

    def best_peer(self, ours: str, scenario: str) -> Comparison | None:
        """The single-queue peer beside which ours has the highest p99 at equal goodput."""
        return max(self.compared(ours, scenario, self.of_kind(SINGLE)), key=lambda c: c.p99.ratio, default=None)

    def worst_area(self, ours: str, scenario: str, plane: str) -> Comparison | None:
        """The single-queue peer whose area in that plane is the worst for ours."""
        peers = [c for c in self.compared(ours, scenario, self.of_kind(SINGLE)) if plane in c.areas]
        return max(peers, key=lambda c: c.areas[plane].ratio, default=None)


def analyse(
    rows: Sequence[RunRow], kinds: Mapping[str, str], about: Mapping[str, Mapping[str, Any]] | None = None
) -> Envelope:
    """Conclusions from rows, each with its setting. `about`: facts of each scenario by name, for readers.

    Scenarios keep the order of their first rows. Raises ValueError where a run is there twice.
    """
    scenarios = tuple(_scenario(name, of, (about or {}).get(name, {})) for name, of in by_scenario(rows).items())
    comparisons = [
        found
        for scenario in scenarios
        for ours in kinds
        for peer in kinds
        if kinds[ours] == OURS and peer != ours and (found := compare(scenario, ours, peer)) is not None
    ]
    whole = Envelope(scenarios, tuple(comparisons), (), kinds)
    return Envelope(scenarios, tuple(comparisons), tuple(_claims(whole)), kinds)


def _scenario(name: str, rows: Sequence[RunRow], about: Mapping[str, Any]) -> ScenarioCurves:
    seeds = sorted({row.seed for row in rows})
    points: dict[str, dict[Setting, list[RunRow]]] = {}
    for row in rows:
        assert row.setting is not None
        points.setdefault(row.variant, {}).setdefault(row.setting, []).append(row)
    figures = {
        variant: {
            setting: {
                metric: estimate([row.metrics.get(metric) for row in of])
                for metric in dict.fromkeys(metric for row in of for metric in row.metrics)
            }
            for setting, of in sorted(settings.items())
        }
        for variant, settings in points.items()
    }
    curves = {
        plane.name: {v: curve for v in points if (curve := curve_in(rows, v, plane, seeds)) is not None}
        for plane in PLANES
    }
    return ScenarioCurves(name, rows[0].group, tuple(rows), figures, curves, about)


def curve_in(rows: Sequence[RunRow], variant: str, plane: Plane, seeds: Iterable[int]) -> Curve | None:
    """A discipline's curve of means over these seeds; settings that were not measured at any are left out."""
    wanted = set(seeds)
    found: dict[Setting, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.variant == variant and row.seed in wanted and row.setting is not None:
            found.setdefault(row.setting, []).append(row.metrics)
    points = []
    for setting, runs in found.items():
        x, y = mean(runs, plane.x), mean(runs, plane.y)
        if x is None or y is None:
            continue
        more = {key: value for key in (DELAY, LOSS, JAIN) if (value := mean(runs, key)) is not None}
        points.append(At(plane.x_sign * x, max(y, DELAY_FLOOR_MS), more, setting.words))
    return curve_of(points)


def mean(runs: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """None where a run has no such figure."""
    known = [value for run in runs if (value := run.get(metric)) is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(runs) else None


def compare(scenario: ScenarioCurves, ours: str, peer: str) -> Comparison | None:
    """None where one of them has no curve of p99 over a goodput above 0."""
    curves = scenario.curves[P99_PLANE.name]
    if ours not in curves or peer not in curves or min(curves[ours].last.x, curves[peer].last.x) <= 0:
        return None

    def both(plane: Plane, seeds: Sequence[int]) -> tuple[Curve, Curve] | None:
        one, other = (curve_in(scenario.rows, variant, plane, seeds) for variant in (ours, peer))
        return None if one is None or other is None else (one, other)

    def over_seeds(plane: Plane, ratio: Callable[[Curve, Curve], float | None]) -> Interval | None:
        def of(seeds: Sequence[int]) -> float | None:
            pair = both(plane, seeds)
            return None if pair is None else ratio(*pair)

        return jackknife(of, scenario.seeds)

    p99 = over_seeds(P99_PLANE, _p99_ratio)
    if p99 is None:
        return None
    places = at_equal_x(curves[ours], curves[peer])
    areas = {plane.name: over_seeds(plane, lambda a, b: math.exp(area(a, b))) for plane in PLANES}
    jains = [at.more.get(JAIN) for at in places]
    return Comparison(
        scenario.name, scenario.group, ours, peer, places, p99,
        over_seeds(P99_PLANE, _ratio_there(DELAY, DELAY_FLOOR_MS)),
        over_seeds(P99_PLANE, _ratio_there(LOSS, LOSS_FLOOR_PERCENT)),
        None if jains[0] is None or jains[1] is None else jains[0] - jains[1],
        over_seeds(MEAN_PLANE, x_at_equal_y),
        curves[ours].last.x / curves[peer].last.x,
        {name: found for name, found in areas.items() if found is not None},
    )  # fmt: skip


def _p99_ratio(ours: Curve, peer: Curve) -> float | None:
    if min(ours.last.x, peer.last.x) <= 0:
        return None
    one, other = at_equal_x(ours, peer)
    return one.y / other.y


def _ratio_there(metric: str, floor: float) -> Callable[[Curve, Curve], float | None]:
    """The ratio of another figure at the places of equal goodput."""

    def ratio(ours: Curve, peer: Curve) -> float | None:
        if min(ours.last.x, peer.last.x) <= 0:
            return None
        values = [at.more.get(metric) for at in at_equal_x(ours, peer)]
        if values[0] is None or values[1] is None:
            return None
        return max(values[0], floor) / max(values[1], floor)

    return ratio


def _claims(envelope: Envelope) -> Iterable[Claim]:
    """Targets. By the means; `shown` counts where the intervals say so, too."""
    names = [scenario.name for scenario in envelope.scenarios]
    unsteady = [scenario.name for scenario in envelope.scenarios if scenario.group in ("steps", "bursts")]
    for ours in envelope.of_kind(OURS):
        best = {name: found for name in names if (found := envelope.best_peer(ours, name)) is not None}
        areas = {name: c for name in names if (c := envelope.worst_area(ours, name, P99_PLANE.name)) is not None}
        pairs = [(c, ((c.p99, 0.8), (c.mean, 1.0))) for c in best.values()]
        yield _claim(
            ours, "at equal goodput p99 at most 0.8 of the best single-queue peer's, and mean no higher", 0.8, pairs
        )
        yield _claim(ours, "the same p99 at most 1.1 in any", 1.0, [(c, ((c.p99, 1.1),)) for c in best.values()])
        yield _claim(ours, "loss at most 1.1 of that peer's", 1.0, [(c, ((c.loss, 1.1),)) for c in best.values()])
        yield _claim(
            ours, "the area between the curves of p99 in our favour, beside every single-queue peer", 0.9,
            [(c, ((c.areas[P99_PLANE.name], 1.0),)) for c in areas.values()],
        )  # fmt: skip
        yield _claim(
            ours, "steps and bursts: p99 at most 0.5 of any single-queue peer's at equal goodput", 1.0,
            [(best[name], ((best[name].p99, 0.5),)) for name in unsteady if name in best],
        )  # fmt: skip
    if "auto" in envelope.variants and "tuned" in envelope.variants:
        beside = [c for name in names for c in envelope.compared("auto", name, ["tuned"])]
        yield _claim(
            "auto", "p99 at most 1.05 of tuned's at equal goodput", 1.0, [(c, ((c.p99, 1.05),)) for c in beside]
        )


def _claim(
    ours: str,
    text: str,
    least_share: float,
    found: Sequence[tuple[Comparison, tuple[tuple[Interval | None, float], ...]]],
) -> Claim:
    cases = []
    for comparison, figures in found:
        known = tuple((figure, limit) for figure, limit in figures if figure is not None)
        if len(known) == len(figures):
            cases.append(Case(comparison.scenario, comparison.peer, known))
    return Claim(ours, text, least_share, tuple(cases))
