# SPDX-License-Identifier: Apache-2.0
"""Numbers and notes as all reports write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.store.folder import RunResult, Summary

# Rows of a table: metric, label, unit, decimals; a None starts a group.
Rows = Sequence[tuple[str | None, str, str, int]]
NOTHING = "\N{EN DASH}"  # shown where a run has nothing to measure a figure by


@dataclass(frozen=True)
class Variant:
    """A column of the table: its label, what was run, its runs and their series by seed, and how it is drawn."""

    label: str
    spec: dict[str, Any]
    runs: dict[int, RunResult]
    series: dict[int, Any]
    hue: str
    dash: Any
    marker: str


def shown(value: Estimate, decimals: int) -> str:
    """Mean, plus or minus half its interval; an en dash where there is nothing."""
    if value.mean is None:
        return NOTHING
    mean = fixed(value.mean, decimals)
    return mean if value.ci95 is None else f"{mean} ± {value.ci95:.{decimals}f}"


def fixed(value: float, decimals: int) -> str:
    """So many decimals, and no minus before a zero."""
    text = f"{value:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")


def paper_figure(paper: Mapping[str, Any], label: str, metric: str) -> str:
    """The paper's figure with its name; empty if it gives none. Sub-variants are not the paper's."""
    figure = paper["figures"].get(label, {}).get(metric) if paper else None
    return "" if figure is None else f"{paper['short']} {figure:g}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def measured(rows: Rows, summary: Summary) -> Rows:
    """The rows that some variant has a value for, and the groups that have such rows."""
    found: list[tuple[str | None, str, str, int]] = []
    for row in rows:
        if row[0] is None and found and found[-1][0] is None:
            found.pop()
        if row[0] is None or anywhere(summary, row[0]):
            found.append(row)
    return found[:-1] if found and found[-1][0] is None else found


def estimated(summary: Summary, label: str, metric: str) -> Estimate:
    """A variant's figure; nothing where its runs don't have it at all."""
    return summary.variants[label].get(metric, Estimate(None, None, None, 0))


def anywhere(summary: Summary, metric: str) -> bool:
    return any(metric in m and m[metric].mean is not None for m in summary.variants.values())
