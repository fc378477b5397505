# SPDX-License-Identifier: Apache-2.0
"""Parts that the reports of all results folders share: figures, ratios, checks, runs, versions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import NOTHING, Rows, Variant, anywhere, count, estimated, measured, paper_figure, shown
from weirlab.report.model import (
    Block,
    Bullets,
    Cell,
    Check,
    Checks,
    Column,
    Folded,
    Group,
    Layout,
    Medium,
    Only,
    Paragraph,
    Preformatted,
    Prose,
    Report,
    Row,
    Section,
    State,
    Table,
    Term,
    Terms,
)
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, Summary

CORNER = "mean over seeds ± 95 %"
INTERVAL_NOTE = "Mean over seeds ± half the width of its 95 % interval (Student's t)."


def report(facts: Mapping[str, Any], counts: str, blocks: Sequence[Block]) -> Report:
    """The report of a scenario; `counts` says how many runs there are."""
    return Report(facts["title"], [Paragraph(counts), *blocks], " ".join(facts["description"].split()))


def specs_of(folder: ResultsFolder, summary: Summary) -> dict[str, dict[str, Any]]:
    """Each variant's spec, as the lab had it."""
    return {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}


def run_counts(summary: Summary) -> str:
    seeds = {run.seed for run in summary.runs}
    return ", ".join(
        [count(len(summary.variants), "variant"), count(len(seeds), "seed"), count(len(summary.runs), "run")]
    )


def common(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines that all variants have."""
    return [line for line in lines[0] if all(line in others for others in lines)] if lines else []


def figures(
    rows: Rows, definitions: Mapping[str, str], facts: Mapping[str, Any], summary: Summary, hues: Mapping[str, str]
) -> Table:
    """The figures of all variants, with the paper's below ours; `hues` are the variants' colours, if known."""
    paper = facts["paper"]
    found: list[Row | Group] = []
    for metric, text, unit, decimals in measured(rows, summary):
        if metric is None:
            found.append(Group(text))
            continue
        cells = [
            Cell(shown(estimated(summary, label, metric), decimals), paper_figure(paper, label, metric))
            for label in summary.variants
        ]
        found.append(Row(text, cells, unit, definitions[metric]))
    columns = [Column(label, hue=hues.get(label, "")) for label in summary.variants]
    return Table(columns, found, CORNER, interval_note(paper), Layout.EQUAL)


def interval_note(paper: Mapping[str, Any]) -> str:
    """The meaning of a figure, and the source of the paper's."""
    note = f" {paper['short']}: {paper['source']}. {' '.join(paper['note'].split())}" if paper else ""
    return INTERVAL_NOTE + note


def ratios(
    rows: Sequence[tuple[str, str]], found: Mapping[str, Mapping[str, Estimate]], corner: str, note: str
) -> Table:
    """Ratios of variants to a peer."""
    columns = [Column(label) for label in found]
    lines = [Row(text, [Cell(shown(of[metric], 3)) for of in found.values()]) for metric, text in rows]
    return Table(columns, lines if found else [], corner, note, Layout.EQUAL)


def settings(summary: str, shared: Sequence[str], terms: Sequence[Term]) -> Folded:
    """Settings of the runs, in common and by variant: folded, since results come first."""
    return Folded(summary, [Bullets(shared), Terms(terms)])


def variant_terms(variants: Sequence[Variant], words: Callable[[Variant], str]) -> list[Term]:
    return [Term(variant.label, words(variant), variant.hue) for variant in variants]


def set_in(rule: Callable[..., Any]) -> Paragraph:
    """The place where targets are set: the module of the function that applies them."""
    return Paragraph(Prose(f"Targets are set in `{rule.__module__}`."), faint=True)


def run_checks(summary: Summary) -> list[Check]:
    """Missing runs and failed checks."""
    found = [
        Check(f"{variant}, seed {seed} was planned and has no result", State.MISSING)
        for variant, seed in summary.missing
    ]
    found += [Check(line, State.RUN_FAILED) for line in summary.failures]
    return found + [Check(line, State.TARGET_MISSED) for line in summary.missed]


def soundness(summary: Summary, conditions: str) -> list[Check]:
    """The number of runs that fulfil the topology's conditions; nothing if there are no runs."""
    if not summary.runs:
        return []
    passed = sum(not run.failures for run in summary.runs)
    state = State.PASSED if passed == len(summary.runs) else State.PARTIAL
    return [Check("Validity of the runs", state, f"{passed} of {count(len(summary.runs), 'run')} passed; {conditions}")]


def chance_checks(summary: Summary) -> list[Check]:
    """A note on the variants whose seeds changed nothing."""
    same = []
    for label, metrics in summary.variants.items():
        spreads = [value.sd for value in metrics.values() if value.sd is not None]
        if spreads and not any(spreads):
            same.append(label)
    if not same:
        return []
    return [
        Check(
            ", ".join(same),
            State.NOTE,
            "every seed gave the same figures; nothing in these runs was left to chance, so their interval of zero "
            "says nothing about other starts.",
        )
    ]


def by_seed(chosen: Sequence[tuple[str, str, int]], summary: Summary) -> Folded:
    """Every run's own values of the metrics `chosen` that some variant has: name, heading, decimals."""
    there = [row for row in chosen if anywhere(summary, row[0])]
    rows = []
    for run in summary.runs:
        values = [(run.metrics.get(metric), decimals) for metric, _, decimals in there]
        cells = [Cell(NOTHING if value is None else f"{value:.{decimals}f}") for value, decimals in values]
        rows.append(Row(f"{run.variant}, {run.seed}", cells))
    return Folded("Every run by itself", [Table([Column(head) for _, head, _ in there], rows, "variant, seed")])


def closing(meta: Mapping[str, Any], checks: Sequence[Check], definitions: Mapping[str, str]) -> list[Block]:
    """Checks, command line, versions, host, definitions of the metrics."""
    seeds = ", ".join(map(str, meta["seeds"]))
    facts = {"seeds": seeds, "started (UTC)": meta["started_utc"], **meta["versions"], **meta["host"]}
    repeat: list[Block] = [
        Preformatted(shlex.join(meta["argv"])),
        Paragraph(
            "In the exact lab time is virtual and every source of chance is seeded, so the same seed gives the same "
            "bytes again from any clone of these sources, however busy the machine is, and on another installation of "
            "Debian 12. With the tuner beside a P4 switch, another installation gives another run of the same seed, "
            "within the intervals."
        ),
        Terms([Term(str(key).replace("_", " "), str(value)) for key, value in facts.items()]),
    ]
    return [
        Section("Checks", [Checks(checks)]),
        Only(Medium.HTML, [Section("Repeating the runs", repeat)]),
        meanings(definitions),
    ]


def meanings(definitions: Mapping[str, str]) -> Folded:
    """The definition of each metric."""
    terms = [Term(name, text, code=True) for name, text in definitions.items()]
    return Folded("Definitions of the figures", [Terms(terms)])
