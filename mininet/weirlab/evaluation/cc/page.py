# SPDX-License-Identifier: Apache-2.0
"""The report of congestion controls; `text.py` has its words and rows."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl

from weirlab.evaluation.cc.analysis import PAPER_GROUPS, Bench, ScenarioResult
from weirlab.evaluation.cc.claims import claims_of
from weirlab.evaluation.cc.plots import LEGEND_COLUMNS, curves_plot, fairness_plot, front_plot, group_plot
from weirlab.evaluation.cc.text import (
    CHOICE_HEADS,
    CHOICE_WORDS,
    CLAIM_WORDS,
    CURVE_WORDS,
    DUEL_HEADS,
    DUEL_WORDS,
    FAIR_WORDS,
    FIGURES,
    FRIENDLY_WORDS,
    FRONT_HEADS,
    FRONT_WORDS,
    INTRODUCTION,
    METHOD,
    ORDER_HEADS,
    OUTSIDE_WORDS,
    PAPERS,
    WISH_HEADS,
    WISH_WORDS,
    behind_told,
    by_scenario,
    choice_rows,
    columns_of,
    curve_table,
    duel_rows,
    elsewhere_words,
    figure_rows,
    friendly_table,
    front_rows,
    order_rows,
    outside_table,
    run_counts,
    shared_alone,
    title_of,
    wish_rows,
)
from weirlab.evaluation.shared.claims import missed, targets
from weirlab.evaluation.shared.looks import legend_plot, page_colour, png_colour
from weirlab.evaluation.shared.pages import SuiteReport, choice
from weirlab.report import plots, results
from weirlab.report.model import (
    Block,
    Column,
    Figure,
    Folded,
    Layout,
    Medium,
    Only,
    Paragraph,
    Prose,
    Report,
    Section,
    table,
)
from weirlab.topologies.dumbbell.metrics import ALL_METRICS

PAGE, PICTURE = "cc.html", "cc.png"
TITLE = "Congestion controls of real stacks"
PLANE_WORDS = (
    "Better is up and to the left. The line is the front by the means. Each panel has scales of its own, that of "
    "throughput of a twentieth of its highest value or more; the delay's is logarithmic. Hollow: the kernel's TCP."
)


def suite_report(bench: Bench, notes: Sequence[Block] = ()) -> SuiteReport:
    """Report and picture."""
    with mpl.rc_context({**plots.png_style(), "svg.fonttype": "path"}):
        picture = plots.png(front_plot(bench, png_colour), plots.PNG_DPI)
    with mpl.rc_context(plots.STYLE):
        found = report(bench, notes, drawn=True)
    return SuiteReport(PAGE, found, {PICTURE: picture})


def report(bench: Bench, notes: Sequence[Block] = (), drawn: bool = False) -> Report:
    """`notes` stand at the top: missing runs, runs that were left out. Without `drawn` the page has no plots."""
    counts = run_counts(bench)
    of_page = Prose(f"{counts}, in the exact lab. Command: `./run evaluate --suite cc`.")
    alt = "Table 3 by loss, and all scenarios beside BBR"
    svg = plots.svg(front_plot(bench, page_colour), "front", alt) if drawn else ""
    claims = claims_of(bench)
    open_cases = missed([claim for claim in claims if claim.variant != PAPERS])
    choices = _words_table(CHOICE_HEADS, choice_rows(bench), 2)
    wishes = wish_rows(bench)
    definitions = {name: ALL_METRICS[name] for name, _, _ in FIGURES if name in ALL_METRICS}
    return Report(
        TITLE,
        [
            *notes,
            Only(Medium.HTML, [Paragraph(of_page)]),
            Only(Medium.MARKDOWN, [Paragraph(Prose(INTRODUCTION.format(counts=counts)))]),
            Section(
                "Choice of a control",
                [
                    Paragraph(Prose(CHOICE_WORDS)),
                    choices,
                    *([Paragraph(Prose(WISH_WORDS)), _words_table(WISH_HEADS, wishes, 1)] if wishes else []),
                    Figure(alt, "Right: better is up and to the left.", svg, PICTURE),
                ],
            ),
            Section("Method", [Paragraph(Prose(text)) for text in (METHOD, *elsewhere_words(bench))]),
            Section("Targets", [*targets(claims), Paragraph(CLAIM_WORDS), Only(Medium.MARKDOWN, open_cases)]),
            _curves(bench, drawn),
            _fairness(bench, drawn),
            _part("Friendliness", FRIENDLY_WORDS, *friendly_table(bench)),
            _part("On the front", FRONT_WORDS, FRONT_HEADS, front_rows(bench)),
            _part("Wins, ties and losses", DUEL_WORDS, DUEL_HEADS, duel_rows(bench)),
            _part("Decisions outside the training", OUTSIDE_WORDS, *outside_table(bench)),
            Only(Medium.HTML, [_planes(bench, drawn), results.meanings(definitions)]),
            Only(Medium.MARKDOWN, [_figures(bench)]),
        ],
    )


def _words_table(heads: Sequence[str], rows: Sequence[Sequence[str]], first: int) -> Block:
    """A table whose columns hold words, from the column `first` on."""
    columns = [Column(head, wraps=True) if place >= first else head for place, head in enumerate(heads)]
    return table(columns, rows, Layout.DENSE)


def _part(heading: str, words: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    return Section(heading, [Paragraph(Prose(words)), table(heads, rows, Layout.DENSE)] if rows else [])


def _curves(bench: Bench, drawn: bool) -> Section:
    """Table 3 of the paper, as curves on the page and as tables in Markdown."""
    tables: list[Block] = []
    for group in PAPER_GROUPS:
        scenarios = bench.groups.get(group, [])
        for metric, words, decimals in FIGURES[:3] if scenarios else ():
            heads, rows = curve_table(bench, scenarios, metric, decimals)
            tables += [Paragraph(f"{title_of(bench, group)}: {words}"), table(heads, rows)]
    figure = curves_plot(bench) if drawn else None
    alt = "Throughput and RTT by loss and by flows"
    caption = "Above: two flows, by loss. Below: at 2.5 % loss, by the number of flows. Ours are thick."
    drawing = [Figure(alt, caption, plots.svg(figure, "curves", alt))] if figure else []
    found = [*drawing, _words_table(ORDER_HEADS, order_rows(bench), 1), Only(Medium.MARKDOWN, tables)]
    return Section("Table 3, as the paper's Fig. 9 and 10", [Paragraph(CURVE_WORDS), *found] if tables else [])


def _fairness(bench: Bench, drawn: bool) -> Section:
    scenarios = shared_alone(bench)
    if not scenarios:
        return Section("", [])
    found: list[Block] = [Paragraph(FAIR_WORDS)]
    for metric, words, decimals in FIGURES[6:8]:
        found += [Paragraph(f"{words}:"), table(*by_scenario(bench, scenarios, metric, decimals), Layout.DENSE)]
    if drawn:
        caption = "Jain's index over time, means over seeds. Ours are thick; hollow: the kernel's TCP."
        svg = plots.svg(fairness_plot(bench, scenarios), "fairness", "Jain's index over time")
        found.append(Figure("Jain's index over time", caption, svg))
    return Section("Fairness", found)


def _planes(bench: Bench, drawn: bool) -> Section:
    legend = plots.svg(legend_plot(bench.there, LEGEND_COLUMNS), "legend", "Legend") if drawn else ""
    groups = [_group(bench, group, scenarios, drawn) for group, scenarios in bench.groups.items()]
    return Section(
        "Delay and throughput, scenario by scenario",
        [Paragraph(PLANE_WORDS), choice(bench.groups, bench.titles), Figure("Legend", svg=legend), *groups],
    )


def _group(bench: Bench, group: str, scenarios: Sequence[ScenarioResult], drawn: bool) -> Section:
    title = title_of(bench, group)
    alt = f"Delay and throughput: {title}"
    drawing = plots.svg(group_plot(bench, scenarios), f"plane-{group}", alt) if drawn else ""
    return Section(
        title, [Figure(alt, svg=drawing), Folded("Figures", [_scenario(bench, s) for s in scenarios])], group
    )


def _scenario(bench: Bench, scenario: ScenarioResult) -> Section:
    """Figures of each control, and its place in the plane."""
    heads: list[str | Column] = [
        "",
        *(words for _, words, _ in columns_of(scenario)),
        Column("in the plane", wraps=True),
    ]
    names = [control for control in bench.there if control in scenario.figures]
    rows = [
        [name, *cells, behind_told(scenario, name)]
        for name, (_, *cells) in zip(names, figure_rows(bench, scenario), strict=True)
    ]
    about = " ".join(scenario.about.get("description", "").split())
    return Section(f"{scenario.name}: {scenario.title}", [Paragraph(about), table(heads, rows, Layout.DENSE)])


def _figures(bench: Bench) -> Section:
    groups = []
    for group, scenarios in bench.groups.items():
        tables = [
            Section(
                f"{scenario.name}: {scenario.title}",
                [table(["", *(words for _, words, _ in columns_of(scenario))], figure_rows(bench, scenario))],
            )
            for scenario in scenarios
        ]
        groups.append(Section(title_of(bench, group), tables))
    return Section("Figures", groups)
