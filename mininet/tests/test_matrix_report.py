# SPDX-License-Identifier: Apache-2.0
import re
from html.parser import HTMLParser

import generated_matrix
import pytest

from weirlab import matrix_report, matrix_text
from weirlab.lab import REPO
from weirlab.matrix import COMPARED, RunRow, analyse


@pytest.fixture(scope="module")
def matrix():
    return analyse(generated_matrix.rows(), generated_matrix.ABOUT)


def tables(text):
    """Markdown tables as lists of rows of cells."""
    found = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in t.splitlines()] for t in found]


def test_the_text_has_every_figure_to_reach_and_the_papers_beside_ours(matrix):
    text = matrix_report.results_md(matrix)
    for claim in matrix.claims:
        assert f"| {claim.variant} | {claim.text} | {claim.limit} | {claim.measured} |" in text
    (table2,) = [t for t in tables(text) if {"pie", "p4-tuned"} <= set(t[0])]
    (pies,) = [row for row in table2 if row[0] == "*Cao et al.*" and "*4.14*" in row]
    assert pies[table2[0].index("pie")] == "*4.14*"
    assert pies[table2[0].index("paper")] == "*0.62*"
    assert all(len(row) == len(t[0]) for t in tables(text) for row in t)
    assert re.search(r"^\| lost packets \| 0\.833 .*\| \*0\.644\* \|$", text, re.MULTILINE)


def test_what_is_missed_is_named(matrix):
    text = matrix_report.results_md(matrix)
    missed = [claim for claim in matrix.claims if claim.met is False]
    assert missed
    for claim in missed:
        line = next(x for x in text.splitlines() if x.startswith(f"- `{claim.variant}`, {claim.text}: "))
        assert all(case.scenario in line for case in claim.cases if case.met is False)
    assert "### Where the intervals tell neither" in text


def test_the_front_pages_table_has_each_discipline_once(matrix):
    (found,) = tables(matrix_text.summary_table(matrix))
    assert [row[0].strip("*") for row in found[2:]] == list(COMPARED)
    (pie,) = [row for row in found if row[0] == "pie"]
    assert pie[1:4] == ["1.00", "1.00", "1.000"]
    assert "easier to be on" not in matrix_text.summary_table(matrix)
    fewer = analyse([row for row in generated_matrix.rows() if (row.scenario, row.variant) != ("flows-2", "pfifo")])
    assert "In 1 scenario not all of these disciplines are there" in matrix_text.summary_table(fewer)


def test_the_page_is_whole_and_needs_nothing_else(matrix, tmp_path):
    written = matrix_report.write(matrix, tmp_path)
    assert {path.name for path in written} == {"matrix.html", "front.png"}
    page = (tmp_path / "matrix.html").read_text(encoding="utf-8")
    outside = r'(?:src|href)="(?!#)|url\((?!#)|@import|<link|https?:(?!//www\.w3\.org/)'
    assert not re.search(outside, page)
    assert "&lt;ten&gt;" in page
    assert "<ten>" not in page
    for group in generated_matrix.GROUPS:
        assert f'<section data-group="{group}">' in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))

    class Balanced(HTMLParser):
        void = frozenset({"meta", "input", "br", "img", "link"})
        stack: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag, attrs):
            if tag not in self.void:
                self.stack.append(tag)

        def handle_endtag(self, tag):
            assert self.stack.pop() == tag

    parser = Balanced()
    parser.feed(page)
    assert parser.stack == []
    assert (tmp_path / "front.png").stat().st_size < 150_000


def test_the_same_rows_give_the_same_bytes(matrix, tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    matrix_report.write(matrix, first)
    matrix_report.write(analyse(generated_matrix.rows(), generated_matrix.ABOUT), second)
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_part_of_a_matrix_has_a_report_too(tmp_path):
    """One seed of two disciplines, one of which could not be measured."""
    rows = [r for r in generated_matrix.rows(seeds=1) if r.variant in ("pfifo", "tuned")]
    rows = [
        RunRow(r.scenario, r.group, r.variant, r.seed, dict.fromkeys(r.metrics) if r.variant == "pfifo" else r.metrics)
        for r in rows
    ]
    matrix = analyse(rows)
    matrix_report.write(matrix, tmp_path)
    assert "not measured" in matrix_report.results_md(matrix)


def test_the_front_page_has_the_table_of_the_results():
    results, readme = ((REPO / name).read_text(encoding="utf-8") for name in ("docs/results.md", "README.md"))
    table = results.split("## In one table")[1].split("![")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) > 5
    assert "\n".join(rows) in readme
