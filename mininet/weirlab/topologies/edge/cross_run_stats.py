# SPDX-License-Identifier: Apache-2.0
"""Statistics across runs: goodput over receivers, whether time grows in line with size, beta's curve.

Pure. A point is one setting of one way, with the mean over seeds of its metrics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weirlab.metrics.estimate import Estimate, estimate

CROSS_METRICS: dict[str, str] = {
    "goodput_fall_percent": "how much less goodput_mean_mbit_s is with the most receivers than with the fewest, in "
    "percent: each seed's, mean over seeds",
    "goodput_fall_of_mean_percent": "the same of the mean over the file sizes, of those sizes that have both the most "
    "and the fewest receivers",
    "goodput_var_receivers": "variance of goodput_mean_mbit_s over 4 to 7 receivers, in (Mbit/s)^2, with a divisor one "
    "less than there are values: each seed's, mean over seeds",
    "completion_ratio": "completion_mean_s with the most receivers over that with the fewest: each seed's, mean over "
    "seeds",
    "sent_ratio": "publisher_sent_bytes with the most receivers over that with the fewest: each seed's, mean over "
    "seeds",
    "completion_r2": "R squared of a straight line through completion_mean_s over file_bytes, three sizes or more: "
    "each seed's, mean over seeds",
    "completion_slope_s_mb": "slope of that line, in seconds for each 10^6 bytes: each seed's, mean over seeds",
    "goodput_var_sizes": "variance of goodput_mean_mbit_s over the file sizes, as above: each seed's, mean over seeds",
    "retransmissions_ratio": "retransmissions_percent at beta 20 over that at beta 4: each seed's, mean over seeds",
    "best_beta": "the beta whose goodput_mean_mbit_s is the highest, means over seeds",
    "goodput_inside_ratio": "goodput_mean_mbit_s at the best beta that is neither the least nor the largest, over that "
    "at the better of these two, best by the mean over seeds: each seed's, mean over seeds",
    "goodput_vs_unicast": "goodput_mean_mbit_s over that of the variant unicast in the same setting: each seed's, mean "
    "over seeds",
    "completion_vs_unicast_s": "completion_mean_s less that of the variant unicast in the same setting: each seed's, "
    "mean over seeds",
    "handshake_more_rtts": "handshake_ms less that of the variant unicast in the same setting, in round trips of the "
    "links without a queue: each seed's, mean over seeds",
    "first_byte_more_rtts": "the same of first_byte_ms",
    "goodput_of_best": "goodput_mean_mbit_s of the program's own beta over that of the best beta by the mean over "
    "seeds: each seed's, mean over seeds",
}
UNICAST = "unicast"
"""The variant that others are put beside."""
UNICAST_NAMES = "unicast-names"
"""Way that carries QUIC's datagrams by name (`carry`)."""
VARIANCE_RECEIVERS = (4, 7)
RATIO_BETAS = (4.0, 20.0)
"""Huang et al., Fig. 2 and 3: from, to."""
NOTHING = Estimate(None, None, None, 0)


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
    carry: str
    path_rtt_ms: float
    metrics: Mapping[int, Mapping[str, Any]]

    def estimated(self, metric: str) -> Estimate:
        return estimate([found.get(metric) for found in self.metrics.values()])

    @property
    def setting(self) -> tuple[Any, ...]:
        """Settings that must be equal for two points to differ in receivers, size or beta alone."""
        return self.way, self.loss_percent, self.rate_mbit_s


def path_rtt_ms(spec: Mapping[str, Any]) -> float:
    """The round trip between a receiver and the publisher, of the links without a queue."""
    return 2 * sum(spec[hop]["delay_ms"] for hop in ("bottleneck", "last_hop") if spec[hop])


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
            carry=specs[label]["carrying"]["carry"],
            path_rtt_ms=path_rtt_ms(specs[label]),
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
    """`goodput_fall_percent`, `goodput_var_receivers`, `completion_ratio` and `sent_ratio` of points that differ in
    their receivers alone."""
    first, last = group[0], group[-1]
    falls = [None if ratio is None else 100 * (1 - ratio) for ratio in _by_seed(first, last, "goodput_mean_mbit_s")]
    fewest, most = VARIANCE_RECEIVERS
    papers = [point for point in group if fewest <= point.receivers <= most]
    return {
        "goodput_fall_percent": estimate(falls),
        "goodput_var_receivers": _each_seed(papers, "goodput_mean_mbit_s", variance, at_least=2),
        "completion_ratio": estimate(_by_seed(first, last, "completion_mean_s")),
        "sent_ratio": estimate(_by_seed(first, last, "publisher_sent_bytes")),
    }


def fall_of_mean(groups: Iterable[Sequence[Point]]) -> Estimate:
    """`goodput_fall_of_mean_percent` of groups as `over_receivers` takes them, one for each size."""
    ends = [(group[0], group[-1]) for group in groups]
    if not ends:
        return NOTHING
    fewest, most = min(first.receivers for first, _ in ends), max(last.receivers for _, last in ends)
    whole = [pair for pair in ends if (pair[0].receivers, pair[1].receivers) == (fewest, most)]
    if not whole:
        return NOTHING
    points = [*(first for first, _ in whole), *(last for _, last in whole)]

    def fall(values: Sequence[float]) -> float:
        return 100 * (1 - sum(values[len(whole) :]) / sum(values[: len(whole)]))

    return _each_seed(points, "goodput_mean_mbit_s", fall, at_least=2)


def beside_unicast(points: Sequence[Point]) -> dict[str, dict[str, Estimate]]:
    """`goodput_vs_unicast`, `completion_vs_unicast_s` and, of QUIC over names, `handshake_more_rtts` and
    `first_byte_more_rtts` of each point that has the variant `unicast` beside it, by label."""

    def place(point: Point) -> tuple[Any, ...]:
        return *point.setting[1:], point.receivers, point.file_bytes

    peers = {place(point): point for point in points if point.way == UNICAST}
    found = {}
    for point in points:
        peer = peers.get(place(point))
        if peer is not None and point.way != UNICAST:
            found[point.label] = {
                "goodput_vs_unicast": estimate(_by_seed(peer, point, "goodput_mean_mbit_s")),
                "completion_vs_unicast_s": _less(point, peer, "completion_mean_s", 1.0),
            }
            if point.carry == UNICAST_NAMES:
                found[point.label] |= {
                    f"{name}_more_rtts": _less(point, peer, f"{name}_ms", point.path_rtt_ms)
                    for name in ("handshake", "first_byte")
                }
    return found


def _less(one: Point, other: Point, metric: str, unit: float) -> Estimate:
    """Difference of a metric between two points, in a unit: each seed's, mean over seeds."""
    return estimate([None if None in pair else (pair[0] - pair[1]) / unit for pair in _pairs(one, other, metric)])


def over_sizes(group: Sequence[Point]) -> dict[str, Estimate]:
    """`completion_r2`, `completion_slope_s_mb` and `goodput_var_sizes` of points that differ in their file's size
    alone. A line takes three sizes."""
    sizes_mb = [point.file_bytes / 1e6 for point in group]
    lines = {"completion_r2": line_r2, "completion_slope_s_mb": line_slope}
    found = {
        metric: _each_seed(group, "completion_mean_s", partial(of_line, sizes_mb), at_least=3)
        for metric, of_line in lines.items()
    }
    return {**found, "goodput_var_sizes": _each_seed(group, "goodput_mean_mbit_s", variance, at_least=2)}


def line_slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Slope of the straight line of least squares. The xs are not all the same."""
    x, y = np.array(xs, float), np.array(ys, float)
    x -= x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def line_r2(xs: Sequence[float], ys: Sequence[float]) -> float:
    """R squared of that line; 1 where all ys are the same, since it misses none."""
    x, y = np.array(xs, float), np.array(ys, float)
    x, y = x - x.mean(), y - y.mean()
    whole = float((y * y).sum())
    left = y - line_slope(xs, ys) * x
    return 1 - float((left * left).sum()) / whole if whole else 1.0


def variance(values: Sequence[float]) -> float:
    """Of two values or more, divided by one less than they are."""
    return float(np.var(values, ddof=1))


def over_beta(group: Sequence[Point]) -> dict[str, Estimate]:
    """`retransmissions_ratio`, `best_beta`, `goodput_inside_ratio` and `goodput_of_best` of points that differ in their
    beta alone; None is the program's own."""
    by_beta = {point.beta: point for point in group}
    given = [point for beta, point in by_beta.items() if beta is not None]
    own = by_beta.get(None)
    found = {}
    if all(beta in by_beta for beta in RATIO_BETAS):
        at_four, at_twenty = (by_beta[beta] for beta in RATIO_BETAS)
        found["retransmissions_ratio"] = estimate(_by_seed(at_four, at_twenty, "retransmissions_percent"))
    best = best_of(given)
    if best is not None and len(given) > 1:
        found["best_beta"] = estimate([best.beta])
        if own is not None:
            found["goodput_of_best"] = estimate(_by_seed(best, own, "goodput_mean_mbit_s"))
    inside, end = best_of(given[1:-1]), best_of([*given[:1], *given[-1:]])
    if inside is not None and end is not None:
        found["goodput_inside_ratio"] = estimate(_by_seed(end, inside, "goodput_mean_mbit_s"))
    return found


def best_of(points: Iterable[Point]) -> Point | None:
    """The point of the highest mean goodput."""
    means = [(point, point.estimated("goodput_mean_mbit_s").mean) for point in points]
    known = [(point, mean) for point, mean in means if mean is not None]
    return max(known, key=lambda pair: pair[1])[0] if known else None


def _values(points: Sequence[Point], metric: str) -> dict[int, list[float | None]]:
    """The metric of all points, by the seeds that all have."""
    seeds = set.intersection(*(set(point.metrics) for point in points)) if points else set()
    return {seed: [point.metrics[seed].get(metric) for point in points] for seed in sorted(seeds)}


def _each_seed(
    points: Sequence[Point], metric: str, what: Callable[[Sequence[float]], float], at_least: int
) -> Estimate:
    """Estimate over each seed's values of the metric; nothing for fewer points."""
    if len(points) < at_least:
        return NOTHING
    found: list[float | None] = []
    for values in _values(points, metric).values():
        known = [value for value in values if value is not None]
        found.append(what(known) if len(known) == len(values) else None)
    return estimate(found)
