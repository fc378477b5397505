# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `campus`: requirements, contribution of each system, the figures of each variant."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weirlab.metrics.estimate import Estimate
from weirlab.report import markup
from weirlab.report.labels import NOTHING, anywhere, estimated, shown
from weirlab.report.terminal import print_checks
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, Summary, samples_path
from weirlab.topologies.campus.metrics import AFTER_BACK_S, KILL_FIGURES, METRICS
from weirlab.topologies.campus.report.labels import check_lines, has_in_words, in_words, run_counts
from weirlab.topologies.campus.report.picture import picture
from weirlab.topologies.campus.report.plots import chosen, timeline
from weirlab.topologies.campus.requirements import (
    ALL,
    ALONE,
    APPLICATIONS,
    answers,
    as_documents,
    by_variant,
    costs,
    difference,
    in_company,
    left_out,
)
from weirlab.topologies.campus.samples import read_samples

Line = tuple[str, Sequence[tuple[str, str]]]
COLUMNS = (
    *((metric, words, decimals) for metric, (words, _, decimals) in APPLICATIONS.items()),
    ("backbone_sent_bytes", "backbone carried, bytes", 0),
    ("joined_percent", "Interests joined, %", 1),
    ("decisions", "controller's changes", 0),
    ("requests_failed", "requests failed", 0),
    ("unfinished_files", "file not whole in time", 0),
    ("wrong_files", "wrong files", 0),
)
ASKED_NOTE = (
    "Everything on, over the same seed's run of another variant: mean over seeds ± 95 %. An aim is met or missed if "
    "the whole interval says so, else it is open."
)
KILLS_NOTE = f"{'; '.join(KILL_FIGURES.values())}; until {AFTER_BACK_S:g} s after the part was back."
TIMELINE_NOTE = (
    "Seed {seed}. Grey: Wi-Fi fades. Dashed: the phone moves to the other site. Triangles over the queues: the "
    "controller changes gains, in the queue's colour. Networks: a stroke is a request, a mark above it where a "
    "connection goes over to that network."
)
IN_COMPANY, ADDS, FIGURES = "Each system alone and in company", "What each system adds", "Figures"
TURNED = (ADDS, FIGURES)
"""Tables with more figures than variants: a line for each figure."""
IN_COMPANY_NOTE = (
    "The figures of a system's own traffic: without any other on the same network with the same settings, with "
    "everything at once, and this over that, seed by seed. Mean over seeds ± 95 %."
)
ADDS_NOTE = (
    "Everything on, less the run of the same seed with one system taken out and what people use today in its place: "
    "what the system adds. Mean over seeds ± 95 %."
)


def compared(summary: Summary) -> dict[str, dict[int, Mapping[str, Any]]]:
    return by_variant([(run.variant, run.seed, run.metrics) for run in summary.runs])


def asked_documents(summary: Summary) -> list[dict[str, Any]]:
    """Requirements and results, for `--json`."""
    return as_documents(compared(summary))


def tables(summary: Summary) -> Iterable[tuple[str, str, Sequence[str], list[Line]]]:
    """Heading, note, column heads and lines of each table that there is something for."""
    found = compared(summary)
    lines: list[Line] = [
        (aim.words, [(shown(value, 3), ""), (aim.bounds, ""), (verdict, "")]) for aim, value, verdict in answers(found)
    ]
    if lines:
        yield "What was asked, and what came out", ASKED_NOTE, ["found", "asked", "verdict"], lines
    lines, before = [], ""
    for variant, metric, alone, together, over in in_company(found):
        words, _, decimals = APPLICATIONS[metric]
        cells = [(words, ""), _cell(alone, decimals), _cell(together, decimals), (shown(over, 2), "")]
        lines.append((variant.removeprefix("alone-") if variant != before else "", cells))
        before = variant
    if lines:
        yield IN_COMPANY, IN_COMPANY_NOTE, ["figure", "alone", "all together", "together over alone"], lines
    shown_metrics = [metric for metric in APPLICATIONS if anywhere(summary, metric)]
    heads = [APPLICATIONS[metric][0] for metric in shown_metrics]
    if ALL in found and (variants := left_out(found)):
        lines = [
            (variant, [_cell(difference(found[ALL], found[variant], m), APPLICATIONS[m][2]) for m in shown_metrics])
            for variant in variants
        ]
        yield ADDS, ADDS_NOTE, heads, lines
    parts = list(
        dict.fromkeys(
            name[: -len(suffix)]
            for v in summary.variants.values()
            for name in v
            if name.endswith(suffix := f"_{next(iter(KILL_FIGURES))}")
        )
    )
    for label in summary.variants if parts else ():
        lines = [
            (part, [_cell(estimated(summary, label, f"{part}_{figure}"), 0) for figure in KILL_FIGURES])
            for part in parts
        ]
        yield (
            f"What was killed, {label}",
            KILLS_NOTE,
            ["stream silent, ms", "requests silent, ms", "upload silent, ms"],
            lines,
        )
    columns = [column for column in COLUMNS if anywhere(summary, column[0])]
    lines = [
        (label, [_cell(estimated(summary, label, metric), decimals) for metric, _, decimals in columns])
        for label in [label for label in summary.variants if not ALONE.fullmatch(label)] or summary.variants
    ]
    yield FIGURES, "Mean over seeds ± 95 %.", [words for _, words, _ in columns], lines


def _cell(value: Estimate, decimals: int) -> tuple[str, str]:
    """A mean, and its interval under it: there are many columns."""
    if value.mean is None:
        return NOTHING, ""
    mean = f"{value.mean:.{decimals}f}"
    return mean, "" if value.ci95 is None else f"± {value.ci95:.{decimals}f}"


def worse_lines(summary: Summary) -> list[str]:
    """Where a system makes an application worse, a sentence each."""
    return [
        f"{variant.removeprefix('without-')} makes {APPLICATIONS[metric][0]} worse: {shown(value, 3)} of what it is "
        f"{variant}"
        for variant, metric, value in costs(compared(summary))
    ]


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the requirements, the figures and the checks. Variants are columns here."""
    console.print(escape(run_counts(summary)))
    for heading, _, heads, lines in tables(summary):
        turned = heading in TURNED
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left")
        table.add_column("", no_wrap=True)
        for name in [name for name, _ in lines] if turned else heads:
            table.add_column(escape(name), justify="right")
        if turned:
            for place, head in enumerate(heads):
                table.add_row(escape(head), *(_joined(cells[place]) for _, cells in lines))
        else:
            for name, cells in lines:
                table.add_row(escape(name), *(_joined(cell) for cell in cells))
        console.print(table)
    for line in worse_lines(summary):
        console.print(escape(line))
    print_checks(console, check_lines(summary))


def _joined(cell: tuple[str, str]) -> str:
    return escape(" ".join(part for part in cell if part))


def page(folder: ResultsFolder, summary: Summary) -> str:
    """The whole HTML document."""
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    lines = check_lines(summary)
    found = [*markup.heading(facts), f"<p>{html.escape(run_counts(summary))}</p>", markup.failed_checks(lines)]
    found += _drawings(folder, summary, specs)
    for heading, note, heads, rows in tables(summary):
        found += [f"<h2>{html.escape(heading)}</h2>", f"<p class=dim>{html.escape(note)}</p>"]
        if heading in TURNED:
            found.append(markup.plain_table("", [name for name, _ in rows], turned(heads, rows)))
        else:
            found.append(markup.plain_table("", heads, rows))
    worse = worse_lines(summary)
    found += ["<h2>What makes another worse</h2>"] if worse else []
    found += [f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in worse)}</ul>"] if worse else []
    found += [
        _what_ran(specs),
        markup.by_seed([column for column in COLUMNS if anywhere(summary, column[0])], summary),
        markup.checks(lines),
        markup.repeat(folder.meta),
        markup.definitions(METRICS),
    ]
    return markup.document(facts["title"], found)


def _drawings(folder: ResultsFolder, summary: Summary, specs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The network, and the events of the first seed's runs."""
    labels = chosen(list(specs))
    if not labels:
        return []
    seed = min(run.seed for run in summary.runs if run.variant == labels[0])
    there = {run.variant for run in summary.runs if run.seed == seed}
    samples = {
        label: read_samples(samples_path(folder.run_path(label, seed)), specs[label])
        for label in labels
        if label in there
    }
    first, spec = next(iter(samples)), specs[labels[0]]
    title = f"The network of {first}, seed {seed}: MB down / up in {spec['duration_s']:g} s"
    return [
        "<h2>What flowed where</h2>",
        markup.drawing(
            f"{title}. Lines are as thick as both together.",
            picture(samples[first].links, spec, title),
        ),
        "<h2>What happened</h2>",
        markup.drawing(TIMELINE_NOTE.format(seed=seed), timeline(samples, spec)),
    ]


def turned(heads: Sequence[str], rows: Sequence[Line]) -> list[Line]:
    """The same table with a line for each figure: there are more figures than variants."""
    return [(head, [cells[place] for _, cells in rows]) for place, head in enumerate(heads)]


def _what_ran(specs: Mapping[str, Mapping[str, Any]]) -> str:
    e = html.escape
    listed = "".join(f"<li>{e(line)}</li>" for line in in_words(next(iter(specs.values()))))
    rows = "".join(f"<dt>{e(label)}</dt><dd>{e(has_in_words(spec['has']))}</dd>" for label, spec in specs.items())
    summary = "What ran: networks, who did what, and each variant"
    return f"<details><summary>{summary}</summary><ul>{listed}</ul><dl>{rows}</dl></details>"
