# SPDX-License-Identifier: Apache-2.0
"""An envelope in words and rows of tables."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.evaluation.envelope.analysis import (
    P99_PLANE,
    SHORT_PLANE,
    Claim,
    Comparison,
    Envelope,
    ScenarioCurves,
)
from weirlab.evaluation.envelope.curves import Interval
from weirlab.evaluation.shared.labels import FIGURES, GROUP_WORDS, geometric_mean
from weirlab.evaluation.shared.rows import Setting
from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import NOTHING, count, shown

SIDE_BY_SIDE = ("5 ms", "15 ms")  # settings of the small tables
METHOD = (
    "A discipline is a curve: its settings that none of its own equals or beats in delay and goodput, joined by "
    "straight lines in goodput and the logarithm of the delay. **At equal goodput**: where both curves have the most "
    "goodput that both reach, less 0.5 %, each with the setting (or the place between two) that has the least p99 "
    "there; mean, loss and Jain's index are of the same places. **The best peer** is the single-queue discipline "
    "beside which ours has the highest p99 there. **At equal delay**: mean goodput over all mean delays that both "
    "have. **The area** is between the curves over all goodput that either has, as a ratio: the geometric mean of our "
    "delay over theirs at equal goodput, where a curve that doesn't reach a goodput counts with the highest delay of "
    "both. Below 1 is in our favour. Intervals are at 95 %, over seeds, by the jackknife (a seed is left out of both "
    "at a time); delays below 1 ms count as 1 ms, losses below 0.01 % as 0.01 %."
)


def run_counts(envelope: Envelope) -> str:
    rows = [row for scenario in envelope.scenarios for row in scenario.rows]
    settings = {(row.variant, row.setting) for row in rows}
    return (
        f"{count(len(envelope.scenarios), 'scenario')}, {count(len(envelope.variants), 'discipline')} at "
        f"{count(len(settings), 'setting')}, {count(len({row.seed for row in rows}), 'seed')}, "
        f"{count(len(rows), 'run')}"
    )


INTRODUCTION = (
    "`./run evaluate --suite envelope` writes this page; with `--from docs/results/envelope` it writes it again from "
    "the CSV files alone. {counts}, all in the exact lab. [`envelope.html`](envelope.html) draws the curves of every "
    "scenario and has the figures of every setting."
)


CLAIM_HEADS = ("", "figure", "target in", "by the means", "shown by intervals", "reached", "not in")


def claim_rows(envelope: Envelope) -> list[list[str]]:
    rows = []
    for claim in envelope.claims:
        share = "every scenario" if claim.least_share >= 1 else f"{100 * claim.least_share:.0f} % of the scenarios"
        of = len(claim.cases)
        rows.append([
            claim.ours, claim.text, share, f"{claim.met} of {of}", f"{claim.shown} of {of}", state(claim),
            ", ".join(f"{case.scenario} ({case.figures[0][0].ratio:.2f}, {case.peer})" for case in claim.cases
                      if not case.met),
        ])  # fmt: skip
    return rows


def state(claim: Claim) -> str:
    return "not measured" if claim.reached is None else "yes" if claim.reached else "no"


PEER_HEADS = (
    "", "best peer", "its setting", "our setting", "p99", "mean", "loss", "Jain less theirs", "most goodput",
    "area of p99, worst peer", "area of completion times",
)  # fmt: skip


def peer_rows(envelope: Envelope, ours: str) -> list[list[str]]:
    """One line a scenario, under PEER_HEADS: ratios ours over the best peer's."""
    rows = []
    for scenario in envelope.scenarios:
        best = envelope.best_peer(ours, scenario.name)
        if best is None:
            continue
        worst, short = (envelope.worst_area(ours, scenario.name, plane.name) for plane in (P99_PLANE, SHORT_PLANE))
        rows.append([
            scenario.name, best.peer, best.places[1].name, best.places[0].name, ratio(best.p99), ratio(best.mean),
            ratio(best.loss), NOTHING if best.jain is None else f"{best.jain:+.3f}",
            NOTHING if best.reach is None else f"{best.reach:.3f}",
            *(NOTHING if c is None else f"{ratio(c.areas[plane.name])} ({c.peer})"
              for c, plane in ((worst, P99_PLANE), (short, SHORT_PLANE))),
        ])  # fmt: skip
    return rows


EACH_HEADS = ("", "p99", "mean", "loss", "goodput at equal mean delay", "area of mean", "area of p99", "area of loss")


def each_rows(envelope: Envelope, ours: str) -> list[list[str]]:
    """One line a peer, under EACH_HEADS."""
    rows = []
    for peer in envelope.variants:
        found = [c for c in envelope.comparisons if (c.ours, c.peer) == (ours, peer)]
        if found:
            goodput = _over_scenarios([c.goodput for c in found], less_is_better=False, decimals=3)
            cells = [_over_scenarios([figure(c) for c in found]) for figure in (_p99, _mean, _loss)]
            areas = [_over_scenarios([c.areas.get(plane) for c in found]) for plane in ("mean", "p99", "loss")]
            rows.append([peer, *cells, goodput, *areas])
    return rows


def _p99(comparison: Comparison) -> Interval | None:
    return comparison.p99


def _mean(comparison: Comparison) -> Interval | None:
    return comparison.mean


def _loss(comparison: Comparison) -> Interval | None:
    return comparison.loss


def _over_scenarios(found: Sequence[Interval | None], less_is_better: bool = True, decimals: int = 2) -> str:
    known = [interval.ratio for interval in found if interval is not None and interval.ratio > 0]
    middle = geometric_mean(known)
    if middle is None:
        return NOTHING
    better = sum(value < 1 if less_is_better else value > 1 for value in known)
    return f"{middle:.{decimals}f} ({better} of {len(known)})"


def ratio(found: Interval | None) -> str:
    """A ratio with its interval."""
    if found is None:
        return NOTHING
    if found.low is None or found.high is None:
        return f"{found.ratio:.2f}"
    return f"{found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})"


def columns_of(scenario: ScenarioCurves) -> list[tuple[str, str, int]]:
    """Those of FIGURES that some run of the scenario has a figure for."""
    there = {metric for row in scenario.rows for metric, value in row.metrics.items() if value is not None}
    return [column for column in FIGURES if column[0] in there]


def figure_rows(scenario: ScenarioCurves, few: bool = False) -> list[list[str]]:
    """One line a discipline and setting; `few`: those of SIDE_BY_SIDE, where a discipline has one of them."""
    rows = []
    for variant, settings in scenario.figures.items():
        for setting in _few(list(settings)) if few else settings:
            figures = settings[setting]
            none = Estimate(None, None, None, 0)
            cells = [shown(figures.get(metric, none), decimals) for metric, _, decimals in columns_of(scenario)]
            rows.append([variant, setting.words, *cells])
    return rows


def _few(settings: Sequence[Setting]) -> Sequence[Setting]:
    return [setting for setting in settings if setting.words in SIDE_BY_SIDE] or settings


def group_title(group: str) -> str:
    return GROUP_WORDS.get(group, group)
