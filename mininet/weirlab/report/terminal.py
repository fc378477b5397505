# SPDX-License-Identifier: Apache-2.0
"""Tables and checks on a terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import BAD, TARGET_MISSED, Rows, estimated, measured, paper_figure, shown
from weirlab.store.folder import Summary


def print_chunks(console: Console, corner: str, labels: Sequence[str], rows: Callable[[Sequence[str]], Any]) -> None:
    """One table, or several under each other where the columns don't fit."""
    rest = list(labels)
    while rest:
        ends = np.cumsum([2 + max(17, len(label)) for label in rest])
        fitting = max(1, int(np.count_nonzero(ends <= console.width - 30)))
        chunk, rest = rest[:fitting], rest[fitting:]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(corner, no_wrap=True)
        for label in chunk:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for row in rows(chunk):
            table.add_row(*row)
        console.print(table)


def print_checks(console: Console, lines: Sequence[str]) -> None:
    """Lines of checks, failed runs in red, missed targets in yellow."""
    for line in lines:
        style = "bold red" if line.startswith(BAD) else "bold yellow" if line.startswith(TARGET_MISSED) else ""
        console.print(escape(line), style=style)


def result_cells(rows: Rows, summary: Summary, paper: Mapping[str, Any], labels: Sequence[str]) -> Iterable[list[str]]:
    for metric, text, unit, decimals in measured(rows, summary):
        if metric is None:
            yield [f"[bold]{text}[/bold]"]
        else:
            cells = [f"  {text}" + (f", {unit}" if unit else "")]
            for label in labels:
                figure = paper_figure(paper, label, metric)
                cell = shown(estimated(summary, label, metric), decimals)
                cells.append(f"{cell}\n[dim]{escape(figure)}[/dim]" if figure else cell)
            yield cells


def ratio_cells(
    rows: Sequence[tuple[str, str]], found: Mapping[str, Mapping[str, Estimate]], labels: Sequence[str]
) -> Iterable[list[str]]:
    for metric, text in rows:
        yield [f"  {text}", *(shown(found[label][metric], 3) for label in labels)]
