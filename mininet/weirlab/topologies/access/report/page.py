# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `access`: strategies of path choice or window rules beside each other.

The plots follow from the runs: over several paths the choices round by round, with one the windows, a handover where a
link went away, transfer times where sizes differ.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape

from weirlab.metrics.estimate import Estimate
from weirlab.report import labels, markup, plots
from weirlab.report.labels import Variant
from weirlab.report.plots import HUES
from weirlab.report.terminal import print_checks, print_chunks, result_cells
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, RunResult, Summary, samples_path
from weirlab.topologies.access.metrics import METRICS
from weirlab.topologies.access.report.compare import beside_peers, heads_of, named, relative_cell
from weirlab.topologies.access.report.labels import (
    check_lines,
    in_words,
    pair_in_words,
    path_names,
    run_counts,
    variant_in_words,
)
from weirlab.topologies.access.report.plots import all_plots, kind, one_of_each
from weirlab.topologies.access.samples import read_samples

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
    (None, "Decisions of a learned congestion control", "", 0),
    ("decisions_outside_percent", "outside the training", "%", 2),
    ("decisions_by_bbr_percent", "after which BBR had the window", "%", 2),
    (None, "Tasks", "", 0),
    ("failed_tasks", "failed", "", 0),
    ("cid_usable", "paths usable at once", "", 0),
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


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the figures, the comparisons with peers, and the checks."""
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    console.print(escape(run_counts(list(specs.values()), summary)))
    cells = partial(result_cells, rows(specs), summary, facts["paper"])
    print_chunks(console, "mean over seeds ± 95 %", list(summary.variants), cells)
    found = beside_peers(specs, summary)
    for heads in heads_of(found):
        chosen = {pair: values for pair, values in found.items() if any(named(values, head) for head in heads)}
        lines = partial(_peer_lines, facts["paper"], specs, heads, chosen)
        print_chunks(console, "less its peer's, seed by seed", [head[2] for head in heads], lines)
    print_checks(console, check_lines(summary))


def _peer_lines(
    paper: Mapping[str, Any],
    specs: Mapping[str, Mapping[str, Any]],
    heads: Sequence[tuple[str, str, str, int]],
    chosen: Mapping[tuple[str, str], Mapping[str, Estimate]],
    labels: Sequence[str],
) -> Iterable[list[str]]:
    """The lines of a comparison with peers, with the columns of those heads that are in `labels`."""
    for (label, other), values in chosen.items():
        cells = []
        for head in heads:
            if head[2] in labels:
                text, figure = relative_cell(paper, label, values, head)
                cells.append(f"{text}\n[dim]{escape(figure)}[/dim]" if figure else text)
        yield [f"  {pair_in_words(label, other, specs)}", *cells]


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
        look = looks.setdefault(kind(spec), plots.look(len(looks)))
        variants.append(Variant(label, spec, runs, series, hue if hue in HUES else "other", *look))
    return variants


def rows(specs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str | None, str, str, int]]:
    """The table's rows: completion times where tasks are paced, else transfer times; and the tasks of each path."""
    names = path_names(specs)
    paced = any(spec["client"]["interval_ms"] for spec in specs.values())
    shown = [row for row in ROWS if paced or not (row[0] or row[1]).lower().startswith(("tct_", "task completion"))]
    return [*shown, *((f"tasks_on_{name}", f"on {name}", "", 1) for name in names if len(names) > 1)]


def page(meta: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    """The whole HTML document."""
    facts = meta["scenario"]
    specs = {variant.label: variant.spec for variant in variants}
    drawn = all_plots(variants) if variants else ()
    lines = check_lines(summary)
    meanings = {**METRICS, **{f"tasks_on_{name}": f"tasks that began on {name}" for name in path_names(specs)}}
    found = [
        *markup.heading(facts),
        f"<p>{html.escape(run_counts(list(specs.values()), summary))}</p>",
        markup.failed_checks(lines),
        "<h2>Figures</h2>",
        markup.table(rows(specs), meanings, facts, summary, variants),
        _peers_table(facts, specs, summary),
        markup.what_ran(in_words(list(specs.values())) if variants else [], one_of_each(variants), variant_in_words),
        *(f"<h2>{heading}</h2>{markup.drawing(caption, text)}" for _, heading, caption, text in drawn),
        markup.by_seed([row for row in BY_SEED if labels.anywhere(summary, row[0])], summary),
        markup.checks(lines),
        markup.repeat(meta),
        markup.definitions(meanings),
    ]
    return markup.document(facts["title"], found)


def _peers_table(facts: Mapping[str, Any], specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> str:
    found = beside_peers(specs, summary)
    tables = []
    for heads in heads_of(found):
        lines = []
        for (label, other), values in found.items():
            if any(named(values, head) for head in heads):
                cells = [relative_cell(facts["paper"], label, values, head) for head in heads]
                lines.append((pair_in_words(label, other, specs), cells))
        tables.append(markup.plain_table("", [head[2] for head in heads], lines))
    if not tables:
        return ""
    caption = (
        "Each variant's figure less that of its peer with the same seed in the same setting, in percent of the peer's "
        "or in ms: mean over seeds ± half the width of its 95 % interval. An interval without 0 is a difference."
    )
    return f"<h2>Beside its peers</h2><p class=dim>{caption}</p>{''.join(tables)}"
