# SPDX-License-Identifier: Apache-2.0
"""The plots: choices round by round, handovers, windows, transfer times."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weirlab.metrics.estimate import estimate
from weirlab.report.labels import Variant
from weirlab.report.plots import PATH_HUES, STAND_INS, STYLE, inside, legend, log_ticks, svg
from weirlab.topologies.access.metrics import PTO_LEAST_MS, at_best, last_heard, pseudo_regrets_ms, regrets_ms, silence
from weirlab.topologies.access.peers import choosing
from weirlab.topologies.access.samples import Samples, Tasks, Truth
from weirlab.topologies.access.schedule import sizes_of

RUNNING_ROUNDS = 24  # running means; 24 holds whole turns of two, three and four paths
POINTS = 250  # of a line that only grows; more than the page can show


def one_of_each(variants: Sequence[Variant]) -> list[Variant]:
    """One variant of each kind; where sizes make several of a kind, under the name they have in common."""
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(kind(variant.spec), []).append(variant)
    return [
        members[0] if len(members) == 1 else replace(members[0], label=members[0].label.split(",")[0])
        for members in groups.values()
    ]


def kind(spec: Mapping[str, Any]) -> str:
    """The client's settings but for the size of its tasks; variants alike in it are drawn alike."""
    return json.dumps({key: value for key, value in spec["client"].items() if key != "bytes"}, sort_keys=True)


CAPTIONS = {
    "tct": (
        "Task completion time",
        f"Each task of the first seed as a dot in its path's colour; line: mean over {RUNNING_ROUNDS} tasks and all "
        "seeds. All panels have the same logarithmic scale.",
    ),
    "regret": (
        "Regret as it adds up",
        "Left: completion times less what the best path was to give. Right: mean RTT of the path taken less the best "
        "one's. Bold: mean over seeds; faint: each seed. What is below 1 ms is left out of the logarithmic scale.",
    ),
    "best": (
        "Share of tasks on the best path",
        f"Share of tasks on the best path, over {RUNNING_ROUNDS} tasks and all seeds.",
    ),
    "paths": (
        "Delays and the paths taken",
        "Top: RTT of each path in each round as drawn with the first seed (faint) and its mean in force. Below: the "
        "path that each task of the first seed was on.",
    ),
    "handover": (
        "Handover",
        "Bytes delivered about the moment when the link went away (dashed line), all seeds; the first one bold. "
        "Dotted: the client changed the path; shaded: 3 PTO, each smoothed RTT + "
        f"{PTO_LEAST_MS} ms, from the last packet heard.",
    ),
    "sizes": ("Transfer time by size", "Mean over seeds with its 95 % interval; both axes are logarithmic."),
    "received": (
        "Received bytes over time",
        "The first seed bold, the others faint. What takes far longer than the rest runs off the axis.",
    ),
    "windows": (
        "Receive windows over time",
        "Left: the largest stream window. Right: bytes promised and not yet used, over all connections. The first "
        "seed; both scales are logarithmic. What takes far longer than the rest runs off the axis.",
    ),
}


def all_plots(variants: Sequence[Variant]) -> Iterable[tuple[str, str, str, str]]:
    """Each plot that these runs give something for, as name, heading, caption and SVG."""
    client = variants[0].spec["client"]
    several = choosing(variants[0].spec)
    largest_bytes = max(max(sizes_of(variant.spec["client"])) for variant in variants)
    largest = [variant for variant in variants if max(sizes_of(variant.spec["client"])) == largest_bytes]
    drawn: dict[str, tuple[Any, Sequence[Variant]]] = {}
    if several:
        drawn |= {"tct": (tct_by_round, variants), "regret": (regret_by_round, variants)}
        drawn |= {"best": (best_by_round, variants), "paths": (paths_by_round, variants)}
    if any(links_lost(variant) for variant in variants):
        drawn["handover"] = handover, variants
    if len(largest) < len(variants):
        drawn["sizes"] = time_by_size, variants
    if not client["interval_ms"] and any(s.windows for variant in variants for s in variant.series.values()):
        drawn |= {"received": (received_over_time, largest), "windows": (windows_over_time, largest)}
    with mpl.rc_context(STYLE):
        for name, (draw, chosen) in drawn.items():
            heading, caption = CAPTIONS[name]
            if len(chosen) < len(variants):
                caption += f" Of the largest size alone, {largest_bytes} bytes a task."
            figure = draw(chosen)
            if figure is not None:
                yield name, heading, caption, svg(figure, name, heading)


def _panels(variants: Sequence[Variant], x_label: str, y_label: str, height: float = 1.95) -> tuple[Figure, list[Axes]]:
    """A grid of small plots, one for each variant, with the same axes."""
    columns = len(variants) if len(variants) <= 3 else 2 if len(variants) <= 6 else 3
    lines = -(-len(variants) // columns)
    figure = Figure(figsize=(11, 0.7 + height * lines))
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for variant, ax in zip(variants, axes, strict=False):
        ax.set_title(variant.label, color=STAND_INS[variant.hue], fontweight="bold")
    for ax in axes[len(variants) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(variants) - columns) : len(variants)]:
        ax.set_xlabel(x_label)
        ax.tick_params(labelbottom=True)
    for line in grid:
        line[0].set_ylabel(y_label)
    return figure, axes


def _first(variant: Variant) -> Samples:
    return variant.series[min(variant.series)]


def _path_colour(index: int) -> str:
    return STAND_INS[PATH_HUES[index % len(PATH_HUES)]]


def _path_legend(figure: Figure, variant: Variant) -> None:
    handles = [
        Line2D([], [], color=_path_colour(index), lw=3, label=path["name"])
        for index, path in enumerate(variant.spec["paths"])
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.2)


def _dots(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, size: float = 2.0) -> None:
    """Points as one line with gaps; a marker each would make the page many times larger."""
    if not len(x):
        return
    width = 0.4 * max(1.0, np.ptp(x) / 1000)
    xs = np.column_stack([x - width, x + width, np.full(len(x), np.nan)]).ravel()
    ax.plot(xs, np.repeat(y, 3), color=colour, lw=size, solid_capstyle="butt")


def _by_round(variant: Variant, values: Callable[[Samples], np.ndarray]) -> np.ndarray:
    """`values` of each seed's samples by task number, NaN where a task is missing: seeds by tasks."""
    found = np.full((len(variant.series), variant.spec["client"]["requests"]), np.nan)
    for row, samples in zip(found, variant.series.values(), strict=True):
        row[samples.tasks.number] = values(samples)
    return found


def _judged(judge: Callable[[Tasks, Truth], np.ndarray], samples: Samples) -> np.ndarray:
    """A figure of each task that takes the truth, which the samples must have."""
    assert samples.truth is not None  # the plots that use it look first
    return judge(samples.tasks, samples.truth).astype(float)


def _running(by_round: np.ndarray) -> np.ndarray:
    """Mean over seeds and the last rounds, leaving out NaN."""
    there = ~np.isnan(by_round)
    sums = np.cumsum(np.where(there, by_round, 0.0).sum(axis=0))
    counts = np.cumsum(there.sum(axis=0))
    sums[RUNNING_ROUNDS:] -= sums[:-RUNNING_ROUNDS].copy()
    counts[RUNNING_ROUNDS:] -= counts[:-RUNNING_ROUNDS].copy()
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def tct_by_round(variants: Sequence[Variant]) -> Figure:
    figure, axes = _panels(variants, "task", "completion time, ms")
    for variant, ax in zip(variants, axes, strict=False):
        tasks = _first(variant).tasks
        for index in range(len(variant.spec["paths"])):
            here = (tasks.path == index) & tasks.complete
            _dots(ax, tasks.number[here], tasks.tct_ms[here], _path_colour(index))
        ax.plot(_running(_by_round(variant, lambda samples: samples.tasks.tct_ms)), color=STAND_INS["ink"], lw=1.2)
        ax.set_xlim(0, variant.spec["client"]["requests"])
    axes[0].set_yscale("log")
    log_ticks(axes[0], "y")
    _path_legend(figure, variants[0])
    return figure


def regret_by_round(variants: Sequence[Variant]) -> Figure | None:
    if any(samples.truth is None for variant in variants for samples in variant.series.values()):
        return None
    figure = Figure(figsize=(11, 3.7))
    for ax, regrets, label in zip(
        figure.subplots(1, 2, sharey=True),
        (regrets_ms, pseudo_regrets_ms),
        ("regret, ms", "regret of the means, ms"),
        strict=True,
    ):
        for variant in variants:
            by_seed = np.cumsum(np.nan_to_num(_by_round(variant, partial(_judged, regrets))), axis=1)
            some = np.arange(0, by_seed.shape[1], max(1, by_seed.shape[1] // POINTS))
            for line in by_seed[:, some]:
                ax.plot(some, np.where(line >= 1, line, np.nan), color=STAND_INS[variant.hue], alpha=0.3, lw=0.7)
            middle = by_seed[:, some].mean(axis=0)
            ax.plot(
                some,
                np.where(middle >= 1, middle, np.nan),
                color=STAND_INS[variant.hue],
                lw=1.8,
                linestyle=variant.dash,
            )
        ax.set_yscale("log")
        ax.set_xlim(0, variants[0].spec["client"]["requests"])
        ax.set_ylim(bottom=1)
        log_ticks(ax, "y")
        ax.set_xlabel("task")
        ax.set_ylabel(label)
    legend(figure, variants)
    return figure


def best_by_round(variants: Sequence[Variant]) -> Figure | None:
    if any(samples.truth is None for variant in variants for samples in variant.series.values()):
        return None
    figure = Figure(figsize=(11, 3.1))
    ax = figure.subplots()
    for variant in variants:
        share = _running(_by_round(variant, partial(_judged, at_best)))
        ax.plot(share, color=STAND_INS[variant.hue], lw=1.6, linestyle=variant.dash)
    ax.set_ylim(0, 1.03)
    ax.set_xlim(0, variants[0].spec["client"]["requests"])
    ax.set_xlabel("task")
    ax.set_ylabel("share on the best path")
    legend(figure, variants)
    return figure


def paths_by_round(variants: Sequence[Variant]) -> Figure | None:
    first = _first(variants[0])
    if first.truth is None:
        return None
    names = [path["name"] for path in variants[0].spec["paths"]]
    strip = 0.2 * len(names) + 0.25
    figure = Figure(figsize=(11, 2.8 + strip * len(variants)))
    heights = [2.2, *[strip] * len(variants)]
    axes = figure.subplots(1 + len(variants), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    for index in range(len(names)):
        axes[0].plot(first.truth.rtt_ms[:, index], color=_path_colour(index), alpha=0.3, lw=0.6)
        axes[0].plot(first.truth.mean_ms[:, index], color=_path_colour(index), lw=1.6, drawstyle="steps-post")
    if first.truth.mean_ms.max() > 4 * first.truth.mean_ms.min():
        axes[0].set_yscale("log")
        log_ticks(axes[0], "y")
    axes[0].set_ylabel("RTT, ms")
    for variant, ax in zip(variants, axes[1:], strict=True):
        tasks = _first(variant).tasks
        for index in range(len(names)):
            here = tasks.path == index
            _dots(ax, tasks.round[here], np.full(here.sum(), float(index)), _path_colour(index), 5.0)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_yticks(range(len(names)), names, fontsize=7)
        ax.set_title(variant.label, color=STAND_INS[variant.hue], fontweight="bold", pad=2)
    axes[-1].set_xlim(0, len(first.truth.rtt_ms))
    axes[-1].set_xlabel("round")
    _path_legend(figure, variants[0])
    return figure


def links_lost(variant: Variant) -> bool:
    samples = _first(variant)
    return any(silence(samples, change) is not None for change in samples.changes)


def handover(variants: Sequence[Variant]) -> Figure:
    variants = [variant for variant in variants if links_lost(variant)]
    figure, axes = _panels(variants, "time, s", "delivered, MB", 2.3)
    for variant, ax in zip(variants, axes, strict=False):
        samples = _first(variant)
        gaps = ((each, silence(samples, each)) for each in samples.changes)
        change, (begin_us, end_us) = next((each, gap) for each, gap in gaps if gap is not None)
        path = next(each for each in variant.spec["paths"] if each["name"] == change["path"])
        for each in reversed(variant.series.values()):
            t_us, received = each.received
            bold = each is samples
            ax.plot(t_us / 1e6, received / 1e6, color=STAND_INS[variant.hue], lw=2 if bold else 0.8,
                    alpha=1 if bold else 0.35, drawstyle="steps-post")  # fmt: skip
        ax.axvline(change["at_s"], color=STAND_INS["ink"], linestyle=(0, (4, 3)), lw=0.9)
        took_us = [event["t_us"] for event in samples.path_events if event["event"] == "switched"]
        took_us = [t_us for t_us in took_us if change["at_s"] * 1e6 <= t_us <= end_us]
        for t_us in took_us:
            ax.axvline(t_us / 1e6, color=STAND_INS[variant.hue], linestyle=":", lw=1.2)
        heard_us, rtt_ms = last_heard(samples, min([*took_us, end_us]))
        if heard_us is not None:
            pto_s = (max(rtt_ms, path["rtt_ms"]) + PTO_LEAST_MS) / 1e3
            ax.axvspan(heard_us / 1e6, heard_us / 1e6 + 3 * pto_s, color=STAND_INS["faint"], alpha=0.6, lw=0)
        margin_s = max(0.3, 1.5 * (end_us - begin_us) / 1e6)
        ax.set_xlim(begin_us / 1e6 - margin_s, end_us / 1e6 + margin_s)
        t_us, received = samples.received
        low, high = np.interp([begin_us - margin_s * 1e6, end_us + margin_s * 1e6], t_us, received) / 1e6
        ax.set_ylim(low, high + 0.05 * (high - low))
    return figure


def _end_s(variants: Sequence[Variant]) -> float:
    """Where a time axis ends: with the slowest variant, unless that squeezes the others."""
    ends_s = sorted(
        max(float(samples.received[0].max(initial=0.0)) for samples in variant.series.values()) / 1e6
        for variant in variants
    )
    slowest_shown = next(end for i, end in reversed(list(enumerate(ends_s))) if i == 0 or end < 3 * ends_s[i - 1])
    return 1.03 * slowest_shown


def received_over_time(variants: Sequence[Variant]) -> Figure:
    figure = Figure(figsize=(11, 3.6))
    ax = figure.subplots()
    for variant in variants:
        for samples in variant.series.values():
            t_us, received = samples.received
            bold = samples is _first(variant)
            ax.plot(np.insert(t_us, 0, 0) / 1e6, np.insert(received, 0, 0) / 1e6, color=STAND_INS[variant.hue],
                    lw=1.8 if bold else 0.7, alpha=1 if bold else 0.3,
                    linestyle=variant.dash if bold else "solid")  # fmt: skip
    ax.set_xlim(0, _end_s(variants) or None)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("time, s")
    ax.set_ylabel("received, MB")
    legend(figure, variants)
    return figure


def windows_over_time(variants: Sequence[Variant]) -> Figure:
    figure = Figure(figsize=(11, 3.7))
    left, right = figure.subplots(1, 2, sharex=True)
    for variant in variants:
        samples, client = _first(variant), variant.spec["client"]
        look = {"color": STAND_INS[variant.hue], "lw": 1.8, "linestyle": variant.dash, "drawstyle": "steps-post"}
        streams = [course for (_, stream), course in samples.windows.items() if stream is not None]
        if streams:
            t_us = np.concatenate([t for t, _ in streams])
            size = np.concatenate([each for _, each in streams])
            order = np.argsort(t_us, kind="stable")
            largest = np.maximum.accumulate(size[order])
            t_s = np.insert(t_us[order], 0, 0) / 1e6
            left.plot(t_s, np.insert(largest, 0, client["stream_window_bytes"]) / 1e3, **look)
        t_us, promised = samples.promised
        right.plot(t_us / 1e6, promised / 1e3, **look)
    for ax, label in ((left, "stream window, kB"), (right, "promised, kB")):
        ax.set_yscale("log")
        log_ticks(ax, "y")
        ax.set_xlim(0, _end_s(variants) or None)
        ax.set_xlabel("time, s")
        ax.set_ylabel(label)
    legend(figure, variants)
    return figure


def time_by_size(variants: Sequence[Variant]) -> Figure:
    figure = Figure(figsize=(11, 3.9))
    ax = figure.subplots()
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(kind(variant.spec), []).append(variant)
    for members in groups.values():
        members.sort(key=lambda variant: max(sizes_of(variant.spec["client"])))
        sizes = [max(sizes_of(v.spec["client"])) * v.spec["client"]["requests"] / 1e6 for v in members]
        times = [estimate([run.metrics["transfer_time_mean_s"] for run in v.runs.values()]) for v in members]
        known = [
            (size, time.mean, inside(time)) for size, time in zip(sizes, times, strict=True) if time.mean is not None
        ]
        first = members[0]
        look = {"color": STAND_INS[first.hue], "lw": 1.6, "linestyle": first.dash}
        ax.plot([size for size, _, _ in known], [mean_s for _, mean_s, _ in known], **look)
        for size, mean_s, bars in known:
            ax.errorbar(size, mean_s, yerr=bars, color=STAND_INS[first.hue], marker=first.marker,
                        markersize=5, lw=1.2, capsize=2.5)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    log_ticks(ax, "x")
    log_ticks(ax, "y")
    ax.set_xlabel("size of all tasks together, MB")
    ax.set_ylabel("transfer time, s")
    legend(figure, one_of_each(variants))
    return figure
