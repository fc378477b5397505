# SPDX-License-Identifier: Apache-2.0
"""A report as an HTML page that needs no other file. Colours follow the reader's scheme; print is black on white."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from weirlab.report.model import Choice, Layout, Medium, Prose, Report, State, Table, blocks_for, every_block
from weirlab.report.model import failed_checks as failed
from weirlab.report.plots import HUES, INKS

TEMPLATES = Path(__file__).parent / "templates"
PAGE_COLOURS = {
    "panel": ("#f3f4f7", "#20252b"),
    "bad": ("#b3261e", "#ff8a80"),
    "missed": ("#7a5200", "#f0c060"),
    "good": ("#1b6e3c", "#7fd6a0"),
}
MOST_EQUAL_COLUMNS = 5  # above that an interval stands below its mean
CHECK_CLASSES = {State.RUN_FAILED: "bad", State.MISSING: "bad", State.TARGET_MISSED: "missed", State.PASSED: "good"}


def render(report: Report) -> str:
    """The whole document. Equal reports give equal bytes."""
    blocks = blocks_for(Medium.HTML, report.blocks)
    return _environment().get_template("page.html.j2").render(
        report=report,
        blocks=blocks,
        failed=failed(blocks),
        has_choice=any(isinstance(block, Choice) for block in every_block(blocks)),
        schemes=[_variables(0), _variables(1)],
    )  # fmt: skip


def inline(text: str) -> Markup:
    """Text with its marks, if it may have any, as HTML."""
    found = str(escape(text))
    if isinstance(text, Prose):
        found = re.sub(r"`([^`]+)`", r"<code>\1</code>", found)
        found = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", found)
        found = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", found)
        found = re.sub(r"\[([^\]]+)\]\(([\w./-]+)\)", r'<a href="\2">\1</a>', found)
    return Markup(found)


def figure_text(text: str) -> Markup:
    """As `inline`, with the half width of an interval fainter than its mean."""
    return Markup(re.sub(r" ± (.+)", r' <span class="pm">± \1</span>', str(inline(text))))


def table_class(table: Table) -> str:
    if table.layout is Layout.EQUAL:
        return "even" if len(table.columns) <= MOST_EQUAL_COLUMNS else "many"
    return table.layout.value


def check_class(state: State) -> str:
    return CHECK_CLASSES.get(state, "dim")


def _variables(scheme: int) -> str:
    return " ".join(f"--{name}: {colours[scheme]};" for name, colours in {**HUES, **INKS, **PAGE_COLOURS}.items())


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found.filters |= {
        "inline": inline,
        "figure": figure_text,
        "table_class": table_class,
        "check_class": check_class,
        "kind": lambda block: type(block).__name__,
    }
    return found
