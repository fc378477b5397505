# SPDX-License-Identifier: Apache-2.0
"""A discipline as a curve over its settings, and two curves compared. Pure: points in, numbers out.

A point is what a discipline reached at one setting: `x`, of which more is better (goodput; or loss with its sign
turned), and `y`, of which less is better (a delay), above 0.

- **A curve** is made of a discipline's own points alone: those that none of them equals or beats in both and beats in
  one, joined by straight lines in x and the logarithm of y. A point between two settings is taken to be reachable by a
  setting between them. Logarithms, because delays are compared by their ratio; and so the curve gives the same pairs
  whether it is asked at equal x or at equal y.
- **Beyond its ends** a curve is what it can do at least: at less x than its first point has, that point's y; at more y
  than its last point has, that point's x. More x than the last point has, or less y than the first, it can't do.
- **At equal x** two curves are compared at the most x that both reach, less a tolerance of 0.5 %: each may choose the
  setting with the least y that costs no more than that.
- **At equal y** they are compared over all y that both have: mean x of the one over mean x of the other, y by its
  logarithm. Where they have none in common, at the least y that both reach.
- **The area between them** is taken over all x that either has, from the least of the two first points to the greatest
  of the two last. Where a curve doesn't reach, it counts with the greatest y of either curve. Divided by the width it
  is a mean of ln(y of the one / y of the other), and its exponential one number: the geometric mean ratio of delays at
  equal x. Below 1 the area is in favour of the first.
- **Intervals** are over seeds, at 95 %, by the jackknife: the number is computed again with each seed left out (of both
  disciplines, whose runs of a seed belong together), and Student's t is taken of what that changes, in logarithms. For
  a mean this is the interval that all other tables have. A bootstrap of three seeds has ten different resamples only,
  and its interval is too narrow; a number for each seed alone would be taken of curves with all their noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from weirlab.metrics.estimate import student_t95

SAME = 0.005  # goodput that differs by that share is equal


@dataclass(frozen=True)
class At:
    """A point of a curve. `more` has other figures there, which are interpolated along; `name` says which setting it
    is, or between which two."""

    x: float
    y: float
    more: Mapping[str, float] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class Interval:
    """A ratio with its 95 % interval; without one where there is a single seed."""

    ratio: float
    low: float | None
    high: float | None
    seeds: int


@dataclass(frozen=True)
class Curve:
    """The non-dominated points of one discipline, x and y growing. At least one point; make it by `curve_of`."""

    points: tuple[At, ...]

    @property
    def first(self) -> At:
        return self.points[0]

    @property
    def last(self) -> At:
        return self.points[-1]

    def at_x(self, x: float) -> At | None:
        """The point of least y with that much x or more; None beyond the last."""
        if x > self.last.x:
            return None
        if x <= self.first.x:
            return self.first
        left, right = next((a, b) for a, b in pairwise(self.points) if x <= b.x)
        return between(left, right, (x - left.x) / (right.x - left.x))

    def at_y(self, y: float) -> At | None:
        """The point of most x with that much y or less; None before the first."""
        if y < self.first.y:
            return None
        if y >= self.last.y:
            return self.last
        left, right = next((a, b) for a, b in pairwise(self.points) if y <= b.y)
        way = math.log(right.y) - math.log(left.y)  # 0 where they differ by a rounding
        return between(left, right, (math.log(y) - math.log(left.y)) / way if way > 0 else 0.0)


def curve_of(points: Iterable[At]) -> Curve | None:
    """The curve of these points, in any order; None if there are none. Raises ValueError for a y not above 0."""
    best: list[At] = []
    for point in sorted(points, key=lambda at: (at.y, -at.x, at.name)):
        if not point.y > 0:
            raise ValueError(f"y = {point.y:g} at x = {point.x:g}; a curve's y must be above 0")
        if not best or point.x > best[-1].x:
            best.append(point)
    return Curve(tuple(best)) if best else None


def between(left: At, right: At, share: float) -> At:
    """The point at that share of the way; the ends themselves at 0 and 1."""
    if share <= 0:
        return left
    if share >= 1:
        return right

    def mixed(a: float, b: float) -> float:
        return a + share * (b - a)

    more = {key: mixed(left.more[key], right.more[key]) for key in left.more if key in right.more}
    y = math.exp(mixed(math.log(left.y), math.log(right.y)))
    return At(mixed(left.x, right.x), y, more, f"{left.name} to {right.name}")


def at_equal_x(one: Curve, other: Curve, tolerance: float = SAME) -> tuple[At, At]:
    """Both at the most x, which is above 0, that both reach, less the tolerance."""
    level = min(one.last.x, other.last.x) * (1 - tolerance)
    found = one.at_x(level), other.at_x(level)
    assert found[0] is not None  # the level is one that both reach
    assert found[1] is not None
    return found[0], found[1]


def x_at_equal_y(one: Curve, other: Curve) -> float | None:
    """Mean x of the one over that of the other, over all y that both have; None where the other's is 0."""
    low, high = max(one.first.y, other.first.y), min(one.last.y, other.last.y)
    means = [_mean_x(curve, low, high) for curve in (one, other)]
    return means[0] / means[1] if means[1] > 0 else None


def _mean_x(curve: Curve, low: float, high: float) -> float:
    """Mean x from one y to another by the logarithm of y; at the first alone if the other is not above it,
    or by a rounding only."""

    def x_of(y: float) -> float:
        found = curve.at_y(y)
        return curve.first.x if found is None else found.x  # None: by a rounding below the first

    way = math.log(high / low)
    if not way > 0:
        return x_of(low)
    levels = sorted({low, high, *(at.y for at in curve.points if low < at.y < high)})
    parts = ((math.log(b / a), (x_of(a) + x_of(b)) / 2) for a, b in pairwise(levels))
    return math.fsum(width * x for width, x in parts) / way


def area(one: Curve, other: Curve) -> float:
    """Mean of ln(y of the one / y of the other) over all x that either has: see above. Below 0: the one is better."""
    low, high = min(one.first.x, other.first.x), max(one.last.x, other.last.x)
    if high <= low:
        return math.log(one.first.y / other.first.y)
    worst = max(one.last.y, other.last.y)

    def log_y(curve: Curve, x: float) -> float:
        found = curve.at_x(x)
        return math.log(worst if found is None else found.y)

    edges = sorted({low, high, *(at.x for curve in (one, other) for at in curve.points)})
    # Between two edges both logarithms are straight lines, so that the middle is the mean.
    parts = [(b - a, (a + b) / 2) for a, b in pairwise(edges)]
    return math.fsum(width * (log_y(one, x) - log_y(other, x)) for width, x in parts) / (high - low)


def jackknife(ratio_of: Callable[[Sequence[int]], float | None], seeds: Sequence[int]) -> Interval | None:
    """A ratio above 0 that is computed of some seeds' runs, with its interval over all of them. None where it can't be
    computed of all."""
    whole = ratio_of(seeds)
    if whole is None:
        return None
    count = len(seeds)
    less = [ratio_of([seed for seed in seeds if seed != left_out]) for left_out in seeds] if count > 1 else []
    if count < 2 or any(value is None or not value > 0 for value in less) or not whole > 0:
        return Interval(whole, None, None, count)
    logs = [math.log(value) for value in less if value is not None]
    mean = math.fsum(logs) / count
    error = math.sqrt((count - 1) / count * math.fsum((value - mean) ** 2 for value in logs))
    factor = math.exp(student_t95(count - 1) * error)
    return Interval(whole, whole / factor, whole * factor, count)
