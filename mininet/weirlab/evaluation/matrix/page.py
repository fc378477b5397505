# SPDX-License-Identifier: Apache-2.0
"""The report of a matrix: the page has every figure, the Markdown the conclusions; `text.py` has the words of both."""

from __future__ import annotations

from collections.abc import Sequence

from weirlab.evaluation.matrix import text
from weirlab.evaluation.matrix.analysis import COMPARED, OURS, Matrix, ScenarioResult
from weirlab.evaluation.matrix.plots import front_plot, group_plot, steps_plot
from weirlab.evaluation.shared import duels
from weirlab.evaluation.shared.labels import FIGURES, GROUP_WORDS
from weirlab.evaluation.shared.pages import SuiteReport, choice
from weirlab.evaluation.shared.pages import drawn as drawn_report
from weirlab.evaluation.shared.ratios import NEAR
from weirlab.evaluation.shared.rows import DELAY, GOODPUT
from weirlab.evaluation.shared.styles import legend_plot, page_colour, png_colour
from weirlab.report import plots, results
from weirlab.report.labels import NOTHING, shown
from weirlab.report.model import (
    Block,
    Cell,
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
    Term,
    Terms,
    table,
)
from weirlab.topologies.dumbbell.metrics import METRICS

PAGE, FRONT_PLOT = "matrix.html", "front.png"
TITLE = "PID-Delay beside the kernel's queue disciplines"
LEGEND_COLUMNS = 10
GROUP_FIGURES = (
    *FIGURES,
    ("queue_delay_sd_ms", "standard deviation of the queue delay, ms", 2),
    ("queue_delay_excess_ms", "mean excess over the target, ms", 2),
    ("rtt_mean_ms", "round-trip time, ms", 1),
    ("spectral_peak_ratio", "spectral peak over floor", 1),
    ("decisions_count", "changes of gains by the tuner", 1),
)


def suite_report(
    matrix: Matrix, over_time: Sequence[str] = (), notes: Sequence[Block] = (), later: Sequence[str] = ()
) -> SuiteReport:
    """Report and the front page's picture."""
    return drawn_report(
        PAGE,
        FRONT_PLOT,
        lambda: front_plot(matrix, png_colour),
        lambda: report(matrix, over_time, notes, later, drawn=True),
    )


def report(
    matrix: Matrix,
    over_time: Sequence[str] = (),
    notes: Sequence[Block] = (),
    later: Sequence[str] = (),
    drawn: bool = False,
) -> Report:
    """`over_time` names the scenarios that have a picture by `matrix_courses`; `notes` stand at the top: missing runs,
    runs that were left out; `later` names the batches after the first. Without `drawn` the page has no plots."""
    svg = plots.svg(front_plot(matrix, page_colour), "front", "Delay and goodput beside pie") if drawn else ""
    front = Figure(
        "Delay and goodput: Table II, and all scenarios beside pie",
        "Better is up and to the left. Left: lines are the front of all disciplines and, dashed, of those with one "
        "queue. Right: percentages are linear up to 1 % and logarithmic beyond.",
        svg,
        FRONT_PLOT,
    )
    counts = text.run_counts(matrix)
    of_page = Prose(
        f"{counts}. Figures are means over seeds ± half the width of the 95 % interval (Student's t). Command: "
        "`./run evaluate`."
    )
    goals = text.targets_section(matrix)
    summary: list[Block] = [text.summary_table(matrix), Paragraph(Prose(text.summary_caption(matrix)), faint=True)]
    return Report(
        TITLE,
        [
            *notes,
            Only(Medium.HTML, [Paragraph(of_page)]),
            Only(Medium.MARKDOWN, [Paragraph(Prose(text.INTRODUCTION.format(counts=counts)))]),
            *(Paragraph(Prose(words)) for words in text.batches_told(matrix, later)),
            Only(Medium.MARKDOWN, [Paragraph(Prose(text.VARIANTS))]),
            front,
            Section(
                "Over all scenarios",
                [*summary, Only(Medium.MARKDOWN, [text.lower_target(matrix), text.losses(matrix)])],
            ),
            Only(Medium.MARKDOWN, [goals, *text.sections(matrix, over_time)]),
            Only(Medium.HTML, [*_planes(matrix, drawn), _steps(matrix, drawn), _duels(matrix), goals]),
            Only(Medium.HTML, [results.meanings(METRICS)]),
        ],
    )


def _planes(matrix: Matrix, drawn: bool) -> list[Block]:
    """Delay and goodput of each group of scenarios, and its figures."""
    words = (
        "Better is up and to the left. Lines: the front of all disciplines, dashed that of those with one queue. Each "
        "panel has scales of its own, that of goodput of a twentieth of its highest value or more; the delay's is "
        "logarithmic. A corner gives delay and goodput of pfifo where they are beyond the scales. Hollow: the same "
        "discipline at a lower target."
    )
    legend = plots.svg(legend_plot(matrix.variants, LEGEND_COLUMNS), "legend", "Legend") if drawn else ""
    groups = [_group(matrix, group, scenarios, drawn) for group, scenarios in matrix.groups.items()]
    return [
        Section(
            "Delay and goodput, scenario by scenario",
            [Paragraph(words), choice(matrix.groups), Figure("Legend", svg=legend), *groups],
        )
    ]


def _group(matrix: Matrix, group: str, scenarios: Sequence[ScenarioResult], drawn: bool) -> Section:
    title = GROUP_WORDS.get(group, group)
    there = [v for v in matrix.variants if any(v in s.figures for s in scenarios)]
    alt = f"Delay and goodput: {title}"
    drawing = plots.svg(group_plot(scenarios, there), f"plane-{group}", alt) if drawn else ""
    terms = [Term(s.name, f"{s.title}. {' '.join(s.about.get('description', '').split())}".rstrip()) for s in scenarios]
    tables = [
        _figures(scenarios, there, metric, words, decimals)
        for metric, words, decimals in GROUP_FIGURES
        if any(s.mean(v, metric) is not None for s in scenarios for v in there)
    ]
    return Section(title, [Figure(alt, svg=drawing), Folded("Figures", [Terms(terms), *tables])], group)


def _figures(
    scenarios: Sequence[ScenarioResult], variants: Sequence[str], metric: str, words: str, decimals: int
) -> Table:
    fronts = metric in (DELAY, GOODPUT)
    rows: list[list[str | Cell]] = [
        [
            scenario.name,
            *(
                Cell(
                    shown(text.figure_of(scenario, variant, metric), decimals),
                    strong=fronts and variant in scenario.fronts["all"],
                )
                for variant in variants
            ),
        ]
        for scenario in scenarios
    ]
    return table(["", *variants], rows, Layout.EQUAL, f"{words}; bold: on the front" if fronts else words)


def _steps(matrix: Matrix, drawn: bool) -> Section:
    figure = steps_plot(matrix) if drawn else None
    alt = "Settling time and overshoot after each step"
    caption = (
        "Each step of link or load: how long until the queue has settled (dashed: 2 s), and how far its delay went "
        "above the target. Means over seeds."
    )
    drawing = [Figure(alt, caption, plots.svg(figure, "steps", alt))] if figure else []
    return Section("Settling and overshoot", drawing)


def _duels(matrix: Matrix) -> Section:
    """Verdicts by group of scenarios."""
    groups = list(matrix.groups)
    rows: list[list[str | Cell]] = []
    for ours in OURS:
        for peer in COMPARED:
            cells = []
            for group in (None, *groups):
                counts = text.duel_counts(matrix, ours, peer, group)
                shares = "/".join(str(counts[key]) for key in duels.VERDICTS[:-1]) if any(counts.values()) else NOTHING
                cells.append(Cell(shares, f"{counts['untold']} untold" if counts["untold"] else ""))
            if any(cell.text != NOTHING for cell in cells):
                rows.append([f"{ours} against {peer}", *cells])
    words = (
        "Seed by seed, counted by scenario. Win: less delay or more goodput and as good in the other; trade: better in "
        "one and worse in the other; tie: in both the whole interval of the ratio is within "
        f"{100 * NEAR:.0f} % of 1; unclear: the runs do not decide. Verdicts are from 95 % intervals, not corrected "
        "for their number."
    )
    heads = ["", "all", *(GROUP_WORDS.get(group, group) for group in groups)]
    return Section("Wins / ties / trades / text.losses / unclear", [Paragraph(words), table(heads, rows, Layout.DENSE)])
