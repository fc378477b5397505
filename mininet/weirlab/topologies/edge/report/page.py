# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `edge`: targets, plots, comparisons of runs, one line a variant."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from weirlab.report import results
from weirlab.report.labels import anywhere, estimated, paper_figure, shown
from weirlab.report.model import Block, Cell, Column, Figure, Folded, Paragraph, Report, Row, Section, Table, Term
from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.edge.cross_run_stats import Point, points_of
from weirlab.topologies.edge.metrics import METRICS
from weirlab.topologies.edge.report.compare import (
    ASKED_NOTE,
    HEADS,
    Line,
    asked_lines,
    caption,
    paper_figure_of,
    tables,
)
from weirlab.topologies.edge.report.labels import checks, run_counts, spec_in_words, way_in_words
from weirlab.topologies.edge.report.plots import all_plots
from weirlab.topologies.edge.requirements import answers, as_documents

COLUMNS = (
    ("goodput_mean_mbit_s", "goodput, Mbit/s", 3),
    ("goodput_min_mbit_s", "least", 3),
    ("completion_mean_s", "time, s", 3),
    ("publisher_sent_bytes", "publisher sent, bytes", 0),
    ("publisher_sent_ratio", "in files", 3),
    ("retransmissions_percent", "again, %", 2),
    ("merged_percent", "merged, %", 1),
    ("cache_hits_percent", "cache hits, %", 1),
    ("copies_ratio", "copies", 2),
    ("marked_percent", "marked, %", 2),
    ("medium_carried_ratio", "medium, files", 3),
    ("medium_requests_percent", "of it requests, %", 2),
    ("move_gap_ms", "gap at a move, ms", 1),
    ("move_stall_ms", "without content, ms", 1),
    ("move_bound_ms", "asked for, ms", 1),
    ("move_back_ms", "server answers, ms", 1),
)
BY_SEED = (
    *COLUMNS,
    ("medium_busy_percent", "medium busy, %", 1),
    ("publisher_received_bytes", "publisher got, bytes", 0),
    ("group_migrated", "migrated", 0),
    ("group_early_data", "0-RTT", 0),
    ("duplicates_percent", "came twice, %", 2),
    ("failed_receivers", "without file", 0),
)


def points(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> list[Point]:
    return points_of(specs, ((run.variant, run.seed, run.metrics) for run in summary.runs))


def columns(summary: Summary) -> list[tuple[str, str, int]]:
    """The columns that some variant has a value for."""
    return [column for column in COLUMNS if anywhere(summary, column[0])]


def report(folder: ResultsFolder, summary: Summary, drawn: bool) -> Report:
    """Targets, plots if `drawn`, comparisons between runs, the figures of each variant, the checks."""
    facts, specs = folder.meta["scenario"], results.specs_of(folder, summary)
    paper, every = facts["paper"], points(specs, summary)
    targets = lines_table("figure", HEADS["asked"], asked_lines(every, paper))
    found: list[Block] = [
        Section(
            "Targets",
            [targets, *([Paragraph(ASKED_NOTE, faint=True), results.set_in(answers)] if targets.rows else [])],
        ),
        *(
            Section(heading, [Figure(heading, text, svg)])
            for _, heading, text, svg in (all_plots(every, paper) if drawn else ())
        ),
    ]
    if together := tables(every, paper):
        comparisons = [lines_table(*one) for one in together]
        found.append(Section("Comparisons of runs", [*comparisons, Paragraph(caption(every, paper), faint=True)]))
    lines = [(label, list(cells_of(summary, paper, label))) for label in summary.variants]
    variants = lines_table(results.CORNER, [text for _, text, _ in columns(summary)], lines)
    found += [
        Section("Figures", [Paragraph(results.interval_note(paper), faint=True), variants]),
        _settings(specs),
        results.by_seed(BY_SEED, summary),
        *results.closing(folder.meta, checks(summary), METRICS),
    ]
    return results.report(facts, run_counts(summary), found)


def lines_table(corner: str, heads: Sequence[str], lines: Sequence[Line]) -> Table:
    rows = [Row(name, [Cell(text, small) for text, small in cells]) for name, cells in lines]
    return Table([Column(head) for head in heads], rows, corner)


def asked_documents(folder: ResultsFolder, summary: Summary) -> list[Mapping[str, Any]]:
    """Targets of each case, for `--json`."""
    paper = folder.meta["scenario"]["paper"]
    return as_documents(answers(points(results.specs_of(folder, summary), summary)), partial(paper_figure_of, paper))


def cells_of(summary: Summary, paper: Mapping[str, Any], label: str) -> Iterable[tuple[str, str]]:
    """A variant's figures, each with the paper's."""
    for metric, _, decimals in columns(summary):
        yield shown(estimated(summary, label, metric), decimals), paper_figure(paper, label, metric)


def _settings(specs: Mapping[str, Mapping[str, Any]]) -> Folded:
    """Tree, links and ways to carry the file."""
    ways: dict[str, str] = {}
    for label, spec in specs.items():
        ways.setdefault(label.split(",")[0], way_in_words(spec))
    terms = [Term(way, text) for way, text in ways.items()]
    return results.settings(
        "Settings: links, switches, and each way to carry the file",
        results.common(list(map(spec_in_words, specs.values()))),
        terms,
    )
