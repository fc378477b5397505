# SPDX-License-Identifier: Apache-2.0
"""One run's figures with what was run, as all suites conclude from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

DELAY, P99, GOODPUT = "queue_delay_mean_ms", "queue_delay_p99_ms", "goodput_total_mbit_s"
LOSS, JAIN, MARKS, COMPLETION = "loss_percent", "jain_index", "marks_packets", "fct_mean_ms"
BULK_GOODPUT = "goodput_bulk_mbit_s"  # of the long flows beside short transfers
# Delays below that count as that much in every ratio: nothing that a queue serves can distinguish them.
DELAY_FLOOR_MS = 1.0
SHOWN_AS = {"us": (1000.0, "ms")}  # units that readers see as another, and how many make one of it
UNITS = ("us", "ms", "s", "packets", "bytes", "percent", "mbit", "q16", "count")


@dataclass(frozen=True, order=True)
class Setting:
    """A discipline's own parameter, named with its unit as in scenario files, and its value: target_ms, 5."""

    parameter: str
    value: float

    @property
    def unit(self) -> str:
        return self.parameter.rpartition("_")[2]

    @property
    def text(self) -> str:
        """As in tables: target_ms=5."""
        return f"{self.parameter}={self.value:g}"

    @property
    def words(self) -> str:
        """For readers: 5 ms, whatever the parameter's own unit is."""
        many, unit = SHOWN_AS.get(self.unit, (1.0, self.unit))
        return f"{self.value / many:g} {unit}"

    @property
    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"parameter": self.parameter, "value": self.value, "unit": self.unit}


@dataclass(frozen=True)
class RunRow:
    """One run's figures; `group` is the group of scenarios that its scenario belongs to, `batch` counts from 0.

    `setting` is there where a suite runs a variant at several.
    """

    scenario: str
    group: str
    variant: str
    seed: int
    metrics: Mapping[str, Any]
    batch: int = 0
    setting: Setting | None = None


def by_scenario(rows: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    """Rows by scenario, in the order of their first ones. Raises ValueError where a run is there twice."""
    seen: set[tuple[str, str, Setting | None, int, int]] = set()
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        key = (row.scenario, row.variant, row.setting, row.seed, row.batch)
        if key in seen:
            at = f" at {row.setting.text}" if row.setting else ""
            raise ValueError(f"{row.scenario}, {row.variant}{at}, seed {row.seed} is there twice; give each run once")
        seen.add(key)
        found.setdefault(row.scenario, []).append(row)
    return found


class Grouped(Protocol):
    """A scenario with its group."""

    @property
    def group(self) -> str: ...


G = TypeVar("G", bound=Grouped)


def by_group(scenarios: Sequence[G]) -> dict[str, list[G]]:
    """Scenarios by group, in the order of the first ones."""
    found: dict[str, list[G]] = {}
    for scenario in scenarios:
        found.setdefault(scenario.group, []).append(scenario)
    return found
