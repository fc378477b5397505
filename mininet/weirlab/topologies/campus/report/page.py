# SPDX-License-Identifier: Apache-2.0
"""The report of the topology `campus`: drawings, targets, the effect of each system, the figures of each variant."""

from collections.abc import Iterable, Mapping
from typing import Any

from weirlab.report import results
from weirlab.report.labels import anywhere, estimated, shown
from weirlab.report.model import (
    Block,
    Bullets,
    Cell,
    Column,
    Figure,
    Folded,
    Layout,
    Paragraph,
    Report,
    Row,
    Section,
    Table,
    Term,
    table,
)
from weirlab.store.folder import ResultsFolder, Summary, samples_path
from weirlab.topologies.campus.metrics import AFTER_BACK_S, KILL_FIGURES, METRICS
from weirlab.topologies.campus.report.labels import checks, has_in_words, in_words, run_counts
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

COLUMNS = (
    *((metric, words, decimals) for metric, (words, _, decimals) in APPLICATIONS.items()),
    ("backbone_sent_bytes", "backbone carried, bytes", 0),
    ("joined_percent", "Interests joined, %", 1),
    ("decisions", "controller's changes", 0),
    ("requests_failed", "requests failed", 0),
    ("unfinished_files", "file not whole in time", 0),
    ("wrong_files", "wrong files", 0),
)
TARGETS = "Targets"
ASKED_NOTE = (
    "Everything on, over the same seed's run of another variant: mean over seeds ± 95 %. A target is met or missed if "
    "the whole interval says so, else it is open."
)
KILLS_NOTE = f"{'; '.join(KILL_FIGURES.values())}; until {AFTER_BACK_S:g} s after the part was back."
TIMELINE_NOTE = (
    "Seed {seed}. Grey: Wi-Fi fades. Dashed: the phone moves to the other site. Triangles over the queues: the "
    "controller changes gains, in the queue's colour. Networks: a stroke is a request, a mark above it where a "
    "connection goes over to that network."
)
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
    """Targets of each case, for `--json`."""
    return as_documents(compared(summary))


def tables(summary: Summary) -> Iterable[tuple[str, str, Table]]:
    """Heading, note and table of each comparison, and of the variants' figures."""
    found = compared(summary)
    targets = [[aim.words, shown(value, 3), aim.bounds, verdict] for aim, value, verdict in answers(found)]
    yield TARGETS, ASKED_NOTE, table(["", "found", "target", "verdict"], targets)
    lines, before = [], ""
    for variant, metric, alone, together, over in in_company(found):
        words, _, decimals = APPLICATIONS[metric]
        name = variant.removeprefix("alone-") if variant != before else ""
        lines.append([name, words, shown(alone, decimals), shown(together, decimals), shown(over, 2)])
        before = variant
    heads = ["", "figure", "alone", "all together", "together over alone"]
    yield "Each system alone and in company", IN_COMPANY_NOTE, table(heads, lines, words=(1,))
    if ALL in found and (variants := left_out(found)):
        rows = [
            Row(words, [Cell(shown(difference(found[ALL], found[v], metric), decimals)) for v in variants])
            for metric, (words, _, decimals) in APPLICATIONS.items()
            if anywhere(summary, metric)
        ]
        yield "Effect of each system", ADDS_NOTE, Table([Column(v) for v in variants], rows, layout=Layout.EQUAL)
    yield from _kills(summary)
    labels = [label for label in summary.variants if not ALONE.fullmatch(label)] or list(summary.variants)
    rows = [
        Row(words, [Cell(shown(estimated(summary, label, metric), decimals)) for label in labels])
        for metric, words, decimals in COLUMNS
        if anywhere(summary, metric)
    ]
    figures = Table([Column(label) for label in labels], rows, results.CORNER, layout=Layout.EQUAL)
    yield "Figures", results.INTERVAL_NOTE, figures


def _kills(summary: Summary) -> Iterable[tuple[str, str, Table]]:
    """Gaps that applications saw when a part was killed, by variant."""
    suffix = f"_{next(iter(KILL_FIGURES))}"
    names = [name for metrics in summary.variants.values() for name in metrics if name.endswith(suffix)]
    parts = list(dict.fromkeys(name.removesuffix(suffix) for name in names))
    for label in summary.variants if parts else ():
        rows = [[part, *(shown(estimated(summary, label, f"{part}_{figure}"), 0) for figure in KILL_FIGURES)]
                for part in parts]  # fmt: skip
        heads = ["", "stream silent, ms", "requests silent, ms", "upload silent, ms"]
        yield f"Parts killed, {label}", KILLS_NOTE, table(heads, rows)


def worse_lines(summary: Summary) -> list[str]:
    """Where a system makes an application worse, a sentence each."""
    return [
        f"{variant.removeprefix('without-')} makes {APPLICATIONS[metric][0]} worse: {shown(value, 3)} of what it is "
        f"{variant}"
        for variant, metric, value in costs(compared(summary))
    ]


def report(folder: ResultsFolder, summary: Summary, drawn: bool) -> Report:
    """Drawings if `drawn`, targets, the effect of each system, the figures of each variant, the checks."""
    facts = folder.meta["scenario"]
    specs = results.specs_of(folder, summary)
    found: list[Block] = [*_drawings(folder, summary, specs)] if drawn else []
    found += [
        Section(heading, [Paragraph(note, faint=True), one, *([results.set_in(answers)] if heading == TARGETS else [])])
        for heading, note, one in tables(summary)
        if one.rows
    ]
    found += [
        Section("Systems that make another worse", [Bullets(worse_lines(summary))]),
        _settings(specs),
        results.by_seed(COLUMNS, summary),
        *results.closing(folder.meta, checks(summary), METRICS),
    ]
    return results.report(facts, run_counts(summary), found)


def _drawings(folder: ResultsFolder, summary: Summary, specs: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """The network, and events of the first seed's runs."""
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
    network = Figure(title, f"{title}. Lines are as thick as both together.",
                     picture(samples[first].links, spec, title))  # fmt: skip
    return [
        Section("Traffic on each link", [network]),
        Section("Events", [Figure("Events", TIMELINE_NOTE.format(seed=seed), timeline(samples, spec))]),
    ]


def _settings(specs: Mapping[str, Mapping[str, Any]]) -> Folded:
    terms = [Term(label, has_in_words(spec["has"])) for label, spec in specs.items()]
    common = in_words(next(iter(specs.values()))) if specs else []
    return results.settings("Settings: networks, traffic, and each variant", common, terms)
