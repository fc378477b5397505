# SPDX-License-Identifier: Apache-2.0
"""The matrix to look at: one page that needs nothing else, and the front page's plot; `matrix_text` has the words."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from weirlab import report_parts as parts
from weirlab.matrix import (
    COMPARED,
    DELAY,
    DELAY_FLOOR_MS,
    GOODPUT,
    LOADS,
    NEAR,
    OURS,
    Matrix,
    ScenarioResult,
    paired_ratio,
)
from weirlab.matrix_text import (
    GROUP_WORDS,
    SUMMARY_HEADS,
    VERDICTS,
    batches_told,
    cases_told,
    duel_counts,
    figure_of,
    geometric_mean,
    results_md,
    run_counts,
    summary_caption,
    summary_rows,
)
from weirlab.metrics import METRICS
from weirlab.report_parts import HUES, INKS, NOTHING, STAND_INS, log_ticks, shown

__all__ = ["files", "page", "results_md"]

MARKS = {
    "pfifo": "X",
    "red": "P",
    "pie": "s",
    "pie-5ms": "s",
    "codel": "D",
    "fq_codel": "v",
    "cake": "^",
    "paper": "p",
    "tuned": "o",
    "auto": "*",
    "tuned-half": "o",
    "auto-half": "*",
}
CONTROL = "pfifo"
HOLLOW = ("-half", "-5ms")  # endings of disciplines that stand beside themselves at another target
PANEL_COLUMNS = 4
LEGEND_COLUMNS = 10
LIGHT = 0  # scheme of the PNG files
PAGE, FRONT_PLOT = "matrix.html", "front.png"
PNG_DPI = 110

Cell = Callable[[ScenarioResult, str], str]


def files(matrix: Matrix, later: Sequence[str] = ()) -> dict[str, str | bytes]:
    """The page and the front page's picture, by name; `later` names the batches after the first."""
    with mpl.rc_context({**png_style(), "svg.fonttype": "path"}):
        picture = png(front_plot(matrix, png_colour), PNG_DPI)
    return {PAGE: page(matrix, later), FRONT_PLOT: picture}


def png(figure: Figure, dpi: int) -> bytes:
    """A figure as PNG that has nothing of the clock in it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


# ---- plots ----


def page_colour(name: str) -> str:
    """A colour that follows the reader's scheme."""
    return STAND_INS[hue(name)] if name not in INKS else STAND_INS[name]


def png_colour(name: str) -> str:
    """The same in the light scheme, for a file of its own."""
    return {**HUES, **INKS}[hue(name) if name not in INKS else name][LIGHT]


def hue(variant: str) -> str:
    return variant if variant in HUES else "other"


def hollow(variant: str) -> bool:
    return variant.endswith(HOLLOW)


def size_of(variant: str) -> float:
    """Of a marker: a star is less wide than it measures."""
    return 9 if MARKS.get(variant) == "*" else 6


def png_style() -> dict:
    """STYLE with real colours on white."""
    real = {stand_in: {**HUES, **INKS}[name][LIGHT] for name, stand_in in STAND_INS.items()}
    style = {key: real.get(value, value) if isinstance(value, str) else value for key, value in parts.STYLE.items()}
    return {**style, "figure.facecolor": "white", "savefig.facecolor": "white"}


def plane(ax: Axes, scenario: ScenarioResult, variants: Sequence[str], colour: Callable[[str], str]) -> None:
    """One scenario's disciplines by mean queue delay and goodput, and the front of all of them."""
    for kind, dash in (("single", (0, (3, 2))), ("all", "solid")):
        at = [(scenario.mean(v, DELAY), scenario.mean(v, GOODPUT)) for v in scenario.fronts[kind]]
        ax.plot(*zip(*at, strict=True), color=colour("dim"), lw=0.9, linestyle=dash, zorder=1)
    for variant in variants:
        delay, goodput = (figure_of(scenario, variant, metric) for metric in (DELAY, GOODPUT))
        if delay.mean is None or goodput.mean is None or delay.mean <= 0:
            continue
        ax.errorbar(
            delay.mean,
            goodput.mean,
            xerr=parts.inside(delay),
            yerr=goodput.ci95,
            color=colour(variant),
            marker=MARKS.get(variant, "h"),
            markersize=size_of(variant),
            markerfacecolor="none" if hollow(variant) else colour(variant),
            markeredgewidth=1 if hollow(variant) else 0,
            lw=1,
            zorder=3 if variant in OURS else 2,
        )
    # The scale is that of the others: pfifo, which nothing holds, would press them together.
    at = {v: (scenario.mean(v, DELAY), scenario.mean(v, GOODPUT)) for v in variants}
    at = {v: point for v, point in at.items() if None not in point and point[0] > 0}
    parts.plane_scales(ax, [point for v, point in at.items() if v != CONTROL] or list(at.values()))
    if CONTROL in at:
        (delay_ms, goodput), (left, right), (low, high) = at[CONTROL], ax.get_xlim(), ax.get_ylim()
        if not (left <= delay_ms <= right and low <= goodput <= high):
            ax.text(0.99, 0.03, f"{CONTROL}: {delay_ms:.0f} ms, {goodput:.3g}", transform=ax.transAxes, ha="right",
                    color=colour(CONTROL), fontsize=8)  # fmt: skip
    ax.set_title(scenario.name)


def group_plot(scenarios: Sequence[ScenarioResult], variants: Sequence[str]) -> Figure:
    """The planes of a group of scenarios, each with scales of its own."""
    rows = -(-len(scenarios) // PANEL_COLUMNS)
    figure = Figure(figsize=(11, 0.4 + 2.25 * rows))
    axes = list(figure.subplots(rows, PANEL_COLUMNS, squeeze=False).flat)
    for scenario, ax in zip(scenarios, axes, strict=False):
        plane(ax, scenario, variants, page_colour)
    for ax in axes[len(scenarios) :]:
        ax.set_visible(False)
    for number, ax in enumerate(axes[: len(scenarios)]):
        if number >= len(scenarios) - PANEL_COLUMNS:
            ax.set_xlabel("mean queue delay, ms")
        if number % PANEL_COLUMNS == 0:
            ax.set_ylabel("goodput, Mbit/s")
    return figure


def _handles(variants: Sequence[str], colour: Callable[[str], str]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour(v), lw=0, marker=MARKS.get(v, "h"), label=v, markersize=size_of(v),
               markerfacecolor="none" if hollow(v) else colour(v))
        for v in variants
    ]  # fmt: skip


def legend_plot(variants: Sequence[str]) -> Figure:
    """The legend of all planes, by itself."""
    lines = -(-len(variants) // LEGEND_COLUMNS)
    figure = Figure(figsize=(11, 0.1 + 0.25 * lines))
    figure.legend(handles=_handles(variants, page_colour), loc="center left", ncols=-(-len(variants) // lines),
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    return figure


def steps_plot(matrix: Matrix) -> Figure | None:
    """Settling time and overshoot of each step, mean over seeds."""
    scenarios = [s for s in matrix.scenarios if any(r.metrics.get("steps_count") for r in s.rows)]
    if not scenarios:
        return None
    variants = [v for v in matrix.variants if v in COMPARED]
    names: list[str] = []
    figure = Figure(figsize=(11, 4.6))
    above, below = figure.subplots(2, 1, sharex=True)
    for scenario in scenarios:
        measured = {name for r in scenario.rows for name, value in r.metrics.items() if value is not None}
        steps = sorted({int(name.split("_")[1]) for name in measured if name.startswith("step_")})
        for step in steps:
            for place, variant in enumerate(variants):
                x = len(names) + (place - (len(variants) - 1) / 2) * 0.8 / len(variants)
                for ax, metric in ((above, f"step_{step}_settling_s"), (below, f"step_{step}_overshoot_ms")):
                    found = figure_of(scenario, variant, metric)
                    if found.mean is not None:
                        ax.plot(x, found.mean, MARKS[variant], color=page_colour(variant), markersize=size_of(variant),
                                markeredgewidth=0, clip_on=False, zorder=3)  # fmt: skip
            at = scenario.mean(next(iter(scenario.figures)), f"step_{step}_at_s")
            names.append(f"{scenario.name.removeprefix('steps-')}\n{NOTHING if at is None else f'{at:g} s'}")
    above.axhline(2, color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
    above.set_ylabel("settling time, s")
    below.set_ylabel("overshoot, ms")
    below.set_yscale("symlog", linthresh=10)
    above.set_ylim(bottom=0)
    below.set_ylim(0, 1.3 * below.get_ylim()[1])
    below.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    below.set_xticks(range(len(names)), names)
    figure.legend(
        handles=_handles(variants, page_colour), loc="outside upper left", ncols=len(variants), handletextpad=0.1
    )
    return figure


def front_plot(matrix: Matrix, colour: Callable[[str], str]) -> Figure:
    """The first picture: Table II, and every scenario's disciplines beside pie."""
    variants = [v for v in COMPARED if v in matrix.variants and v != "pie"]
    figure = Figure(figsize=(10, 4.3))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    table2 = next((s for s in matrix.scenarios if s.group in LOADS), None)
    if table2 is not None:
        plane(left, table2, [v for v in COMPARED if v in table2.figures], colour)
        left.set_title(table2.title)
    left.set_xlabel("mean queue delay, ms")
    left.set_ylabel("goodput, Mbit/s")
    for variant in variants:
        points = [
            (max(d, 0.02), g)
            for s in matrix.scenarios
            if (d := paired_ratio(s.pairs, variant, "pie", DELAY, DELAY_FLOOR_MS).mean)
            and (g := paired_ratio(s.pairs, variant, "pie", GOODPUT).mean)
        ]
        if not points:
            continue
        delays, goodputs = zip(*points, strict=True)
        fill = {"color": colour(variant), "markerfacecolor": "none" if hollow(variant) else colour(variant)}
        right.plot(delays, [100 * (g - 1) for g in goodputs], MARKS[variant], alpha=0.4, markersize=4,
                   markeredgewidth=0.6 if hollow(variant) else 0, **fill)  # fmt: skip
        ours = variant in OURS
        fill |= {"markerfacecolor": colour("page") if hollow(variant) else colour(variant)}
        right.plot(geometric_mean(delays), 100 * (geometric_mean(goodputs) - 1), MARKS[variant],
                   markersize=16 if variant == "auto" else 11, zorder=6 if variant == "auto" else 5 if ours else 4,
                   markeredgecolor=colour(variant if hollow(variant) else "page"),
                   markeredgewidth=1.8 if hollow(variant) else 0.8, **fill)  # fmt: skip
    right.axhline(0, color=colour("dim"), lw=0.9)
    right.set_yscale("symlog", linthresh=1)  # most lie within 1 %, some far off
    right.set_yticks([-20, -5, -1, -0.5, 0, 0.5, 1, 5, 20], ["-20", "-5", "-1", "-0.5", "0", "+0.5", "+1", "+5", "+20"])
    right.yaxis.set_minor_locator(NullLocator())
    right.axvline(1, color=colour("dim"), lw=0.9)
    right.set_xscale("log")
    log_ticks(right, "x")
    right.set_title(f"All {len(matrix.scenarios)} scenarios beside pie (small), geometric means (large)")
    right.set_xlabel("mean queue delay over pie's")
    right.set_ylabel("goodput beside pie's, %")
    shown_too = [v for v in COMPARED if v in matrix.variants]
    figure.legend(handles=_handles(shown_too, colour), loc="outside lower center", ncols=len(shown_too),
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    return figure


# ---- the page ----

FILTER = """
<script>
for (const box of document.querySelectorAll("#groups input")) {
  const parts = document.querySelectorAll(`[data-group="${box.value}"]`);
  const show = () => { for (const part of parts) part.hidden = !box.checked };
  box.addEventListener("change", show);
  show();
}
</script>"""
STYLE = """<style>
#groups { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; position: sticky; top: 0; padding: .6rem 0;
  background: var(--page); border-bottom: 1px solid var(--faint); z-index: 1 }
td.on { font-weight: 600 }
.duels table { font-size: .74rem }
.duels th, .duels td { padding: .2rem .3rem }
td.yes { color: var(--good); font-weight: 600 }
.claims details { margin: .2rem 0 0; color: var(--dim); font-size: .9em }
thead th { white-space: normal; vertical-align: bottom }
td.left, th.left { text-align: left; white-space: normal }
th.half { width: 50% }
</style>"""


def page(matrix: Matrix, later: Sequence[str] = ()) -> str:
    """The whole HTML document."""
    e = html.escape
    boxes = "".join(
        f'<label><input type="checkbox" value="{e(group)}" checked> {e(GROUP_WORDS.get(group, group))}</label>'
        for group in matrix.groups
    )
    with mpl.rc_context(parts.STYLE):
        front = parts.svg(front_plot(matrix, page_colour), "front", "Delay and goodput: Table II, and all beside pie")
        legend = parts.svg(legend_plot(matrix.variants), "legend", "Legend")
        sections = [_group_section(matrix, group, scenarios) for group, scenarios in matrix.groups.items()]
        steps = steps_plot(matrix)
        steps_svg = parts.svg(steps, "steps", "Settling time and overshoot after each step") if steps else ""
    found = [
        STYLE,
        "<h1>PID-Delay beside the kernel's queue disciplines</h1>",
        f"<p>{e(run_counts(matrix))}. Figures are means over seeds ± half the width of the 95 % interval "
        "(Student's t). Command: <code>./run evaluate</code>.</p>",
        *(f"<p>{_prose(text)}</p>" for text in batches_told(matrix, later)[:1]),
        parts.drawing(
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
        f'<div id="groups">{boxes}</div>',
        f"<figure>{legend}</figure>",
        *sections,
        "<h2>Settling and overshoot</h2>"
        + parts.drawing(
            "Each step of link or load: how long until the queue has settled (dashed: 2 s), and how far its delay went "
            "above the target. Means over seeds.",
            steps_svg,
        )
        if steps
        else "",
        _duels_html(matrix),
        "<h2>Figures to reach</h2>",
        _claims_html(matrix),
        parts.definitions(METRICS),
        FILTER,
    ]
    return parts.document("PID-Delay beside the kernel's queue disciplines", found)


def _prose(text: str) -> str:
    """Markdown's code marks and links, which the text shared with report.md has, as HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"\[([^\]]+)\]\(([\w./-]+)\)", r'<a href="\2">\1</a>', text)


def _group_section(matrix: Matrix, group: str, scenarios: Sequence[ScenarioResult]) -> str:
    e = html.escape
    title = GROUP_WORDS.get(group, group)
    there = [v for v in matrix.variants if any(v in s.figures for s in scenarios)]
    drawing = parts.svg(group_plot(scenarios, there), f"plane-{group}", f"Delay and goodput: {title}")
    words = "".join(
        f"<dt>{e(s.name)}</dt><dd>{e(s.title)}. {e(' '.join(s.about.get('description', '').split()))}</dd>"
        for s in scenarios
    )
    tables = []
    for metric, text, decimals in (
        (DELAY, "mean queue delay, ms", 2),
        ("queue_delay_sd_ms", "standard deviation of the queue delay, ms", 2),
        ("queue_delay_p99_ms", "99th percentile of the queue delay, ms", 1),
        ("queue_delay_excess_ms", "mean excess over the target, ms", 2),
        (GOODPUT, "goodput, Mbit/s", 3),
        ("rtt_mean_ms", "round-trip time, ms", 1),
        ("loss_percent", "lost, %", 2),
        ("jain_index", "Jain index", 3),
        ("fct_mean_ms", "completion time of short transfers, ms", 0),
        ("spectral_peak_ratio", "spectral peak over floor", 1),
        ("decisions_count", "changes of gains by the tuner", 1),
    ):
        if any(s.mean(v, metric) is not None for s in scenarios for v in there):
            tables.append(_figures_html(scenarios, there, metric, text, decimals))
    return (
        f'<section data-group="{e(group)}"><h3>{e(title)}</h3>{parts.drawing("", drawing)}'
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
            cells.append(f"<td{on}>{parts.faint(shown(figure_of(scenario, variant, metric), decimals))}</td>")
        rows.append(f'<tr><th scope="row">{e(scenario.name)}</th>{"".join(cells)}</tr>')
    note = "; bold: on the front" if metric in (DELAY, GOODPUT) else ""
    return (
        f'<div class="wide"><table class="many"><caption>{e(text + note)}</caption>'
        f"<thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _claims_html(matrix: Matrix) -> str:
    e = html.escape
    counts = {state: sum(claim.state == state for claim in matrix.claims) for state in ("yes", "no", "not shown")}
    rows = []
    for claim in matrix.claims:
        told = [
            f"<p>{words} {e('; '.join(cases))}</p>"
            for words, met in (("Missed in", False), ("Not shown in", None))
            if (cases := cases_told(claim, met))
        ]
        where = f"<details><summary>where not</summary>{''.join(told)}</details>" if told else ""
        rows.append(
            f'<tr><th scope="row">{e(claim.variant)}</th><td class="left">{e(claim.text)}{where}</td>'
            f'<td class="left">{e(claim.limit)}</td><td class="left">{e(claim.measured)}</td>'
            f'<td class="{"yes" if claim.met else "plain"}">{e(claim.state)}</td></tr>'
        )
    return (
        f"<p>What was to be reached, each in every scenario unless said: {counts['yes']} of {len(matrix.claims)} are "
        f"reached, {counts['no']} are missed, {counts['not shown']} are not shown to be either.</p>"
        '<div class="wide"><table class="claims"><thead><tr><th></th><th class="left half">figure</th>'
        '<th class="left">wanted</th><th class="left">scenarios that reach it; range</th><th>reached</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _summary_html(matrix: Matrix) -> str:
    rows = [(variant, [(text, "") for text in cells]) for variant, cells in summary_rows(matrix)]
    caption = summary_caption(matrix).replace("`./run evaluate`", "./run evaluate")
    return parts.plain_table("", SUMMARY_HEADS, rows) + f'<p class="dim">{html.escape(caption)}</p>'


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
        'corrected for their number.</p><div class="duels">' + parts.plain_table("", heads, rows) + "</div>"
    )
