# SPDX-License-Identifier: Apache-2.0
"""What the reports of all topologies share: words, tables, plots that follow the reader's colour scheme, the page.

Colours are CSS variables, so that the plots follow the reader's light or dark scheme and print black on white.
"""

import html
import io
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weirlab.metrics import Estimate
from weirlab.results import RunResult, Summary

# Rows of a table: metric, label, unit, decimals; a None starts a group.
Rows = Sequence[tuple[str | None, str, str, int]]

# One hue for each discipline, strategy, window rule or path in every plot, light and dark scheme; after Okabe and Ito,
# told apart by lightness too.
HUES: dict[str, tuple[str, str]] = {
    "pfifo": ("#6b6f76", "#a9b0ba"),
    "pie": ("#c8500a", "#ff9150"),
    "pie-5ms": ("#d98a4f", "#ffc39b"),
    "paper": ("#b8509a", "#eaa3d9"),
    "tuned": ("#005a94", "#5cb6f2"),
    "auto": ("#b00030", "#ff7488"),
    "tuned-half": ("#6a9bc3", "#a9d5f5"),
    "auto-half": ("#d27f93", "#ffb9c3"),
    "p4-paper": ("#7d2f68", "#ffcdf2"),
    "p4-tuned": ("#00788a", "#56dcee"),
    "p4-auto": ("#7a3b00", "#e3a15f"),
    "red": ("#8a6d00", "#e0bd3a"),
    "codel": ("#00805b", "#43cf9f"),
    "fq_codel": ("#5b7f00", "#a9cf45"),
    "cake": ("#5a4fcf", "#a9a2ff"),
    "polling": ("#6b6f76", "#a9b0ba"),
    "epsilon-greedy": ("#c8500a", "#ff9150"),
    "best-single": ("#8a6d00", "#e0bd3a"),
    "ops": ("#b8509a", "#eaa3d9"),
    "pps": ("#5a4fcf", "#a9a2ff"),
    "oracle": ("#00805b", "#43cf9f"),
    "weir": ("#005a94", "#5cb6f2"),
    "static": ("#6b6f76", "#a9b0ba"),
    "double": ("#c8500a", "#ff9150"),
    "fast": ("#b8509a", "#eaa3d9"),
    "path-1": ("#005a94", "#5cb6f2"),
    "path-2": ("#c8500a", "#ff9150"),
    "path-3": ("#00805b", "#43cf9f"),
    "path-4": ("#b8509a", "#eaa3d9"),
    "path-5": ("#8a6d00", "#e0bd3a"),
    "path-6": ("#5a4fcf", "#a9a2ff"),
    "other": ("#1f1f1f", "#f2f2f2"),
}
PATH_HUES = [name for name in HUES if name.startswith("path-")]
INKS = {
    "ink": ("#1c1e21", "#e9ebee"),
    "faint": ("#d9dce1", "#3a3f46"),
    "dim": ("#5d636b", "#a4abb5"),
    "page": ("#ffffff", "#15181c"),
}
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2, 1, 2, 1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")  # lines and points are told apart without colour, too
# Matplotlib wants real colours: each variable has a stand-in that is replaced in the finished SVG.
STAND_INS = {name: f"#0a0b{number:02x}" for number, name in enumerate([*HUES, *INKS])}
NOTHING = "\N{EN DASH}"  # shown where a run has nothing to measure a figure by
BAD = ("FAILED", "MISSING")  # how a check line starts that isn't well
STYLE = {
    "svg.hashsalt": "weir",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.edgecolor": STAND_INS["dim"],
    "axes.labelcolor": STAND_INS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": STAND_INS["faint"],
    "grid.linewidth": 0.6,
    "text.color": STAND_INS["ink"],
    "xtick.color": STAND_INS["dim"],
    "ytick.color": STAND_INS["dim"],
    "xtick.labelcolor": STAND_INS["ink"],
    "ytick.labelcolor": STAND_INS["ink"],
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Variant:
    """A column of the table: its label, what was run, its runs and their series by seed, and how it is drawn."""

    label: str
    spec: dict[str, Any]
    runs: dict[int, RunResult]
    series: dict[int, Any]
    hue: str
    dash: Any
    marker: str


def print_chunks(console: Console, corner: str, labels: Sequence[str], rows: Callable[[Sequence[str]], Any]) -> None:
    """One table, or several under each other where the columns don't fit."""
    rest = list(labels)
    while rest:
        ends = np.cumsum([2 + max(17, len(label)) for label in rest])
        fitting = max(1, int(np.count_nonzero(ends <= console.width - 30)))
        chunk, rest = rest[:fitting], rest[fitting:]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(corner, no_wrap=True)
        for label in chunk:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for row in rows(chunk):
            table.add_row(*row)
        console.print(table)


def print_checks(console: Console, lines: Sequence[str]) -> None:
    """Lines of checks, those that aren't well in red."""
    for line in lines:
        console.print(escape(line), style="bold red" if line.startswith(BAD) else "")


def result_cells(rows: Rows, summary: Summary, paper: Mapping[str, Any], labels: Sequence[str]) -> Iterable[list[str]]:
    for metric, text, unit, decimals in measured(rows, summary):
        if metric is None:
            yield [f"[bold]{text}[/bold]"]
        else:
            cells = [f"  {text}" + (f", {unit}" if unit else "")]
            for label in labels:
                figure = paper_figure(paper, label, metric)
                cell = shown(summary.variants[label][metric], decimals)
                cells.append(f"{cell}\n[dim]{escape(figure)}[/dim]" if figure else cell)
            yield cells


def ratio_cells(
    rows: Sequence[tuple[str, str]], found: Mapping[str, Mapping[str, Estimate]], labels: Sequence[str]
) -> Iterable[list[str]]:
    for metric, text in rows:
        yield [f"  {text}", *(shown(found[label][metric], 3) for label in labels)]


# ---- words ----


def shown(value: Estimate, decimals: int) -> str:
    """Mean, plus or minus half its interval; an en dash where there is nothing."""
    if value.mean is None:
        return NOTHING
    mean = fixed(value.mean, decimals)
    return mean if value.ci95 is None else f"{mean} ± {value.ci95:.{decimals}f}"


def fixed(value: float, decimals: int) -> str:
    """So many decimals, and no minus before a zero."""
    text = f"{value:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")


def failed_lines(summary: Summary) -> list[str]:
    """What is missing, and the checks that failed."""
    lines = [f"MISSING: {variant}, seed {seed} was planned and has no result" for variant, seed in summary.missing]
    return lines + [f"FAILED: {line}" for line in summary.failures]


def chance_lines(summary: Summary) -> list[str]:
    """A note on the variants whose seeds changed nothing."""
    same = []
    for label, metrics in summary.variants.items():
        spreads = [value.sd for value in metrics.values() if value.sd is not None]
        if spreads and not any(spreads):
            same.append(label)
    if not same:
        return []
    return [
        f"NOTE: {', '.join(same)}: every seed gave the same figures; nothing in these runs was left to chance, so "
        f"their interval of zero says nothing about other starts."
    ]


def look(place: int) -> tuple[Any, str]:
    """Dash and marker of the variant in that column."""
    return DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]


def paper_figure(paper: Mapping[str, Any], label: str, metric: str) -> str:
    """The paper's figure with its name; empty if it gives none. Sub-variants are not the paper's."""
    figure = paper["figures"].get(label, {}).get(metric) if paper else None
    return "" if figure is None else f"{paper['short']} {figure:g}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def measured(rows: Rows, summary: Summary) -> Rows:
    """The rows that some variant has a value for, and the groups that have such rows."""
    found: list[tuple[str | None, str, str, int]] = []
    for row in rows:
        if row[0] is None and found and found[-1][0] is None:
            found.pop()
        if row[0] is None or anywhere(summary, row[0]):
            found.append(row)
    return found[:-1] if found and found[-1][0] is None else found


def anywhere(summary: Summary, metric: str) -> bool:
    return any(metric in m and m[metric].mean is not None for m in summary.variants.values())


# ---- plots ----


def svg(figure: Figure, name: str, title: str) -> str:
    """A figure as inline SVG: identifiers of its own, colours by variable, text as text, no date."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{name}-", text)
    for variable, stand_in in STAND_INS.items():
        text = text.replace(stand_in, f"var(--{variable})")
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", text)
    # Half of a page's bytes: the page has its own font, nobody sees a thousandth of a point or asks for a group
    text = re.sub(r" font-family: [^;\"]+;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\n\s*", "\n", text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    opening = (
        f'<svg role="img" aria-labelledby="{name}-title" viewBox="0 0 {size[1]} {size[2]}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1, flags=re.DOTALL).strip()


def legend(figure: Figure, variants: Sequence[Variant], points: bool = False) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=STAND_INS[variant.hue],
            lw=0 if points else 2,
            linestyle="solid" if points else variant.dash,
            marker=variant.marker if points else "",
            label=variant.label,
        )
        for variant in variants
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4), handlelength=2.8)


def log_ticks(ax: Axes, which: str) -> None:
    """Plain numbers in place of powers of ten, at the decades and, where there are few, between them."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    ax.tick_params(which="both", axis=which, length=3.5, pad=3.5)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    between = FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axis.set_minor_formatter(between if high / low < 100 else NullFormatter())


LEAST_GOODPUT_SPAN = 0.05  # of the highest value: what is less apart than a fifth of this looks alike, and nearly is
LEAST_DELAY_FACTOR = 5.0  # between the ends of a delay axis; holds two of 1, 2, 5, 10 at least


def plane_scales(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Scales for points of delay (logarithmic) and goodput that don't blow small differences up."""
    if points:
        delays, goodputs = zip(*points, strict=True)
        low, high = min(goodputs), max(goodputs)
        span = max(1.6 * (high - low), LEAST_GOODPUT_SPAN * high)
        bottom = max(0.0, (low + high - span) / 2)
        ax.set_ylim(bottom, bottom + span if span else 1.0)
        # A queue under test that stayed empty has no place on a logarithmic axis; its run says so in the table.
        shown_delays = [delay for delay in delays if delay > 0] or [1.0]
        middle, factor = (min(shown_delays) * max(shown_delays)) ** 0.5, max(shown_delays) / min(shown_delays)
        factor = max(1.6 * factor, LEAST_DELAY_FACTOR)
        ax.set_xlim(middle / factor**0.5, middle * factor**0.5)
    ax.set_xscale("log")
    if points and factor < 100:
        ends = [math.floor(math.log10(end)) for end in ax.get_xlim()]
        steps = [digit * 10.0**power for power in range(ends[0], ends[1] + 1) for digit in (1, 2, 5)]
        ax.xaxis.set_major_locator(
            FixedLocator([step for step in steps if ax.get_xlim()[0] <= step <= ax.get_xlim()[1]])
        )
        ax.xaxis.set_minor_locator(NullLocator())
    log_ticks(ax, "x")
    ax.ticklabel_format(axis="y", style="plain", useOffset=False)


def inside(value: Estimate) -> Any:
    """Error bars that stay right of zero, for a logarithmic axis."""
    return None if value.ci95 is None else [[min(value.ci95, 0.99 * value.mean)], [value.ci95]]


def mean_over_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over rows, leaving out NaN; NaN where all are."""
    stacked = np.array(rows)
    there = ~np.isnan(stacked)
    sums = np.where(there, stacked, 0.0).sum(axis=0)
    counts = there.sum(axis=0)
    return np.divide(sums, counts, out=np.full(stacked.shape[1], np.nan), where=counts > 0)


# ---- the page ----

CSS = """
:root { color-scheme: light dark; LIGHT }
@media (prefers-color-scheme: dark) { :root { DARK } }
@media print {
  :root { color-scheme: light; LIGHT }
  body { max-width: none; padding: 0; font-size: 10pt }
  figure, table, section { break-inside: avoid }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1120px; padding: 2rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .6rem; text-wrap: balance }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem }
p { max-width: 90ch }
ul { padding-left: 1.2rem; margin: .3rem 0 }
.dim, figcaption, caption, dt { color: var(--dim) }
figcaption, caption { font-size: .9rem; text-align: left }
caption { padding-bottom: .6rem }
.wide { overflow-x: auto }
.wide th[scope=row], .wide thead th:first-child { position: sticky; left: 0; background: var(--page) }
table.even { table-layout: fixed }
table.many th, table.many td { padding: .28rem .45rem }
table.many .pm { display: block; font-size: .82em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--faint); text-align: right; vertical-align: top;
  white-space: nowrap }
th[scope=row], th[scope=rowgroup], thead th:first-child { text-align: left }
th[scope=row] { font-weight: 400 }
th[scope=rowgroup] { background: var(--panel); font-size: .9rem }
thead th { border-bottom: 2px solid var(--dim) }
td small { display: block; color: var(--dim); font-size: .82em }
td .pm { color: var(--dim) }
.words th, .words td { text-align: left; white-space: normal }
details table { font-size: .82rem }
details th, details td { padding: .2rem .45rem }
details thead th { white-space: normal; vertical-align: bottom }
.bar { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em }
figure { margin: 1rem 0 }
figure svg { width: 100%; height: auto; display: block }
svg text { font-family: inherit }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem }
.pair figure { margin: 0 }
@media (max-width: 800px) { .pair { grid-template-columns: 1fr } }
pre { background: var(--panel); padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; font-size: .88rem }
.bad { color: var(--bad); font-weight: 600 }
.good { color: var(--good) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: .5rem 0 }
dd { margin: 0 }
details { margin: .8rem 0 }
summary { cursor: pointer }
"""
PAGE_COLOURS = {
    "panel": ("#f3f4f7", "#20252b"),
    "bad": ("#b3261e", "#ff8a80"),
    "good": ("#1b6e3c", "#7fd6a0"),
}


def document(title: str, parts: Iterable[str]) -> str:
    """The whole HTML document; empty parts are left out."""
    css = CSS.replace("LIGHT", _variables(0)).replace("DARK", _variables(1))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{css}</style>\n</head>\n'
        f"<body>\n<main>\n{chr(10).join(part for part in parts if part)}\n</main>\n</body>\n</html>\n"
    )


def heading(facts: Mapping[str, Any]) -> list[str]:
    """Title and description."""
    text = html.escape(" ".join(facts["description"].split()))
    return [f"<h1>{html.escape(facts['title'])}</h1>", f"<p>{text}</p>" if text else ""]


def drawing(caption: str, text: str) -> str:
    """A plot's SVG with its caption."""
    return f"<figure>{text}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _variables(scheme: int) -> str:
    return " ".join(f"--{name}: {colours[scheme]};" for name, colours in {**HUES, **INKS, **PAGE_COLOURS}.items())


def what_ran(common: Sequence[str], variants: Sequence[Variant], words: Callable[[Variant], str]) -> str:
    """What the runs have in common, and what each variant is in `words`: folded, since results come first."""
    e = html.escape
    listed = f"<ul>{''.join(f'<li>{e(line)}</li>' for line in common)}</ul>" if common else ""
    rows = "".join(
        f'<dt><span class="bar" style="background: var(--{v.hue})"></span>{e(v.label)}</dt><dd>{e(words(v))}</dd>'
        for v in variants
    )
    if not rows:
        return ""
    summary = "What ran: links, flows, and the settings of each variant"
    return f"<details><summary>{summary}</summary>{listed}<dl>{rows}</dl></details>"


def failed_checks(lines: Sequence[str]) -> str:
    """Those checks that must be known before any figure is read; empty if all is well."""
    items = "".join(f'<li class="bad">{html.escape(line)}</li>' for line in lines if line.startswith(BAD))
    return f"<ul>{items}</ul>" if items else ""


def checks(lines: Sequence[str]) -> str:
    """Lines of checks, coloured by how they went."""
    items = []
    failed = any(line.startswith(BAD) for line in lines)
    for line in lines:
        bad = line.startswith(BAD)
        kind = "bad" if bad else "dim" if line.startswith("NOTE") or failed else "good"
        items.append(f'<li class="{kind}">{html.escape(line)}</li>')
    return f"<section><h2>Checks</h2><ul>{''.join(items)}</ul></section>"


def table(
    rows: Rows, definitions: Mapping[str, str], facts: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]
) -> str:
    """The figures of all variants, with the paper's under ours."""
    e = html.escape
    paper = facts["paper"]
    head = "".join(
        f'<th scope="col"><span class="bar" style="background: var(--{v.hue})"></span>{e(v.label)}</th>'
        for v in variants
    )
    body = []
    for metric, text, unit, decimals in measured(rows, summary):
        if metric is None:
            body.append(f'<tr><th scope="rowgroup" colspan="{len(variants) + 1}">{e(text)}</th></tr>')
            continue
        cells = []
        for variant in variants:
            cell = faint(shown(summary.variants[variant.label][metric], decimals))
            figure = paper_figure(paper, variant.label, metric)
            cells.append(f"<td>{cell}{f'<small>{e(figure)}</small>' if figure else ''}</td>")
        unit_text = f' <span class="dim">{e(unit)}</span>' if unit else ""
        label = f'<th scope="row" title="{e(definitions[metric])}">{e(text)}{unit_text}</th>'
        body.append(f"<tr>{label}{''.join(cells)}</tr>")
    note = f" {paper['short']}: {paper['source']}. {' '.join(paper['note'].split())}" if paper else ""
    caption = "Mean over seeds ± half the width of its 95 % interval (Student's t)." + note
    return (
        f'<div class="wide"><table{_fitting(len(variants))}><caption>{e(caption)}</caption>'
        f'<thead><tr><th scope="col"></th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _fitting(columns: int) -> str:
    """How a table is laid out: of many columns the interval stands under its mean; with more than fit even so, the
    table scrolls beside its labels."""
    return ' class="even"' if columns <= 5 else ' class="many"'


def ratio_table(
    rows: Sequence[tuple[str, str]], found: Mapping[str, Mapping[str, Estimate]], heading: str, caption: str
) -> str:
    """Ratios of variants to a peer; empty if there are none."""
    e = html.escape
    if not found:
        return ""
    head = "".join(f'<th scope="col">{e(label)}</th>' for label in found)
    body = "".join(
        f'<tr><th scope="row">{e(text)}</th>'
        f"{''.join(f'<td>{faint(shown(ratios[metric], 3))}</td>' for ratios in found.values())}</tr>"
        for metric, text in rows
    )
    return (
        f'<h2>{e(heading)}</h2><div class="wide"><table{_fitting(len(found))}><caption>{e(caption)}</caption>'
        f'<thead><tr><th scope="col">ratio</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def plain_table(corner: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """Rows by name, each cell a text and what stands small under it."""
    e = html.escape
    head = "".join(f'<th scope="col">{e(text)}</th>' for text in heads)
    body = []
    for name, cells in rows:
        texts = [faint(text) + (f"<small>{e(small)}</small>" if small else "") for text, small in cells]
        body.append(f'<tr><th scope="row">{e(name)}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>')
    return (
        f'<div class="wide"><table><thead><tr><th scope="col">{e(corner)}</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def faint(text: str) -> str:
    """The interval of `shown` in a fainter colour."""
    return re.sub(r" ± (.+)", r' <span class="pm">± \1</span>', html.escape(text))


def by_seed(chosen: Sequence[tuple[str, str, int]], summary: Summary) -> str:
    """Every run's own values of the metrics `chosen`: name, heading, decimals."""
    e = html.escape
    head = "".join(f'<th scope="col">{e(row[1])}</th>' for row in chosen)
    rows = []
    for run in summary.runs:
        values = [(run.metrics.get(row[0]), row[2]) for row in chosen]
        cells = "".join(f"<td>{NOTHING if value is None else f'{value:.{d}f}'}</td>" for value, d in values)
        rows.append(f'<tr><th scope="row">{e(run.variant)}, {run.seed}</th>{cells}</tr>')
    return (
        f'<details><summary>Every run by itself</summary><div class="wide"><table><thead><tr><th scope="col">variant, '
        f"seed</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def repeat(meta: Mapping[str, Any]) -> str:
    """Command line, versions, host."""
    e = html.escape
    seeds = ", ".join(map(str, meta["seeds"]))
    facts = {"seeds": seeds, "started (UTC)": meta["started_utc"], **meta["versions"], **meta["host"]}
    rows = "".join(f"<dt>{e(str(key).replace('_', ' '))}</dt><dd>{e(str(value))}</dd>" for key, value in facts.items())
    return (
        f"<section><h2>How to repeat it</h2><pre>{e(shlex.join(meta['argv']))}</pre><p>In the exact lab time is "
        f"virtual and every source of chance is seeded, so the same seed gives the same bytes again on "
        f"this machine, from any clone, however busy it is. Another installation of Debian (other files read at start) "
        f"gives another run of the same seed, within the intervals.</p>"
        f"<dl>{rows}</dl></section>"
    )


def definitions(metrics: Mapping[str, str]) -> str:
    """What each metric is, folded away."""
    e = html.escape
    rows = "".join(f"<dt><code>{e(name)}</code></dt><dd>{e(text)}</dd>" for name, text in metrics.items())
    return f"<details><summary>What each figure is</summary><dl>{rows}</dl></details>"
