# SPDX-License-Identifier: Apache-2.0
"""The plots: goodput and time over receivers and over sizes, beta's curve, what the switches made one of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weirlab.report.plots import DASHES, MARKERS, STAND_INS, STYLE, log_ticks, svg
from weirlab.topologies.edge.cross_run_stats import Point, alike
from weirlab.topologies.edge.report.compare import kilobytes
from weirlab.topologies.edge.report.paper import HUANG, paper_points

WAY_HUES = {
    "names": "tuned",
    "names-no-cache": "cake",
    "timer": "codel",
    "unicast": "pie",
    "unicast-names": "codel",
}
CAPTIONS = {
    "receivers": (
        "Goodput and time over receivers",
        "Mean goodput of a receiver, and the time until it has the file: mean over receivers, then over seeds with its "
        "95 % interval; a line for each file size.",
    ),
    "sent": (
        "Bytes from the publisher, over receivers",
        "Bytes that left the publisher over the file's size, mean over seeds with its 95 % interval; 1 is one copy "
        "without headers. Both axes are logarithmic.",
    ),
    "sizes": (
        "Goodput and time over file sizes",
        "Mean goodput of a receiver, and the time from the start until it has the file: mean over receivers, then over "
        "seeds with its 95 % interval; a line for each number of receivers, at most four of these. The paper's time is "
        "linear in the size, whatever the number of receivers.",
    ),
    "beta": (
        "Beta",
        "Repeated Interests and goodput, over beta, in smoothed response times: mean over seeds with its 95 % "
        "interval; a line for each loss. The paper's share that is asked for again is at 20 a quarter of that at 4.",
    ),
    "merged": (
        "Interests merged by each switch",
        "Packets at each switch, mean over seeds; whiskers: each part's 95 % interval. Above: Interests that came, "
        "by what became of them. Below: Data that came, and the copies that were sent of it.",
    ),
}
INTERESTS = (
    ("interests_forwarded", "sent on", "tuned"),
    ("interests_repeated", "sent on again", "pie"),
    ("interests_joined", "joined", "pfifo"),
)
DATA = (("data_forwarded", "Data that came", "tuned"), ("data_copies", "copies sent", "codel"))
BESIDE = " Crosses: the paper's figures, of another network."
MOST_PANELS = 6
LEGEND_COLUMN_INCHES = 2.5  # the widest entry: "names-no-cache, 1619 kB"
MOST_NUMBERS = 4  # of receivers, each with a line for each way
Paper = Mapping[str, Any]


def all_plots(points: Sequence[Point], paper: Paper) -> Iterable[tuple[str, str, str, str]]:
    """Each plot that these runs give something for, as name, heading, caption and SVG; with the paper's points beside
    ours."""
    drawn: dict[str, Callable[[Sequence[Point], Paper], Figure]] = {}
    if alike(points, "receivers"):
        drawn |= {"receivers": over_receivers, "sent": sent_over_receivers}
    if alike(points, "file_bytes"):
        drawn["sizes"] = over_sizes
    if alike([point for point in points if point.beta is not None], "beta"):
        drawn["beta"] = beta_curve
    if merging(points):
        drawn["merged"] = who_merged_what
    with mpl.rc_context(STYLE):
        for name, draw in drawn.items():
            heading, caption = CAPTIONS[name]
            beside = BESIDE if paper_points(paper, name, "goodput_mean_mbit_s") else ""
            yield name, heading, caption + beside, svg(draw(points, paper), name, heading)


def _lines(ax: Axes, groups: Iterable[Sequence[Point]], x: str, metric: str, label: Callable[[Point], str]) -> None:
    """A line with error bars for each group: the way's colour; dashes and markers by its place among the way's."""
    places: dict[str, int] = {}
    for group in groups:
        place = places[group[0].way] = places.get(group[0].way, -1) + 1
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


def _beside(ax: Axes, paper: Paper, axis: str, metric: str) -> None:
    """The paper's points."""
    for place, (x, y) in enumerate(paper_points(paper, axis, metric)):
        label = HUANG if place == 0 else "_"
        ax.plot([x], [y], linestyle="none", marker="x", markersize=7, color=STAND_INS["paper"], label=label)


def _hue(way: str) -> str:
    """A variant's colour: by the way it is named after; others are as `other`."""
    return WAY_HUES.get(way, "other")


def _figure(columns: int = 1, height: float = 3.4, **more: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(11 if columns > 1 else 7.5, height))
    return figure, list(figure.subplots(1, columns, squeeze=False, **more).flat)


def _legend(figure: Figure, ax: Axes) -> None:
    """The legend above, in as many columns as fit the figure."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        columns = int(figure.get_figwidth() / LEGEND_COLUMN_INCHES)
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(handles), columns), handlelength=3.2)


GOODPUT = ("goodput_mean_mbit_s", "goodput of a receiver, Mbit/s")
TIME = ("completion_mean_s", "time until complete, s")


def _panel_over_receivers(ax: Axes, points: Sequence[Point], paper: Paper, metric: str, y_label: str) -> None:
    groups = alike(points, "receivers").values()
    _lines(ax, groups, "receivers", metric, lambda point: f"{point.way}, {kilobytes(point.file_bytes)}")
    _beside(ax, paper, "receivers", metric)
    ax.set_xscale("log", base=2)
    counts = sorted({point.receivers for point in points})
    ax.set_xticks(counts, [str(number) for number in counts])
    ax.minorticks_off()
    ax.set_xlabel("receivers")
    ax.set_ylabel(y_label)


def over_receivers(points: Sequence[Point], paper: Paper) -> Figure:
    figure, (left, right) = _figure(2, 4.2)
    _panel_over_receivers(left, points, paper, *GOODPUT)
    left.set_ylim(bottom=0)
    _panel_over_receivers(right, points, paper, *TIME)
    right.set_yscale("log")
    log_ticks(right, "y")
    _legend(figure, left)
    return figure


def sent_over_receivers(points: Sequence[Point], paper: Paper) -> Figure:
    figure, (ax,) = _figure()
    _panel_over_receivers(ax, points, paper, "publisher_sent_ratio", "sent by the publisher, files")
    ax.set_yscale("log")
    log_ticks(ax, "y")
    _legend(figure, ax)
    return figure


def some_of(numbers: Sequence[int]) -> list[int]:
    """The first, the last, and some between, so that lines stay apart."""
    if len(numbers) <= MOST_NUMBERS:
        return list(numbers)
    return [numbers[round(place * (len(numbers) - 1) / (MOST_NUMBERS - 1))] for place in range(MOST_NUMBERS)]


def over_sizes(points: Sequence[Point], _paper: Paper) -> Figure:
    figure, axes = _figure(2, 4.2)
    shown = some_of(sorted({point.receivers for point in points}))
    groups = alike([point for point in points if point.receivers in shown], "file_bytes").values()
    sizes = sorted({point.file_bytes for point in points})
    for ax, (metric, y_label) in zip(axes, (GOODPUT, TIME), strict=True):
        _lines(ax, groups, "file_bytes", metric, lambda point: f"{point.way}, {point.receivers}")
        ax.set_xscale("log")
        ax.set_xticks(sizes, [f"{size / 1000:g}" for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel("file size, kB; in the legend: the number of receivers")
        ax.set_ylabel(y_label)
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("log")
    log_ticks(axes[1], "y")
    _legend(figure, axes[0])
    return figure


def beta_curve(points: Sequence[Point], paper: Paper) -> Figure:
    figure, axes = _figure(2)
    groups = list(alike([point for point in points if point.beta is not None], "beta").values())
    told = (("retransmissions_percent", "asked for again, %"), GOODPUT)
    for ax, (metric, y_label) in zip(axes, told, strict=True):
        _lines(ax, groups, "beta", metric, lambda point: f"{point.way}, {point.loss_percent:g} % loss")
        _beside(ax, paper, "beta", metric)
        ax.set_xticks(sorted({point.beta for group in groups for point in group if point.beta is not None}))
        ax.set_xlabel("beta, smoothed response times")
        ax.set_ylabel(y_label)
        ax.set_ylim(bottom=0)
    _legend(figure, axes[1])
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


def who_merged_what(points: Sequence[Point], _paper: Paper) -> Figure:
    chosen = merging(points)
    columns = min(len(chosen), 3)
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(11 if columns > 1 else 7.5, 3.6 * rows))
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in list(grid.flat)[len(chosen) :]:
        ax.set_visible(False)
    for ax, point in zip(grid.flat, chosen, strict=False):
        _bars_of_switches(ax, point)
    _legend(figure, grid.flat[0])
    return figure


def _bars_of_switches(ax: Axes, point: Point) -> None:
    switches = switches_of(point)
    for bars, shift in ((INTERESTS, 0.2), (DATA, -0.2)):
        places = [-place + shift for place in range(len(switches))]
        left = [0.0] * len(switches)
        for counter, words, hue in bars:
            found = [point.estimated(f"{counter}_at_{switch}") for switch in switches]
            values = [estimate.mean or 0.0 for estimate in found]
            whiskers = {"ecolor": STAND_INS["ink"], "elinewidth": 0.8, "capsize": 1.5}
            ax.barh(
                places, values, 0.34, left=left, color=STAND_INS[hue], label=words, hatch=_hatch(bars),
                xerr=[estimate.ci95 or 0.0 for estimate in found], error_kw=whiskers,
            )  # fmt: skip
            left = [before + value for before, value in zip(left, values, strict=True)]
    ax.set_yticks([-place for place in range(len(switches))], switches)
    ax.set_title(f"{point.way}, {point.receivers} receivers, {kilobytes(point.file_bytes)}")
    ax.set_xlabel("packets")


def _hatch(bars: Sequence[tuple[str, str, str]]) -> str:
    return "//" if bars is DATA else ""
