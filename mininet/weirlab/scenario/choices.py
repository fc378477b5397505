# SPDX-License-Identifier: Apache-2.0
"""[[runs]]: other seeds for some of the cases that [sweep] makes, and cases that are run with --all only.

    [[runs]]
    "transfer.receivers" = [4, 5, 6, 7]         # where all of these have one of these values
    "transfer.bytes" = 1_619_000
    seeds = 10

    [[runs]]
    "transfer.bytes" = [16_190_000, 51_200_000]
    only_with_all = true

Of several that fit a case, the last one that says `seeds` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import listed, shown
from weirlab.scenario.model import seeds_of
from weirlab.scenario.sections import Section, Seed, SeedCount


class RunsSection(Section):
    """`[[runs]]`, without the swept keys."""

    seeds: SeedCount | list[Seed] | None = None
    only_with_all: bool = False


@dataclass(frozen=True)
class Choice:
    """One `[[runs]]`: values by swept key, and what holds for the cases that have them."""

    values: Mapping[str, Sequence[Any]]
    seeds: tuple[int, ...] | None
    only_with_all: bool

    def fits(self, settings: Mapping[str, Any]) -> bool:
        return all(settings[key] in values for key, values in self.values.items())


def choices_of(checker: Checker, raw: Any, sweep: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """The `[[runs]]` of a file; those with mistakes are left out, and are with the checker."""
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(table, dict) for table in raw):
        checker.problem("runs", "not a list of tables; write [[runs]] above each")
        return []
    found = []
    for i, table in enumerate(raw):
        path = f"runs.{i}"
        own = {key: value for key, value in table.items() if key in RunsSection.model_fields}
        values = {key: value if isinstance(value, list) else [value] for key, value in table.items() if key not in own}
        section = checker.section(RunsSection, own, path)
        right = section is not None
        for key, wanted in values.items():
            missing = [shown(value) for value in wanted if key in sweep and value not in sweep[key]]
            if key not in sweep:
                swept = listed([f'"{name}"' for name in sweep]) if sweep else "none"
                checker.problem(f"{path}.{key}", f"not a key of [sweep]; write one of these in quotes: {swept}")
            elif missing:
                checker.problem(f"{path}.{key}", f"{missing[0]} is not in [sweep]; write values that are")
            elif not wanted:
                checker.problem(f"{path}.{key}", "an empty list; write at least one value")
            right = right and key in sweep and bool(wanted) and not missing
        if section is not None and section.seeds is None and not section.only_with_all:
            checker.problem(path, "says nothing; write seeds or only_with_all = true")
        elif section is not None and isinstance(section.seeds, list) and not _different(section.seeds):
            checker.problem(f"{path}.seeds", "an empty list or a seed twice; write different whole numbers, or a count")
        elif right and section is not None:
            seeds = None if section.seeds is None else seeds_of(section.seeds)
            found.append(Choice(values, seeds, section.only_with_all))
    return found


def _different(seeds: list[int]) -> bool:
    return bool(seeds) and len(set(seeds)) == len(seeds)


def seeds_for(choices: Sequence[Choice], settings: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The seeds that a case with these values of [sweep] has of its own; None: the scenario's."""
    found = [choice.seeds for choice in choices if choice.seeds is not None and choice.fits(settings)]
    return found[-1] if found else None


def is_only_with_all(choices: Sequence[Choice], settings: Mapping[str, Any]) -> bool:
    return any(choice.only_with_all and choice.fits(settings) for choice in choices)
