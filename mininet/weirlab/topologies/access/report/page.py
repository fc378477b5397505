# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `access`: strategies of path choice or window rules beside each other.

Plots follow from the runs: over several paths the choices round by round, with one the windows, a handover where a link
went away, transfer times where sizes differ.
"""

from collections.abc import Mapping
from typing import Any

from weirlab.report import plots, results
from weirlab.report.labels import Variant
from weirlab.report.model import Block, Cell, Column, Figure, Paragraph, Report, Row, Section, Table
from weirlab.report.plots import HUES
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, RunResult, Summary, samples_path
from weirlab.topologies.access.metrics import METRICS
from weirlab.topologies.access.report.compare import beside_peers, heads_of, named, relative_cell
from weirlab.topologies.access.report.labels import (
    checks,
    pair_in_words,
    path_names,
    run_counts,
    spec_in_words,
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


PEERS_NOTE = (
    "Each variant's figure less that of its peer with the same seed in the same setting, in percent of the peer's or "
    "in ms: mean over seeds ± half the width of its 95 % interval. An interval without 0 is a difference."
)


def report(folder: ResultsFolder, summary: Summary, drawn: bool) -> Report:
    """The figures, the comparisons with peers, the plots if `drawn`, the checks."""
    facts = folder.meta["scenario"]
    specs = results.specs_of(folder, summary)
    variants = read_variants(folder, summary) if drawn else []
    hues = {variant.label: variant.hue for variant in variants}
    definitions = {**METRICS, **{f"tasks_on_{name}": f"tasks that began on {name}" for name in path_names(specs)}}
    peers = _peer_tables(facts["paper"], specs, summary)
    found: list[Block] = [
        Section("Figures", [results.figures(rows(specs), definitions, facts, summary, hues)]),
        Section("Beside its peers", [Paragraph(PEERS_NOTE, faint=True), *peers] if peers else []),
    ]
    if variants:
        words = results.variant_terms(one_of_each(variants), variant_in_words)
        found.append(
            results.settings(
                "Settings: links, flows, and each variant",
                results.common(list(map(spec_in_words, specs.values()))),
                words,
            )
        )
        found += [Section(heading, [Figure(heading, text, svg)]) for _, heading, text, svg in all_plots(variants)]
    found += [results.by_seed(BY_SEED, summary), *results.closing(folder.meta, checks(summary), definitions)]
    return results.report(facts, run_counts(list(specs.values()), summary), found)


def _peer_tables(paper: Mapping[str, Any], specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> list[Table]:
    """Comparisons with peers: one table for path choice, one for windows."""
    found = beside_peers(specs, summary)
    tables = []
    for heads in heads_of(found):
        lines = [
            Row(
                pair_in_words(label, other, specs),
                [Cell(*relative_cell(paper, label, values, head)) for head in heads],
            )
            for (label, other), values in found.items()
            if any(named(values, head) for head in heads)
        ]
        tables.append(Table([Column(head[2]) for head in heads], lines, "less its peer's, seed by seed"))
    return tables


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
