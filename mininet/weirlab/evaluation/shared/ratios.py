# SPDX-License-Identifier: Apache-2.0
"""Points of delay and throughput compared: fronts by means, ratios seed by seed with intervals, verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from weirlab.evaluation.shared.rows import DELAY_FLOOR_MS, RunRow
from weirlab.metrics.estimate import Estimate, estimate

NEAR = 0.05
SAME = 0.01


def behind(point: tuple[float, float], others: Iterable[tuple[float, float]]) -> float:
    """Distance of a point (delay in ms, goodput) behind the front that the others make; 0 if no other has more."""
    delay_ms, goodput = max(point[0], DELAY_FLOOR_MS), point[1]
    found = 0.0
    for other_ms, other_goodput in ((max(at[0], DELAY_FLOOR_MS), at[1]) for at in others):
        if other_ms <= delay_ms * (1 + SAME) and other_goodput >= goodput * (1 - SAME):
            more = other_goodput / goodput - 1 if goodput > 0 else math.inf if other_goodput > 0 else 0.0
            found = max(found, delay_ms / other_ms - 1, more)
    return found


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether one point (delay in ms, goodput) is clearly better than the other: more than 5 % in one, no worse (to
    1 %) in the other."""
    (delay_ms, goodput), (other_ms, other_goodput) = one, other
    delay_ms, other_ms = max(delay_ms, DELAY_FLOOR_MS), max(other_ms, DELAY_FLOOR_MS)
    sooner = delay_ms * (1 + NEAR) < other_ms and goodput >= other_goodput * (1 - SAME)
    more = goodput > other_goodput * (1 + NEAR) and delay_ms <= other_ms * (1 + SAME)
    return sooner or more


def front(points: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    """The names of the points (delay in ms, goodput) that no other equals or beats in both and beats in one."""

    def dominated(name: str) -> bool:
        delay_ms, goodput = max(points[name][0], DELAY_FLOOR_MS), points[name][1]
        return any(
            (d := max(other[0], DELAY_FLOOR_MS)) <= delay_ms
            and other[1] >= goodput
            and (d < delay_ms or other[1] > goodput)
            for name_of_other, other in points.items()
            if name_of_other != name
        )

    return tuple(sorted((name for name in points if not dominated(name)), key=lambda name: points[name]))


def paired_ratio(rows: Sequence[RunRow], ours: str, peer: str, metric: str, floor: float = 0.0) -> Estimate:
    """Ours over the peer's of the same seed: mean over the seeds that both have. Nothing where a run has no figure."""
    pairs = paired(rows, ours, peer, metric)
    known = both_known(pairs)
    if not known or len(known) < len(pairs) or any(max(b, floor) <= 0 for _, b in known):
        return estimate([])
    return estimate([max(a, floor) / max(b, floor) for a, b in known])


def paired_difference(rows: Sequence[RunRow], ours: str, peer: str, metric: str) -> Estimate:
    """Ours less the peer's of the same seed: mean over the seeds that both have. Nothing where a run has no figure."""
    pairs = paired(rows, ours, peer, metric)
    known = both_known(pairs)
    if not known or len(known) < len(pairs):
        return estimate([])
    return estimate([a - b for a, b in known])


def both_known(pairs: Iterable[tuple[float | None, float | None]]) -> list[tuple[float, float]]:
    """Those pairs of which both figures were measured."""
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def paired(rows: Sequence[RunRow], ours: str, peer: str, metric: str) -> list[tuple[float | None, float | None]]:
    """The figures of both, seed by seed, of the first batch that has both, else of the first of each."""
    batches = [{row.batch for row in rows if row.variant == variant} for variant in (ours, peer)]
    if not all(batches):
        return []
    both = batches[0] & batches[1]
    mine, theirs = (
        {
            row.seed: row.metrics.get(metric)
            for row in rows
            if row.variant == variant and row.batch == min(both or batches[place])
        }
        for place, variant in enumerate((ours, peer))
    )
    return [(mine[seed], theirs[seed]) for seed in sorted(mine) if seed in theirs]


def verdict(ratio: Estimate, less_is_better: bool) -> str | None:
    """win, tie, loss or unclear of ours by the ratio ours over theirs; None without an interval."""
    if ratio.mean is None or ratio.ci95 is None:
        return None
    if abs(ratio.mean - 1) > max(SAME, ratio.ci95):
        return "win" if (ratio.mean < 1) == less_is_better else "loss"
    return "tie" if abs(ratio.mean - 1) + ratio.ci95 <= NEAR else "unclear"


def at_most(ratio: Estimate, limit: float) -> bool | None:
    """Whether the whole interval is up to the limit (True) or above it (False); None where it shows neither."""
    if ratio.mean is None or ratio.ci95 is None:
        return None
    return True if ratio.mean + ratio.ci95 <= limit else False if ratio.mean - ratio.ci95 > limit else None


def at_least(ratio: Estimate, limit: float) -> bool | None:
    """Whether the whole interval is from the limit on (True) or below it (False); None where it shows neither."""
    if ratio.mean is None or ratio.ci95 is None:
        return None
    return True if ratio.mean - ratio.ci95 >= limit else False if ratio.mean + ratio.ci95 < limit else None


def both(one: bool | None, other: bool | None) -> bool | None:
    return False if False in (one, other) else None if None in (one, other) else True


def either(one: bool | None, other: bool | None) -> bool | None:
    return True if True in (one, other) else None if None in (one, other) else False


def overall(one: str | None, other: str | None) -> str | None:
    """A verdict over two figures. win: better in one and as good in the other; trade: better in one and worse in the
    other; unclear: not known of one of them."""
    found = {one, other}
    if None in found:
        return None
    if "unclear" in found:
        return "unclear"
    if found == {"win", "loss"}:
        return "trade"
    return "win" if "win" in found else "loss" if "loss" in found else "tie"


def figures_of(rows: Sequence[RunRow]) -> dict[str, dict[str, Estimate]]:
    """A scenario's figures over seeds, by variant and metric."""
    by_variant: dict[str, list[RunRow]] = {}
    for row in rows:
        by_variant.setdefault(row.variant, []).append(row)
    return {
        variant: {
            metric: estimate([row.metrics.get(metric) for row in group])
            for metric in dict.fromkeys(metric for row in group for metric in row.metrics)
        }
        for variant, group in by_variant.items()
    }
