# SPDX-License-Identifier: Apache-2.0
"""Common parts of all topologies' reports: words, tables, plots that follow the reader's colour scheme, the page.

Colours are CSS variables, so that the plots follow the reader's light or dark scheme and print black on white.
"""

import html
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import BAD, NOTHING, TARGET_MISSED, Rows, Variant, estimated, measured, paper_figure, shown
from weirlab.report.plots import HUES, INKS
from weirlab.store.folder import Summary

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
@media (min-width: 801px) { table.even { table-layout: fixed } }
table.even th[scope=row] { white-space: normal }
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
pre { background: var(--panel); padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; font-size: .88rem }
.bad { color: var(--bad); font-weight: 600 }
.missed { color: var(--missed); font-weight: 600 }
.good { color: var(--good) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: .5rem 0 }
dd { margin: 0 }
details { margin: .8rem 0 }
summary { cursor: pointer }
p, li, dd, dt, caption, figcaption, h1, h2, h3, h4 { overflow-wrap: anywhere }
@media (max-width: 800px) {
  body { padding: 1rem .8rem 3rem }
  .pair, dl { grid-template-columns: minmax(0, 1fr) }
  .wide table { font-size: .85rem }
  .wide th, .wide td { padding: .2rem .4rem }
  .wide th[scope=row] { white-space: normal; min-width: 7rem }
  figure { overflow-x: auto }
  figure svg { min-width: 680px }
}
"""
PAGE_COLOURS = {
    "panel": ("#f3f4f7", "#20252b"),
    "bad": ("#b3261e", "#ff8a80"),
    "missed": ("#7a5200", "#f0c060"),
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
    """Common settings of the runs, and each variant in `words`: folded, since results come first."""
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


def _kind(line: str) -> str:
    """Class of a check that did not pass; empty for others."""
    return "bad" if line.startswith(BAD) else "missed" if line.startswith(TARGET_MISSED) else ""


def failed_checks(lines: Sequence[str]) -> str:
    """Those checks that must be known before any figure is read; empty if all is well."""
    marked = [(kind, line) for line in lines if (kind := _kind(line))]
    items = "".join(f'<li class="{kind}">{html.escape(line)}</li>' for kind, line in marked)
    return f"<ul>{items}</ul>" if items else ""


def checks(lines: Sequence[str]) -> str:
    """Lines of checks, coloured by how they went."""
    items = []
    failed = any(_kind(line) for line in lines)
    for line in lines:
        kind = _kind(line) or ("dim" if line.startswith("NOTE") or failed else "good")
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
            cell = faint(shown(estimated(summary, variant.label, metric), decimals))
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
    """Layout of a table: of many columns the interval stands under its mean; with more than fit even so, the table
    scrolls beside its labels."""
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
        f"virtual and every source of chance is seeded, so the same seed gives the same bytes again from any clone of "
        f"these sources, however busy the machine is, and on another installation of Debian 12. With the tuner beside "
        f"a P4 switch, another installation gives another run of the same seed, within the intervals.</p>"
        f"<dl>{rows}</dl></section>"
    )


def definitions(metrics: Mapping[str, str]) -> str:
    """Definition of each metric, folded away."""
    e = html.escape
    rows = "".join(f"<dt><code>{e(name)}</code></dt><dd>{e(text)}</dd>" for name, text in metrics.items())
    return f"<details><summary>What each figure is</summary><dl>{rows}</dl></details>"
