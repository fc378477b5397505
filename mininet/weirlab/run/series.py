# SPDX-License-Identifier: Apache-2.0
"""Where a series of runs stands: wanted, cached and failed runs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.run.keys import Keys, keeping_of
from weirlab.scenario.model import Run
from weirlab.store.cache import Cache, Entry
from weirlab.store.sealed import Damaged


@dataclass
class Series(ABC):
    """Where a series of runs stands. With `fresh` nothing is taken that was finished before, and what is made now takes
    its place."""

    cache: Cache
    keys: Keys
    wanted: list[Run]
    fresh: bool = False
    failed: list[str] = field(default_factory=list)
    whole: dict[str, Entry] = field(default_factory=dict)  # by key, what has been held against its digests already

    @abstractmethod
    def finish(self, run: Run, found: dict[str, Any]) -> None:
        """Take a run's figures; its entry is in the cache."""

    def entry(self, run: Run) -> Entry | None:
        """The run's entry in the cache, whole. One that is damaged is reported in a line and set aside."""
        key = self.keys.run(run.spec)
        if key not in self.whole and not self._anew(run):
            try:
                found = self.cache.find(key)
            except Damaged as error:
                self.set_aside(run, str(error))
                found = None
            if found is not None:
                self.whole[key] = found
        return self.whole.get(key)

    def keep(self, run: Run, entry: Entry) -> Entry:
        """Put the entry of a run that has just been made, sealed in a draft, to its place."""
        key = self.keys.run(run.spec)
        if self._anew(run) and key not in self.whole:  # another name's run, if it is there
            self.cache.forget(key)
        self.whole[key] = self.cache.keep(entry, key)
        return self.whole[key]

    def _anew(self, run: Run) -> bool:
        return self.fresh or not keeping_of(run.spec).repeats(run.spec)

    def set_aside(self, run: Run, why: str) -> None:
        """Report that a run's entry is damaged, and take it out of the way."""
        key = self.keys.run(run.spec)
        self.whole.pop(key, None)
        place = self.cache.set_aside(key)
        print(f"{words_of(run)}: damaged in the cache ({why}); set aside in {place}", file=sys.stderr)

    def stored(self, run: Run, entry: Entry, key: str) -> dict[str, Any] | None:
        """Figures computed of a run's samples under that key; None if they are to be computed (again)."""
        try:
            return entry.metrics(key)
        except Damaged as error:
            print(f"{words_of(run)}: figures damaged in the cache ({error}); computed again", file=sys.stderr)
            with contextlib.suppress(OSError):  # others, such as folders, are replaced when they are stored
                entry.metrics_path(key).unlink()
            return None


def ray_option(command: argparse.ArgumentParser) -> None:
    """The option that hands runs to a Ray cluster (cluster.py)."""
    command.add_argument("--ray", metavar="ADDRESS",
                         help="run on that Ray cluster ('auto': the one this machine is in; 'local': a new one here), "
                         "whose machines have this clone, built, at the same path")  # fmt: skip


def cache_option(command: argparse.ArgumentParser) -> None:
    """The option that says where the cache is, of all commands that have one."""
    command.add_argument("--cache", type=Path, metavar="FOLDER",
                         help="where finished runs are kept (default: build/evaluation of the clone)")  # fmt: skip


def cache_folder(given: Path | None) -> Path:
    """The folder that the option names, or its default."""
    return given or paths.build() / "evaluation"


def name_of(run: Run) -> tuple[str, str, int]:
    return run.scenario, run.variant, run.seed


def words_of(run: Run) -> str:
    return f"{run.scenario}/{run.variant}/{run.seed}"
