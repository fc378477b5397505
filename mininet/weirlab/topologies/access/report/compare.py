# SPDX-License-Identifier: Apache-2.0
"""Variants beside their peers: which columns there are, and the content of a cell."""

from collections.abc import Mapping
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import NOTHING, paper_figure, shown
from weirlab.store.folder import Summary
from weirlab.topologies.access.peers import relative

# Stem of a relative metric, its unit, heading, decimals.
RELATIVE = (
    ("tct_mean", "percent", "mean TCT, %", 2),
    ("tct_var", "percent", "variance, %", 2),
    ("regret", "ms", "regret, ms", 1),
    ("pseudo_regret", "ms", "of the means, ms", 1),
    ("transfer_time", "percent", "transfer time, %", 2),
    ("goodput", "percent", "goodput, %", 2),
    ("window_promised_peak", "percent", "promised peak, %", 1),
)


def beside_peers(
    specs: Mapping[str, Mapping[str, Any]], summary: Summary
) -> dict[tuple[str, str], dict[str, Estimate]]:
    """As `relative`, means over settings first."""
    found = relative(specs, {(run.variant, run.seed): run.metrics for run in summary.runs})
    return dict(sorted(found.items(), key=lambda item: item[0][0] in specs))


def heads_of(found: Mapping[tuple[str, str], Mapping[str, Estimate]]) -> list[list[tuple[str, str, str, int]]]:
    """The columns of the comparisons: one list for path choice, one for windows, each only if there are any."""
    there = [head for head in RELATIVE if any(named(values, head) for values in found.values())]
    choice = [head for head in there if head[0] in ("tct_mean", "tct_var", "regret", "pseudo_regret")]
    return [heads for heads in (choice, [head for head in there if head not in choice]) if heads]


def named(values: Mapping[str, Estimate], head: tuple[str, str, str, int]) -> str | None:
    """The name that the metric of this column has in `values`; which peer it is against is part of it."""
    return next((name for name in values if name.startswith(f"{head[0]}_vs_") and name.endswith(head[1])), None)


def relative_cell(
    paper: Mapping[str, Any], label: str, values: Mapping[str, Estimate], head: tuple[str, str, str, int]
) -> tuple[str, str]:
    name = named(values, head)
    if name is None:
        return NOTHING, ""
    return shown(values[name], head[3]), paper_figure(paper, label, name)
