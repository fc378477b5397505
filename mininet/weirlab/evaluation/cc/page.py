# SPDX-License-Identifier: Apache-2.0
"""Page of congestion controls: one file that needs nothing else, and a picture; `text.py` has the words."""

from __future__ import annotations

import html
from collections.abc import Sequence

import matplotlib as mpl

from weirlab.evaluation.cc.analysis import Bench, ScenarioResult
from weirlab.evaluation.cc.claims import claims_of
from weirlab.evaluation.cc.plots import LEGEND_COLUMNS, curves_plot, fairness_plot, front_plot, group_plot
from weirlab.evaluation.cc.text import (
    CHOICE_HEADS,
    CHOICE_WORDS,
    CURVE_WORDS,
    DUEL_HEADS,
    DUEL_WORDS,
    FAIR_WORDS,
    FIGURES,
    FRIENDLY_WORDS,
    FRONT_HEADS,
    FRONT_WORDS,
    METHOD,
    ORDER_HEADS,
    OUTSIDE_WORDS,
    WISH_HEADS,
    WISH_WORDS,
    behind_told,
    by_scenario,
    choice_rows,
    columns_of,
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
from weirlab.evaluation.shared.pages import FILTER, STYLE, TIGHT, claims_html, group_boxes, prose, table
from weirlab.evaluation.shared.styles import legend_plot, page_colour, png_colour
from weirlab.report import markup, plots
from weirlab.topologies.dumbbell.metrics import ALL_METRICS

PAGE, PICTURE = "cc.html", "cc.png"
TITLE = "Congestion controls of real stacks"


def files(bench: Bench) -> dict[str, str | bytes]:
    """The page and the report's picture, by name."""
    with mpl.rc_context({**plots.png_style(), "svg.fonttype": "path"}):
        picture = plots.png(front_plot(bench, png_colour), plots.PNG_DPI)
    return {PAGE: page(bench), PICTURE: picture}


def page(bench: Bench) -> str:
    """The whole HTML document."""
    e = html.escape
    with mpl.rc_context(plots.STYLE):
        legend = plots.svg(legend_plot(bench.there, LEGEND_COLUMNS), "legend", "Legend")
        drawn = curves_plot(bench)
        curves = plots.svg(drawn, "curves", "Throughput and RTT by loss and by flows") if drawn else ""
        sections = [_group(bench, group, scenarios) for group, scenarios in bench.groups.items()]
        front = plots.svg(front_plot(bench, page_colour), "front", "Table 3 by loss, and all scenarios beside BBR")
    return markup.document(
        TITLE,
        [
            STYLE,
            TIGHT,
            f"<h1>{TITLE}</h1>",
            f"<p>{e(run_counts(bench))}, in the exact lab. Command: <code>./run evaluate --suite cc</code>.</p>",
            "<h2>Which to choose</h2>",
            f"<p>{prose(CHOICE_WORDS)}</p>",
            table(CHOICE_HEADS, [[cell.replace("`", "") for cell in row] for row in choice_rows(bench)],
                  left=range(2, len(CHOICE_HEADS))),
            f"<p>{prose(WISH_WORDS)}</p>",
            table(WISH_HEADS, [[cell.replace("`", "") for cell in row] for row in wish_rows(bench)], left=(1, 2)),
            markup.drawing("Right: better is up and to the left.", front),
            f"<p>{prose(METHOD)}</p>",
            *(f"<p>{prose(words)}</p>" for words in elsewhere_words(bench)),
            "<h2>Figures to reach</h2>",
            claims_html(claims_of(bench)),
            *_curves(bench, curves),
            *_fairness(bench),
            *_part("Friendliness", FRIENDLY_WORDS, *friendly_table(bench)),
            *_part("On the front", FRONT_WORDS, FRONT_HEADS, front_rows(bench)),
            *_part("Wins, ties and losses", DUEL_WORDS, DUEL_HEADS, duel_rows(bench)),
            *_part("Decisions outside the training", OUTSIDE_WORDS, *outside_table(bench)),
            "<h2>Delay and throughput, scenario by scenario</h2>",
            "<p>Better is up and to the left. The line is the front by the means. Each panel has scales of its own, "
            "that of throughput of a twentieth of its highest value or more; the delay's is logarithmic. Hollow: the "
            "kernel's TCP.</p>",
            group_boxes(bench.groups, bench.titles),
            f"<figure>{legend}</figure>",
            *sections,
            markup.definitions({name: ALL_METRICS[name] for name, _, _ in FIGURES if name in ALL_METRICS}),
            FILTER,
        ],
    )  # fmt: skip


def _part(heading: str, words: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"<h2>{html.escape(heading)}</h2>", f"<p>{prose(words)}</p>", table(heads, rows)] if rows else []


def _curves(bench: Bench, drawing: str) -> list[str]:
    if not drawing:
        return []
    orders = [[cell.replace("`", "") for cell in row] for row in order_rows(bench)]
    return [
        "<h2>Table 3, as the paper's Fig. 9 and 10</h2>",
        f"<p>{prose(CURVE_WORDS)}</p>",
        markup.drawing(
            "Above: two flows, by loss. Below: at 2.5 % loss, by the number of flows. Ours are thick.", drawing
        ),
        table(ORDER_HEADS, orders, left=(1, 2)) if orders else "",
    ]


def _fairness(bench: Bench) -> list[str]:
    scenarios = shared_alone(bench)
    if not scenarios:
        return []
    found = ["<h2>Fairness</h2>", f"<p>{prose(FAIR_WORDS)}</p>"]
    for metric, words, decimals in FIGURES[6:8]:
        found += [f"<p>{html.escape(words)}:</p>", table(*by_scenario(bench, scenarios, metric, decimals))]
    drawn = fairness_plot(bench, scenarios)
    with mpl.rc_context(plots.STYLE):
        drawing = plots.svg(drawn, "fairness", "Jain's index over time")
    words = "Jain's index over time, means over seeds. Ours are thick; hollow: the kernel's TCP."
    return [*found, markup.drawing(words, drawing)]


def _group(bench: Bench, group: str, scenarios: Sequence[ScenarioResult]) -> str:
    e = html.escape
    title = title_of(bench, group)
    drawing = plots.svg(group_plot(bench, scenarios), f"plane-{group}", f"Delay and throughput: {title}")
    parts = []
    for scenario in scenarios:
        heads = ["", *(words for _, words, _ in columns_of(scenario)), "in the plane"]
        about = " ".join(scenario.about.get("description", "").split())
        names = [control for control in bench.there if control in scenario.figures]
        rows = [
            [name, *cells, behind_told(scenario, name)]
            for name, (_, *cells) in zip(names, figure_rows(bench, scenario), strict=True)
        ]
        parts.append(
            f"<h4>{e(scenario.name)}: {e(scenario.title)}</h4><p>{e(about)}</p>"
            + table(heads, rows, left=(len(heads) - 1,))
        )
    return (
        f'<section data-group="{e(group)}"><h3>{e(title)}</h3>{markup.drawing("", drawing)}'
        f"<details><summary>Figures</summary>{''.join(parts)}</details></section>"
    )
