# SPDX-License-Identifier: Apache-2.0
"""Contents of a suite, and selection of its runs; the matrix: `matrix.toml` and the scenarios beside it."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from weirlab import paths
from weirlab.evaluation.shared.rows import Setting
from weirlab.run.scenarios import load_scenarios
from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import ScenarioError, nearest
from weirlab.scenario.model import Run, Scenario
from weirlab.scenario.sections import Name, Section
from weirlab.topologies.dumbbell.name import NAME as DUMBBELL

S = TypeVar("S", bound=Section)
MATRIX, ENVELOPE, CONTROLS = "matrix", "envelope", "congestion controls"  # kinds of suites


class GroupSection(Section):
    """`[[groups]]`: scenarios that ask the same question, in the order of the report.

    `variants` are those that each of them has, in place of the matrix's.
    """

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    scenarios: list[Name] = Field(min_length=1)
    variants: list[Name] | None = Field(default=None, min_length=1)


class MatrixSection(Section):
    """`matrix.toml`. `variants` are those that every scenario has whose group doesn't name others. `settings` says by
    qdisc which of its options is its setting, for readers of --json."""

    title: str = Field(min_length=1)
    description: str = ""
    variants: list[Name] = Field(min_length=1)
    settings: dict[str, str] = Field(default_factory=dict)
    groups: list[GroupSection] = Field(min_length=1)


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    description: str
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Point:
    """Meaning of a run's label in an envelope: a variant at one setting."""

    variant: str
    setting: Setting


@dataclass(frozen=True)
class Controls:
    """Variants of a suite of congestion controls: the stack of each, in the suite's order, and which are `ours`; by
    scenario its queue under test; by group and variant how many of a scenario's `seeds` are run."""

    stacks: Mapping[str, str]
    ours: tuple[str, ...] = ()
    queues: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A checked suite. An envelope has the `points` of all labels, and the `kinds` of its variants ("ours", "single",
    "isolating", "reference"); a matrix the names of options that are `settings`, by qdisc; a suite of congestion
    controls says what these are, and the patterns of its `quick` selection."""

    path: Path
    suite: str
    title: str
    description: str
    variants: tuple[str, ...]
    groups: tuple[Group, ...]
    points: Mapping[str, Point] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    controls: Controls | None = None
    quick: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.stem

    def variant(self, label: str) -> str:
        """The variant that a run's label stands for."""
        return self.points[label].variant if label in self.points else label

    def setting(self, run: Run) -> Setting | None:
        """The run's value of its discipline's own parameter; None where the suite doesn't say which that is."""
        if run.variant in self.points:
            return self.points[run.variant].setting
        parameter = self.settings.get(run.spec["aqm"]["qdisc"])
        value = run.spec["aqm"].get(parameter)
        return None if parameter is None or value is None else Setting(parameter, value)

    def runs(self, seeds: int | Iterable[int] | None = None) -> list[Run]:
        """All runs, by seed, then group, scenario and variant, so that an interrupted evaluation is balanced.

        `seeds` (1 to N, or themselves) in place of those in the scenario files.
        """
        runs = [
            run
            for group in self.groups
            for scenario in group.scenarios
            for run in scenario.runs(seeds=seeds)
            if seeds is not None or self._has(group, scenario, run)
        ]
        return sorted(runs, key=lambda run: run.seed)  # stable: within a seed the order stays

    def _has(self, group: Group, scenario: Scenario, run: Run) -> bool:
        """Whether one of a scenario's runs is this variant's, too: some have fewer seeds than others."""
        most = None if self.controls is None else self.controls.seeds.get(group.name, {}).get(run.variant)
        return most is None or run.seed in scenario.seeds[:most]

    def group_of(self, scenario: str) -> str:
        return next(group.name for group in self.groups for s in group.scenarios if s.name == scenario)

    def chosen(self, patterns: Sequence[str] | None, seeds: int | Iterable[int] | None = None) -> list[Run]:
        """The runs that any of the patterns SCENARIO[/VARIANT[/SEED]] matches, each part as in a shell; in place of a
        scenario a group can be named. None: all. Raises ScenarioError for a pattern that matches nothing."""
        runs = self.runs(seeds)
        if patterns is None:
            return runs
        wanted: set[tuple[str, str, int]] = set()
        problems = []
        for pattern in patterns:
            found = [run for run in runs if self._matches(run, pattern)]
            wanted.update((run.scenario, run.variant, run.seed) for run in found)
            if not found:
                problems.append(self._why_nothing(pattern, runs))
        if problems:
            raise ScenarioError(problems)
        return [run for run in runs if (run.scenario, run.variant, run.seed) in wanted]

    def _places(self, run: Run) -> tuple[set[str], set[str], set[str]]:
        names = {run.scenario, self.group_of(run.scenario)}
        return names, {run.variant, self.variant(run.variant)}, {str(run.seed)}

    def _matches(self, run: Run, pattern: str) -> bool:
        places = self._places(run)
        words = pattern.split("/")
        return len(words) <= len(places) and all(
            any(fnmatchcase(name, word) for name in names) for word, names in zip(words, places, strict=False)
        )

    def _why_nothing(self, pattern: str, runs: Iterable[Run]) -> str:
        words = pattern.split("/")
        if len(words) > 3 or "" in words:
            return f"--only {pattern}: not a pattern; write SCENARIO, SCENARIO/VARIANT or SCENARIO/VARIANT/SEED"
        places = [self._places(run) for run in runs]
        for i, (what, word) in enumerate(zip(("scenario or group", "variant", "seed"), words, strict=False)):
            known = list(dict.fromkeys(name for names in places for name in sorted(names[i])))
            if not any(fnmatchcase(name, word) for name in known):
                close = [] if what == "seed" else difflib.get_close_matches(word, known, n=1)
                hint = f"did you mean {close[0]}? (there are {', '.join(known)})" if close else _there_are(known)
                return f"--only {pattern}: no {what} matches {word!r}; {hint}"
        return f"--only {pattern}: these do not occur together, as a stack and flows that it has not; see --list"


def recording_qlog(plan: Plan) -> Plan:
    """The same suite with qlogs of all QUIC senders; its runs are others than those without."""

    def recorded(scenario: Scenario) -> Scenario:
        cases = {
            label: {**spec, "qlog": True} if any(flow["kind"].startswith("quic") for flow in spec["flows"]) else spec
            for label, spec in scenario.cases.items()
        }
        return replace(scenario, cases=cases)

    groups = [replace(group, scenarios=tuple(map(recorded, group.scenarios))) for group in plan.groups]
    return replace(plan, groups=tuple(groups))


def load_plan(path: Path | None = None) -> Plan:
    """Read a matrix and its scenarios, which stand in the same folder. Raises ScenarioError with all mistakes."""
    path = paths.evaluation() / "matrix.toml" if path is None else Path(path)
    if not path.is_file():
        raise ScenarioError([f"{path}: no such file; give a matrix.toml"])
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        head = MatrixSection.model_validate(raw)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError([f"{path}: not TOML: {error}; see mininet/evaluation/matrix.toml"]) from None
    except ValidationError as errors:
        raise ScenarioError([_told(path, error) for error in errors.errors()]) from None
    problems: list[str] = []
    groups = []
    names = [name for group in head.groups for name in group.scenarios]
    problems += [f"{path}: scenario {name!r} is listed twice; leave it in one group" for name in _twice(names)]
    group_names = [group.name for group in head.groups]
    problems += [f"{path}: group {name!r} is there twice; write another name" for name in _twice(group_names)]
    both = sorted(set(names) & set(group_names))
    problems += [f"{path}: {name!r} names a group and a scenario of another group; rename one" for name in both
                 if name not in next(g.scenarios for g in head.groups if g.name == name)]  # fmt: skip
    there = {file.stem for file in path.parent.glob("*.toml") if "[scenario]" in file.read_text(errors="replace")}
    idle = sorted(there - set(names))
    problems += [f"{path}: {name}.toml is beside it, but in no group; list it, or remove the file" for name in idle]
    for group in head.groups:
        scenarios: list[Scenario] = []
        for name in group.scenarios:
            try:
                scenarios += _scenarios(path, name, group.variants or head.variants, there)
            except ScenarioError as error:
                problems += error.problems
        groups.append(Group(group.name, group.title, group.description, tuple(scenarios)))
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))
    return Plan(path, MATRIX, head.title, head.description, tuple(head.variants), tuple(groups), settings=head.settings)


def _scenarios(matrix: Path, name: str, variants: Sequence[str], there: set[str]) -> list[Scenario]:
    """The scenario of a file, or those of its cells. Raises ScenarioError."""
    path = matrix.with_name(f"{name}.toml")
    if name not in there:
        close = difflib.get_close_matches(name, there, n=1)
        hint = f"did you mean {close[0]}?" if close else "write it, or remove the name"
        raise ScenarioError([f"{matrix}: no file {path.name} for scenario {name!r}; {hint}"])
    found = load_scenarios(path)
    problems = [problem for scenario in found for problem in _unfit(scenario, name, len(found) > 1, matrix, variants)]
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))
    return found


def _unfit(scenario: Scenario, stem: str, cell: bool, matrix: Path, variants: Sequence[str]) -> list[str]:
    """Why a scenario can't be part of this matrix."""
    path, problems = scenario.path, []
    if cell and not scenario.name.startswith(f"{stem}-"):
        problems.append(f"{path}: scenario.name: {scenario.name!r} must begin with the file's name; write {stem}-...")
    elif not cell and scenario.name != stem:
        problems.append(f"{path}: scenario.name: {scenario.name!r} is not the file's name; write name = {stem!r}")
    if scenario.topology != DUMBBELL:
        problems.append(f"{path}: scenario.topology: not a dumbbell; an evaluation compares queue disciplines")
    lacking = [label for label in variants if label not in scenario.cases]
    if lacking:
        problems.append(f"{path}: variants: {', '.join(lacking)} missing, which {matrix.name} says every scenario has")
    if any("," in label for label in scenario.cases):
        problems.append(f"{path}: lists and [sweep] make many cases of one scenario; write [cells], or a file for each")
    return problems


def head_of(checker: Checker, model: type[S], raw: Mapping[str, Any]) -> S:
    """The top of a suite's file, whose keys stand in no table. Raises ScenarioError."""
    unknown = [key for key in raw if key not in model.model_fields]
    for key in unknown:
        checker.problem(key, f"unknown key; {nearest(key, list(model.model_fields))}")
    head = checker.section(model, {key: value for key, value in raw.items() if key not in unknown}, "suite")
    checker.raise_problems()
    assert head is not None
    return head


def _told(path: Path, error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    what = {"missing": "missing", "extra_forbidden": "unknown key"}.get(error["type"], error["msg"])
    return f"{path}: {where}: {what}; a matrix has title, variants and [[groups]] with name, title and scenarios"


def _there_are(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}"


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
