# SPDX-License-Identifier: Apache-2.0
"""Comparisons of runs, as lines of a table: over receivers, over sizes, over beta."""

from collections.abc import Mapping, Sequence
from typing import Any

from weirlab.report.labels import NOTHING as NO_FIGURE
from weirlab.report.labels import count, paper_figure, shown
from weirlab.topologies.edge.cross_run_stats import (
    CROSS_METRICS,
    NOTHING,
    UNICAST,
    Point,
    alike,
    beside_unicast,
    over_beta,
    over_receivers,
    over_sizes,
)
from weirlab.topologies.edge.report.paper import paper_points
from weirlab.topologies.edge.requirements import MET, answers

Line = tuple[str, list[tuple[str, str]]]
HEADS = {
    "receivers": ("less goodput, %", "time, ratio", "publisher sent, ratio", "variance of goodput, 4 to 7"),
    "unicast": ("goodput, ratio", "time, s more"),
    "sizes": ("time, s for 1 MB", "R² of time over size", "variance of goodput"),
    "beta": ("asked again, 20 over 4", "best beta", "best inside, of the ends", "default, of the best"),
    "asked": ("measured", "target", "the paper's", "met"),
}
VARIANCE_NOTE = (
    "Huang et al. give four variances of goodput for four rounds with different numbers of devices, and do not say "
    "whether over sizes or over rounds. Here they stand beside those over sizes, for 4 to 7 receivers in this order."
)
ASKED_NOTE = (
    "A line for each figure and variant, with its worst case (small) and the 95 % interval of that over seeds. Met: "
    "the whole interval of each case is within the bounds. Missed: all of some case's is outside. Open: a bound is "
    "inside of an interval, so more seeds are needed. A single seed's value decides alone. What is asked of 32 "
    "receivers beside one, at 1 % of loss, is not asked of other runs."
)


def kilobytes(file_bytes: int) -> str:
    return f"{file_bytes / 1000:g} kB"


def over_receivers_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    lines = []
    for group in alike(points, "receivers").values():
        found = over_receivers(group)
        name = f"{_named(group[0])}, {kilobytes(group[0].file_bytes)}, {group[0].receivers} to {group[-1].receivers}"
        decimals = {"goodput_fall_percent": 2, "completion_ratio": 4, "sent_ratio": 4, "goodput_var_receivers": 3}
        cells = [(shown(found[m], d), paper_figure(paper, group[0].way, m)) for m, d in decimals.items()]
        lines.append((name, cells))
    return lines


def beside_unicast_lines(points: Sequence[Point]) -> list[Line]:
    return [
        (label, [(shown(found["goodput_vs_unicast"], 3), ""), (shown(found["completion_vs_unicast_s"], 4), "")])
        for label, found in beside_unicast(points).items()
    ]


def over_sizes_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    lines = []
    for group in alike(points, "file_bytes").values():
        found = over_sizes(group)
        theirs = dict(paper_points(paper, "receivers", "goodput_var_sizes")) if group[0].way != UNICAST else {}
        variance = theirs.get(group[0].receivers)
        cells = [
            (shown(found["completion_slope_s_mb"], 4), ""),
            (shown(found["completion_r2"], 6), ""),
            (shown(found["goodput_var_sizes"], 3), "" if variance is None else f"{paper['short']} {variance:g}"),
        ]
        lines.append((f"{_named(group[0])}, {count(group[0].receivers, 'receiver')}", cells))
    return lines


def over_beta_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    lines = []
    for group in alike(points, "beta").values():
        found = over_beta(group)
        metrics = {"retransmissions_ratio": 3, "best_beta": 0, "goodput_inside_ratio": 4, "goodput_of_best": 4}
        cells = [(shown(found.get(m, NOTHING), d), paper_figure(paper, group[0].way, m)) for m, d in metrics.items()]
        lines.append((f"{_named(group[0])}, {group[0].loss_percent:g} % loss", cells))
    return lines


def asked_lines(points: Sequence[Point], paper: Mapping[str, Any]) -> list[Line]:
    """Targets, figures, and whether the targets are met."""
    found = answers(points)
    rates = {point.rate_mbit_s for point in points}
    lines = []
    for answer in found:
        asked, worst, verdicts = answer.asked, answer.worst, answer.verdicts
        name = f"{answer.way}{f', {answer.rate_mbit_s:g} Mbit/s' if len(rates) > 1 else ''}: {asked.words}"
        theirs = paper_figure_of(paper, answer.way, asked.metric)
        met = f"{verdicts.count(MET)} of {len(verdicts)}" if len(verdicts) > 1 else ""
        cells = [
            (shown(worst.found, asked.decimals), worst.where),
            (asked.bounds if verdicts else NO_FIGURE, ""),
            (NO_FIGURE if theirs is None else f"{theirs:g}", ""),
            (answer.verdict, met),
        ]
        lines.append((name, cells))
    return lines


def paper_figure_of(paper: Mapping[str, Any], way: str, metric: str) -> float | None:
    """The paper's figure of this kind for a variant, if it has one. Its fall is one of the mean over sizes."""
    figures: Mapping[str, float] = paper["figures"].get(way, {}) if paper else {}
    return figures.get("goodput_fall_percent" if metric == "goodput_fall_of_mean_percent" else metric)


def tables(points: Sequence[Point], paper: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[Line]]]:
    """Corner, heads and lines of each table that there is something for."""
    found = [
        ("most receivers beside fewest", HEADS["receivers"], over_receivers_lines(points, paper)),
        ("beside unicast", HEADS["unicast"], beside_unicast_lines(points)),
        ("file sizes", HEADS["sizes"], over_sizes_lines(points, paper)),
        ("beta", HEADS["beta"], over_beta_lines(points, paper)),
    ]
    return [(corner, heads, lines) for corner, heads, lines in found if lines]


def caption(points: Sequence[Point], paper: Mapping[str, Any]) -> str:
    words = " ".join(f"{name}: {text}." for name, text in CROSS_METRICS.items())
    beside = paper_points(paper, "receivers", "goodput_var_sizes") and alike(points, "file_bytes")
    return f"{VARIANCE_NOTE} {words}" if beside else words


def _named(point: Point) -> str:
    return f"{point.way}, {point.rate_mbit_s:g} Mbit/s"
