# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `access`: strategies of path choice or window rules beside each other.

Which plots there are follows from what was run: over several paths the choices round by round, with one the windows, a
handover where a link went away, transfer times where sizes differ.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.console import Console
from rich.markup import escape

from weirlab import report_parts as parts
from weirlab.metrics import Estimate, estimate
from weirlab.metrics_access import (
    METRICS,
    PTO_LEAST_MS,
    Samples,
    at_best,
    choosing,
    last_heard,
    pseudo_regrets_ms,
    read_samples,
    regrets_ms,
    relative,
    silence,
)
from weirlab.report_parts import HUES, PATH_HUES, STAND_INS, Variant, count, inside, legend, log_ticks
from weirlab.results import ResultsFolder, RunResult, Summary, read_json, samples_path

ROWS: tuple[tuple[str | None, str, str, int], ...] = (
    (None, "Task completion time", "", 0),
    ("tct_mean_ms", "mean", "ms", 2),
    ("tct_var_ms2", "variance", "ms²", 2),
    ("tct_p50_ms", "median", "ms", 2),
    ("tct_p95_ms", "p95", "ms", 2),
    ("tct_max_ms", "longest", "ms", 1),
    ("start_lag_mean_ms", "late to start, mean", "ms", 3),
    ("start_lag_max_ms", "late to start, most", "ms", 1),
    (None, "Choice of path", "", 0),
    ("best_path_rate", "on the best path, share", "", 3),
    ("regret_ms", "regret", "ms", 1),
    ("pseudo_regret_ms", "regret of the means", "ms", 1),
    ("regret_eq22", "regret, Tan Eq. 22", "", 0),
    (None, "Migration", "", 0),
    ("switches", "changes of path", "", 1),
    ("switches_cold", "of these to wait for", "", 1),
    ("moves", "in mid-task", "", 1),
    ("extra_rtts_per_migration", "extra, each", "RTT", 3),
    ("extra_rtts_per_migration_median", "extra, median", "RTT", 3),
    ("extra_rtts_validated", "extra, validated", "RTT", 3),
    ("extra_rtts_cold", "extra, cold", "RTT", 3),
    (None, "Handover", "", 0),
    ("stall_ms", "silence", "ms", 1),
    ("stall_pto", "silence", "PTO", 2),
    ("takeover_ms", "until taken over", "ms", 1),
    ("takeover_pto", "until taken over", "PTO", 2),
    (None, "Transfer and windows", "", 0),
    ("transfer_time_mean_s", "transfer time", "s", 3),
    ("stream_time_mean_s", "mean of its streams'", "s", 3),
    ("goodput_mbit_s", "goodput", "Mbit/s", 2),
    ("window_promised_peak_bytes", "promised, peak", "bytes", 0),
    ("time_to_window_s", "window open after", "s", 3),
    ("full_pipe_rtts", "full pipe after", "RTT", 1),
    (None, "Tasks", "", 0),
    ("failed_tasks", "failed", "", 0),
    ("cid_usable", "paths usable at once", "", 0),
)
# Stem of a relative metric, its unit, heading, decimals.
RELATIVE = (
    ("tct_mean", "percent", "mean TCT, %", 2),
    ("tct_var", "percent", "variance, %", 2),
    ("regret", "ms", "regret, ms", 1),
    ("pseudo_regret", "ms", "of the means, ms", 1),
    ("transfer_time", "percent", "transfer time, %", 2),
    ("goodput", "percent", "goodput, %", 2),
    ("window_promised_peak", "percent", "promised peak, %", 1),
)
BY_SEED = (
    ("tct_mean_ms", "TCT mean, ms", 3),
    ("tct_var_ms2", "variance, ms²", 2),
    ("best_path_rate", "best path", 3),
    ("regret_ms", "regret, ms", 1),
    ("pseudo_regret_ms", "of the means, ms", 1),
    ("switches", "changes", 0),
    ("moves", "in mid-task", 0),
    ("extra_rtts_per_migration", "extra RTT", 3),
    ("stall_ms", "silence, ms", 1),
    ("takeover_pto", "taken over, PTO", 2),
    ("transfer_time_mean_s", "transfer, s", 3),
    ("goodput_mbit_s", "goodput, Mbit/s", 2),
    ("window_promised_peak_bytes", "promised, bytes", 0),
    ("time_to_window_s", "window open, s", 3),
    ("failed_tasks", "failed", 0),
)
RUNNING_ROUNDS = 24  # running means; 24 holds whole turns of two, three and four paths
POINTS = 250  # of a line that only grows; more than the page can show
STRATEGY_OPTIONS = {
    "ops": ("model", "memory_tasks", "weight_a", "explore_c"),
    "pps": ("model", "memory_tasks", "weight_a", "explore_c"),
    "weir": ("model", "memory_tasks", "weight_a"),
    "epsilon-greedy": ("epsilon",),
}
STRATEGY_WORDS = {
    "ops": "optimistic path selection (Tan Eq. 19)",
    "pps": "pessimistic path selection (Tan Eq. 20)",
    "weir": "ours",
    "polling": "each path in turn",
    "epsilon-greedy": "the best so far, any other now and then",
    "best-single": "each path once, then the best of these for good",
    "oracle": "told the best path of each round",
}
WINDOW_WORDS = {
    "static": "fixed",
    "double": "doubling (quiche's rule)",
    "fast": "fast autotuning (Lee & An Algorithm 1)",
    "weir": "ours",
}


def headline(metrics: Mapping[str, Any]) -> str:
    """A run's figures in a few words."""
    if metrics["transfer_time_mean_s"] is not None:
        words = f"transfer {metrics['transfer_time_mean_s']:.3f} s, goodput {metrics['goodput_mbit_s']:.2f} Mbit/s"
    elif metrics["tct_mean_ms"] is not None:
        words = f"task completion time {metrics['tct_mean_ms']:.2f} ms"
    else:
        words = "no task complete"
    if metrics["regret_ms"] is not None:
        words += f", best path {100 * metrics['best_path_rate']:.1f} %, regret {metrics['regret_ms']:.1f} ms"
    return words + (f", silence {metrics['stall_ms']:.0f} ms" if metrics["stall_ms"] is not None else "")


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the figures, the comparisons with peers, and the checks."""
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    console.print(escape(run_counts(list(specs.values()), summary)))
    cells = partial(parts.result_cells, rows(specs), summary, facts["paper"])
    parts.print_chunks(console, "mean over seeds ± 95 %", list(summary.variants), cells)
    found = beside_peers(specs, summary)
    for heads in heads_of(found):
        chosen = {pair: values for pair, values in found.items() if any(_named(values, head) for head in heads)}

        def lines(labels: Sequence[str], heads=heads, chosen=chosen) -> Iterable[list[str]]:
            for (label, other), values in chosen.items():
                cells = []
                for head in heads:
                    if head[2] in labels:
                        text, figure = _relative_cell(facts["paper"], label, values, head)
                        cells.append(f"{text}\n[dim]{escape(figure)}[/dim]" if figure else text)
                yield [f"  {pair_in_words(label, other, specs)}", *cells]

        parts.print_chunks(console, "less its peer's, seed by seed", [head[2] for head in heads], lines)
    parts.print_checks(console, check_lines(summary))


def one_of_each(variants: Sequence[Variant]) -> list[Variant]:
    """One variant of each kind; where sizes make several of a kind, under the name they have in common."""
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(kind(variant.spec), []).append(variant)
    return [
        members[0] if len(members) == 1 else replace(members[0], label=members[0].label.split(",")[0])
        for members in groups.values()
    ]


def read_variants(folder: ResultsFolder, summary: Summary) -> list[Variant]:
    """The finished runs by variant, with their samples for the plots."""
    by_label: dict[str, dict[int, RunResult]] = {}
    for run in summary.runs:
        by_label.setdefault(run.variant, {})[run.seed] = run
    variants: list[Variant] = []
    looks: dict[str, tuple[Any, str]] = {}
    for label, runs in by_label.items():
        series, spec = {}, {}
        for seed in runs:
            run_path = folder.run_path(label, seed)
            spec = read_json(run_path / "spec.json")
            series[seed] = read_samples(samples_path(run_path), spec)
        hue = spec["client"]["strategy"] if len(spec["paths"]) > 1 else spec["client"]["window"]
        look = looks.setdefault(kind(spec), parts.look(len(looks)))
        variants.append(Variant(label, spec, runs, series, hue if hue in HUES else "other", *look))
    return variants


def rows(specs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str | None, str, str, int]]:
    """The table's rows: completion times where tasks are paced, else transfer times; and the tasks of each path."""
    names = path_names(specs)
    paced = any(spec["client"]["interval_ms"] for spec in specs.values())
    shown = [row for row in ROWS if paced or not (row[0] or row[1]).lower().startswith(("tct_", "task completion"))]
    return [*shown, *((f"tasks_on_{name}", f"on {name}", "", 1) for name in names if len(names) > 1)]


def path_names(specs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(path["name"] for spec in specs.values() for path in spec["paths"]))


def kind(spec: Mapping[str, Any]) -> str:
    """The client's settings but for the size of its tasks; variants alike in it are drawn alike."""
    return json.dumps({key: value for key, value in spec["client"].items() if key != "bytes"}, sort_keys=True)


def beside_peers(
    specs: Mapping[str, Mapping[str, Any]], summary: Summary
) -> dict[tuple[str, str], dict[str, Estimate]]:
    """As `relative`, means over settings first."""
    found = relative(specs, {(run.variant, run.seed): run.metrics for run in summary.runs})
    return dict(sorted(found.items(), key=lambda item: item[0][0] in specs))


def heads_of(found: Mapping[tuple[str, str], Mapping[str, Estimate]]) -> list[list[tuple[str, str, str, int]]]:
    """The columns of the comparisons: one list for path choice, one for windows, each only if there are any."""
    there = [head for head in RELATIVE if any(_named(values, head) for values in found.values())]
    choice = [head for head in there if head[0] in ("tct_mean", "tct_var", "regret", "pseudo_regret")]
    return [heads for heads in (choice, [head for head in there if head not in choice]) if heads]


def _named(values: Mapping[str, Estimate], head: tuple[str, str, str, int]) -> str | None:
    """The name that the metric of this column has in `values`; which peer it is against is part of it."""
    return next((name for name in values if name.startswith(f"{head[0]}_vs_") and name.endswith(head[1])), None)


def _relative_cell(
    paper: Mapping[str, Any], label: str, values: Mapping[str, Estimate], head: tuple[str, str, str, int]
) -> tuple[str, str]:
    name = _named(values, head)
    if name is None:
        return parts.NOTHING, ""
    return parts.shown(values[name], head[3]), parts.paper_figure(paper, label, name)


# ---- words ----


def run_counts(specs: Sequence[Mapping[str, Any]], summary: Summary) -> str:
    seeds = sorted({run.seed for run in summary.runs})
    tasks = sorted({spec["client"]["requests"] for spec in specs})
    of = f" of {count(tasks[0], 'task')} each" if len(tasks) == 1 else ""
    return (
        f"{count(len(summary.variants), 'variant')}, {count(len(seeds), 'seed')}, "
        f"{count(len(summary.runs), 'run')}{of}, in virtual time. The same seed draws the same delays for all variants."
    )


def in_words(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What all runs have in common, a sentence for each part."""
    told = [spec_in_words(spec) for spec in specs]
    return [line for line in told[0] if all(line in other for other in told)]


def spec_in_words(spec: Mapping[str, Any]) -> list[str]:
    client = spec["client"]
    lines = [f"{path['name']}: {path_in_words(path)}" for path in spec["paths"]]
    requests = count(client["requests"], "download")
    requests += f", one every {client['interval_ms']:g} ms" if client["interval_ms"] else ""
    requests += f", {client['parallel']} at a time" if client["parallel"] > 1 else ""
    lines += [f"{requests}, on one connection", f"each download: {client['bytes']} bytes"]
    server = spec.get("server") or {}
    lines += [f"server: {', '.join(f'{key} {parts.plain(value)}' for key, value in server.items())}"] if server else []
    if len(spec["paths"]) == 1:
        lines += [
            f"receive window of {what}, at first and at most: {client[f'{key}_window_bytes']} and "
            f"{client[f'max_{key}_window_bytes']} bytes"
            for what, key in (("a stream", "stream"), ("the connection", "conn"))
        ]
    return lines + [change_in_words(change) for change in spec["changes"]]


def pair_in_words(label: str, other: str, specs: Mapping[str, Any]) -> str:
    return f"{label} against {other}" + ("" if label in specs else ", mean over settings")


def path_in_words(path: Mapping[str, Any]) -> str:
    text = f"{path['rate_mbit_s']:g} Mbit/s, RTT {path['rtt_ms']:g} ms"
    if path.get("rtt_sd_ms"):
        text += f" (sd {path['rtt_sd_ms']:g} ms, drawn for each {path.get('draw', 'round')})"
    return text + (f", {path['loss_percent']:g} % loss" if path.get("loss_percent") else ", no loss")


def change_in_words(change: Mapping[str, Any]) -> str:
    when = f"from round {change['round']}" if change.get("round") is not None else f"from {change['at_s']:g} s"
    if change.get("for_rounds") is not None:
        when += f", for {count(change['for_rounds'], 'round')}"
    elif change.get("for_s") is not None:
        when += f", for {change['for_s']:g} s"
    told = ("path", "round", "at_s", "for_rounds", "for_s")
    what = ", ".join(f"{k} {parts.plain(v)}" for k, v in change.items() if k not in told and v is not None)
    return f"{when}: {change['path']} has {what}"


def variant_in_words(variant: Variant) -> str:
    """The strategy with its options, or the window rule."""
    client = variant.spec["client"]
    if len(variant.spec["paths"]) == 1:
        return f"window rule {client['window']}, {WINDOW_WORDS.get(client['window'], '')}"
    strategy = client["strategy"]
    options = [f"{key} {parts.plain(client[key])}" for key in STRATEGY_OPTIONS.get(strategy, ()) if key in client]
    standby = f"; the other paths {'are kept validated' if client['standby'] == 'validated' else 'stay cold'}"
    words = STRATEGY_WORDS.get(strategy, strategy)
    return f"{strategy}, {words}{': ' if options else ''}{', '.join(options)}{standby}"


def check_lines(summary: Summary) -> list[str]:
    """The checks, passed or failed, and what is missing."""
    lines = parts.failed_lines(summary)
    if summary.runs:
        passed = sum(not run.failures for run in summary.runs)
        lines.append(
            f"Whether the runs are sound: {passed} of {count(len(summary.runs), 'run')} passed; every task told of and "
            f"complete, none faster than its round's RTT, the client's events in order."
        )
        forbidden = sum(run.metrics["migration_allowed"] == 0 for run in summary.runs)
        if forbidden:
            lines.append(f"NOTE: in {count(forbidden, 'run')} the server forbade migration.")
    return lines + parts.chance_lines(summary)


# ---- plots ----


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
        "How often the best path was taken",
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


def plots(variants: Sequence[Variant]) -> Iterable[tuple[str, str, str, str]]:
    """Each plot that these runs give something for, as name, heading, caption and SVG."""
    client = variants[0].spec["client"]
    several = choosing(variants[0].spec)
    largest_bytes = max(variant.spec["client"]["bytes"] for variant in variants)
    largest = [variant for variant in variants if variant.spec["client"]["bytes"] == largest_bytes]
    drawn: dict[str, tuple[Any, Sequence[Variant]]] = {}
    if several:
        drawn |= {"tct": (tct_by_round, variants), "regret": (regret_by_round, variants)}
        drawn |= {"best": (best_by_round, variants), "paths": (paths_by_round, variants)}
    if any(_links_lost(variant) for variant in variants):
        drawn["handover"] = handover, variants
    if len(largest) < len(variants):
        drawn["sizes"] = time_by_size, variants
    if not client["interval_ms"] and any(s.windows for variant in variants for s in variant.series.values()):
        drawn |= {"received": (received_over_time, largest), "windows": (windows_over_time, largest)}
    with mpl.rc_context(parts.STYLE):
        for name, (draw, chosen) in drawn.items():
            heading, caption = CAPTIONS[name]
            if len(chosen) < len(variants):
                caption += f" Of the largest size alone, {largest_bytes} bytes a task."
            figure = draw(chosen)
            if figure is not None:
                yield name, heading, caption, parts.svg(figure, name, heading)


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


def _by_round(variant: Variant, values) -> np.ndarray:
    """`values` of each seed's samples by task number, NaN where a task is missing: seeds by tasks."""
    found = np.full((len(variant.series), variant.spec["client"]["requests"]), np.nan)
    for row, samples in zip(found, variant.series.values(), strict=True):
        row[samples.tasks.number] = values(samples)
    return found


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
            by_seed = np.cumsum(
                np.nan_to_num(_by_round(variant, lambda samples, f=regrets: f(samples.tasks, samples.truth))), axis=1
            )
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
        share = _running(_by_round(variant, lambda samples: at_best(samples.tasks, samples.truth).astype(float)))
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


def _links_lost(variant: Variant) -> bool:
    samples = _first(variant)
    return any(silence(samples, change) is not None for change in samples.changes)


def handover(variants: Sequence[Variant]) -> Figure:
    variants = [variant for variant in variants if _links_lost(variant)]
    figure, axes = _panels(variants, "time, s", "delivered, MB", 2.3)
    for variant, ax in zip(variants, axes, strict=False):
        samples = _first(variant)
        change = next(each for each in samples.changes if silence(samples, each) is not None)
        begin_us, end_us = silence(samples, change)
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
    """Where a time axis ends: with the slowest variant, unless that leaves the others no room."""
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
        members.sort(key=lambda variant: variant.spec["client"]["bytes"])
        sizes = [v.spec["client"]["bytes"] * v.spec["client"]["requests"] / 1e6 for v in members]
        times = [estimate([run.metrics["transfer_time_mean_s"] for run in v.runs.values()]) for v in members]
        known = [(size, time) for size, time in zip(sizes, times, strict=True) if time.mean is not None]
        first = members[0]
        ax.plot([s for s, _ in known], [t.mean for _, t in known], color=STAND_INS[first.hue], lw=1.6,
                linestyle=first.dash)  # fmt: skip
        for size, time in known:
            ax.errorbar(size, time.mean, yerr=inside(time), color=STAND_INS[first.hue], marker=first.marker,
                        markersize=5, lw=1.2, capsize=2.5)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    log_ticks(ax, "x")
    log_ticks(ax, "y")
    ax.set_xlabel("size of all tasks together, MB")
    ax.set_ylabel("transfer time, s")
    legend(figure, one_of_each(variants))
    return figure


# ---- the page ----


def page(meta: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    """The whole HTML document."""
    facts = meta["scenario"]
    specs = {variant.label: variant.spec for variant in variants}
    drawn = plots(variants) if variants else ()
    lines = check_lines(summary)
    meanings = {**METRICS, **{f"tasks_on_{name}": f"tasks that began on {name}" for name in path_names(specs)}}
    found = [
        *parts.heading(facts),
        f"<p>{html.escape(run_counts(list(specs.values()), summary))}</p>",
        parts.failed_checks(lines),
        "<h2>Figures</h2>",
        parts.table(rows(specs), meanings, facts, summary, variants),
        _peers_table(facts, specs, summary),
        parts.what_ran(in_words(list(specs.values())) if variants else [], one_of_each(variants), variant_in_words),
        *(f"<h2>{heading}</h2>{parts.drawing(caption, text)}" for _, heading, caption, text in drawn),
        parts.by_seed([row for row in BY_SEED if parts.anywhere(summary, row[0])], summary),
        parts.checks(lines),
        parts.repeat(meta),
        parts.definitions(meanings),
    ]
    return parts.document(facts["title"], found)


def _peers_table(facts: Mapping[str, Any], specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> str:
    found = beside_peers(specs, summary)
    tables = []
    for heads in heads_of(found):
        lines = []
        for (label, other), values in found.items():
            if any(_named(values, head) for head in heads):
                cells = [_relative_cell(facts["paper"], label, values, head) for head in heads]
                lines.append((pair_in_words(label, other, specs), cells))
        tables.append(parts.plain_table("", [head[2] for head in heads], lines))
    if not tables:
        return ""
    caption = (
        "Each variant's figure less that of its peer with the same seed in the same setting, in percent of the peer's "
        "or in ms: mean over seeds ± half the width of its 95 % interval. An interval without 0 is a difference."
    )
    return f"<h2>Beside its peers</h2><p class=dim>{caption}</p>{''.join(tables)}"
