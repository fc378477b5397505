# SPDX-License-Identifier: Apache-2.0
"""Estimates of runs' wall time, learnt from those that have finished."""

from __future__ import annotations

from weirlab.run.keys import keeping_of
from weirlab.scenario.model import Run


class Costs:
    """Wall time of runs in seconds, learnt from those that have finished."""

    def __init__(self) -> None:
        self.seen: dict[tuple, list[float]] = {}  # count, seconds, seconds expected at first

    @staticmethod
    def at_first_s(run: Run) -> float:
        return keeping_of(run.spec).expected_s(run.spec)

    @staticmethod
    def kinds(run: Run) -> list[tuple]:
        """From the closest relatives to all runs."""
        like = keeping_of(run.spec).like(run.spec)
        return [(run.scenario, run.variant), (run.scenario, *like), (run.scenario,), like, ()]

    def learn(self, run: Run, wall_s: float) -> None:
        for kind in self.kinds(run):
            sums = self.seen.setdefault(kind, [0.0, 0.0])
            sums[0] += wall_s
            sums[1] += self.at_first_s(run)

    def expected_s(self, run: Run) -> float:
        for kind in self.kinds(run):
            if kind in self.seen:
                took_s, expected_s = self.seen[kind]
                return self.at_first_s(run) * took_s / expected_s
        return self.at_first_s(run)
