# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `edge`: one line a variant, what they say together, the plots."""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weirlab.report import markup
from weirlab.report.labels import anywhere, estimated, paper_figure, shown
from weirlab.report.terminal import print_checks
from weirlab.store.documents import read_json
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
from weirlab.topologies.edge.report.labels import check_lines, in_words, run_counts, way_in_words
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


def specs_of(folder: ResultsFolder, summary: Summary) -> dict[str, dict[str, Any]]:
    """Each variant's spec, as in the lab's input."""
    return {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}


def points(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> list[Point]:
    return points_of(specs, ((run.variant, run.seed, run.metrics) for run in summary.runs))


def columns(summary: Summary) -> list[tuple[str, str, int]]:
    """The columns that some variant has a value for."""
    return [column for column in COLUMNS if anywhere(summary, column[0])]


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the figures, what they say together, and the checks."""
    paper = folder.meta["scenario"]["paper"]
    console.print(escape(run_counts(summary)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("mean over seeds ± 95 %", no_wrap=True)
    for _, text, _ in columns(summary):
        table.add_column(escape(text), justify="right")
    for label in summary.variants:
        table.add_row(escape(label), *(_with_small(*cell) for cell in cells_of(summary, paper, label)))
    console.print(table)
    every = points(specs_of(folder, summary), summary)
    for corner, heads, lines in [*asked(every, paper), *tables(every, paper)]:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(corner, no_wrap=True)
        for head in heads:
            table.add_column(escape(head), justify="right")
        for name, cells in lines:
            table.add_row(escape(name), *(_with_small(*cell) for cell in cells))
        console.print(table)
    print_checks(console, check_lines(summary))


def asked(every: Sequence[Point], paper: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[Line]]]:
    """The table of what was asked, if the runs say something of it."""
    lines = asked_lines(every, paper)
    return [("what was asked", HEADS["asked"], lines)] if lines else []


def asked_documents(folder: ResultsFolder, summary: Summary) -> list[Mapping[str, Any]]:
    """Requirements and results, case by case, for `--json`."""
    paper = folder.meta["scenario"]["paper"]
    return as_documents(answers(points(specs_of(folder, summary), summary)), partial(paper_figure_of, paper))


def _with_small(text: str, small: str) -> str:
    return f"{escape(text)}\n[dim]{escape(small)}[/dim]" if small else escape(text)


def cells_of(summary: Summary, paper: Mapping[str, Any], label: str) -> Iterable[tuple[str, str]]:
    """A variant's figures, each with the paper's."""
    for metric, _, decimals in columns(summary):
        yield shown(estimated(summary, label, metric), decimals), paper_figure(paper, label, metric)


def page(folder: ResultsFolder, summary: Summary) -> str:
    """The whole HTML document."""
    facts, specs = folder.meta["scenario"], specs_of(folder, summary)
    paper, every = facts["paper"], points(specs, summary)
    lines = check_lines(summary)
    cells = partial(cells_of, summary, paper)
    rows = [(label, list(cells(label))) for label in summary.variants]
    together, wanted = tables(every, paper), asked(every, paper)
    found = [
        *markup.heading(facts),
        f"<p>{html.escape(run_counts(summary))}</p>",
        markup.failed_checks(lines),
        "<h2>What was asked, and what came out</h2>" if wanted else "",
        *(markup.plain_table("", heads, there) for _, heads, there in wanted),
        f"<p class=dim>{html.escape(ASKED_NOTE)}</p>" if wanted else "",
        *(f"<h2>{heading}</h2>{markup.drawing(text, drawn)}" for _, heading, text, drawn in all_plots(every, paper)),
        "<h2>What the runs say together</h2>" if together else "",
        *(markup.plain_table(corner, heads, there) for corner, heads, there in together),
        f"<p class=dim>{html.escape(caption(every, paper))}</p>" if together else "",
        "<h2>Figures</h2>",
        f"<p class=dim>{html.escape(_note(paper))}</p>",
        markup.plain_table("", [text for _, text, _ in columns(summary)], rows),
        _what_ran(specs),
        markup.by_seed([column for column in BY_SEED if anywhere(summary, column[0])], summary),
        markup.checks(lines),
        markup.repeat(folder.meta),
        markup.definitions(METRICS),
    ]
    return markup.document(facts["title"], found)


def _note(paper: Mapping[str, Any]) -> str:
    text = "Mean over seeds ± half the width of its 95 % interval (Student's t)."
    return f"{text} {paper['short']}: {paper['source']}. {' '.join(paper['note'].split())}" if paper else text


def _what_ran(specs: Mapping[str, Mapping[str, Any]]) -> str:
    """Tree, links and ways: folded, since results come first."""
    ways: dict[str, str] = {}
    for label, spec in specs.items():
        ways.setdefault(label.split(",")[0], way_in_words(spec))
    common: Sequence[str] = in_words(list(specs.values()))
    items = "".join(f"<li>{html.escape(line)}</li>" for line in common)
    rows = "".join(f"<dt>{html.escape(way)}</dt><dd>{html.escape(text)}</dd>" for way, text in ways.items())
    summary = "What ran: links, switches, and each way to carry the file"
    return f"<details><summary>{summary}</summary><ul>{items}</ul><dl>{rows}</dl></details>"
