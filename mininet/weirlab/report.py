# SPDX-License-Identifier: Apache-2.0
"""The report of a results folder: one table on the terminal, and one HTML page that needs nothing but itself.

The same results give the same page to the byte. What is in it depends on the topology: `report_dumbbell`,
`report_access`.
"""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.markup import escape

from weirlab import atomic, report_access, report_dumbbell
from weirlab.results import ResultsFolder, Summary, summarise

REPORTS: dict[str, ModuleType] = {"dumbbell": report_dumbbell, "access": report_access}


def headline(topology: str, metrics: Mapping[str, Any]) -> str:
    """A run's figures in a few words."""
    return REPORTS[topology].headline(metrics)


def print_table(folder: ResultsFolder, summary: Summary, console: Console | None = None) -> None:
    """Print a folder's table, its comparisons, and the checks."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 145)  # a pipe has no width of its own
    console.print(f"\n[bold]{escape(folder.meta['scenario']['title'])}[/bold]")
    REPORTS[folder.topology].print_table(folder, summary, console)


def write_html(folder: ResultsFolder) -> Path:
    """Write report.html into a results folder and return its path. Raises ResultsError, SamplesError."""
    report = REPORTS[folder.topology]
    summary = summarise(folder)
    variants = report.read_variants(folder, summary)
    path = folder.path / "report.html"
    atomic.write(path, report.page(folder.meta, summary, variants))
    return path
