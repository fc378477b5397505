# SPDX-License-Identifier: Apache-2.0
"""Many scenarios, the same disciplines in each: who is on the front of delay and goodput, who beats whom, what is met.

Pure: rows of figures in, conclusions out. A scenario and discipline is one point in the plane of mean queue delay (less
is better) and total goodput (more is better), a mean over seeds.

- **The front** are the points that no other point equals or beats in both and beats in one. All disciplines of COMPARED
  make one front, those with a single queue another: fq_pie, fq_codel and cake give each flow a queue of its own,
  which is another kind of machine.
- **Behind the front** is a point by what those have over it that are no worse in either, to 1 %: by what factor, less
  one, the best of them has less delay or more goodput. On the front is up to 1 %, near up to 5 %; who is farther is
  clearly beaten by somebody. (Without the 1 %, a hair of goodput would excuse any delay. The other usual measure, the
  factor that both would have to improve by together, does the same.) A point may be there by less delay alone, at the
  cost of goodput: where it has less than 0.95 of pie's, that is counted beside it.
- **Duels** pair two disciplines seed by seed. The ratio of the means of each seed has an interval over seeds. It is a
  win or a loss where the interval excludes 1 and the mean is more than 1 % off; a tie where all of the interval is
  within 5 % of 1; else it is unclear: the runs don't tell. With one seed there is no interval, and no verdict.
- **Batches.** Runs of one command on one machine are a batch. Ratios are of the same seed in the same batch where both
  disciplines are in one, else of the same seed in the first of each. All else about a discipline is from the first
  batch that has it: a later one's further runs of it serve the ratios of those that came with them.
- **Claims** about ratios are met where the whole interval is on the right side of the limit, missed where it is on the
  wrong one, and not shown where the limit is inside.

Delays below 1 ms count as 1 ms in all of these: nothing that a queue serves can distinguish them, and ratios of nearly
nothing say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weirlab.evaluation.shared.claims import Case, Claim, claim, percent, with_unknown
from weirlab.evaluation.shared.ratios import (
    NEAR,
    SAME,
    at_least,
    at_most,
    beats,
    behind,
    both,
    both_known,
    figures_of,
    front,
    overall,
    paired_ratio,
    verdict,
)
from weirlab.evaluation.shared.rows import DELAY, DELAY_FLOOR_MS, GOODPUT, RunRow, by_group, by_scenario
from weirlab.metrics.estimate import Estimate, estimate

SINGLE_QUEUE = ("pfifo", "red", "pie", "pie-5ms", "codel", "paper", "tuned", "auto")
ISOLATING = ("fq_pie", "fq_codel", "cake")
COMPARED = (*SINGLE_QUEUE, *ISOLATING)
OURS = ("tuned", "auto")
STARVED = 0.95  # goodput below that share of pie's
FRONT_SHARE = 0.8
NO_FRONT = ("long",)  # groups whose scenarios have few disciplines: no front to be on
SETTLED_SHARE = 0.9
OSCILLATES_ABOVE = 6.0  # peak over floor; noise alone gives 2 to 5 (step_response.py of the dumbbell)
LOADS = ("table2", "flows")  # the groups that most claims are about


@dataclass(frozen=True)
class Standing:
    """Where a point is: how far behind the front, and who beats it clearly."""

    behind: float
    beaten_by: tuple[str, ...]

    @property
    def near(self) -> bool:
        return self.behind <= NEAR


@dataclass(frozen=True)
class ScenarioResult:
    """A scenario's disciplines: figures over seeds, and where each is, among all and among single queues.

    `rows` are those runs that figures are of, `pairs` all that ratios can be taken of. `about` is what the scenario
    file says of it (`title`, `description`, `paper`), as far as the caller told.
    """

    name: str
    group: str
    rows: tuple[RunRow, ...]
    pairs: tuple[RunRow, ...]
    figures: Mapping[str, Mapping[str, Estimate]]
    fronts: Mapping[str, tuple[str, ...]]
    standings: Mapping[str, Mapping[str, Standing]]
    about: Mapping[str, Any]

    @property
    def title(self) -> str:
        return self.about.get("title", self.name)

    def mean(self, variant: str, metric: str) -> float | None:
        return self.figures.get(variant, {}).get(metric, Estimate(None, None, None, 0)).mean

    def starved(self, variant: str) -> bool:
        """Whether it has much less goodput than pie, so that less delay is no feat."""
        ours, pies = self.mean(variant, GOODPUT), self.mean("pie", GOODPUT)
        return ours is not None and pies is not None and ours < STARVED * pies


@dataclass(frozen=True)
class Duel:
    """One of ours beside one peer in one scenario: ratios ours over theirs, and the verdicts."""

    scenario: str
    group: str
    ours: str
    peer: str
    delay: Estimate
    goodput: Estimate
    delay_verdict: str | None
    goodput_verdict: str | None

    @property
    def verdict(self) -> str | None:
        return overall(self.delay_verdict, self.goodput_verdict)


@dataclass(frozen=True)
class Matrix:
    """All of it."""

    scenarios: tuple[ScenarioResult, ...]
    duels: tuple[Duel, ...]
    claims: tuple[Claim, ...]

    @property
    def groups(self) -> dict[str, list[ScenarioResult]]:
        return by_group(self.scenarios)

    @property
    def variants(self) -> list[str]:
        """All variants, those that are compared first and in their order."""
        there = dict.fromkeys(variant for scenario in self.scenarios for variant in scenario.figures)
        return [v for v in COMPARED if v in there] + [v for v in there if v not in COMPARED]


def analyse(runs: Sequence[RunRow], about: Mapping[str, Mapping[str, Any]] | None = None) -> Matrix:
    """Conclusions from rows. `about`: facts of each scenario by name, for readers (see ScenarioResult).

    Scenarios keep the order of their first rows. Raises ValueError where a run is there twice.
    """
    scenarios = tuple(_scenario(name, of, (about or {}).get(name, {})) for name, of in by_scenario(runs).items())
    duels = tuple(
        duel
        for scenario in scenarios
        for ours in OURS
        for peer in COMPARED
        if peer != ours and (duel := _duel(scenario, ours, peer)) is not None
    )
    return Matrix(scenarios, duels, tuple(_claims(scenarios)))


def oscillates(scenario: ScenarioResult, variant: str) -> bool | None:
    """Whether the queue delay swings: a peak in its spectrum above what noise makes, above pie's and stronger."""
    names = ("spectral_peak_ratio", "spectral_peak_rms_ms")
    pairs = both_known((scenario.mean(variant, name), scenario.mean("pie", name)) for name in names)
    if len(pairs) < len(names):
        return None
    return pairs[0][0] > OSCILLATES_ABOVE and all(a > b for a, b in pairs)


def _scenario(name: str, pairs: Sequence[RunRow], about: Mapping[str, Any]) -> ScenarioResult:
    first: dict[str, int] = {}
    for row in pairs:
        first[row.variant] = min(row.batch, first.get(row.variant, row.batch))
    rows = [row for row in pairs if row.batch == first[row.variant]]
    figures = figures_of(rows)
    points = {
        variant: (delay, goodput)
        for variant, found in figures.items()
        if (delay := found[DELAY].mean) is not None and (goodput := found[GOODPUT].mean) is not None
    }
    fronts: dict[str, tuple[str, ...]] = {}
    standings: dict[str, dict[str, Standing]] = {}
    kinds: tuple[tuple[str, tuple[str, ...]], ...] = (("all", COMPARED), ("single", SINGLE_QUEUE))
    for kind, compared in kinds:
        members = () if rows[0].group in NO_FRONT else compared
        makers = {variant: points[variant] for variant in members if variant in points}
        fronts[kind] = front(makers)
        standings[kind] = {}
        for variant, point in points.items():
            if (variant in ISOLATING and kind == "single") or not makers:
                continue
            others = {other: at for other, at in makers.items() if other != variant}
            standings[kind][variant] = Standing(
                behind(point, others.values()), tuple(other for other, at in others.items() if beats(at, point))
            )
    return ScenarioResult(name, rows[0].group, tuple(rows), tuple(pairs), figures, fronts, standings, about)


def _duel(scenario: ScenarioResult, ours: str, peer: str) -> Duel | None:
    if ours not in scenario.figures or peer not in scenario.figures:
        return None
    delay = paired_ratio(scenario.pairs, ours, peer, DELAY, DELAY_FLOOR_MS)
    goodput = paired_ratio(scenario.pairs, ours, peer, GOODPUT)
    return Duel(
        scenario.name, scenario.group, ours, peer, delay, goodput, verdict(delay, True), verdict(goodput, False)
    )


def _claims(scenarios: Sequence[ScenarioResult]) -> Iterable[Claim]:
    """Targets. Ratios are held against their limits with their intervals, fronts and steps by the mean."""
    loads = [scenario for scenario in scenarios if scenario.group in LOADS]
    for ours in OURS:
        for metric, words in (
            ("queue_delay_excess_ms", "mean excess over target"),
            ("queue_delay_sd_ms", "sd of delay"),
        ):
            yield _ratio_claim(
                ours, loads, ours, "pie", metric, f"{words} over pie's, Table II and flow counts", "at most", 0.5, 0.01
            )
        yield _ratio_claim(ours, loads, ours, "pie", GOODPUT, "goodput over pie's, the same", "at least", 0.99)
        yield _ratio_claim(
            ours, loads, f"{ours}-half", "pie", GOODPUT, "goodput at half of pie's target, over pie's", "at least", 0.99
        )
    for ours in OURS:
        for peer in ("pfifo", "red", "codel"):
            yield _better_claim(ours, loads, peer)
    for ours in OURS:
        for kind, words in (("all", "all disciplines"), ("single", "disciplines with one queue")):
            yield _front_claim(
                ours, scenarios, kind, f"on or within 5 % of the front of {words}: nobody clearly better"
            )
        yield _never_worse_claim(ours, scenarios)
        yield _oscillation_claim(ours, scenarios)
        yield _settled_claim(ours, scenarios)
        yield _ratio_claim(
            ours, scenarios, ours, "pie", "overshoot_mean_ms", "overshoot after a step over pie's", "at most", 1.0, 1.0
        )


def _ratio_claim(
    ours: str,
    scenarios: Sequence[ScenarioResult],
    variant: str,
    peer: str,
    metric: str,
    text: str,
    words: str,
    limit: float,
    floor: float = 0.0,
) -> Claim:
    """A ratio to a peer of the same seed, by its interval, in every scenario; figures below `floor` count as that."""
    cases, unknown = [], []
    for scenario in scenarios:
        ratio = paired_ratio(scenario.pairs, variant, peer, metric, floor)
        if ratio.mean is not None:
            cases.append(Case(scenario.name, ratio, (at_most if words == "at most" else at_least)(ratio, limit)))
        elif scenario.mean(variant, metric) is not None:
            unknown.append(scenario.name)
    return with_unknown(claim(ours, text, f"{words} {limit:g} in every scenario", cases), unknown)


def _better_claim(ours: str, scenarios: Sequence[ScenarioResult], peer: str) -> Claim:
    """Goodput shown to be no more than 1 % lower, at delay shown to be lower; the figure is the ratio of delays."""
    cases = []
    for scenario in scenarios:
        duel = _duel(scenario, ours, peer)
        if duel is None or duel.delay.mean is None or duel.goodput.mean is None:
            continue
        cases.append(Case(scenario.name, duel.delay, both(at_least(duel.goodput, 1 - SAME), at_most(duel.delay, 1))))
    text = f"goodput not lower than {peer}'s, to 1 %, at lower delay (ratio of delays)"
    return claim(ours, text, "in every scenario of Table II and flow counts", cases)


def _front_claim(ours: str, scenarios: Sequence[ScenarioResult], kind: str, text: str) -> Claim:
    """A case's figure is how far behind the front it is."""
    cases, starved = [], 0
    for scenario in scenarios:
        standing = scenario.standings[kind].get(ours)
        if standing is not None:
            cases.append(Case(scenario.name, Estimate(round(standing.behind, 6), None, None, 1), standing.near))
            starved += standing.near and scenario.starved(ours)
    found = claim(ours, text, f"in {percent(FRONT_SHARE)} of the scenarios", cases, FRONT_SHARE)
    if not starved:
        return found
    return replace(found, measured=f"{found.measured}; {starved} of these with less than {STARVED:g} of pie's goodput")


def _never_worse_claim(ours: str, scenarios: Sequence[ScenarioResult]) -> Claim:
    cases = []
    for scenario in scenarios:
        duel = _duel(scenario, ours, "pie")
        if duel is not None and duel.delay.mean is not None and duel.goodput.mean is not None:
            good = at_most(duel.delay, 1 + NEAR), at_least(duel.goodput, 1 - NEAR)
            met = True if True in good else None if None in good else False
            cases.append(Case(scenario.name, duel.delay, met))
    return claim(ours, "not worse than pie by more than 5 % in delay and goodput at once", "in every scenario", cases)


def _oscillation_claim(ours: str, scenarios: Sequence[ScenarioResult]) -> Claim:
    cases, unknown = [], []
    for scenario in scenarios:
        swings = oscillates(scenario, ours)
        if swings is not None:
            cases.append(Case(scenario.name, scenario.figures[ours]["spectral_peak_ratio"], not swings))
        elif ours in scenario.figures:
            unknown.append(scenario.name)
    text = (
        f"no sustained oscillation: no peak in the delay's spectrum that is {OSCILLATES_ABOVE:g} times its floor, "
        "higher over it than pie's, and more in ms than pie's"
    )
    return with_unknown(claim(ours, text, "in every scenario that can be measured", cases), unknown)


def _settled_claim(ours: str, scenarios: Sequence[ScenarioResult]) -> Claim:
    """Over all steps of all runs; a case is a scenario, its figure the share of its steps."""
    cases, steps, settled = [], 0.0, 0.0
    for scenario in scenarios:
        rows = [r.metrics for r in scenario.rows if r.variant == ours and r.metrics.get("steps_count")]
        if rows:
            share = estimate([row["settled_share"] for row in rows])
            cases.append(Case(scenario.name, share, share.mean is not None and share.mean >= SETTLED_SHARE))
            steps += sum(row["steps_count"] for row in rows)
            settled += sum(row["steps_count"] * row["settled_share"] for row in rows)
    text, limit = "settled within 2 s or 10 round trips after a step", f"in {percent(SETTLED_SHARE)} of the steps"
    if not steps:
        return Claim(ours, text, limit, "not measured", None, ())
    measured = f"{settled:.0f} of {steps:.0f} steps"
    return Claim(ours, text, limit, measured, settled >= SETTLED_SHARE * steps - 1e-9, tuple(cases))
