# SPDX-License-Identifier: Apache-2.0
"""The matrix to look at: one page that needs nothing else, and the front page's plot; `matrix_text` has the words."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path

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
    STARVED,
    Matrix,
    ScenarioResult,
    paired_ratio,
)
from weirlab.matrix_text import (
    GROUP_WORDS,
    VERDICTS,
    cases_told,
    duel_counts,
    figure_of,
    front_counts,
    geometric_mean,
    over_pie,
    results_md,
    run_counts,
    steps_in_time,
)
from weirlab.metrics import METRICS
from weirlab.report_parts import HUES, INKS, NOTHING, STAND_INS, log_ticks, shown

__all__ = ["page", "results_md", "write"]

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
PANEL_COLUMNS = 4
LIGHT = 0  # scheme of the PNG files
PAGE, FRONT_PLOT = "matrix.html", "front.png"
PNG_DPI = 110

Cell = Callable[[ScenarioResult, str], str]


def write(matrix: Matrix, folder: str | Path) -> list[Path]:
    """Write the page and the front page's plot into `folder`, which must be there. Returns what was written."""
    folder = Path(folder)
    (folder / PAGE).write_text(page(matrix), encoding="utf-8")
    front_plot(matrix, folder / FRONT_PLOT)
    return [folder / PAGE, folder / FRONT_PLOT]


# ---- plots ----


def page_colour(name: str) -> str:
    """A colour that follows the reader's scheme."""
    return STAND_INS[hue(name)] if name not in INKS else STAND_INS[name]


def png_colour(name: str) -> str:
    """The same in the light scheme, for a file of its own."""
    return {**HUES, **INKS}[hue(name) if name not in INKS else name][LIGHT]


def hue(variant: str) -> str:
    return variant if variant in HUES else "other"


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
            markerfacecolor="none" if variant.endswith("-half") else colour(variant),
            markeredgewidth=1 if variant.endswith("-half") else 0,
            lw=1,
            zorder=3 if variant in OURS else 2,
        )
    # The scale is the points'; the whisker of one that nothing holds, pfifo's, would press the others together.
    goodputs = [mean for v in variants if (mean := scenario.mean(v, GOODPUT)) is not None]
    if goodputs:
        room = 0.3 * (max(goodputs) - min(goodputs)) or 0.01 * max(goodputs)
        ax.set_ylim(max(0.0, min(goodputs) - room), max(goodputs) + room)
    ax.set_xscale("log")
    ax.margins(x=0.12)
    log_ticks(ax, "x")
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
               markerfacecolor="none" if v.endswith("-half") else colour(v))
        for v in variants
    ]  # fmt: skip


def legend_plot(variants: Sequence[str]) -> Figure:
    """The legend of all planes, by itself."""
    figure = Figure(figsize=(11, 0.35))
    figure.legend(handles=_handles(variants, page_colour), loc="center left", ncols=len(variants), handletextpad=0.1,
                  columnspacing=1.2)  # fmt: skip
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
        steps = sorted({int(m.split("_")[1]) for r in scenario.rows for m in r.metrics if m.startswith("step_")})
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


def front_plot(matrix: Matrix, path: Path) -> None:
    """The front page's plot: every scenario's disciplines beside pie, and Table II."""
    variants = [v for v in COMPARED if v in matrix.variants and v != "pie"]
    with mpl.rc_context({**png_style(), "svg.fonttype": "path"}):
        figure = Figure(figsize=(10, 4.3))
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
        table2 = next((s for s in matrix.scenarios if s.group in LOADS), None)
        if table2 is not None:
            plane(left, table2, [v for v in COMPARED if v in table2.figures], png_colour)
            left.set_title(table2.title)
        left.set_xlabel("mean queue delay, ms")
        left.set_ylabel("goodput, Mbit/s")
        for variant in variants:
            points = [
                (max(d, 0.02), g)
                for s in matrix.scenarios
                if (d := paired_ratio(s.rows, variant, "pie", DELAY, DELAY_FLOOR_MS).mean)
                and (g := paired_ratio(s.rows, variant, "pie", GOODPUT).mean)
            ]
            if not points:
                continue
            delays, goodputs = zip(*points, strict=True)
            right.plot(delays, [100 * (g - 1) for g in goodputs], MARKS[variant], color=png_colour(variant), alpha=0.4,
                       markersize=4, markeredgewidth=0)  # fmt: skip
            ours = variant in OURS
            right.plot(geometric_mean(delays), 100 * (geometric_mean(goodputs) - 1), MARKS[variant],
                       color=png_colour(variant), markersize=16 if variant == "auto" else 11, markeredgecolor="white",
                       markeredgewidth=0.8, zorder=6 if variant == "auto" else 5 if ours else 4)  # fmt: skip
        right.axhline(0, color=png_colour("dim"), lw=0.9)
        right.set_yscale("symlog", linthresh=1)  # most lie within 1 %, some far off
        right.set_yticks(
            [-20, -5, -1, -0.5, 0, 0.5, 1, 5, 20], ["-20", "-5", "-1", "-0.5", "0", "+0.5", "+1", "+5", "+20"]
        )
        right.yaxis.set_minor_locator(NullLocator())
        right.axvline(1, color=png_colour("dim"), lw=0.9)
        right.set_xscale("log")
        log_ticks(right, "x")
        right.set_title(f"All {len(matrix.scenarios)} scenarios beside pie (small), geometric means (large)")
        right.set_xlabel("mean queue delay over pie's")
        right.set_ylabel("goodput beside pie's, %")
        shown_too = [v for v in COMPARED if v in matrix.variants]
        figure.legend(handles=_handles(shown_too, png_colour), loc="outside lower center", ncols=len(shown_too),
                      handletextpad=0.1, columnspacing=1.2)  # fmt: skip
        figure.savefig(path, dpi=PNG_DPI, metadata={"Software": None})


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
td.yes { color: var(--good) } td.no { color: var(--bad); font-weight: 600 }
thead th { white-space: normal; vertical-align: bottom }
td.left, th.left { text-align: left; white-space: normal }
th.half { width: 50% }
</style>"""


def page(matrix: Matrix) -> str:
    """The whole HTML document."""
    e = html.escape
    boxes = "".join(
        f'<label><input type="checkbox" value="{e(group)}" checked> {e(GROUP_WORDS.get(group, group))}</label>'
        for group in matrix.groups
    )
    with mpl.rc_context(parts.STYLE):
        legend = parts.svg(legend_plot(matrix.variants), "legend", "Legend")
        sections = [_group_section(matrix, group, scenarios) for group, scenarios in matrix.groups.items()]
        steps = steps_plot(matrix)
        steps_svg = parts.svg(steps, "steps", "Settling time and overshoot after each step") if steps else ""
    found = [
        STYLE,
        "<h1>PID-Delay beside the kernel's queue disciplines</h1>",
        f"<p>{e(run_counts(matrix))}. Figures are means over seeds ± half the width of the 95 % interval "
        "(Student's t). Command: <code>./run evaluate</code>.</p>",
        "<h2>Figures to reach</h2>",
        _claims_html(matrix),
        "<h2>Over all scenarios</h2>",
        _summary_html(matrix),
        _duels_html(matrix),
        "<h2>Settling and overshoot</h2>"
        + parts.drawing(
            "Each step of link or load: how long until the queue has settled (dashed: 2 s), and how far its delay went "
            "above the target. Means over seeds.",
            steps_svg,
        )
        if steps
        else "",
        "<h2>Delay and goodput, scenario by scenario</h2>",
        "<p>Better is up and to the left. Lines: the front of all disciplines, dashed that of those with one queue. "
        "Each panel has scales of its own; the delay's is logarithmic.</p>",
        f'<div id="groups">{boxes}</div>',
        f"<figure>{legend}</figure>",
        *sections,
        parts.definitions(METRICS),
        FILTER,
    ]
    return parts.document("PID-Delay beside the kernel's queue disciplines", found)


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
            cells.append(f"<td{on}>{e(shown(figure_of(scenario, variant, metric), decimals))}</td>")
        rows.append(f'<tr><th scope="row">{e(scenario.name)}</th>{"".join(cells)}</tr>')
    note = "; bold: on the front" if metric in (DELAY, GOODPUT) else ""
    return (
        f'<div class="wide"><table><caption>{e(text + note)}</caption><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _claims_html(matrix: Matrix) -> str:
    e = html.escape
    rows = []
    for claim in matrix.claims:
        kind = {True: "yes", False: "no", None: "dim"}[claim.met]
        word = claim.state
        small = "".join(
            f"<small>{words} {e('; '.join(cases))}</small>"
            for words, met in (("not in", False), ("not shown in", None))
            if (cases := cases_told(claim, met))
        )
        rows.append(
            f'<tr><th scope="row">{e(claim.variant)}</th><td class="left">{e(claim.text)}{small}</td>'
            f'<td class="left">{e(claim.limit)}</td><td class="left">{e(claim.measured)}</td>'
            f'<td class="{kind}">{word}</td></tr>'
        )
    return (
        '<div class="wide"><table><thead><tr><th></th><th class="left half">figure</th><th class="left">wanted</th>'
        '<th class="left">scenarios that reach it; range</th><th>reached</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _summary_html(matrix: Matrix) -> str:
    rows = []
    for variant in (v for v in COMPARED if v in matrix.variants):
        cells = []
        for metric, decimals in ((DELAY, 2), ("queue_delay_sd_ms", 2), (GOODPUT, 3)):
            mean = geometric_mean(over_pie(matrix, variant, metric))
            cells.append((NOTHING if mean is None else f"{mean:.{decimals}f}", ""))
        for kind in ("all", "single"):
            on, near, starved, there = front_counts(matrix, variant, kind)
            cells.append((f"{on} / {near} / {starved} of {there}" if there else NOTHING, ""))
        cells.append((steps_in_time(matrix, variant), ""))
        rows.append((variant, cells))
    heads = [
        "delay over pie's",
        "its sd over pie's",
        "goodput over pie's",
        f"front of all: on / within 5 % / these with less than {STARVED:g} of pie's goodput",
        "the same among single queues",
        "steps settled in time",
    ]
    return parts.plain_table("geometric mean over scenarios", heads, rows)


def _duels_html(matrix: Matrix) -> str:
    groups = list(matrix.groups)
    rows = []
    for ours in OURS:
        for peer in COMPARED:
            cells = []
            for group in (None, *groups):
                counts = duel_counts(matrix, ours, peer, group)
                told = sum(counts.values())
                text = " / ".join(str(counts[key]) for key in VERDICTS[:-1])
                cells.append((text if told else NOTHING, f"{counts['untold']} untold" if counts["untold"] else ""))
            if any(text != NOTHING for text, _ in cells):
                rows.append((f"{ours} against {peer}", cells))
    heads = ["all", *(GROUP_WORDS.get(group, group) for group in groups)]
    return (
        "<h2>Wins / ties / trades / losses / unclear</h2>"
        "<p>Seed by seed, counted by scenario. Win: less delay or more goodput and "
        "as good in the other; trade: better in one and worse in the other; tie: in both the whole interval of the "
        f"ratio is within {100 * NEAR:.0f} % of 1; unclear: the runs don't tell. Verdicts are from 95 % intervals, not "
        "corrected for their number.</p>" + parts.plain_table("", heads, rows)
    )
