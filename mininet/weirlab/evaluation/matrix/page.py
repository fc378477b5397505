# SPDX-License-Identifier: Apache-2.0
"""Page of the matrix: one file that needs nothing else, and the front page's plot; `text.py` has the words."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

import matplotlib as mpl

from weirlab.evaluation.matrix.analysis import COMPARED, OURS, Matrix, ScenarioResult
from weirlab.evaluation.matrix.plots import (
    front_plot,
    group_plot,
    steps_plot,
)
from weirlab.evaluation.matrix.text import (
    SUMMARY_HEADS,
    VERDICTS,
    batches_told,
    duel_counts,
    figure_of,
    run_counts,
    summary_caption,
    summary_rows,
)
from weirlab.evaluation.shared.labels import FIGURES, GROUP_WORDS
from weirlab.evaluation.shared.pages import FILTER, STYLE, claims_html, group_boxes, prose
from weirlab.evaluation.shared.ratios import NEAR
from weirlab.evaluation.shared.rows import DELAY, GOODPUT
from weirlab.evaluation.shared.styles import legend_plot, page_colour, png_colour
from weirlab.report import markup, plots
from weirlab.report.labels import NOTHING, shown
from weirlab.topologies.dumbbell.metrics import METRICS

PAGE, FRONT_PLOT = "matrix.html", "front.png"
LEGEND_COLUMNS = 10
Cell = Callable[[ScenarioResult, str], str]


def files(matrix: Matrix, later: Sequence[str] = ()) -> dict[str, str | bytes]:
    """The page and the front page's picture, by name; `later` names the batches after the first."""
    with mpl.rc_context({**plots.png_style(), "svg.fonttype": "path"}):
        picture = plots.png(front_plot(matrix, png_colour), plots.PNG_DPI)
    return {PAGE: page(matrix, later), FRONT_PLOT: picture}


def page(matrix: Matrix, later: Sequence[str] = ()) -> str:
    """The whole HTML document."""
    e = html.escape
    with mpl.rc_context(plots.STYLE):
        front = plots.svg(front_plot(matrix, page_colour), "front", "Delay and goodput: Table II, and all beside pie")
        legend = plots.svg(legend_plot(matrix.variants, LEGEND_COLUMNS), "legend", "Legend")
        sections = [_group_section(matrix, group, scenarios) for group, scenarios in matrix.groups.items()]
        steps = steps_plot(matrix)
        steps_svg = plots.svg(steps, "steps", "Settling time and overshoot after each step") if steps else ""
    found = [
        STYLE,
        "<h1>PID-Delay beside the kernel's queue disciplines</h1>",
        f"<p>{e(run_counts(matrix))}. Figures are means over seeds ± half the width of the 95 % interval "
        "(Student's t). Command: <code>./run evaluate</code>.</p>",
        *(f"<p>{prose(text)}</p>" for text in batches_told(matrix, later)[:1]),
        markup.drawing(
            "Better is up and to the left. Left: lines are the front of all disciplines and, dashed, of those with one "
            "queue. Right: percentages are linear up to 1 % and logarithmic beyond.",
            front,
        ),
        "<h2>Over all scenarios</h2>",
        _summary_html(matrix),
        "<h2>Delay and goodput, scenario by scenario</h2>",
        "<p>Better is up and to the left. Lines: the front of all disciplines, dashed that of those with one queue. "
        "Each panel has scales of its own, that of goodput of a twentieth of its highest value or more; the delay's is "
        "logarithmic. Where pfifo is beyond them, it is told in the corner, delay and goodput. Hollow: the same "
        "discipline at a lower target.</p>",
        group_boxes(matrix.groups),
        f"<figure>{legend}</figure>",
        *sections,
        "<h2>Settling and overshoot</h2>"
        + markup.drawing(
            "Each step of link or load: how long until the queue has settled (dashed: 2 s), and how far its delay went "
            "above the target. Means over seeds.",
            steps_svg,
        )
        if steps
        else "",
        _duels_html(matrix),
        "<h2>Figures to reach</h2>",
        claims_html(matrix.claims),
        markup.definitions(METRICS),
        FILTER,
    ]
    return markup.document("PID-Delay beside the kernel's queue disciplines", found)


def _group_section(matrix: Matrix, group: str, scenarios: Sequence[ScenarioResult]) -> str:
    e = html.escape
    title = GROUP_WORDS.get(group, group)
    there = [v for v in matrix.variants if any(v in s.figures for s in scenarios)]
    drawing = plots.svg(group_plot(scenarios, there), f"plane-{group}", f"Delay and goodput: {title}")
    words = "".join(
        f"<dt>{e(s.name)}</dt><dd>{e(s.title)}. {e(' '.join(s.about.get('description', '').split()))}</dd>"
        for s in scenarios
    )
    tables = []
    for metric, text, decimals in (
        *FIGURES,
        ("queue_delay_sd_ms", "standard deviation of the queue delay, ms", 2),
        ("queue_delay_excess_ms", "mean excess over the target, ms", 2),
        ("rtt_mean_ms", "round-trip time, ms", 1),
        ("spectral_peak_ratio", "spectral peak over floor", 1),
        ("decisions_count", "changes of gains by the tuner", 1),
    ):
        if any(s.mean(v, metric) is not None for s in scenarios for v in there):
            tables.append(_figures_html(scenarios, there, metric, text, decimals))
    return (
        f'<section data-group="{e(group)}"><h3>{e(title)}</h3>{markup.drawing("", drawing)}'
        f"<details><summary>Figures</summary><dl>{words}</dl>{''.join(tables)}</details></section>"
    )


def _figures_html(
    scenarios: Sequence[ScenarioResult], variants: Sequence[str], metric: str, text: str, decimals: int
) -> str:
    e = html.escape
    head = "".join(f'<th scope="col">{e(v)}</th>' for v in variants)
    rows = []
    for scenario in scenarios:
        cells = []
        for variant in variants:
            on = ' class="on"' if metric in (DELAY, GOODPUT) and variant in scenario.fronts["all"] else ""
            cells.append(f"<td{on}>{markup.faint(shown(figure_of(scenario, variant, metric), decimals))}</td>")
        rows.append(f'<tr><th scope="row">{e(scenario.name)}</th>{"".join(cells)}</tr>')
    note = "; bold: on the front" if metric in (DELAY, GOODPUT) else ""
    return (
        f'<div class="wide"><table class="many"><caption>{e(text + note)}</caption>'
        f"<thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _summary_html(matrix: Matrix) -> str:
    rows = [(variant, [(text, "") for text in cells]) for variant, cells in summary_rows(matrix)]
    caption = summary_caption(matrix).replace("`./run evaluate`", "./run evaluate")
    return markup.plain_table("", SUMMARY_HEADS, rows) + f'<p class="dim">{html.escape(caption)}</p>'


def _duels_html(matrix: Matrix) -> str:
    groups = list(matrix.groups)
    rows = []
    for ours in OURS:
        for peer in COMPARED:
            cells = []
            for group in (None, *groups):
                counts = duel_counts(matrix, ours, peer, group)
                told = sum(counts.values())
                text = "/".join(str(counts[key]) for key in VERDICTS[:-1])
                cells.append((text if told else NOTHING, f"{counts['untold']} untold" if counts["untold"] else ""))
            if any(text != NOTHING for text, _ in cells):
                rows.append((f"{ours} against {peer}", cells))
    heads = ["all", *(GROUP_WORDS.get(group, group) for group in groups)]
    return (
        "<h2>Wins / ties / trades / losses / unclear</h2>"
        "<p>Seed by seed, counted by scenario. Win: less delay or more goodput and "
        "as good in the other; trade: better in one and worse in the other; tie: in both the whole interval of the "
        f"ratio is within {100 * NEAR:.0f} % of 1; unclear: the runs don't tell. Verdicts are from 95 % intervals, not "
        'corrected for their number.</p><div class="duels">' + markup.plain_table("", heads, rows) + "</div>"
    )
