# SPDX-License-Identifier: Apache-2.0
"""Progress of a series of runs, on a terminal and elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_progress(heading: str, count: int, jobs: int) -> Iterator[Callable[[str | None, int, float], None]]:
    """A heading, then a bar on a terminal, elsewhere a line for each run; called with a line, how many runs are left
    and their cost."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = Console(stderr=True)
    told(heading)
    began = time.monotonic()
    columns = (TextColumn("{task.fields[runs]}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=words, disable=not words.is_terminal) as bar:
        task = bar.add_task("runs", total=None, runs=f"0/{count}", left="")

        def tell(line: str | None, left: int, left_s: float) -> None:
            remaining_s = left_s / min(jobs, max(left, 1))
            elapsed_s = time.monotonic() - began
            bar.update(task, total=elapsed_s + remaining_s, completed=elapsed_s, runs=f"{count - left}/{count}",
                       left=f"{duration(remaining_s)} left")  # fmt: skip
            if line is not None and (not words.is_terminal or "FAILED" in line):
                said = f"  [{count - left}/{count}, {duration(remaining_s)} left] {line}"
                words.print(said, highlight=False, soft_wrap=True, markup=False)

        yield tell


def told(line: str) -> None:
    """Say a line, as it is, beside what a program is asked for."""
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
