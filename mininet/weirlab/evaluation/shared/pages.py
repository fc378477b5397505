# SPDX-License-Identifier: Apache-2.0
"""The files of a suite's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import matplotlib as mpl
from matplotlib.figure import Figure as MplFigure

from weirlab.evaluation.shared.labels import GROUP_WORDS
from weirlab.report import html, markdown, plots
from weirlab.report.model import Choice, Report

TEXT = "report.md"


@dataclass(frozen=True)
class SuiteReport:
    """`page` is the name of the HTML file; `pictures` are files that the Markdown shows, by name, `texts` further pages
    in Markdown, `tables` CSV files beside them."""

    page: str
    report: Report
    pictures: Mapping[str, bytes]
    texts: Mapping[str, Report] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)

    def files(self, footer: str = "") -> dict[str, str | bytes]:
        """Pages, texts, pictures and tables, by name."""
        report = replace(self.report, footer=footer)
        texts = {name: markdown.render(replace(text, footer=footer)) for name, text in self.texts.items()}
        return {self.page: html.render(report), TEXT: markdown.render(report), **self.pictures, **texts, **self.tables}


def drawn(page: str, picture: str, plot: Callable[[], MplFigure], build: Callable[[], Report]) -> SuiteReport:
    """A report whose page has plots in the reader's colours; `picture` is the file of `plot` in the light scheme."""
    with mpl.rc_context({**plots.png_style(), "svg.fonttype": "path"}):
        image = plots.png(plot(), plots.PNG_DPI)
    with mpl.rc_context(plots.STYLE):
        return SuiteReport(page, build(), {picture: image})


def choice(groups: Iterable[str], titles: Mapping[str, str] = GROUP_WORDS) -> Choice:
    """Boxes for the sections of groups of scenarios."""
    return Choice([(group, titles.get(group, group)) for group in groups])
