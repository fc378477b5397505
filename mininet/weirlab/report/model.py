# SPDX-License-Identifier: Apache-2.0
"""Model of a report: sections, tables, figures and checks as data without markup.

`terminal`, `html` and `markdown` render it. A `str` is plain text, which every renderer escapes; a `Prose` is text of
the program itself and may have marks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Medium(Enum):
    TERMINAL = "terminal"
    HTML = "html"
    MARKDOWN = "markdown"


class Prose(str):
    """Text with marks: `code`, **strong**, *emphasis*, [label](target). Never holds labels from files of users."""

    __slots__ = ()


@dataclass(frozen=True)
class Paragraph:
    """`faint`: a note below a heading or a table; the terminal leaves it out."""

    text: str
    faint: bool = False


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Term:
    """A name and its definition; `hue` is the name of a colour in `plots.HUES`, `code` a name in a program."""

    name: str
    text: str
    hue: str = ""
    code: bool = False


@dataclass(frozen=True)
class Terms:
    items: Sequence[Term]


@dataclass(frozen=True)
class Preformatted:
    text: str


@dataclass(frozen=True)
class Column:
    """A column behind the one of row heads. `wraps`: words, which stand left and may take several lines; `half`: at
    least half of the table's width."""

    head: str
    unit: str = ""
    wraps: bool = False
    hue: str = ""
    half: bool = False


@dataclass(frozen=True)
class Cell:
    """`small` stands below the text; `good` marks a target that is met; `folded` is opened by the reader."""

    text: str
    small: str = ""
    strong: bool = False
    good: bool = False
    folded: Folded | None = None


@dataclass(frozen=True)
class Row:
    head: str
    cells: Sequence[Cell]
    unit: str = ""
    definition: str = ""


@dataclass(frozen=True)
class Group:
    """Heading of the rows below it."""

    head: str


class Layout(Enum):
    AUTO = ""
    EQUAL = "equal"
    """Columns of one width."""
    DENSE = "dense"
    """Small print, for many columns."""


@dataclass(frozen=True)
class Table:
    """Rows with a head and a cell for each column. `corner` stands above the row heads. A terminal shows the first
    `brief` rows; 0: all."""

    columns: Sequence[Column]
    rows: Sequence[Row | Group]
    corner: str = ""
    note: str = ""
    layout: Layout = Layout.AUTO
    brief: int = 0


@dataclass(frozen=True)
class Figure:
    """A drawing: SVG for the page, the path of an image file for Markdown; each may be missing."""

    alt: str
    caption: str = ""
    svg: str = ""
    path: str = ""


@dataclass(frozen=True)
class SideBySide:
    figures: Sequence[Figure]


class State(Enum):
    """Outcome of a check. Upper case: also the prefix of its line."""

    PASSED = "passed"
    PARTIAL = "partial"
    """Passed in some of the runs; the others have checks of their own."""
    NOTE = "NOTE"
    TARGET_MISSED = "TARGET MISSED"
    RUN_FAILED = "RUN FAILED"
    MISSING = "MISSING"

    @property
    def prefix(self) -> str:
        return self.value if self.value.isupper() else ""

    @property
    def is_failure(self) -> bool:
        return self in (State.TARGET_MISSED, State.RUN_FAILED, State.MISSING)


@dataclass(frozen=True)
class Check:
    """A check of runs. `source` is the module that sets the target."""

    name: str
    state: State
    value: str = ""
    target: str = ""
    source: str = ""

    @property
    def line(self) -> str:
        parts = [part for part in (self.state.prefix, self.name, self.value) if part]
        return ": ".join(parts) + (f" (limit {self.target})" if self.target else "")


@dataclass(frozen=True)
class Checks:
    """The page repeats failed checks above all figures."""

    checks: Sequence[Check]


@dataclass(frozen=True)
class Folded:
    """Details that a reader of the page opens; the terminal leaves them out."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Choice:
    """Boxes that show and hide the sections of a group: identifier and title of each."""

    groups: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Only:
    """Blocks of one medium."""

    medium: Medium
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """`group` is the identifier of a `Choice`."""

    heading: str
    blocks: Sequence[Block]
    group: str = ""


Block = (
    Paragraph | Bullets | Terms | Preformatted | Table | Figure | SideBySide | Checks | Folded | Choice | Only | Section
)


@dataclass(frozen=True)
class Report:
    """`footer` is the last line: versions and commits that the figures were measured with."""

    title: str
    blocks: Sequence[Block]
    description: str = ""
    footer: str = ""


def table(
    heads: Sequence[str | Column],
    rows: Iterable[Sequence[str | Cell]],
    layout: Layout = Layout.AUTO,
    note: str = "",
    words: Container[int] = (),
) -> Table:
    """A table of texts; the first head is the corner, the first text of each row its head. Columns at the places in
    `words` wrap."""
    corner, *columns = heads
    lines = [Row(text_of(head), [as_cell(cell) for cell in cells]) for head, *cells in rows]
    found = [
        column if isinstance(column, Column) else Column(column, wraps=place in words)
        for place, column in enumerate(columns, start=1)
    ]
    return Table(found, lines, text_of(corner), note, layout)


def text_of(value: str | Cell | Column) -> str:
    return value.text if isinstance(value, Cell) else value.head if isinstance(value, Column) else value


def as_cell(value: str | Cell) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def blocks_for(medium: Medium, blocks: Iterable[Block]) -> list[Block]:
    """The blocks that a medium shows, without `Only`, and without sections that are empty in it."""
    found: list[Block] = []
    for block in blocks:
        match block:
            case Only():
                found += blocks_for(medium, block.blocks) if block.medium is medium else []
            case Section():
                inner = blocks_for(medium, block.blocks)
                found += [replace(block, blocks=inner)] if inner else []
            case Folded():
                inner = blocks_for(medium, block.blocks)
                found += [replace(block, blocks=inner)] if inner and medium is not Medium.TERMINAL else []
            case _ if _is_shown(medium, block):
                found.append(block)
    return found


def _is_shown(medium: Medium, block: Block) -> bool:
    match block:
        case Figure():
            return bool(block.svg if medium is Medium.HTML else block.path) and medium is not Medium.TERMINAL
        case SideBySide():
            return any(_is_shown(medium, figure) for figure in block.figures)
        case Choice():
            return medium is Medium.HTML
        case Paragraph():
            return bool(block.text) and not (block.faint and medium is Medium.TERMINAL)
        case Terms() | Bullets():
            return bool(block.items)
        case Table():
            return bool(block.rows)
        case Checks():
            return bool(block.checks)
        case _:
            return True


def every_block(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks and those within them."""
    for block in blocks:
        yield block
        if isinstance(block, Section | Folded | Only):
            yield from every_block(block.blocks)


def failed_checks(blocks: Iterable[Block]) -> list[Check]:
    return [
        check
        for block in every_block(blocks)
        if isinstance(block, Checks)
        for check in block.checks
        if check.state.is_failure
    ]
