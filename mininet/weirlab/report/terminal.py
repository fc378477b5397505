# SPDX-License-Identifier: Apache-2.0
"""A report on a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import accumulate

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from weirlab.report.model import (
    Block,
    Bullets,
    Cell,
    Check,
    Checks,
    Column,
    Group,
    Medium,
    Paragraph,
    Preformatted,
    Prose,
    Report,
    Row,
    Section,
    State,
    Table,
    Terms,
    blocks_for,
)

LEAST_CELL_WIDTH = 17
HEAD_WIDTH = 20
GAP = 2
STYLES = {State.RUN_FAILED: "bold red", State.MISSING: "bold red", State.TARGET_MISSED: "bold yellow"}


def render(report: Report, console: Console) -> None:
    """Print what the terminal shows of a report: no figures, no details, no notes."""
    console.print()
    console.print(inline(report.title, "bold"), highlight=False)
    _print(blocks_for(Medium.TERMINAL, report.blocks), console)
    if report.footer:
        console.print(inline(report.footer))


def inline(text: str, style: str = "") -> Text:
    """Text without its marks."""
    if isinstance(text, Prose):
        text = re.sub(r"\[([^\]]+)\]\([\w./-]+\)", r"\1", re.sub(r"`|\*+", "", text))
    return Text(text, style)


def print_checks(console: Console, checks: Iterable[Check]) -> None:
    for check in checks:
        console.print(Text(check.line, STYLES.get(check.state, "")), highlight=True)


def _print(blocks: Iterable[Block], console: Console) -> None:
    for block in blocks:
        match block:
            case Section():
                if block.heading:
                    console.print(inline(block.heading, "bold"), highlight=False)
                _print(block.blocks, console)
            case Paragraph():
                console.print(inline(block.text))
            case Bullets():
                for item in block.items:
                    console.print(inline(item))
            case Terms():
                for term in block.items:
                    console.print(Text.assemble(inline(term.name, "bold"), "  ", inline(term.text)))
            case Preformatted():
                console.print(Text(block.text), soft_wrap=True)
            case Table():
                _print_table(block, console)
            case Checks():
                print_checks(console, block.checks)


def _print_table(table: Table, console: Console) -> None:
    """One table, or several below each other where the columns don't fit."""
    rows = table.rows[: table.brief or None]
    grouped = any(isinstance(row, Group) for row in rows)
    heads = [_row_head(row, grouped) for row in rows]
    widths = [_width(column, [row.cells[n] for row in rows if isinstance(row, Row)])
              for n, column in enumerate(table.columns)]  # fmt: skip
    head_width = max(cell_len(head.plain) for head in [*heads, inline(table.corner)])
    wrapped = any(column.wraps for column in table.columns)
    start = 0
    while start < len(table.columns) or start == 0:
        ends = list(accumulate(width + GAP for width in widths[start:]))
        fitting = len(widths) if wrapped else max(1, sum(end <= console.width - head_width for end in ends))
        places = range(start, min(start + fitting, len(widths)))
        console.print(_chunk(table, rows, heads, places))
        start += fitting
    if len(rows) < len(table.rows):
        console.print(f"  and {len(table.rows) - len(rows)} more, in the report", highlight=False)


def _chunk(table: Table, rows: Sequence[Row | Group], heads: Sequence[Text], places: Sequence[int]) -> RichTable:
    found = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    found.add_column(inline(table.corner), no_wrap=True)
    for place in places:
        column = table.columns[place]
        head = inline("\n".join(_head_lines(column)))
        found.add_column(head, justify="left" if column.wraps else "right", no_wrap=not column.wraps)
    for row, head in zip(rows, heads, strict=True):
        found.add_row(head, *(_cell(row.cells[place]) for place in places if isinstance(row, Row)))
    return found


def _row_head(row: Row | Group, grouped: bool) -> Text:
    if isinstance(row, Group):
        return inline(row.head, "bold")
    return Text("  " if grouped else "").append_text(inline(row.head)).append(f", {row.unit}" if row.unit else "")


def _head_lines(column: Column) -> list[str]:
    text = inline(column.head).plain + (f", {column.unit}" if column.unit else "")
    return textwrap.wrap(text, HEAD_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _width(column: Column, cells: Sequence[Cell]) -> int:
    lines = _head_lines(column) + [part for cell in cells for part in _cell(cell).plain.split("\n")]
    return max(LEAST_CELL_WIDTH, *(cell_len(line) for line in lines))


def _cell(cell: Cell) -> Text:
    text = inline(cell.text, "bold" if cell.strong else "")
    return text.append(f"\n{inline(cell.small).plain}", "dim") if cell.small else text
