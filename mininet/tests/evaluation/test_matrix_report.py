# SPDX-License-Identifier: Apache-2.0
import re
from html.parser import HTMLParser

import generated_matrix
import pytest

from weirlab.evaluation.matrix.analysis import COMPARED, analyse
from weirlab.evaluation.matrix.page import report, suite_report
from weirlab.evaluation.matrix.text import jain_less_pie, lost_over_pie, summary_caption, summary_table
from weirlab.evaluation.shared.rows import DELAY, GOODPUT, RunRow
from weirlab.report import markdown

pytestmark = pytest.mark.pictures


@pytest.fixture(scope="module")
def matrix():
    return analyse(generated_matrix.rows(), generated_matrix.ABOUT)


@pytest.fixture(scope="module")
def made(matrix):
    """The files of its report."""
    return suite_report(matrix).files()


def results_md(matrix):
    return markdown.render(report(matrix))


def tables(text):
    """Markdown tables as lists of rows of cells."""
    found = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in t.splitlines()] for t in found]


def test_the_text_has_every_figure_to_reach_and_the_papers_beside_ours(matrix):
    text = results_md(matrix)
    for claim in matrix.claims:
        assert f"| {claim.variant} | {claim.text} | {claim.limit} | {claim.measured} |" in text
    assert f"`{analyse.__module__}`" in text, "the place where targets are set"
    (table2,) = [t for t in tables(text) if {"pie", "p4-tuned"} <= set(t[0])]
    (pies,) = [row for row in table2 if row[0] == "*Cao et al.*" and "*4.14*" in row]
    assert pies[table2[0].index("pie")] == "*4.14*"
    assert pies[table2[0].index("paper")] == "*0.62*"
    assert all(len(row) == len(t[0]) for t in tables(text) for row in t)
    assert re.search(r"^\| lost packets \| 0\.833 .*\| \*0\.644\* \|$", text, re.MULTILINE)


def test_what_is_missed_is_named(matrix):
    text = results_md(matrix)
    missed = [claim for claim in matrix.claims if claim.met is False]
    assert missed
    for claim in missed:
        line = next(x for x in text.splitlines() if x.startswith(f"- `{claim.variant}`, {claim.text}: "))
        assert all(case.scenario in line for case in claim.cases if case.met is False)
    assert re.search("^### .*intervals do not decide", text, re.MULTILINE)
    undecided = text.split("intervals do not decide")[1].split("\n#")[0]
    assert undecided.count("\n- ") == sum(any(case.met is None for case in claim.cases) for claim in matrix.claims)


def test_the_front_pages_table_has_each_discipline_once(matrix):
    (found,) = tables(markdown.table(summary_table(matrix)))
    assert [row[0].strip("*") for row in found[2:]] == list(COMPARED)
    (pie,) = [row for row in found if row[0] == "pie"]
    assert pie[1:7] == ["1.00", "1.00", "1.00", "1.000", "1.00", "0"]
    assert "easier to reach" not in summary_caption(matrix)
    fewer = analyse([row for row in generated_matrix.rows() if (row.scenario, row.variant) != ("flows-2", "pfifo")])
    assert "In 1 scenario not all of these disciplines were run" in summary_caption(fewer)


def test_the_page_is_whole_and_needs_nothing_else(made):
    assert set(made) == {"matrix.html", "front.png", "report.md"}
    page = made["matrix.html"]
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
    assert len(made["front.png"]) < 150_000


def test_the_page_opens_with_the_picture_and_the_table_and_ends_with_the_verdicts(matrix, made):
    page = made["matrix.html"]
    places = [page.index(text) for text in ('id="front-title"', "<h2>Over all scenarios</h2>", '<div id="groups">')]
    places += [page.index("<h2>Wins / ties"), page.index("<h2>Targets</h2>")]
    assert places == sorted(places)
    assert page.index("<table>") > places[1]
    verdicts = page[places[-1] :]
    missed = sum(claim.met is False for claim in matrix.claims)
    assert f"{missed} are missed" in verdicts
    assert missed == len(re.findall(r'<td class="on">no</td>', verdicts))
    assert "bad" not in re.findall(r'class="([^"]*)"', verdicts)
    before = verdicts.split("</section>")[0]
    assert (
        before.count("<details>")
        == sum(any(case.met is not True for case in claim.cases) for claim in matrix.claims)
        >= missed
    )


def test_the_summary_has_losses_fairness_and_the_tail(matrix):
    (found,) = tables(markdown.table(summary_table(matrix)))
    heads = found[0]
    assert [name in heads for name in ("its p99 over pie's", "packets lost over pie's", "Jain's index less pie's")]
    rows = [
        RunRow("s", "flows", variant, seed, {"loss_percent": loss, "jain_index": jain})
        for variant, losses, jains in (
            ("pie", (2, 4), (0.5, 0.75)),
            ("auto", (3, 4), (0.75, 1.0)),
            ("red", (0, 4), (1, 1)),
        )
        for seed, (loss, jain) in enumerate(zip(losses, jains, strict=True), start=1)
    ]
    rows = [RunRow(r.scenario, r.group, r.variant, r.seed, {DELAY: 9.0, GOODPUT: 9.0, **r.metrics}) for r in rows]
    small = analyse(rows)
    assert lost_over_pie(small, "auto") == {"s": 1.25}
    assert lost_over_pie(small, "red") == {}  # none in one run: no ratio
    assert jain_less_pie(small, "auto") == pytest.approx(0.25)


def test_pie_at_a_lower_target_stands_beside_the_tuner():
    rows = [
        RunRow(name, "grid", variant, 1, {DELAY: delay_ms, GOODPUT: 9.0})
        for name, delays in (("calm", (8.0, 5.0)), ("bursty", (8.0, 40.0)), ("level", (5.0, 5.1)))
        for variant, delay_ms in zip(("auto", "pie-5ms"), delays, strict=True)
    ]
    text = results_md(analyse(rows))
    assert "in 3 scenarios: `auto` is clearly better in 1 (bursty); `pie-5ms` is clearly better in 1 (calm); " in text
    assert "in 1 neither is. `pie-5ms` has queue delay 0.62 of `auto`'s in calm to 5.00 in bursty" in text


def test_the_same_rows_give_the_same_bytes(made):
    assert suite_report(analyse(generated_matrix.rows(), generated_matrix.ABOUT)).files() == made


def test_part_of_a_matrix_has_a_report_too():
    """One seed of two disciplines, one of which could not be measured."""
    rows = [r for r in generated_matrix.rows(seeds=1) if r.variant in ("pfifo", "tuned")]
    rows = [
        RunRow(r.scenario, r.group, r.variant, r.seed, dict.fromkeys(r.metrics) if r.variant == "pfifo" else r.metrics)
        for r in rows
    ]
    matrix = analyse(rows)
    assert suite_report(matrix).files()
    assert "not measured" in results_md(matrix)
