# SPDX-License-Identifier: Apache-2.0
"""Counters of a congestion control that learns, from a sender's `end` lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weirlab.metrics.samples import SamplesError, is_number, listed

COUNTS = ("made", "outside", "by_bbr")
METRICS: dict[str, str] = {
    "decisions_outside_percent": "decisions of a learned control that met a quantity out of its training's ranges",
    "decisions_by_bbr_percent": "decisions of a learned control after which the window was BBR's: in a path's startup, "
    "or far outside of the training's ranges",
}


def counted(path: Path, records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The sums of COUNTS over the connections of an end, out of its lines; empty where no line has `decisions`.

    Raises SamplesError naming the file."""
    found: dict[str, float] = {}
    for each in (record["decisions"] for record in records if "decisions" in record):
        if not isinstance(each, dict) or not all(is_number(each.get(name)) for name in COUNTS):
            raise SamplesError(f"{path}: decisions is {each!r} in an end line; it must have numbers {listed(COUNTS)}")
        found = {name: found.get(name, 0.0) + each[name] for name in COUNTS}
    return found


def percentages(counts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """METRICS of the ends that counted so; empty where none made a decision."""
    known = [each for each in counts if each]
    made = sum(each["made"] for each in known)
    if not made:
        return {}
    return {f"decisions_{name}_percent": 100 * sum(each[name] for each in known) / made for name in COUNTS[1:]}
