# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown, for pages that are kept in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weirlab.report.model import (
    Block,
    Bullets,
    Cell,
    Checks,
    Figure,
    Folded,
    Group,
    Medium,
    Paragraph,
    Preformatted,
    Prose,
    Report,
    Row,
    Section,
    SideBySide,
    Table,
    Terms,
    blocks_for,
)

LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->"
MARKS = re.compile(r"[\\`\[\]<]|\*(?=\S)|(?<=\S)\*|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
LINE_MARKS = re.compile(r"^(\d*)([#>+*-]|(?<=\d)[.)](?=\s|$))")
"""A heading, a quotation or an item of a list at the beginning of a paragraph."""


def render(report: Report) -> str:
    """The whole page."""
    parts = [LICENCE, f"# {inline(report.title)}", inline(report.description)]
    parts += [*_rendered(blocks_for(Medium.MARKDOWN, report.blocks), 2), inline(report.footer)]
    return "\n\n".join(part for part in parts if part) + "\n"


def inline(text: str) -> str:
    """Text on one line; what would be a mark in plain text is escaped."""
    line = " ".join(text.split())
    return line if isinstance(text, Prose) else MARKS.sub(r"\\\g<0>", line)


def _rendered(blocks: Iterable[Block], level: int) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph():
                text = inline(block.text)
                yield text if isinstance(block.text, Prose) else LINE_MARKS.sub(r"\1\\\2", text)
            case Bullets():
                yield _bullets(map(inline, block.items))
            case Terms():
                yield _bullets(f"**{inline(item.name)}**: {inline(item.text)}" for item in block.items)
            case Preformatted():
                yield f"```\n{block.text}\n```"
            case Table():
                yield table(block)
                if block.note:
                    yield inline(block.note)
            case Figure():
                yield from _figure(block)
            case SideBySide():
                for figure in block.figures:
                    yield from _figure(figure)
            case Checks():
                yield _bullets(inline(check.line) for check in block.checks)
            case Folded():
                yield f"**{inline(block.summary)}**"
                yield from _rendered(block.blocks, level)
            case Section():
                yield f"{'#' * level} {inline(block.heading)}" if block.heading else ""
                yield from _rendered(block.blocks, level + 1)


def table(found: Table) -> str:
    """A table without its note."""
    heads = [found.corner]
    heads += [f"{column.head}, {column.unit}" if column.unit else column.head for column in found.columns]
    lines = [[_cell(head) for head in heads], ["---"] * len(heads)]
    for row in found.rows:
        lines.append(_row(row) if isinstance(row, Row) else [_strong(row), *[""] * len(found.columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(row: Row) -> list[str]:
    head = Prose(f"{inline(row.head)}, {inline(row.unit)}") if row.unit else row.head
    return [_cell(head), *(_full_cell(cell) for cell in row.cells)]


def _strong(group: Group) -> str:
    return f"**{_cell(group.head)}**"


def _full_cell(cell: Cell) -> str:
    text = _cell(cell.text)
    text = f"**{text}**" if cell.strong else text
    return f"{text} ({_cell(cell.small)})" if cell.small else text


def _cell(text: str) -> str:
    """A bar would end the cell."""
    return inline(text).replace("|", "\\|")


def _figure(figure: Figure) -> Iterator[str]:
    if figure.path:
        yield f"![{inline(figure.alt)}]({figure.path})"
        yield inline(figure.caption)


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
