# SPDX-License-Identifier: Apache-2.0
"""Shows one run as it goes, by the files that it writes: a screen on a terminal, lines elsewhere.

The lab's time is virtual, and so is the time shown: how fast it passes depends on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from weirlab.lab.kernels import LabError, stop_all
from weirlab.metrics.samples import SamplesError
from weirlab.run.costs import Costs
from weirlab.run.progress import told
from weirlab.run.runner import RunError
from weirlab.run.running import run_here
from weirlab.run.series import Series, words_of
from weirlab.scenario.model import Run
from weirlab.topologies.registry import topology_of
from weirlab.topologies.watching import Watch

LOOK_S = 0.25
"""Interval between readings of the files, in seconds of wall time."""


class Files:
    """The files of a run that grow. They stay open, so that the last lines can be read when they are removed."""

    def __init__(self, folder: Path, patterns: tuple[str, ...]) -> None:
        self.folder, self.patterns = folder, patterns
        self.stack = ExitStack()
        self.open: dict[Path, FileIO] = {}
        self.rest: dict[Path, bytes] = {}

    def grown(self) -> Iterator[list[dict[str, Any]]]:
        """Of each file the whole lines that are new. A line that is none of JSON's objects is left out: its program was
        killed in the middle of it, and the run's end will say so if it matters."""
        for path in sorted({path for pattern in self.patterns for path in self.folder.glob(pattern)} - set(self.open)):
            try:
                file = self.stack.enter_context(FileIO(path))
            except FileNotFoundError:
                continue  # its lines have just been gathered
            self.open[path], self.rest[path] = file, b""
        for path, file in self.open.items():
            *lines, self.rest[path] = (self.rest[path] + file.read()).split(b"\n")
            yield [record for line in lines if isinstance(record := _parsed(line), dict)]

    def close(self) -> None:
        self.stack.close()


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def take(watch: Watch, grown: Iterator[list[dict[str, Any]]], tell: Callable[[str], None]) -> None:
    """Take new lines of several files in the order of their times; `tell` has what happened, and a summary for each
    second of the run that is over."""
    timed: list[tuple[float, dict[str, Any]]] = []
    for lines in grown:
        last_us = 0.0
        for line in lines:
            last_us = max(last_us, watch.time_us(line) or 0.0)
            timed.append((last_us, line))
    for _, record in sorted(timed, key=lambda each: each[0]):
        before_s = watch.now_s
        happened = watch.take(record)
        if before_s is not None and watch.now_s is not None and int(watch.now_s) > int(before_s):
            tell(watch.summary())
        if happened is not None and watch.now_s is not None:
            tell(f"{watch.now_s:5.1f} s  {happened}")


@contextmanager
def shown(watch: Watch) -> Iterator[Callable[[Iterator[list[dict[str, Any]]]], None]]:
    """Called with new lines, show them on standard error: standard output is for results alone."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda grown: take(watch, grown, told)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show(grown: Iterator[list[dict[str, Any]]]) -> None:
            take(watch, grown, lambda _: None)
            live.update(watch.screen(*console.size), refresh=True)

        yield show


def run_watched(series: Series, run: Run, costs: Costs) -> None:
    """Run one run of a topology that can show one, put it into the cache and finish it. Failures are noted in the
    series. Raises NoRoom, OSError; an interrupt ends the lab."""
    watch = topology_of(run.spec["topology"]).watch(run.spec)
    assert watch is not None  # the caller has checked that it can be watched
    folders: list[Path] = []
    files: Files | None = None
    with ThreadPoolExecutor(max_workers=1) as pool, shown(watch) as show:
        future = pool.submit(run_here, series, run, 1, folders.append)
        try:
            while not future.done():
                wait([future], timeout=LOOK_S)
                if files is None and folders:
                    files = Files(folders[0], watch.files)
                if files is not None:
                    show(files.grown())
            found, wall_s = future.result()
        except (RunError, LabError, SamplesError) as error:
            series.failed.append(f"{words_of(run)}: {error}")
            return
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
        finally:
            if files is not None:
                files.close()
    costs.learn(run, wall_s)
    series.finish(run, found)
    told(f"{words_of(run)}: {wall_s:.1f} s, {topology_of(run.spec['topology']).headline(found)}")
