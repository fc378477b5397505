# SPDX-License-Identifier: Apache-2.0
"""Curves in pictures: one scenario's planes side by side, settings as labelled points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weirlab.evaluation.envelope.analysis import OURS, Envelope, Plane, ScenarioCurves
from weirlab.evaluation.shared.labels import geometric_mean
from weirlab.evaluation.shared.rows import DELAY_FLOOR_MS
from weirlab.evaluation.shared.styles import handles, mark, page_colour
from weirlab.report.plots import log_ticks, plane_scales

LABELS = {
    "queue_delay_mean_ms": "mean queue delay, ms",
    "queue_delay_p99_ms": "99th percentile of the queue delay, ms",
    "goodput_total_mbit_s": "goodput, Mbit/s",
    "goodput_bulk_mbit_s": "goodput of the long flows, Mbit/s",
    "loss_percent": "lost, %",
    "fct_mean_ms": "completion time of short transfers, ms",
}
PANEL_INCHES = (3.7, 3.5)
LABEL_SIZE = 8
LABEL_AREA = PANEL_INCHES[0] * 60, PANEL_INCHES[1] * 60
"""About the points within a panel's axes."""
LEGEND_COLUMNS = 10


def planes_plot(scenario: ScenarioCurves, kinds: dict[str, str], colour: Callable[[str], str] = page_colour) -> Figure:
    """All planes of a scenario, each with scales of its own."""
    planes = scenario.planes
    figure = Figure(figsize=(PANEL_INCHES[0] * max(len(planes), 3), PANEL_INCHES[1]))
    axes = list(figure.subplots(1, max(len(planes), 3), squeeze=False).flat)
    for plane, ax in zip(planes, axes, strict=False):
        draw_plane(ax, scenario, plane, kinds, colour)
    for ax in axes[len(planes) :]:
        ax.set_visible(False)
    return figure


def draw_plane(
    ax: Axes, scenario: ScenarioCurves, plane: Plane, kinds: dict[str, str], colour: Callable[[str], str]
) -> None:
    """Delays to the right, goodput or loss upwards, so that better is up and to the left (loss: its axis is turned)."""
    everywhere, labels = [], []
    for variant, settings in scenario.figures.items():
        curve = scenario.curves[plane.name].get(variant)
        if curve is None:
            continue
        ours = kinds.get(variant) == OURS
        on = {at.name for at in curve.points}
        ax.plot(
            [at.y for at in curve.points], [plane.x_sign * at.x for at in curve.points], color=colour(variant),
            lw=1.8 if ours else 0.9, zorder=3 if ours else 2,
        )  # fmt: skip
        for setting, figures in settings.items():
            delay, other = (figures[metric].mean if metric in figures else None for metric in (plane.y, plane.x))
            if delay is None or other is None:
                continue
            at = max(delay, DELAY_FLOOR_MS), other
            everywhere.append(at)
            filled = colour(variant) if setting.words in on else "none"
            ax.plot(*at, mark(variant), color=colour(variant), markersize=4.5 if ours else 3.5,
                    markerfacecolor=filled, markeredgewidth=0.7, zorder=4 if ours else 2.5)  # fmt: skip
            labels.append((not ours, at, setting.words.split(" ")[0], colour(variant)))
    plane_scales(ax, everywhere)
    if plane.x_sign < 0 and everywhere:
        most = max(value for _, value in everywhere)
        ax.set_ylim(1.1 * most or 1.0, -0.05 * most)
    ax.set_xlabel(LABELS.get(plane.y, plane.y))
    ax.set_ylabel(LABELS.get(plane.x, plane.x))
    label_points(ax, [label[1:] for label in sorted(labels, key=lambda label: label[0])])


def label_points(ax: Axes, labels: Sequence[tuple[tuple[float, float], str, str]]) -> None:
    """Labels beside points, the first first; one that would lie on another is left out."""
    taken: list[tuple[float, float, float]] = []
    for at, words, colour in labels:
        x, y = ax.transLimits.transform(ax.transScale.transform(at)) * LABEL_AREA
        width = LABEL_SIZE * len(words)
        if not (0 <= x <= LABEL_AREA[0] - width and 0 <= y <= LABEL_AREA[1] - 2 * LABEL_SIZE):
            continue
        if all(x + width < left or left + wide < x or abs(y - low) > 1.6 * LABEL_SIZE for left, low, wide in taken):
            taken.append((x, y, width))
            ax.annotate(words, at, xytext=(2.5, 2.5), textcoords="offset points", fontsize=LABEL_SIZE, color=colour,
                        zorder=5, clip_on=True)  # fmt: skip


def legend_plot(variants: Sequence[str]) -> Figure:
    """The legend of all planes, by itself."""
    figure = Figure(figsize=(11, 0.1 + 0.25 * -(-len(variants) // LEGEND_COLUMNS)))
    figure.legend(handles=handles(variants, page_colour), loc="center left", ncols=LEGEND_COLUMNS, handletextpad=0.1,
                  columnspacing=1.2)  # fmt: skip
    return figure


def ratios_plot(envelope: Envelope, colour: Callable[[str], str] = page_colour) -> Figure:
    """Each of ours beside its best single-queue peer in each scenario: p99 at equal goodput, and the area of p99."""
    names = [scenario.name for scenario in envelope.scenarios]
    figure = Figure(figsize=(10, 0.9 + 0.28 * len(names)))
    axes = figure.subplots(1, 2, sharey=True)
    ours = envelope.of_kind(OURS)
    for ax, title in zip(axes, ("p99 at equal goodput", "area between the curves of p99"), strict=True):
        for place, variant in enumerate(ours):
            found = []
            for row, name in enumerate(names):
                if ax is axes[0]:
                    best = envelope.best_peer(variant, name)
                    ratio = None if best is None else best.p99
                else:
                    worst = envelope.worst_area(variant, name, "p99")
                    ratio = None if worst is None else worst.areas["p99"]
                if ratio is None:
                    continue
                found.append(ratio.ratio)
                y = row + (place - (len(ours) - 1) / 2) * 0.3
                if ratio.low is not None and ratio.high is not None:
                    ax.plot([max(ratio.low, 0.02), min(ratio.high, 50)], [y, y], color=colour(variant), lw=1)
                ax.plot(ratio.ratio, y, mark(variant), color=colour(variant), markersize=7)
            if (middle := geometric_mean(found)) is not None:
                ax.axvline(middle, color=colour(variant), lw=0.9, linestyle=(0, (4, 3)))
        ax.axvline(1, color=colour("dim"), lw=0.9)
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.set_xlim(max(low, 0.02), min(high, 50))
        log_ticks(ax, "x")
        ax.set_title(title)
        ax.set_xlabel("over the best single-queue peer's")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(handles=handles(ours, colour), loc="outside lower center", ncols=max(len(ours), 1))
    return figure
