# SPDX-License-Identifier: Apache-2.0
"""Statistics over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom, then for the degrees named.
# fmt: off
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on
_T95_ABOVE = ((120, 1.980), (60, 2.000), (40, 2.021), (30, 2.042))


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds, standard deviation between them, and half the width of the mean's 95 % interval.

    `sd` and `ci95` are None for a single seed, `mean` where a run could not measure it.
    """

    mean: float | None
    sd: float | None
    ci95: float | None
    n: int


def estimate(values: Sequence[float | None]) -> Estimate:
    """Statistics over seeds; the interval is Student's t at 95 %."""
    n = len(values)
    known = [value for value in values if value is not None]
    if not n or len(known) < n:
        return Estimate(None, None, None, n)
    mean = math.fsum(known) / n
    if n == 1:
        return Estimate(rounded(mean), None, None, 1)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (n - 1))
    return Estimate(rounded(mean), rounded(sd), rounded(student_t95(n - 1) * sd / math.sqrt(n)), n)


def student_t95(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t; above 30 degrees the next lower in the table, which is wider."""
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom; an interval needs at least two values")
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    return next(value for least, value in _T95_ABOVE if degrees >= least)


def rounded(value: Any) -> Any:
    """Six decimals, so that files compare equal, and plain Python numbers."""
    if value is None or isinstance(value, int):
        return value
    return round(float(value), 6) + 0.0  # the sum turns -0.0 into 0.0
