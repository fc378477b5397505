# SPDX-License-Identifier: Apache-2.0
"""The report of congestion controls; `text.py` has its words and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weirlab.evaluation.cc import control_page, ranking_section, regret, text
from weirlab.evaluation.cc.analysis import PAPER_GROUPS, Bench, ScenarioResult
from weirlab.evaluation.cc.claims import claims_of
from weirlab.evaluation.cc.plots import LEGEND_COLUMNS, curves_plot, fairness_plot, front_plot, group_plot
from weirlab.evaluation.shared.claims import missed, targets
from weirlab.evaluation.shared.pages import SuiteReport, choice
from weirlab.evaluation.shared.pages import drawn as drawn_report
from weirlab.evaluation.shared.styles import legend_plot, page_colour, png_colour
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
    """Report, picture, ranking and the pages of the controls."""
    ranked = regret.ranking(bench)
    pages = control_page.pages(bench, ranked)
    found = drawn_report(
        PAGE, PICTURE, lambda: front_plot(bench, png_colour), lambda: report(bench, notes, True, ranked, pages)
    )
    return replace(
        found,
        texts={f"{ranking_section.CONTROLS}/{name}.md": page for name, page in pages.items()},
        tables={ranking_section.CSV: regret.csv_of(ranked, bench.controls.stacks)} if ranked else {},
    )


def report(
    bench: Bench,
    notes: Sequence[Block] = (),
    drawn: bool = False,
    ranked: regret.Ranking | None = None,
    pages: Mapping[str, Report] | None = None,
) -> Report:
    """`notes` stand at the top: missing runs, runs that were left out. Without `drawn` the page has no plots. `pages`
    are those of single controls, which the HTML page has folded."""
    each = [Folded(name, list(page.blocks[1:])) for name, page in (pages or {}).items()]
    counts = text.run_counts(bench)
    of_page = Prose(f"{counts}, in the exact lab. Command: `./run evaluate --suite cc`.")
    alt = "Table 3 by loss, and all scenarios beside BBR"
    svg = plots.svg(front_plot(bench, page_colour), "front", alt) if drawn else ""
    claims = claims_of(bench)
    open_cases = missed([claim for claim in claims if claim.variant != text.PAPERS])
    choices = table(text.CHOICE_HEADS, text.choice_rows(bench), Layout.DENSE, words=range(2, 6))
    definitions = {name: ALL_METRICS[name] for name, _, _ in text.FIGURES if name in ALL_METRICS}
    return Report(
        TITLE,
        [
            *notes,
            Only(Medium.HTML, [Paragraph(of_page)]),
            Only(Medium.MARKDOWN, [Paragraph(Prose(text.INTRODUCTION.format(counts=counts)))]),
            ranking_section.section(bench, ranked),
            Section(
                "Choice of a control",
                [
                    Paragraph(Prose(text.CHOICE_WORDS)),
                    choices,
                    _part("", text.WISH_WORDS, text.WISH_HEADS, text.wish_rows(bench), wraps=(1, 2)),
                    Figure(alt, "Right: better is up and to the left.", svg, PICTURE),
                ],
            ),
            Section("Method", [Paragraph(Prose(words)) for words in (text.METHOD, *text.elsewhere_words(bench))]),
            Section(
                "Targets",
                [
                    *targets(claims),
                    Paragraph(text.CLAIM_WORDS),
                    results.set_in(claims_of),
                    Only(Medium.MARKDOWN, open_cases),
                ],
            ),
            _curves(bench, drawn),
            _fairness(bench, drawn),
            _part("Friendliness", text.FRIENDLY_WORDS, *text.friendly_table(bench)),
            _part("On the front", text.FRONT_WORDS, text.FRONT_HEADS, text.front_rows(bench)),
            text.duels_section(bench),
            _part("Decisions outside the training", text.OUTSIDE_WORDS, *text.outside_table(bench)),
            Only(Medium.HTML, [Section("Controls", each), _planes(bench, drawn), results.meanings(definitions)]),
            Only(Medium.MARKDOWN, [_figures(bench)]),
        ],
    )


def _part(
    heading: str, words: str, heads: Sequence[str], rows: Sequence[Sequence[str]], wraps: Sequence[int] = ()
) -> Section:
    return Section(heading, [Paragraph(Prose(words)), table(heads, rows, Layout.DENSE, words=wraps)] if rows else [])


def _curves(bench: Bench, drawn: bool) -> Section:
    """Table 3 of the paper, as curves on the page and as tables in Markdown."""
    tables: list[Block] = []
    for group in PAPER_GROUPS:
        scenarios = bench.groups.get(group, [])
        for metric, words, decimals in text.FIGURES[:3] if scenarios else ():
            heads, rows = text.curve_table(bench, scenarios, metric, decimals)
            tables += [Paragraph(f"{text.title_of(bench, group)}: {words}"), table(heads, rows)]
    figure = curves_plot(bench) if drawn else None
    alt = "Throughput and RTT by loss and by flows"
    caption = "By loss: two flows. By flows: at 2.5 % loss. Ours are thick."
    drawing = [Figure(alt, caption, plots.svg(figure, "curves", alt))] if figure else []
    orders = table(text.ORDER_HEADS, text.order_rows(bench), Layout.DENSE, words=(1, 2))
    found: list[Block] = [Paragraph(text.CURVE_WORDS), *drawing, orders, Only(Medium.MARKDOWN, tables)]
    return Section("Table 3, as the paper's Fig. 9 and 10", found if tables else [])


def _fairness(bench: Bench, drawn: bool) -> Section:
    scenarios = text.shared_alone(bench)
    if not scenarios:
        return Section("", [])
    found: list[Block] = [Paragraph(text.FAIR_WORDS)]
    for metric, words, decimals in text.FIGURES[6:8]:
        found += [Paragraph(f"{words}:"), table(*text.by_scenario(bench, scenarios, metric, decimals), Layout.DENSE)]
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
    title = text.title_of(bench, group)
    alt = f"Delay and throughput: {title}"
    drawing = plots.svg(group_plot(bench, scenarios), f"plane-{group}", alt) if drawn else ""
    return Section(
        title, [Figure(alt, svg=drawing), Folded("Figures", [_scenario(bench, s) for s in scenarios])], group
    )


def _scenario(bench: Bench, scenario: ScenarioResult) -> Section:
    """Figures of each control, and its place in the plane."""
    heads = ["", *(words for _, words, _ in text.columns_of(scenario)), "in the plane"]
    names = [control for control in bench.there if control in scenario.figures]
    rows = [
        [name, *cells, text.behind_told(scenario, name)]
        for name, (_, *cells) in zip(names, text.figure_rows(bench, scenario), strict=True)
    ]
    return Section(
        f"{scenario.name}: {scenario.title}",
        [Paragraph(text.about(scenario)), table(heads, rows, Layout.DENSE, words=(len(heads) - 1,))],
    )


def _figures(bench: Bench) -> Section:
    groups = []
    for group, scenarios in bench.groups.items():
        tables = [
            Section(
                f"{scenario.name}: {scenario.title}",
                [
                    Paragraph(text.about(scenario)),
                    table(
                        ["", *(words for _, words, _ in text.columns_of(scenario))], text.figure_rows(bench, scenario)
                    ),
                ],
            )
            for scenario in scenarios
        ]
        groups.append(Section(text.title_of(bench, group), tables))
    return Section("Figures", groups)
