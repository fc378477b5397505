# SPDX-License-Identifier: Apache-2.0
"""Page of an envelope: one file that needs nothing else, and a picture; `text.py` has the words."""

from __future__ import annotations

import html
from collections.abc import Sequence

import matplotlib as mpl

from weirlab.evaluation.envelope.analysis import OURS, Envelope, ScenarioCurves
from weirlab.evaluation.envelope.plots import legend_plot, planes_plot, ratios_plot
from weirlab.evaluation.envelope.text import (
    CLAIM_HEADS,
    EACH_HEADS,
    METHOD,
    PEER_HEADS,
    claim_rows,
    columns_of,
    each_rows,
    figure_rows,
    group_title,
    peer_rows,
    run_counts,
)
from weirlab.evaluation.shared.pages import FILTER, STYLE, TIGHT, group_boxes, prose, table
from weirlab.evaluation.shared.styles import png_colour
from weirlab.report import markup, plots
from weirlab.topologies.dumbbell.metrics import METRICS

PAGE, PICTURE = "envelope.html", "envelope.png"
TITLE = "Queue disciplines at all their settings"


def files(envelope: Envelope) -> dict[str, str | bytes]:
    """The page and the report's picture, by name."""
    with mpl.rc_context({**plots.png_style(), "svg.fonttype": "path"}):
        picture = plots.png(ratios_plot(envelope, png_colour), plots.PNG_DPI)
    return {PAGE: page(envelope), PICTURE: picture}


def page(envelope: Envelope) -> str:
    """The whole HTML document."""
    e = html.escape
    with mpl.rc_context(plots.STYLE):
        ratios = plots.svg(ratios_plot(envelope), "ratios", "Ours beside the best single-queue peer, by scenario")
        legend = plots.svg(legend_plot(envelope.variants), "legend", "Legend")
        sections = [_group(envelope, group, scenarios) for group, scenarios in envelope.groups.items()]
    beside = [
        part
        for ours in envelope.of_kind(OURS)
        for part in (
            f"<h2>{e(ours)} beside the best single-queue peer</h2>",
            table(PEER_HEADS, peer_rows(envelope, ours)),
            f"<h3>{e(ours)} beside each discipline</h3><p>Geometric means over the scenarios; in brackets in how many "
            "the ratio is in our favour.</p>",
            table(EACH_HEADS, each_rows(envelope, ours)),
        )
    ]
    return markup.document(
        TITLE,
        [
            STYLE,
            TIGHT,
            f"<h1>{TITLE}</h1>",
            f"<p>{e(run_counts(envelope))}. Command: <code>./run evaluate --suite envelope</code>.</p>",
            markup.drawing(
                "Left of 1 is better. Lines are 95 % intervals over seeds; dashed are the geometric means.", ratios
            ),
            f"<p>{prose(METHOD)}</p>",
            "<h2>Figures to reach</h2>",
            table(CLAIM_HEADS, claim_rows(envelope), left=(1, 6)),
            *beside,
            "<h2>The curves, scenario by scenario</h2>",
            "<p>Better is up and to the left; the axis of losses is turned for that. Each point is a setting, labelled "
            "with its value in ms; hollow are those that another setting of the same discipline beats. Ours are "
            "thick.</p>",
            group_boxes(envelope.groups),
            f"<figure>{legend}</figure>",
            *sections,
            markup.definitions(METRICS),
            FILTER,
        ],
    )


def _group(envelope: Envelope, group: str, scenarios: Sequence[ScenarioCurves]) -> str:
    e = html.escape
    parts = []
    for scenario in scenarios:
        drawing = plots.svg(
            planes_plot(scenario, dict(envelope.kinds)), f"planes-{scenario.name}", f"Curves of {scenario.name}"
        )
        heads = ["", "setting", *(words for _, words, _ in columns_of(scenario))]
        about = " ".join(scenario.about.get("description", "").split())
        parts.append(
            f"<h4>{e(scenario.name)}: {e(scenario.title)}</h4>{markup.drawing(about, drawing)}"
            f"<details><summary>Figures</summary>{table(heads, figure_rows(scenario), left=(1,))}</details>"
        )
    return f'<section data-group="{e(group)}"><h3>{e(group_title(group))}</h3>{"".join(parts)}</section>'
