# SPDX-License-Identifier: Apache-2.0
"""The plots: delay, goodput and probability over time, distributions, the plane of delay and goodput."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weirlab.lab.rates import Capacity
from weirlab.metrics.estimate import estimate
from weirlab.report.labels import Variant
from weirlab.report.plots import STAND_INS, STYLE, inside, legend, log_ticks, mean_over_rows, plane_scales, svg
from weirlab.topologies.dumbbell.report.series import CDF_AT, DELAY_BIN_S, GOODPUT_BIN_S
from weirlab.topologies.dumbbell.samples import UNRESPONSIVE

# sch_pie.c lets its probability grow beyond 1 while the delay is above 250 ms, and shows 64 bits of it shifted by 8.
PIE_WRAPS = (
    "Kernel PIE does not bound its probability by 100 % and its reading starts again at 0 above that: where its line "
    "leaps down or up, PIE drops every packet that it may."
)
GOODPUT_SHOWN = 0.995  # share of the values that the scale has room for; one burst would flatten the rest
RATE_BIN_S = 0.1
RATE_BEHIND = f"Grey, by the scale on the right: the rate that the link has, as means over {RATE_BIN_S:g} s."
DELAY_FLOOR_MS = 0.1  # logarithmic axes start here


def all_plots(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Iterable[tuple[str, str, str, str]]:
    """Each plot as name, title, caption and SVG."""
    with mpl.rc_context(STYLE):
        for name, caption, draw in (
            (
                "delay",
                f"Queue delay over time: means over {DELAY_BIN_S:g} s. Bold: mean over seeds; faint: each seed; dashed "
                "line: the reference target; shaded: warm-up; triangles: where the tuner changed gains in the first "
                "seed. All panels have the same logarithmic scale.",
                delay_over_time,
            ),
            (
                "cdf",
                "Distribution of the queue delay over packets after warm-up, all seeds (faint: each seed), "
                f"logarithmic; what is below {DELAY_FLOOR_MS:g} ms is left of the axis. Dashed line: the target.",
                delay_cdf,
            ),
            (
                "plane",
                "Mean queue delay against total goodput: faint points are seeds, the others means with 95 % intervals. "
                "Better is up and to the left.",
                delay_goodput_plane,
            ),
            (
                "goodput",
                f"Goodput of each responsive flow over time, means over {GOODPUT_BIN_S:g} s, of the first seed. Bold: "
                "mean over these flows and all seeds. All panels have the same scale; the largest 0.5 % of the values "
                "may lie above it.",
                goodput_over_time,
            ),
            (
                "probability",
                "Probability with which the discipline drops or marks a packet, over time. Bold: mean over seeds; "
                "faint: each seed. All panels have the same scale, that of the time after warm-up; disciplines that "
                "tell no probability have none.",
                probability_over_time,
            ),
        ):
            figure = draw(variants, facts)
            if name == "delay" and any(_rates(variant) for variant in variants):
                caption += " " + RATE_BEHIND
            if name == "probability" and any(_wraps(variant) for variant in variants):
                caption += " " + PIE_WRAPS
            if figure is not None:
                title = caption.split(":")[0].split(",")[0]
                yield name, title, caption, svg(figure, name, title)


def _panels(variants: Sequence[Variant], facts: Mapping[str, Any], y_label: str) -> tuple[Figure, list[Axes]]:
    """A grid of small plots, one for each variant, with the same axes."""
    columns = len(variants) if len(variants) <= 3 else 2
    rows = -(-len(variants) // columns)
    figure = Figure(figsize=(11, 0.5 + 1.95 * rows))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for variant, ax in zip(variants, axes, strict=False):
        ax.set_title(variant.label, color=STAND_INS[variant.hue], fontweight="bold")
        ax.axvspan(0, facts["warmup_s"], color=STAND_INS["faint"], alpha=0.5, linewidth=0)
        ax.set_xlim(0, facts["duration_s"])
    for ax in axes[len(variants) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(variants) - columns) : len(variants)]:
        ax.set_xlabel("time, s")
        ax.tick_params(labelbottom=True)
    for row in grid:
        row[0].set_ylabel(y_label)
    return figure, axes


def delay_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure, axes = _panels(variants, facts, "queue delay, ms")
    for variant, ax in zip(variants, axes, strict=False):
        colour = STAND_INS[variant.hue]
        ax.axhline(facts["reference_target_ms"], color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
        for series in variant.series.values():
            ax.plot(series.delay_t_s, np.maximum(series.delay_ms, DELAY_FLOOR_MS), color=colour, alpha=0.35, lw=0.8)
        some = next(iter(variant.series.values()))
        mean = mean_over_rows([series.delay_ms for series in variant.series.values()])
        ax.plot(some.delay_t_s, np.maximum(mean, DELAY_FLOOR_MS), color=colour, lw=1.8)
        changed_s = [line["t_s"] for line in some.decisions if line.get("changed") and line["t_s"] >= 0]
        if changed_s:
            top: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False, "linestyle": "none"}
            ax.plot(changed_s, [1.0] * len(changed_s), marker="v", color=STAND_INS["ink"], markersize=6, **top)
    axes[0].set_yscale("log")
    log_ticks(axes[0], "y")
    _rates_behind(variants, axes, facts["duration_s"])
    return figure


def _rates(variant: Variant) -> Sequence[Sequence[float]]:
    """The rates of a link that follows a file; empty for any other."""
    return variant.spec["link"]["bottleneck"].get("rates", ())


def _rates_behind(variants: Sequence[Variant], axes: Sequence[Axes], duration_s: float) -> None:
    """Draw the link's rate over time behind each panel's lines, with a scale of its own on the right."""
    edges_s = np.arange(0, duration_s + RATE_BIN_S / 2, RATE_BIN_S)
    drawn: list[Axes] = []
    for variant, ax in zip(variants, axes, strict=False):
        if not _rates(variant):
            continue
        capacity = Capacity(_rates(variant), duration_s)
        mbit_s = [capacity.bits(at, at + RATE_BIN_S) / 1e6 / RATE_BIN_S for at in edges_s[:-1]]
        behind = ax.twinx()
        behind.stairs(mbit_s, edges_s, fill=True, color=STAND_INS["faint"], alpha=0.8, linewidth=0)
        behind.set_ylabel("rate, Mbit/s")
        behind.grid(False)
        ax.set_zorder(behind.get_zorder() + 1)
        ax.patch.set_visible(False)
        drawn.append(behind)
    top = max((behind.get_ylim()[1] for behind in drawn), default=0.0)
    for behind in drawn:
        behind.set_ylim(0, top)


def delay_cdf(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(5.4, 3.7))
    ax = figure.subplots()
    ax.axvline(facts["reference_target_ms"], color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
    for variant in variants:
        colour = STAND_INS[variant.hue]
        quantiles = [series.delay_quantiles_ms for series in variant.series.values()]
        for values in quantiles:
            ax.plot(np.maximum(values, 1e-6), CDF_AT, color=colour, alpha=0.3, lw=0.8)
        pooled_ms = np.sort(np.concatenate(quantiles))
        share = np.mean([np.interp(pooled_ms, values, CDF_AT) for values in quantiles], axis=0)
        ax.plot(np.maximum(pooled_ms, 1e-6), share, color=colour, lw=1.8, linestyle=variant.dash, label=variant.label)
    ax.set_xscale("log")
    ax.set_xlim(left=DELAY_FLOOR_MS)
    log_ticks(ax, "x")
    ax.set_ylim(0, 1)
    ax.set_xlabel("queue delay, ms")
    ax.set_ylabel("share of packets")
    legend(figure, variants)
    return figure


def delay_goodput_plane(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(5.4, 3.7))
    ax = figure.subplots()
    seen: list[tuple[float, float]] = []
    for variant in variants:
        colour = STAND_INS[variant.hue]
        x = [run.metrics["queue_delay_mean_ms"] for run in variant.runs.values()]
        y = [run.metrics["goodput_total_mbit_s"] for run in variant.runs.values()]
        seen += zip(x, y, strict=True)
        ex, ey = estimate(x), estimate(y)
        ax.plot(x, y, variant.marker, color=colour, alpha=0.45, markersize=4, markeredgewidth=0)
        bars = {"xerr": inside(ex), "yerr": ey.ci95, "lw": 1.4, "capsize": 2.5}
        if ex.mean is not None and ey.mean is not None:
            ax.errorbar(ex.mean, ey.mean, color=colour, marker=variant.marker, markersize=6.5, **bars)
    plane_scales(ax, seen)
    ax.set_xlabel("mean queue delay, ms")
    ax.set_ylabel("total goodput, Mbit/s")
    legend(figure, variants, points=True)
    return figure


def goodput_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure | None:
    if all(flow["kind"] in UNRESPONSIVE for variant in variants for flow in variant.spec["flows"]):
        return None
    figure, axes = _panels(variants, facts, "goodput, kbit/s")
    seen: list[np.ndarray] = []
    for variant, ax in zip(variants, axes, strict=False):
        colour = STAND_INS[variant.hue]
        responsive = {group for group, flow in enumerate(variant.spec["flows"]) if flow["kind"] not in UNRESPONSIVE}
        flows = [
            [rate for (group, _), rate in series.goodput_kbit_s.items() if group in responsive]
            for series in variant.series.values()
        ]
        time_s = next(iter(variant.series.values())).goodput_t_s
        if not any(flows):
            continue  # short QUIC transfers leave no course
        for rate in flows[0]:
            ax.plot(time_s, rate, color=colour, alpha=0.35, lw=0.7)
        ax.plot(time_s, mean_over_rows([rate for seed in flows for rate in seed]), color=colour, lw=2)
        seen += flows[0]
    if not seen:
        return None
    axes[0].set_ylim(0, 1.1 * max(1.0, np.quantile(np.concatenate(seen), GOODPUT_SHOWN)))
    return figure


def probability_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure | None:
    having = [variant for variant in variants if any(len(s.probability_t_s) for s in variant.series.values())]
    if not having:
        return None
    figure, axes = _panels(having, facts, "probability, %")
    edges_s = np.arange(0, facts["duration_s"] + DELAY_BIN_S / 2, DELAY_BIN_S)
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    settled: list[np.ndarray] = []
    for variant, ax in zip(having, axes, strict=False):
        colour = STAND_INS[variant.hue]
        binned = []
        for series in variant.series.values():
            counts, _ = np.histogram(series.probability_t_s, edges_s)
            sums, _ = np.histogram(series.probability_t_s, edges_s, weights=series.probability_percent)
            binned.append(np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0))
            ax.plot(middle_s, binned[-1], color=colour, alpha=0.35, lw=0.8)
        ax.plot(middle_s, mean_over_rows(binned), color=colour, lw=1.8)
        settled += [rates[middle_s >= facts["warmup_s"]] for rates in binned]
    # The start of slow starts would press all that follows onto the axis.
    top = np.nanmax(np.concatenate(settled))
    axes[0].set_ylim(0, 1.15 * top if top > 0 else 1)
    return figure


def _wraps(variant: Variant) -> bool:
    """Whether kernel PIE's reading went over 1: it leaps by more than its steps of at most 4 % an update allow."""
    leaps = (np.abs(np.diff(series.probability_percent)) > 50 for series in variant.series.values())
    return variant.spec["aqm"]["qdisc"] == "pie" and any(leap.any() for leap in leaps)
