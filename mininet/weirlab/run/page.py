# SPDX-License-Identifier: Apache-2.0
"""The report of a results folder on the terminal, and as one HTML page that needs no other file.

The same results give the same page to the byte. The topology decides its contents.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from weirlab.report import html, terminal
from weirlab.store import atomic
from weirlab.store.folder import ResultsFolder, Summary, summarise
from weirlab.topologies.registry import topology_of


def print_table(folder: ResultsFolder, summary: Summary, console: Console | None = None) -> None:
    """Print a folder's tables, its comparisons, and the checks."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 145)  # a pipe has no width of its own
    terminal.render(topology_of(folder.topology).report(folder, summary, drawn=False), console)


def write_html(folder: ResultsFolder) -> Path:
    """Write report.html into a results folder and return its path. Raises ResultsError, SamplesError."""
    path = folder.path / "report.html"
    atomic.write(path, html.render(topology_of(folder.topology).report(folder, summarise(folder), drawn=True)))
    return path
