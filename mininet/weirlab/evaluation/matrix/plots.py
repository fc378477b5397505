# SPDX-License-Identifier: Apache-2.0
"""The matrix in pictures: planes of delay and goodput, steps, the front page's plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from weirlab.evaluation.matrix.analysis import (
    COMPARED,
    LOADS,
    OURS,
    Matrix,
    ScenarioResult,
)
from weirlab.evaluation.matrix.text import figure_of
from weirlab.evaluation.shared.labels import geometric_mean
from weirlab.evaluation.shared.ratios import paired_ratio
from weirlab.evaluation.shared.rows import DELAY, DELAY_FLOOR_MS, GOODPUT
from weirlab.evaluation.shared.styles import handles, hollow, mark, page_colour, panels, point, size_of
from weirlab.report.labels import NOTHING
from weirlab.report.plots import STAND_INS, log_ticks, plane_scales

CONTROL = "pfifo"
PANEL_COLUMNS = 4


def plane(ax: Axes, scenario: ScenarioResult, variants: Sequence[str], colour: Callable[[str], str]) -> None:
    """One scenario's disciplines by mean queue delay and goodput, and the front of all of them."""
    for kind, dash in (("single", (0, (3, 2))), ("all", "solid")):
        front = [(scenario.mean(v, DELAY), scenario.mean(v, GOODPUT)) for v in scenario.fronts[kind]]
        ax.plot(*zip(*front, strict=True), color=colour("dim"), lw=0.9, linestyle=dash, zorder=1)
    for variant in variants:
        delay, goodput = (figure_of(scenario, variant, metric) for metric in (DELAY, GOODPUT))
        if delay.mean is None or goodput.mean is None or delay.mean <= 0:
            continue
        point(ax, delay, goodput, variant, colour, variant in OURS)
    # The scale is that of the others: pfifo, which nothing holds, would press them together.
    at: dict[str, tuple[float, float]] = {}
    for variant in variants:
        mean_ms, mean_mbit_s = scenario.mean(variant, DELAY), scenario.mean(variant, GOODPUT)
        if mean_ms is not None and mean_ms > 0 and mean_mbit_s is not None:
            at[variant] = mean_ms, mean_mbit_s
    plane_scales(ax, [point for v, point in at.items() if v != CONTROL] or list(at.values()))
    if CONTROL in at:
        (delay_ms, goodput_mbit_s), (left, right), (low, high) = at[CONTROL], ax.get_xlim(), ax.get_ylim()
        if not (left <= delay_ms <= right and low <= goodput_mbit_s <= high):
            beyond = f"{CONTROL}: {delay_ms:.0f} ms, {goodput_mbit_s:.3g}"
            ax.text(0.99, 0.03, beyond, transform=ax.transAxes, ha="right", color=colour(CONTROL), fontsize=8)
    ax.set_title(scenario.name)


def group_plot(scenarios: Sequence[ScenarioResult], variants: Sequence[str]) -> Figure:
    """The planes of a group of scenarios, each with scales of its own."""
    figure, places = panels(scenarios, PANEL_COLUMNS)
    for ax, scenario, lowest, leftmost in places:
        plane(ax, scenario, variants, page_colour)
        if lowest:
            ax.set_xlabel("mean queue delay, ms")
        if leftmost:
            ax.set_ylabel("goodput, Mbit/s")
    return figure


def steps_plot(matrix: Matrix) -> Figure | None:
    """Settling time and overshoot of each step, mean over seeds."""
    scenarios = [s for s in matrix.scenarios if any(r.metrics.get("steps_count") for r in s.rows)]
    if not scenarios:
        return None
    variants = [v for v in matrix.variants if v in COMPARED]
    names: list[str] = []
    figure = Figure(figsize=(11, 4.6))
    above, below = figure.subplots(2, 1, sharex=True)
    for scenario in scenarios:
        measured = {name for r in scenario.rows for name, value in r.metrics.items() if value is not None}
        steps = sorted({int(name.split("_")[1]) for name in measured if name.startswith("step_")})
        for step in steps:
            for place, variant in enumerate(variants):
                x = len(names) + (place - (len(variants) - 1) / 2) * 0.8 / len(variants)
                for ax, metric in ((above, f"step_{step}_settling_s"), (below, f"step_{step}_overshoot_ms")):
                    found = figure_of(scenario, variant, metric)
                    if found.mean is not None:
                        ax.plot(x, found.mean, mark(variant), color=page_colour(variant), markersize=size_of(variant),
                                markeredgewidth=0, clip_on=False, zorder=3)  # fmt: skip
            at = scenario.mean(next(iter(scenario.figures)), f"step_{step}_at_s")
            names.append(f"{scenario.name.removeprefix('steps-')}\n{NOTHING if at is None else f'{at:g} s'}")
    above.axhline(2, color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
    above.set_ylabel("settling time, s")
    below.set_ylabel("overshoot, ms")
    below.set_yscale("symlog", linthresh=10)
    above.set_ylim(bottom=0)
    below.set_ylim(0, 1.3 * below.get_ylim()[1])
    below.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    below.set_xticks(range(len(names)), names)
    figure.legend(
        handles=handles(variants, page_colour), loc="outside upper left", ncols=len(variants), handletextpad=0.1
    )
    return figure


def front_plot(matrix: Matrix, colour: Callable[[str], str]) -> Figure:
    """The first picture: Table II, and every scenario's disciplines beside pie."""
    variants = [v for v in COMPARED if v in matrix.variants and v != "pie"]
    figure = Figure(figsize=(10, 4.3))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    table2 = next((s for s in matrix.scenarios if s.group in LOADS), None)
    if table2 is not None:
        plane(left, table2, [v for v in COMPARED if v in table2.figures], colour)
        left.set_title(table2.title)
    left.set_xlabel("mean queue delay, ms")
    left.set_ylabel("goodput, Mbit/s")
    for variant in variants:
        points = [
            (max(d, 0.02), g)
            for s in matrix.scenarios
            if (d := paired_ratio(s.pairs, variant, "pie", DELAY, DELAY_FLOOR_MS).mean)
            and (g := paired_ratio(s.pairs, variant, "pie", GOODPUT).mean)
        ]
        if not points:
            continue
        delays, goodputs = zip(*points, strict=True)
        fill = {"color": colour(variant), "markerfacecolor": "none" if hollow(variant) else colour(variant)}
        right.plot(delays, [100 * (g - 1) for g in goodputs], mark(variant), alpha=0.4, markersize=4,
                   markeredgewidth=0.6 if hollow(variant) else 0, **fill)  # fmt: skip
        ours = variant in OURS
        fill |= {"markerfacecolor": colour("page") if hollow(variant) else colour(variant)}
        right.plot(geometric_mean(delays), 100 * (geometric_mean(goodputs) or 1) - 100, mark(variant),
                   markersize=16 if variant == "auto" else 11, zorder=6 if variant == "auto" else 5 if ours else 4,
                   markeredgecolor=colour(variant if hollow(variant) else "page"),
                   markeredgewidth=1.8 if hollow(variant) else 0.8, **fill)  # fmt: skip
    right.axhline(0, color=colour("dim"), lw=0.9)
    right.set_yscale("symlog", linthresh=1)  # most lie within 1 %, some far off
    right.set_yticks([-20, -5, -1, -0.5, 0, 0.5, 1, 5, 20], ["-20", "-5", "-1", "-0.5", "0", "+0.5", "+1", "+5", "+20"])
    right.yaxis.set_minor_locator(NullLocator())
    right.axvline(1, color=colour("dim"), lw=0.9)
    right.set_xscale("log")
    log_ticks(right, "x")
    right.set_title(f"All {len(matrix.scenarios)} scenarios beside pie (small), geometric means (large)")
    right.set_xlabel("mean queue delay over pie's")
    right.set_ylabel("goodput beside pie's, %")
    shown_too = [v for v in COMPARED if v in matrix.variants]
    figure.legend(handles=handles(shown_too, colour), loc="outside lower center", ncols=len(shown_too),
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    return figure
