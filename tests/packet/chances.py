# SPDX-License-Identifier: Apache-2.0
"""Bounds on a count of random events: its largest distance from the mean before a test fails."""

import functools
import math

FALSE_ALARM = 1e-10
"""Of one comparison, each of its two sides; a run makes fewer than a hundred."""


@functools.cache
def bounds(n: int, p: float) -> tuple[int, int]:
    """The range that a binomial count leaves with a probability of at most 2 FALSE_ALARM."""
    if p in (0, 1):
        return int(n * p), int(n * p)

    def chance(k: int) -> float:
        choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        return math.exp(choose + k * math.log(p) + (n - k) * math.log1p(-p))

    low, below = 0, chance(0)
    while below <= FALSE_ALARM:
        low += 1
        below += chance(low)
    high, above = n, chance(n)
    while above <= FALSE_ALARM:
        high -= 1
        above += chance(high)
    return low, high
