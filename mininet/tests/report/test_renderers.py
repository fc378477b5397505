# SPDX-License-Identifier: Apache-2.0
"""Any report in all media: each text is there, nothing in it becomes markup, documents are well-formed."""

import html as escaping
import io
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from page_outline import whole
from rich.console import Console

from weirlab.report import html, markdown, terminal
from weirlab.report.model import (
    Bullets,
    Cell,
    Check,
    Checks,
    Choice,
    Column,
    Figure,
    Folded,
    Group,
    Layout,
    Medium,
    Only,
    Paragraph,
    Preformatted,
    Prose,
    Report,
    Row,
    Section,
    SideBySide,
    State,
    Table,
    Term,
    Terms,
    blocks_for,
    every_block,
    table,
)

# Marks of each medium, and letters of two widths.
TEXTS = st.text("ab Z09<>&\"'`*_[]()|\\#-±%.:/{}äß日", min_size=1, max_size=24).map(
    lambda text: " ".join(text.split()) or "x"
)
TABLES = st.integers(0, 4).flatmap(
    lambda width: st.builds(
        Table,
        st.lists(st.builds(Column, TEXTS, TEXTS, st.booleans()), min_size=width, max_size=width),
        st.lists(
            st.one_of(
                st.builds(Group, TEXTS),
                st.builds(
                    Row,
                    TEXTS,
                    st.lists(st.builds(Cell, TEXTS, TEXTS, st.booleans(), st.booleans()), min_size=width,
                             max_size=width),
                    TEXTS,
                    TEXTS,
                ),
            ),
            min_size=1,
            max_size=4,
        ),
        TEXTS,
        TEXTS,
        st.sampled_from(Layout),
    )
)  # fmt: skip
CHECKS = st.builds(Check, TEXTS, st.sampled_from(State), TEXTS, TEXTS)
LEAVES = st.one_of(
    TABLES,
    st.builds(Paragraph, TEXTS, st.booleans()),
    st.builds(Bullets, st.lists(TEXTS, min_size=1, max_size=3)),
    st.builds(Terms, st.lists(st.builds(Term, TEXTS, TEXTS, st.just("pie"), st.booleans()), min_size=1, max_size=3)),
    st.builds(Preformatted, TEXTS),
    st.builds(Checks, st.lists(CHECKS, min_size=1, max_size=3)),
    st.builds(Figure, TEXTS, TEXTS, st.just("<svg></svg>"), st.just("a.png")),
    st.builds(SideBySide, st.lists(st.builds(Figure, TEXTS, TEXTS, st.just("<svg></svg>")), min_size=1, max_size=2)),
)
BLOCKS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Section, TEXTS, st.lists(inner, max_size=3)),
        st.builds(Folded, TEXTS, st.lists(inner, max_size=2)),
        st.builds(Only, st.sampled_from(Medium), st.lists(inner, max_size=2)),
    ),
    max_leaves=6,
)
REPORTS = st.builds(Report, TEXTS, st.lists(BLOCKS, max_size=4), TEXTS, TEXTS)


class Texts(HTMLParser):
    """The text of each cell."""

    def __init__(self):
        super().__init__()
        self.cells, self.inside = [], False

    def handle_starttag(self, tag, attributes):
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


def on_a_terminal(report, width=20_000):
    text = io.StringIO()
    terminal.render(report, Console(file=text, width=width, color_system=None))
    return text.getvalue()


def unmarked(line):
    """A line of Markdown as its reader sees it."""
    return re.sub(r"\\([\\`*\[\]<_|#>+.)-])", r"\1", line)


def tables_in(report, medium):
    return [block for block in every_block(blocks_for(medium, report.blocks)) if isinstance(block, Table)]


def texts_of(found):
    """Heads and cells of a table."""
    for column in found.columns:
        yield from (column.head, column.unit)
    for row in found.rows:
        yield row.head
        if isinstance(row, Row):
            yield row.unit
            for cell in row.cells:
                yield from (cell.text, cell.small)


@given(REPORTS)
def test_a_page_has_each_cell_and_is_well_formed(report):
    page = html.render(report)
    whole(page)
    texts = Texts()
    texts.feed(page)
    cells = iter(texts.cells)
    for found in tables_in(report, Medium.HTML):
        assert next(cells) == found.corner
        for column in found.columns:
            assert next(cells) == f"{column.head} {column.unit}"
        for row in found.rows:
            if isinstance(row, Group):
                assert next(cells) == row.head
                continue
            assert next(cells) == f"{row.head} {row.unit}"
            for cell in row.cells:
                assert next(cells).startswith(f"{cell.text}{cell.small}")
    assert page.count("<svg></svg>") == sum(
        1 if isinstance(block, Figure) else len(block.figures)
        for block in every_block(blocks_for(Medium.HTML, report.blocks))
        if isinstance(block, Figure | SideBySide)
    )


@given(REPORTS)
def test_a_terminal_has_each_cell(report):
    text = "".join(on_a_terminal(report).split())
    for found in tables_in(report, Medium.TERMINAL):
        for part in texts_of(found):
            # A head may be broken between its words.
            assert all(word in text for word in part.split())


@given(REPORTS)
def test_markdown_has_each_cell_and_as_many_in_each_line(report):
    text = markdown.render(report)
    lines = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    found = tables_in(report, Medium.MARKDOWN)
    assert len(lines) == sum(2 + len(one.rows) for one in found)
    rows = iter(lines)
    for one in found:
        own = [next(rows) for _ in range(2 + len(one.rows))]
        assert {len(cells) for cells in own} == {1 + len(one.columns)}
        joined = unmarked("".join("".join(cells) for cells in own))
        for part in texts_of(one):
            assert part in joined


@given(REPORTS)
def test_failed_checks_stand_above_all_sections(report):
    page = html.render(report)
    body = page[page.index("<h1>") :]
    blocks = every_block(blocks_for(Medium.HTML, report.blocks))
    failed = [c for block in blocks if isinstance(block, Checks) for c in block.checks if c.state.is_failure]
    first = body.partition("<section>")[0]
    for check in failed:
        assert f">{escaping.escape(check.line)}".replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in first


@pytest.mark.parametrize("render", [html.render, markdown.render, on_a_terminal])
def test_a_medium_leaves_out_what_others_have(render):
    report = Report("t", [Only(medium, [Paragraph(f"for {medium.value}")]) for medium in Medium])
    assert sum(f"for {medium.value}" in render(report) for medium in Medium) == 1


def test_marks_belong_to_prose_alone():
    marks = "`a` **b** *c* [d](e.md)"
    page = html.render(Report("t", [Paragraph(Prose(marks)), Paragraph(marks)]))
    assert '<p><code>a</code> <b>b</b> <em>c</em> <a href="e.md">d</a></p>' in page
    assert f"<p>{marks}</p>" in page
    assert "a b c d" in on_a_terminal(Report("t", [Paragraph(Prose(marks))]))
    text = markdown.render(Report("t", [Paragraph(Prose(marks)), Paragraph(marks)]))
    assert f"\n\n{marks}\n" in text
    assert unmarked(text).count(marks) == 2


def test_a_narrow_terminal_gets_several_tables():
    rows = [["a", "1.0 ± 0.1", "2.0 ± 0.2", "3.0 ± 0.3"]]
    report = Report("t", [table(["corner", "x", "y", "z"], rows)])
    assert on_a_terminal(report, 200).count("corner") == 1
    assert on_a_terminal(report, 50).count("corner") == 2
    assert on_a_terminal(report, 20).count("corner") == 3


def test_sections_of_a_group_can_be_hidden():
    report = Report("t", [Choice([("g", "G")]), Section("s", [Paragraph("p")], "g")])
    page = html.render(report)
    assert '<input type="checkbox" value="g" checked>' in page
    assert '<section data-group="g">' in page
    assert page.count("<script>") == 1
    assert "<script>" not in html.render(Report("t", []))


@pytest.mark.parametrize(
    "text", ["# a", "> a", "+ a", "- a", "* a", "1. a", "2) a", "*a*", "_a_", "a_b_c", "`a`", "[a](b)", "<b>", "a * b"]
)
def test_plain_text_is_no_mark_of_markdown(text):
    blocks = [block.type for block in MarkdownIt("commonmark").parse(markdown.render(Report("t", [Paragraph(text)])))]
    assert blocks.count("paragraph_open") == 1
    page = MarkdownIt("commonmark").render(markdown.render(Report("t", [Paragraph(text)])))
    assert f"<p>{escaping.escape(text, quote=False)}</p>" in page


def test_a_row_that_is_left_out_on_a_terminal_is_counted():
    report = Report("t", [Table([Column("c")], [Row(f"r{n}", [Cell("x")]) for n in range(5)], brief=3)])
    text = on_a_terminal(report)
    assert [f"r{n}" in text for n in range(5)] == [True, True, True, False, False]
    assert "and 2 more" in text
    assert html.render(report).count('scope="row"') == 5
