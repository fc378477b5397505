# SPDX-License-Identifier: Apache-2.0
"""What all suites' pages share: style, a box to hide and show each group of scenarios."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from weirlab.evaluation.shared.words import GROUP_WORDS

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


def group_boxes(groups: Iterable[str]) -> str:
    """The boxes; a section of the page names its group in `data-group`."""
    e = html.escape
    boxes = "".join(
        f'<label><input type="checkbox" value="{e(group)}" checked> {e(GROUP_WORDS.get(group, group))}</label>'
        for group in groups
    )
    return f'<div id="groups">{boxes}</div>'


def prose(text: str) -> str:
    """Markdown's code marks, bold and links, which the text shared with report.md has, as HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"\[([^\]]+)\]\(([\w./-]+)\)", r'<a href="\2">\1</a>', text)
