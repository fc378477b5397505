# SPDX-License-Identifier: Apache-2.0
"""The plots: goodput over receivers, time over sizes, beta's curve, what the switches made one of."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weirlab.report.plots import DASHES, MARKERS, STAND_INS, STYLE, log_ticks, svg
from weirlab.topologies.edge.across import Point, alike
from weirlab.topologies.edge.report.compare import kilobytes

WAY_HUES = {"names": "tuned", "unicast": "pie", "unicast-names": "codel"}
CAPTIONS = {
    "receivers": (
        "Goodput over receivers",
        "Mean goodput of a receiver, mean over seeds with its 95 % interval; a line for each file size.",
    ),
    "sent": (
        "What the publisher sent, over receivers",
        "Bytes that left the publisher over the file's size; 1 is one copy. Both axes are logarithmic.",
    ),
    "sizes": (
        "Time over file sizes",
        "From the start until a receiver has the file: mean over receivers and seeds. Both axes are logarithmic.",
    ),
    "beta": (
        "Beta",
        "What is asked for again, and goodput, over beta: mean over seeds with its 95 % interval; a line for each "
        "loss.",
    ),
    "merged": (
        "Who merged what",
        "Packets at each switch, the first seed. Above: Interests that came, by what became of them. Below: Data that "
        "came, and the copies that were sent of it.",
    ),
}
INTERESTS = (
    ("interests_forwarded", "sent on", "tuned"),
    ("interests_repeated", "sent on again", "pie"),
    ("interests_joined", "joined", "pfifo"),
)
DATA = (("data_forwarded", "Data that came", "tuned"), ("data_copies", "copies sent", "codel"))
MOST_PANELS = 6


def all_plots(points: Sequence[Point]) -> Iterable[tuple[str, str, str, str]]:
    """Each plot that these runs give something for, as name, heading, caption and SVG."""
    drawn: dict[str, Callable[[Sequence[Point]], Figure]] = {}
    if alike(points, "receivers"):
        drawn |= {"receivers": goodput_over_receivers, "sent": sent_over_receivers}
    if alike(points, "file_bytes"):
        drawn["sizes"] = time_over_sizes
    if alike([point for point in points if point.beta is not None], "beta"):
        drawn["beta"] = beta_curve
    if merging(points):
        drawn["merged"] = who_merged_what
    with mpl.rc_context(STYLE):
        for name, draw in drawn.items():
            heading, caption = CAPTIONS[name]
            yield name, heading, caption, svg(draw(points), name, heading)


def _lines(ax: Axes, groups: Iterable[Sequence[Point]], x: str, metric: str, label: Callable[[Point], str]) -> None:
    """A line with error bars for each group."""
    for place, group in enumerate(groups):
        known = [
            (getattr(point, x), estimate) for point in group if (estimate := point.estimated(metric)).mean is not None
        ]
        if not known:
            continue
        xs, estimates = zip(*known, strict=True)
        ax.errorbar(
            xs,
            [estimate.mean for estimate in estimates],
            yerr=[estimate.ci95 or 0.0 for estimate in estimates],
            color=STAND_INS[_hue(group[0].way)],
            linestyle=DASHES[place % len(DASHES)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            capsize=2,
            label=label(group[0]),
        )


def _hue(way: str) -> str:
    """A variant's colour: by the way it is named after; others are as `other`."""
    return WAY_HUES.get(way, "other")


def _figure(columns: int = 1, height: float = 3.4, **more: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(11 if columns > 1 else 7.5, height))
    return figure, list(figure.subplots(1, columns, squeeze=False, **more).flat)


def _legend(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(handles), 4), handlelength=3.2)


def _over_receivers(points: Sequence[Point], metric: str, y_label: str) -> tuple[Figure, Axes]:
    figure, (ax,) = _figure()
    groups = alike(points, "receivers").values()
    _lines(ax, groups, "receivers", metric, lambda point: f"{point.way}, {kilobytes(point.file_bytes)}")
    ax.set_xscale("log", base=2)
    counts = sorted({point.receivers for point in points})
    ax.set_xticks(counts, [str(number) for number in counts])
    ax.minorticks_off()
    ax.set_xlabel("receivers")
    ax.set_ylabel(y_label)
    _legend(figure, ax)
    return figure, ax


def goodput_over_receivers(points: Sequence[Point]) -> Figure:
    figure, ax = _over_receivers(points, "goodput_mean_mbit_s", "goodput of a receiver, Mbit/s")
    ax.set_ylim(bottom=0)
    return figure


def sent_over_receivers(points: Sequence[Point]) -> Figure:
    figure, ax = _over_receivers(points, "publisher_sent_ratio", "sent by the publisher, files")
    ax.set_yscale("log")
    log_ticks(ax, "y")
    return figure


def time_over_sizes(points: Sequence[Point]) -> Figure:
    figure, (ax,) = _figure()
    groups = alike(points, "file_bytes").values()
    _lines(ax, groups, "file_bytes", "completion_mean_s", lambda point: f"{point.way}, {point.receivers}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    sizes = sorted({point.file_bytes for point in points})
    ax.set_xticks(sizes, [kilobytes(size) for size in sizes])
    ax.minorticks_off()
    log_ticks(ax, "y")
    ax.set_xlabel("file size; in the legend: the number of receivers")
    ax.set_ylabel("time until complete, s")
    _legend(figure, ax)
    return figure


def beta_curve(points: Sequence[Point]) -> Figure:
    figure, axes = _figure(2)
    groups = list(alike([point for point in points if point.beta is not None], "beta").values())
    told = (("retransmissions_percent", "asked for again, %"), ("goodput_mean_mbit_s", "goodput, Mbit/s"))
    for ax, (metric, y_label) in zip(axes, told, strict=True):
        _lines(ax, groups, "beta", metric, lambda point: f"{point.way}, {point.loss_percent:g} % loss")
        ax.set_xlabel("beta")
        ax.set_ylabel(y_label)
        ax.set_ylim(bottom=0)
    _legend(figure, axes[0])
    return figure


def merging(points: Sequence[Point]) -> list[Point]:
    """The points of the largest number of receivers of each way whose switches counted names; of these the largest
    file."""
    found: dict[tuple[str, float | None], Point] = {}
    for point in sorted(points, key=lambda point: (point.receivers, point.file_bytes)):
        if switches_of(point):
            found[point.way, point.loss_percent] = point
    return list(found.values())[:MOST_PANELS]


def switches_of(point: Point) -> list[str]:
    """The switches that counted Interests, from the publisher's on."""
    first = point.metrics[min(point.metrics)]
    found = [key.rpartition("_at_")[2] for key in first if key.startswith("interests_forwarded_at_")]
    above = ("core", "hub")
    return [*(name for name in above if name in found), *(name for name in found if name not in above)]


def who_merged_what(points: Sequence[Point]) -> Figure:
    chosen = merging(points)
    columns = min(len(chosen), 3)
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(11 if columns > 1 else 7.5, 3.6 * rows))
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in list(grid.flat)[len(chosen) :]:
        ax.set_visible(False)
    for ax, point in zip(grid.flat, chosen, strict=False):
        first, switches = point.metrics[min(point.metrics)], switches_of(point)
        for bars, shift in ((INTERESTS, 0.2), (DATA, -0.2)):
            left = [0.0] * len(switches)
            for counter, words, hue in bars:
                values = [float(first.get(f"{counter}_at_{switch}", 0)) for switch in switches]
                places = [-place + shift for place in range(len(switches))]
                ax.barh(places, values, 0.34, left=left, color=STAND_INS[hue], label=words, hatch=_hatch(bars))
                left = [before + value for before, value in zip(left, values, strict=True)]
        ax.set_yticks([-place for place in range(len(switches))], switches)
        ax.set_title(f"{point.way}, {point.receivers} receivers, {kilobytes(point.file_bytes)}")
        ax.set_xlabel("packets")
    _legend(figure, grid.flat[0])
    return figure


def _hatch(bars: Sequence[tuple[str, str, str]]) -> str:
    return "//" if bars is DATA else ""
