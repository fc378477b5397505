# SPDX-License-Identifier: Apache-2.0
"""What runs say together, as lines of a table: over receivers, over sizes, over beta."""

from collections.abc import Mapping, Sequence
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report.words import NOTHING, paper_figure, shown
from weirlab.topologies.edge.across import (
    CROSS_METRICS,
    Point,
    alike,
    beside_unicast,
    over_beta,
    over_receivers,
    over_sizes,
)

Line = tuple[str, list[tuple[str, str]]]
HEADS = {
    "receivers": ("less goodput, %", "time, ratio", "publisher sent, ratio"),
    "unicast": ("goodput, ratio", "time, s more"),
    "sizes": ("R² of time over size",),
    "beta": ("asked again, ratio", "goodput, of the best"),
}


def kilobytes(file_bytes: int) -> str:
    return f"{file_bytes / 1000:g} kB"


def over_receivers_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    lines = []
    for group in alike(points, "receivers").values():
        found = over_receivers(group)
        name = f"{_named(group[0])}, {kilobytes(group[0].file_bytes)}, {group[0].receivers} to {group[-1].receivers}"
        decimals = {"goodput_fall_percent": 2, "completion_ratio": 4, "sent_ratio": 4}
        cells = [(shown(found[m], d), paper_figure(paper, group[0].way, m)) for m, d in decimals.items()]
        lines.append((name, cells))
    return lines


def beside_unicast_lines(points: Sequence[Point]) -> list[Line]:
    return [
        (label, [(shown(found["goodput_vs_unicast"], 3), ""), (shown(found["completion_vs_unicast_s"], 4), "")])
        for label, found in beside_unicast(points).items()
    ]


def over_sizes_lines(points: Sequence[Point]) -> list[Line]:
    lines = []
    for group in alike(points, "file_bytes").values():
        r2 = over_sizes(group)
        if r2 is not None:
            lines.append((f"{_named(group[0])}, {group[0].receivers} receivers", [(f"{r2:.6f}", "")]))
    return lines


def over_beta_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    lines = []
    for group in alike(points, "beta").values():
        found = over_beta(group)
        metrics = ("retransmissions_ratio", "goodput_of_best")
        cells = [(_cell(found.get(metric)), paper_figure(paper, group[0].way, metric)) for metric in metrics]
        lines.append((f"{_named(group[0])}, {group[0].loss_percent:g} % loss", cells))
    return lines


def tables(points: Sequence[Point], paper: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[Line]]]:
    """Corner, heads and lines of each table that there is something for."""
    found = [
        ("most receivers beside fewest", HEADS["receivers"], over_receivers_lines(points, paper)),
        ("beside unicast", HEADS["unicast"], beside_unicast_lines(points)),
        ("file sizes", HEADS["sizes"], over_sizes_lines(points)),
        ("beta", HEADS["beta"], over_beta_lines(points, paper)),
    ]
    return [(corner, heads, lines) for corner, heads, lines in found if lines]


def caption() -> str:
    return " ".join(f"{name}: {text}." for name, text in CROSS_METRICS.items())


def _named(point: Point) -> str:
    return f"{point.way}, {point.rate_mbit_s:g} Mbit/s"


def _cell(value: Estimate | float | None) -> str:
    if isinstance(value, Estimate):
        return shown(value, 3)
    return NOTHING if value is None else f"{value:.3f}"
