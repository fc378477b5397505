# SPDX-License-Identifier: Apache-2.0
"""What several runs say together: how goodput falls with receivers, whether time grows in line with size, beta's curve.

Pure. A point is one setting of one way, with the mean over seeds of its metrics.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weirlab.metrics.estimate import Estimate, estimate

CROSS_METRICS: dict[str, str] = {
    "goodput_fall_percent": "how much less goodput_mean_mbit_s is with the most receivers than with the fewest, in "
    "percent: each seed's, mean over seeds",
    "completion_ratio": "completion_mean_s with the most receivers over that with the fewest: each seed's, mean over "
    "seeds",
    "sent_ratio": "publisher_sent_bytes with the most receivers over that with the fewest: each seed's, mean over "
    "seeds",
    "completion_r2": "R squared of a straight line through completion_mean_s over file_bytes, means over seeds, three "
    "sizes or more",
    "retransmissions_ratio": "retransmissions_percent at the largest beta over that at the smallest: each seed's, mean "
    "over seeds",
    "goodput_vs_unicast": "goodput_mean_mbit_s over that of the variant unicast in the same setting: each seed's, mean "
    "over seeds",
    "completion_vs_unicast_s": "completion_mean_s less that of the variant unicast in the same setting: each seed's, "
    "mean over seeds",
    "goodput_of_best": "goodput_mean_mbit_s of the program's own beta over that of the best beta, means over seeds",
}
UNICAST = "unicast"
"""The variant that others are put beside."""


@dataclass(frozen=True)
class Point:
    """One variant: its label, the way it is named after, what it was run with, and each seed's metrics."""

    label: str
    way: str
    receivers: int
    file_bytes: int
    beta: float | None
    loss_percent: float
    rate_mbit_s: float
    metrics: Mapping[int, Mapping[str, Any]]

    def estimated(self, metric: str) -> Estimate:
        return estimate([found.get(metric) for found in self.metrics.values()])

    @property
    def setting(self) -> tuple[Any, ...]:
        """What must be equal for two points to differ in receivers, size or beta alone."""
        return self.way, self.loss_percent, self.rate_mbit_s


def points_of(
    specs: Mapping[str, Mapping[str, Any]], metrics: Iterable[tuple[str, int, Mapping[str, Any]]]
) -> list[Point]:
    """A point for each variant. `metrics` is variant, seed, metrics of each run."""
    by_label: dict[str, dict[int, Mapping[str, Any]]] = {}
    for label, seed, found in metrics:
        by_label.setdefault(label, {})[seed] = found
    return [
        Point(
            label=label,
            way=label.split(",")[0],
            receivers=specs[label]["transfer"]["receivers"],
            file_bytes=specs[label]["transfer"]["bytes"],
            beta=specs[label]["carrying"]["beta"],
            loss_percent=specs[label]["last_hop"]["loss_percent"],
            rate_mbit_s=(specs[label]["bottleneck"] or specs[label]["last_hop"])["rate_mbit_s"],
            metrics=found,
        )
        for label, found in by_label.items()
    ]


def alike(points: Sequence[Point], *but: str) -> dict[tuple[Any, ...], list[Point]]:
    """Points that differ in nothing but these of `receivers`, `file_bytes`, `beta`: in order of those, groups of two or
    more points. The key is the setting and the others' values."""
    axes = ("receivers", "file_bytes", "beta")
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        rest = tuple(getattr(point, axis) for axis in axes if axis not in but)
        groups.setdefault((*point.setting, *rest), []).append(point)

    def place(point: Point) -> tuple[float, ...]:
        return tuple(getattr(point, axis) or 0.0 for axis in axes if axis in but)

    return {key: sorted(group, key=place) for key, group in groups.items() if len({place(p) for p in group}) > 1}


def _pairs(one: Point, other: Point, metric: str) -> list[tuple[Any, Any]]:
    """The metric of both, of the seeds that both have."""
    return [
        (found.get(metric), other.metrics[seed].get(metric))
        for seed, found in one.metrics.items()
        if seed in other.metrics
    ]


def _by_seed(first: Point, last: Point, metric: str) -> list[float | None]:
    """Last over first, of the seeds that both have."""
    pairs = _pairs(first, last, metric)
    return [None if not one or other is None else other / one for one, other in pairs]


def over_receivers(group: Sequence[Point]) -> dict[str, Estimate]:
    """`goodput_fall_percent`, `completion_ratio` and `sent_ratio` of points that differ in their receivers alone."""
    first, last = group[0], group[-1]
    falls = [None if ratio is None else 100 * (1 - ratio) for ratio in _by_seed(first, last, "goodput_mean_mbit_s")]
    return {
        "goodput_fall_percent": estimate(falls),
        "completion_ratio": estimate(_by_seed(first, last, "completion_mean_s")),
        "sent_ratio": estimate(_by_seed(first, last, "publisher_sent_bytes")),
    }


def beside_unicast(points: Sequence[Point]) -> dict[str, dict[str, Estimate]]:
    """`goodput_vs_unicast` and `completion_vs_unicast_s` of each point that has the variant `unicast` beside it, by
    label."""

    def place(point: Point) -> tuple[Any, ...]:
        return *point.setting[1:], point.receivers, point.file_bytes

    peers = {place(point): point for point in points if point.way == UNICAST}
    found = {}
    for point in points:
        peer = peers.get(place(point))
        if peer is not None and point.way != UNICAST:
            less = [
                None if None in (ours, theirs) else ours - theirs
                for ours, theirs in _pairs(point, peer, "completion_mean_s")
            ]
            ratios = estimate(_by_seed(peer, point, "goodput_mean_mbit_s"))
            found[point.label] = {"goodput_vs_unicast": ratios, "completion_vs_unicast_s": estimate(less)}
    return found


def over_sizes(group: Sequence[Point]) -> float | None:
    """`completion_r2` of points that differ in their file's size alone; None for fewer than three."""
    known = [(point.file_bytes, point.estimated("completion_mean_s").mean) for point in group]
    pairs = [(size, mean) for size, mean in known if mean is not None]
    if len(pairs) < 3:
        return None
    sizes, means = np.array(pairs, float).T
    return float(np.corrcoef(sizes, means)[0, 1] ** 2)


def over_beta(group: Sequence[Point]) -> dict[str, Estimate | float | None]:
    """`retransmissions_ratio` and `goodput_of_best` of points that differ in their beta alone; None is the program's
    own."""
    given = [point for point in group if point.beta is not None]
    own = next((point for point in group if point.beta is None), None)
    found: dict[str, Estimate | float | None] = {}
    if len(given) > 1:
        found["retransmissions_ratio"] = estimate(_by_seed(given[0], given[-1], "retransmissions_percent"))
    means = [mean for point in given if (mean := point.estimated("goodput_mean_mbit_s").mean) is not None]
    if own is not None and means:
        mean = own.estimated("goodput_mean_mbit_s").mean
        found["goodput_of_best"] = None if mean is None else mean / max(means)
    return found
