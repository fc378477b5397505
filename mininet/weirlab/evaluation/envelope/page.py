# SPDX-License-Identifier: Apache-2.0
"""The report of an envelope; `text.py` has its words and rows."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.evaluation.envelope import text
from weirlab.evaluation.envelope.analysis import OURS, Envelope, ScenarioCurves, analyse
from weirlab.evaluation.envelope.plots import legend_plot, planes_plot, ratios_plot
from weirlab.evaluation.shared.pages import SuiteReport, choice
from weirlab.evaluation.shared.pages import drawn as drawn_report
from weirlab.evaluation.shared.styles import png_colour
from weirlab.report import plots, results
from weirlab.report.model import (
    Block,
    Figure,
    Folded,
    Layout,
    Medium,
    Only,
    Paragraph,
    Prose,
    Report,
    Section,
    Table,
    table,
)
from weirlab.topologies.dumbbell.metrics import METRICS

PAGE, PICTURE = "envelope.html", "envelope.png"
TITLE = "Queue disciplines at all their settings"
EACH_WORDS = (
    "Geometric means over the scenarios; in brackets in how many of them the ratio is in our favour: below 1 for "
    "delays, loss and areas, above 1 for goodput."
)
CURVES_WORDS = (
    "Better is up and to the left; the axis of losses is turned for that. Each point is a setting, labelled with its "
    "value in ms; hollow are those that another setting of the same discipline beats. Ours are thick."
)


def suite_report(envelope: Envelope, notes: Sequence[Block] = ()) -> SuiteReport:
    """Report and picture."""
    return drawn_report(
        PAGE, PICTURE, lambda: ratios_plot(envelope, png_colour), lambda: report(envelope, notes, drawn=True)
    )


def report(envelope: Envelope, notes: Sequence[Block] = (), drawn: bool = False) -> Report:
    """`notes` stand at the top: missing runs, runs that were left out. Without `drawn` the page has no plots."""
    counts = text.run_counts(envelope)
    alt = "Ours beside the best single-queue peer, by scenario"
    ratios = Figure(
        alt,
        "Left of 1 is better. Lines are 95 % intervals over seeds; dashed are the geometric means.",
        plots.svg(ratios_plot(envelope), "ratios", alt) if drawn else "",
        PICTURE,
    )
    claims = table(text.CLAIM_HEADS, text.claim_rows(envelope), Layout.DENSE, words=(1, 6))
    return Report(
        TITLE,
        [
            *notes,
            Only(Medium.HTML, [Paragraph(Prose(f"{counts}. Command: `./run evaluate --suite envelope`."))]),
            Only(Medium.MARKDOWN, [Paragraph(Prose(text.INTRODUCTION.format(counts=counts)))]),
            ratios,
            Paragraph(Prose(text.METHOD)),
            Section("Targets", [claims, results.set_in(analyse)]),
            *(_beside(envelope, ours) for ours in envelope.of_kind(OURS)),
            Only(Medium.HTML, [_curves(envelope, drawn), results.meanings(METRICS)]),
            Only(Medium.MARKDOWN, [_figures(envelope)]),
        ],
    )


def _beside(envelope: Envelope, ours: str) -> Section:
    """A discipline of ours beside the best peer, and beside each."""
    each: list[Block] = [Paragraph(EACH_WORDS), table(text.EACH_HEADS, text.each_rows(envelope, ours), Layout.DENSE)]
    return Section(
        Prose(f"`{ours}` beside the best single-queue peer"),
        [
            table(text.PEER_HEADS, text.peer_rows(envelope, ours), Layout.DENSE),
            Section(Prose(f"`{ours}` beside each discipline"), each),
        ],
    )


def _curves(envelope: Envelope, drawn: bool) -> Section:
    legend = plots.svg(legend_plot(envelope.variants), "legend", "Legend") if drawn else ""
    groups: list[Block] = [
        Section(text.group_title(group), [_scenario(envelope, scenario, drawn) for scenario in scenarios], group)
        for group, scenarios in envelope.groups.items()
    ]
    return Section(
        "The curves, scenario by scenario",
        [Paragraph(CURVES_WORDS), choice(envelope.groups), Figure("Legend", svg=legend), *groups],
    )


def _scenario(envelope: Envelope, scenario: ScenarioCurves, drawn: bool) -> Section:
    alt = f"Curves of {scenario.name}"
    name = f"planes-{scenario.name}"
    drawing = plots.svg(planes_plot(scenario, dict(envelope.kinds)), name, alt) if drawn else ""
    about = " ".join(scenario.about.get("description", "").split())
    return Section(
        f"{scenario.name}: {scenario.title}",
        [Figure(alt, about, drawing), Folded("Figures", [_settings_table(scenario)])],
    )


def _settings_table(scenario: ScenarioCurves, few: bool = False) -> Table:
    heads = ["", "setting", *(words for _, words, _ in text.columns_of(scenario))]
    return table(heads, text.figure_rows(scenario, few), Layout.DENSE, words=(1,))


def _figures(envelope: Envelope) -> Section:
    words = f"Means over seeds, at {' and '.join(text.SIDE_BY_SIDE)} or at all settings where there is neither."
    scenarios = [
        Section(f"{scenario.name}: {scenario.title}", [_settings_table(scenario, few=True)])
        for scenario in envelope.scenarios
    ]
    return Section("Figures", [Paragraph(words), *scenarios])
