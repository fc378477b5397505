# SPDX-License-Identifier: Apache-2.0
"""A checked scenario: its facts, its variants' settings, and the runs that these give with its seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab.scenario.errors import ScenarioError, nearest


@dataclass(frozen=True)
class Run:
    """One concrete run. `spec` is plain data with nothing left to default: what the lab gets as JSON. `place` is where
    its variant stands, FILE:LINE."""

    scenario: str
    variant: str
    seed: int
    spec: dict[str, Any]
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class Scenario:
    """A checked scenario. `cases` maps each variant label (with sub-variant and sweep values in it) to its spec,
    `places` each variant of the file to its place there, FILE:LINE. `own_seeds` are the seeds of cases that have others
    than the scenario, `only_with_all` the cases that are run only if all are asked for. `source` is the
    publication that the scenario follows."""

    path: Path
    text: str
    topology: str
    name: str
    title: str
    description: str
    duration_s: float
    warmup_s: float
    reference_target_ms: float
    seeds: tuple[int, ...]
    cases: dict[str, dict[str, Any]]
    paper: dict[str, Any]
    places: dict[str, str]
    own_seeds: dict[str, tuple[int, ...]] = field(default_factory=dict)
    only_with_all: frozenset[str] = frozenset()
    source: str = ""

    def runs(
        self,
        only: str | Iterable[str] | None = None,
        seeds: int | Iterable[int] | None = None,
        every: bool = False,
    ) -> list[Run]:
        """The runs, ordered by seed and then by variant, so that an interrupted series is balanced.

        `only` names variants: a whole label or the part before its first comma. `seeds` is a count (1 to N) or the
        seeds themselves; None means the scenario's, and those of each case that has its own. `every`: those of
        `only_with_all` too; a whole label that `only` names is run in any case. Raises ScenarioError for an unknown
        name, for seeds that are not whole numbers, and where nothing is left to run.
        """
        labels = list(self.cases)
        if only is not None:
            wanted = [only] if isinstance(only, str) else list(only)
            bases = {label.split(",")[0] for label in labels}
            unknown = [name for name in wanted if name not in bases and name not in self.cases]
            if unknown or not wanted:
                known = sorted(bases | set(labels))
                raise ScenarioError(
                    [f"{self.path}: there is no variant {name!r}; {nearest(name, known)}" for name in unknown]
                    or [f"{self.path}: no variant chosen; {nearest('', known)}"]
                )
            labels = [label for label in labels if label in wanted or label.split(",")[0] in wanted]
            named = set(wanted)
        else:
            named = set()
        labels = [label for label in labels if every or label in named or label not in self.only_with_all]
        if not labels:
            raise ScenarioError([f"{self.path}: all that is chosen is run with --all only; give --all"])
        by_label = {label: self.own_seeds.get(label, self.seeds) for label in labels}
        if seeds is not None:
            by_label = dict.fromkeys(labels, seeds_of(seeds))
        return [
            Run(self.name, label, seed, {**self.cases[label], "seed": seed}, self.places.get(label.split(",")[0], ""))
            for seed in dict.fromkeys(seed for chosen in by_label.values() for seed in chosen)
            for label in labels
            if seed in by_label[label]
        ]


def seeds_of(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds 1 to a count, or the seeds themselves. Raises ScenarioError."""
    chosen = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) != len(chosen) or any(not isinstance(s, int) or s < 0 for s in chosen):
        raise ScenarioError([f"seeds: {seeds!r} is not valid; give a count of 1 or more, or different whole numbers"])
    return chosen
