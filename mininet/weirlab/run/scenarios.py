# SPDX-License-Identifier: Apache-2.0
"""Scenarios by name or by path, checked with the topologies that there are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from weirlab import paths
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.load import load_scenarios as load
from weirlab.scenario.model import Scenario
from weirlab.topologies.registry import TOPOLOGIES


def load_scenarios(path: str | Path) -> list[Scenario]:
    """The scenarios of a file: one, or one for each of its cells. Raises ScenarioError, OSError."""
    return load(path, {name: topology.schema for name, topology in TOPOLOGIES.items()})


def load_scenario(path: str | Path) -> Scenario:
    """The only scenario of a file. Raises ScenarioError, OSError."""
    found = load_scenarios(path)
    if len(found) != 1:
        names = ", ".join(scenario.name for scenario in found)
        raise ScenarioError([f"{path}: holds several scenarios; give one by its name: {names}"])
    return found[0]


def scenario_names() -> str:
    """The scenarios that come with the lab, but for the evaluation's."""
    return ", ".join(sorted(path.stem for path in paths.scenarios().glob("*.toml")))


def read_scenarios(name: str) -> list[Scenario]:
    """The scenarios that a name or a path means.

    A path ends in .toml. Without a file of that name, a file beside it may have it as a cell: `grid-10-160.toml` is a
    cell of `grid.toml`. A name is one of the lab's scenarios, or of the evaluation's. Raises ScenarioError.
    """
    given = Path(name)
    places = [given] if given.suffix == ".toml" else [folder / f"{name}.toml" for folder in _folders()]
    for path in places:
        if path.is_file():
            return load_scenarios(path)
    for path in places:
        if found := _cell(path.stem, path.parent.glob("*.toml")):
            return [found]
    if given.suffix == ".toml":
        raise ScenarioError([f"{name}: no such file, and no cell of a file beside it"])
    raise ScenarioError([f"no scenario {name}; give a path ending in .toml or one of: {scenario_names()}"])


def _folders() -> list[Path]:
    return [paths.scenarios(), paths.evaluation()]


def _cell(name: str, files: Iterable[Path]) -> Scenario | None:
    """The scenario of that name in the file whose cells' names begin with the file's own."""
    for path in sorted(files):
        if name.startswith(f"{path.stem}-") and "\n[cells" in path.read_text(encoding="utf-8", errors="replace"):
            found = next((scenario for scenario in load_scenarios(path) if scenario.name == name), None)
            if found is not None:
                return found
    return None
