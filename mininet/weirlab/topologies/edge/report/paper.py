# SPDX-License-Identifier: Apache-2.0
"""Points of the paper's curves, to be drawn beside ours. They belong to a number of receivers or a beta, not to a
variant as `[paper.figures]` of a scenario does."""

from collections.abc import Mapping
from typing import Any

HUANG = "Huang et al."
"""`short` of a scenario's [paper] whose curves these are. Another network than ours: a radio, Raspberry Pi."""

POINTS: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {
    ("receivers", "goodput_mean_mbit_s"): ((4, 14.53), (7, 13.46)),  # Fig. 2a
    ("beta", "goodput_mean_mbit_s"): ((8, 10.44),),  # Fig. 3, the best
    ("receivers", "goodput_var_sizes"): ((4, 0.013), (5, 0.028), (6, 0.096), (7, 0.064)),  # section 5
}
"""By axis and metric."""


def paper_points(paper: Mapping[str, Any], axis: str, metric: str) -> tuple[tuple[float, float], ...]:
    """The paper's points of this curve; none if the scenario names another paper, or none."""
    return POINTS.get((axis, metric), ()) if paper.get("short") == HUANG else ()
