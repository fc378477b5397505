# SPDX-License-Identifier: Apache-2.0
"""Words and tables of all suites' reports."""

from __future__ import annotations

import math
from collections.abc import Iterable

from weirlab.evaluation.shared.rows import COMPLETION, DELAY, GOODPUT, JAIN, LOSS, MARKS, P99

# Columns of every table of figures, as far as a run has them: metric, words, decimals.
FIGURES = (
    (DELAY, "mean delay, ms", 2),
    (P99, "p99, ms", 1),
    (GOODPUT, "goodput, Mbit/s", 3),
    (LOSS, "lost, %", 2),
    (MARKS, "marks, packets", 0),
    (JAIN, "Jain's index", 3),
    (COMPLETION, "short transfers, ms", 0),
)
GROUP_WORDS = {
    "table2": "Table II",
    "flows": "Numbers of flows",
    "grid": "Rate by round trip",
    "cc": "Congestion controls",
    "fairness": "Round trips side by side",
    "unresponsive": "Unresponsive traffic",
    "short": "Short transfers",
    "steps": "Steps",
    "long": "A long run",
    "bursts": "Bursts",
    "ecn": "ECN",
}


def geometric_mean(values: Iterable[float]) -> float | None:
    """None where there are no values. Values must be above 0."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
