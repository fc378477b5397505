# SPDX-License-Identifier: Apache-2.0
"""Where an evaluation stands: its runs, and what those that are done say to its plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weirlab.evaluation.plan import Plan
from weirlab.evaluation.shared.rows import RunRow, Setting
from weirlab.run.series import Series, name_of, words_of
from weirlab.scenario.model import Run
from weirlab.topologies.dumbbell import metrics as figures


@dataclass(frozen=True)
class Done:
    """A run with its figures. `judges_senders`: it compares congestion controls, not queues."""

    run: Run
    group: str
    variant: str
    setting: Setting | None
    metrics: dict[str, Any]
    judges_senders: bool = False

    @property
    def failures(self) -> list[str]:
        """The checks that it fails. Where senders are judged, the delay of other queues is no fault: their bursts make
        it, and their round trips have it."""
        return figures.failures(self.metrics | {"delay_outside_percent": None} if self.judges_senders else self.metrics)

    @property
    def words(self) -> str:
        return words_of(self.run)

    @property
    def row(self) -> RunRow:
        return RunRow(self.run.scenario, self.group, self.variant, self.run.seed, self.metrics, setting=self.setting)


@dataclass
class State(Series):
    """Where an evaluation stands."""

    plan: Plan = field(kw_only=True)
    done: dict[tuple[str, str, int], Done] = field(default_factory=dict)

    def finish(self, run: Run, found: dict[str, Any]) -> None:
        variant, setting = self.plan.variant(run.variant), self.plan.setting(run)
        group, judges_senders = self.plan.group_of(run.scenario), self.plan.controls is not None
        self.done[name_of(run)] = Done(run, group, variant, setting, found, judges_senders)
