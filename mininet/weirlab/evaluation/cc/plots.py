# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in pictures: the paper's curves, planes of delay and throughput, all beside BBR."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from weirlab.evaluation.cc.analysis import COMPLETION, PAPER_GROUPS, REFERENCE, RTT, WIRE, Bench, ScenarioResult
from weirlab.evaluation.cc.text import point_of
from weirlab.evaluation.shared.labels import geometric_mean
from weirlab.evaluation.shared.styles import handles, hollow, mark, page_colour, panels, point, size_of
from weirlab.report.plots import plane_scales
from weirlab.topologies.dumbbell.senders import COURSE_S

PANEL_COLUMNS = 4
LEGEND_COLUMNS = 7
THROUGHPUT_LABEL, RTT_LABEL = "throughput on the wire, Mbit/s", "mean RTT, ms"
LEAST_SHARE = 0.05  # less of the reference's throughput is drawn there
RATIO_SPAN = 1.25  # ratio axes reach that far at least, both ways
RATIO_TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20)
LABEL_SHARE = 0.09  # of the length of an axis is what a number needs beside the next
POINT_LABELS = {"loss": "loss, %", "flows": "flows"}


def plane(ax: Axes, bench: Bench, scenario: ScenarioResult, colour: Callable[[str], str] = page_colour) -> None:
    """One scenario's controls by delay and throughput, and the front of all of them."""
    front = [(scenario.mean(c, scenario.delay), scenario.mean(c, WIRE)) for c in scenario.front]
    ax.plot(*zip(*front, strict=True), color=colour("dim"), lw=0.9, zorder=1)
    points = []
    for control in bench.there:
        delay, wire = scenario.figure(control, scenario.delay), scenario.figure(control, WIRE)
        if delay.mean is None or wire.mean is None or delay.mean <= 0:
            continue
        points.append((delay.mean, wire.mean))
        point(ax, delay, wire, control, colour, control in bench.controls.ours)
    plane_scales(ax, points)
    ax.set_title(scenario.name)


def group_plot(bench: Bench, scenarios: Sequence[ScenarioResult]) -> Figure:
    """The planes of a group of scenarios, each with scales of its own."""
    figure, places = panels(scenarios, PANEL_COLUMNS)
    for ax, scenario, lowest, leftmost in places:
        plane(ax, bench, scenario)
        if lowest:
            ax.set_xlabel("median time to complete, s" if scenario.delay == COMPLETION else RTT_LABEL)
        if leftmost:
            ax.set_ylabel("on the wire, Mbit/s")
    return figure


def curve(
    ax: Axes, bench: Bench, scenarios: Sequence[ScenarioResult], metric: str, colour: Callable[[str], str]
) -> None:
    """A figure along the paper's losses or numbers of flows, one line a control."""
    for control in bench.there:
        found = [(float(point_of(s)), s.figure(control, metric)) for s in scenarios]
        known = [(x, value.mean, value.ci95 or 0.0) for x, value in found if value.mean is not None]
        if known:
            xs, means, widths = zip(*known, strict=True)
            ax.errorbar(
                xs, means, yerr=widths, color=colour(control), lw=1.8 if control in bench.controls.ours else 0.9,
                marker=mark(control), markersize=0.8 * size_of(control),
                markerfacecolor="none" if hollow(control) else colour(control), elinewidth=0.6,
                zorder=3 if control in bench.controls.ours else 2,
            )  # fmt: skip
    ax.set_xlabel(POINT_LABELS[scenarios[0].group])
    ax.set_ylabel(RTT_LABEL if metric == RTT else THROUGHPUT_LABEL)
    if metric == WIRE:
        ax.set_ylim(bottom=0)


def curves_plot(bench: Bench, colour: Callable[[str], str] = page_colour) -> Figure | None:
    """The paper's Fig. 9 and 10: throughput and RTT, by loss and by flows; one point is no curve."""
    groups = [bench.groups[group] for group in PAPER_GROUPS if len(bench.groups.get(group, [])) > 1]
    if not groups:
        return None
    figure = Figure(figsize=(11, 3.4 * len(groups)))
    axes = figure.subplots(len(groups), 2, squeeze=False)
    for scenarios, (left, right) in zip(groups, axes, strict=True):
        curve(left, bench, scenarios, WIRE, colour)
        curve(right, bench, scenarios, RTT, colour)
    return figure


def fairness_plot(bench: Bench, scenarios: Sequence[ScenarioResult]) -> Figure:
    """Jain's index over time, from the last start on; one panel a scenario, one line a control."""
    figure, places = panels(scenarios, PANEL_COLUMNS)
    for ax, scenario, lowest, leftmost in places:
        for control in bench.there:
            found = [
                ((first_s + until_s) / 2, mean)
                for name, (first_s, until_s) in COURSE_S.items()
                if (mean := scenario.mean(control, name)) is not None
            ]
            if found:
                ours = control in bench.controls.ours
                ax.plot(*zip(*found, strict=True), color=page_colour(control), lw=1.8 if ours else 0.9,
                        marker=mark(control), markersize=0.8 * size_of(control), zorder=3 if ours else 2,
                        markerfacecolor="none" if hollow(control) else page_colour(control))  # fmt: skip
        ax.set_ylim(top=1.02)
        ax.set_title(scenario.name)
        if lowest:
            ax.set_xlabel("s from the last start")
        if leftmost:
            ax.set_ylabel("Jain's index")
    return figure


def beside_reference(ax: Axes, bench: Bench, scenarios: Sequence[ScenarioResult], colour: Callable[[str], str]) -> None:
    """The scenarios' ratios to the reference, small, and their geometric means, large."""
    everywhere = []
    for control in (c for c in bench.there if c != REFERENCE):
        points = [
            (delay, max(throughput, LEAST_SHARE))
            for s in scenarios
            if (duel := s.duels.get((control, REFERENCE))) is not None
            and (delay := duel.delay.mean) and (throughput := duel.throughput.mean)
        ]  # fmt: skip
        if not points:
            continue
        everywhere += points
        delays, throughputs = zip(*points, strict=True)
        fill = "none" if hollow(control) else colour(control)
        shape = mark(control)
        ax.plot(delays, throughputs, shape, alpha=0.4, markersize=3.5, color=colour(control), markerfacecolor=fill,
                markeredgewidth=0.6 if hollow(control) else 0)  # fmt: skip
        ax.plot(geometric_mean(delays) or 1, geometric_mean(throughputs) or 1, shape, zorder=5, color=colour(control),
                markersize=14 if control in bench.controls.ours else 9, markerfacecolor=fill)  # fmt: skip
    for line in (ax.axhline, ax.axvline):
        line(1, color=colour("dim"), lw=0.9)
    for place, which, scale in ((0, "x", ax.set_xscale), (1, "y", ax.set_yscale)):
        scale("log")
        values = [point[place] for point in everywhere] or [1.0]
        ends = min(*values, 1 / RATIO_SPAN) / 1.05, max(*values, RATIO_SPAN) * 1.05
        (ax.set_xlim if which == "x" else ax.set_ylim)(ends)
        ticks = legible_ticks(*ends)
        axis = ax.xaxis if which == "x" else ax.yaxis
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"delay over {REFERENCE}'s")
    ax.set_ylabel(f"throughput over {REFERENCE}'s")


def legible_ticks(lowest: float, highest: float) -> list[float]:
    """Those of RATIO_TICKS within these ends that stand apart on a logarithmic axis, from 1 outwards."""
    apart = LABEL_SHARE * math.log(highest / lowest)
    found = [1.0]
    for tick in sorted(RATIO_TICKS, key=lambda tick: abs(math.log(tick))):
        if lowest <= tick <= highest and all(abs(math.log(tick / other)) >= apart for other in found):
            found.append(tick)
    return sorted(found)


def front_plot(bench: Bench, colour: Callable[[str], str]) -> Figure:
    """The first picture: Table 3 by loss, and all scenarios beside BBR."""
    loss = bench.groups.get(PAPER_GROUPS[0], [])
    figure = Figure(figsize=(11, 4.2))
    axes = list(figure.subplots(1, 3 if loss else 1, squeeze=False).flat)
    if loss:
        curve(axes[0], bench, loss, WIRE, colour)
        axes[0].set_title("Table 3's link, two flows: throughput")
        curve(axes[1], bench, loss, RTT, colour)
        axes[1].set_title("The same: RTT")
    scenarios = bench.beyond or bench.scenarios
    beside_reference(axes[-1], bench, scenarios, colour)
    axes[-1].set_title(f"{len(scenarios)} more scenarios; large: the mean" if bench.beyond else "Beside it")
    figure.legend(handles=handles(bench.there, colour), loc="outside lower center", ncols=LEGEND_COLUMNS,
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    return figure
