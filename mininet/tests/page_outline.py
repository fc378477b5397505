# SPDX-License-Identifier: Apache-2.0
"""Reads an HTML page: whether its elements are balanced, and what it says."""

import io
import re
from html.parser import HTMLParser

from rich.console import Console

from weirlab.report.plots import STAND_INS
from weirlab.run.page import print_table, write_html
from weirlab.store.folder import summarise

VOID = {"meta", "br", "link", "img", "input"}


class Outline(HTMLParser):
    """Checks that elements close in order; collects identifiers, references and what would be fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.fetched, self.tags = [], [], set(), [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.note(dict(attributes))

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.note(dict(attributes))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def note(self, attributes):
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name, value in attributes.items():
            self.references |= set(re.findall(r"url\(#([^)]+)\)", value or ""))
            if name in ("href", "xlink:href") and value.startswith("#"):
                self.references.add(value[1:])
            elif name in ("href", "src", "xlink:href"):
                self.fetched.append(value)


def whole(page):
    """Check that a page's elements close, that it fetches nothing, and that what it refers to is there, once."""
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.fetched == []
    assert outline.references <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))


def printed(folder, width=180):
    """Terminal output for a results folder."""
    text = io.StringIO()
    print_table(folder, summarise(folder), Console(file=text, width=width))
    return text.getvalue()


def checked_page(folder):
    """The text of a results folder's page, whose form is checked, and how many plots it has."""
    text = write_html(folder).read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.fetched == []
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.references <= set(outline.ids)
    assert not any(stand_in in text for stand_in in STAND_INS.values())
    return text, outline.tags.count("svg")
