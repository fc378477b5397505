# SPDX-License-Identifier: Apache-2.0
"""Where an evaluation stands: what is wanted, what is done, what failed."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import Any

from weirlab.evaluation.cache import Cache, Entry
from weirlab.evaluation.keys import Keys
from weirlab.evaluation.plan import Plan
from weirlab.evaluation.shared.rows import RunRow, Setting
from weirlab.scenario.model import Run
from weirlab.store.sealed import Damaged
from weirlab.topologies.dumbbell import metrics as figures


@dataclass(frozen=True)
class Done:
    """A run with its figures."""

    run: Run
    group: str
    variant: str
    setting: Setting | None
    metrics: dict[str, Any]

    @property
    def failures(self) -> list[str]:
        return figures.failures(self.metrics)

    @property
    def words(self) -> str:
        return words_of(self.run)

    @property
    def row(self) -> RunRow:
        return RunRow(self.run.scenario, self.group, self.variant, self.run.seed, self.metrics, setting=self.setting)


@dataclass
class State:
    """Where an evaluation stands."""

    plan: Plan
    cache: Cache
    keys: Keys
    wanted: list[Run]
    done: dict[tuple[str, str, int], Done] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    whole: dict[str, Entry] = field(default_factory=dict)  # by key, what has been held against its digests already

    def entry(self, run: Run) -> Entry | None:
        """The run's entry in the cache, whole. One that is damaged is told in a line and set aside."""
        key = self.keys.run(run.spec)
        if key not in self.whole:
            try:
                found = self.cache.find(key)
            except Damaged as error:
                self.set_aside(run, str(error))
                found = None
            if found is None:
                return None
            self.whole[key] = found
        return self.whole[key]

    def set_aside(self, run: Run, why: str) -> None:
        """Tell that a run's entry is damaged, and take it out of the way."""
        key = self.keys.run(run.spec)
        self.whole.pop(key, None)
        place = self.cache.set_aside(key)
        print(f"{words_of(run)}: damaged in the cache ({why}); set aside in {place}", file=sys.stderr)

    def stored(self, run: Run, entry: Entry, key: str) -> dict[str, Any] | None:
        """What has been computed of a run's samples under that key; None if it is to be computed (again)."""
        try:
            return entry.metrics(key)
        except Damaged as error:
            print(f"{words_of(run)}: figures damaged in the cache ({error}); computed again", file=sys.stderr)
            with contextlib.suppress(OSError):  # what can't be removed, as a folder, is replaced when they are stored
                entry.metrics_path(key).unlink()
            return None

    def finish(self, run: Run, found: dict[str, Any]) -> None:
        variant, setting = self.plan.variant(run.variant), self.plan.setting(run)
        self.done[name_of(run)] = Done(run, self.plan.group_of(run.scenario), variant, setting, found)


def name_of(run: Run) -> tuple[str, str, int]:
    return run.scenario, run.variant, run.seed


def words_of(run: Run) -> str:
    return f"{run.scenario}/{run.variant}/{run.seed}"
