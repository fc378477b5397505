# SPDX-License-Identifier: Apache-2.0
"""Common parts of all suites' pages: style, a box to hide and show each group of scenarios."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from weirlab.evaluation.shared.claims import Claim, cases_told
from weirlab.evaluation.shared.labels import GROUP_WORDS
from weirlab.report import markup

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

TIGHT = """<style>
.tight table { font-size: .78rem }
.tight th, .tight td { padding: .2rem .35rem }
.tight td.left { min-width: 12rem }
</style>"""


def group_boxes(groups: Iterable[str], titles: Mapping[str, str] = GROUP_WORDS) -> str:
    """The boxes, by the groups' `titles`; a section of the page names its group in `data-group`."""
    e = html.escape
    boxes = "".join(
        f'<label><input type="checkbox" value="{e(group)}" checked> {e(titles.get(group, group))}</label>'
        for group in groups
    )
    return f'<div id="groups">{boxes}</div>'


def prose(text: str) -> str:
    """Markdown's code marks, bold and links, which the text shared with report.md has, as HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"\[([^\]]+)\]\(([\w./-]+)\)", r'<a href="\2">\1</a>', text)


def claims_html(claims: Sequence[Claim]) -> str:
    """All claims as a table, with where each is not reached."""
    e = html.escape
    counts = {state: sum(claim.state == state for claim in claims) for state in ("yes", "no", "not shown")}
    rows = []
    for claim in claims:
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
        f"<p>What was to be reached, each in every scenario unless said: {counts['yes']} of {len(claims)} are "
        f"reached, {counts['no']} are missed, {counts['not shown']} are not shown to be either.</p>"
        '<div class="wide"><table class="claims"><thead><tr><th></th><th class="left half">figure</th>'
        '<th class="left">wanted</th><th class="left">scenarios that reach it; range</th><th>reached</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> str:
    """A table whose first column names the rows; columns in `left` hold words."""
    e = html.escape
    marks = ['class="left"' if place in left else "" for place in range(len(heads))]
    head = "".join(f'<th scope="col" {mark}>{e(text)}</th>' for text, mark in zip(heads, marks, strict=True))
    body = "".join(
        f'<tr><th scope="row">{e(first)}</th>'
        + "".join(f"<td {mark}>{markup.faint(text)}</td>" for text, mark in zip(cells, marks[1:], strict=True))
        + "</tr>"
        for first, *cells in rows
    )
    return f'<div class="wide tight"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
