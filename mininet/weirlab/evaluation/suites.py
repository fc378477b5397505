# SPDX-License-Identifier: Apache-2.0
"""Suites: what `./run evaluate --suite NAME` runs.

A file with `[[groups]]` is a matrix (plan.py). One with `matrix = "matrix.toml"` takes that matrix's scenarios, and
runs in each of them variants of its own at several settings, which make a curve:

    title = "..."
    matrix = "matrix.toml"
    scenarios = ["flows-10", "cc-bbr"]   # in place of all, unless --all is given
    seeds = 3

    [variants.pie]
    qdisc = "pie"                        # options as in a scenario's variant
    kind = "single"                      # who it is compared with: see KINDS
    setting = "target_ms"                # the parameter that makes the curve, named with its unit
    values = [2, 5, 15]
    with_ecn = { ecn = true }            # further options where the scenario's flows ask for ECN

    [variants.red]
    setting = "min_ms"
    also = { max_ms = 3 }                # other options that follow the setting, as multiples of it
    skip = ["grid-2-*/2.5"]              # SCENARIO or SCENARIO/VALUE that it can't be run at

    [variants.pie-slow]
    like = "pie"                         # all that stands there, but for what stands here
    tupdate_ms = 30

In an option that is text, `{target_ms}` stands for the setting's value.

One with `[controls.X]` compares congestion controls (`weirlab.evaluation.cc.suite`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from weirlab import paths
from weirlab.evaluation.cc.own_stack import OwnStack
from weirlab.evaluation.cc.suite import load_controls
from weirlab.evaluation.plan import ENVELOPE, Group, Plan, Point, head_of, load_plan
from weirlab.evaluation.shared.rows import UNITS, Setting
from weirlab.scenario.checker import Checker
from weirlab.scenario.document import parsed, read_text
from weirlab.scenario.errors import ScenarioError, nearest
from weirlab.scenario.model import Scenario, seeds_of
from weirlab.scenario.sections import Name, Section, SeedCount
from weirlab.topologies.dumbbell.queues.check import queue

Number = Annotated[float, Field(gt=0)]


class VariantSection(Section):
    """`[variants.NAME]` of an envelope; keys that are not here are the discipline's options."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["ours", "single", "isolating", "reference"]
    setting: str
    values: list[Number] = Field(min_length=1)
    also: dict[str, Number] = Field(default_factory=dict)
    with_ecn: dict[str, Any] = Field(default_factory=dict)
    skip: list[str] = Field(default_factory=list)


class EnvelopeSection(Section):
    """The head of an envelope's file."""

    title: str = Field(min_length=1)
    description: str = ""
    matrix: str
    scenarios: list[Name] = Field(min_length=1)
    seeds: SeedCount = 3
    variants: dict[str, Any] = Field(min_length=1)


def load_suite(
    name: str, everything: bool = False, controls: Sequence[str] | None = None, own: Sequence[OwnStack] = ()
) -> Plan:
    """The suite of that name, or of a file whose path ends in .toml; `controls` and `own` are for `load_controls`.
    `everything`: all scenarios of a suite that runs a part of them by default. Raises ScenarioError with all
    mistakes."""
    given = Path(name)
    if given.suffix != ".toml":
        given = paths.evaluation() / f"{name}.toml"
        known = [path.stem for path in sorted(paths.evaluation().glob("*.toml")) if _is_suite(path)]
        if name not in known:
            raise ScenarioError([f"--suite {name}: no such suite; {nearest(name, known)}, or give a path to a file"])
    if not given.is_file():
        raise ScenarioError([f"{given}: no such file; give a suite, as mininet/evaluation/matrix.toml"])
    raw = _raw(given)
    if everything and "matrix" not in raw and "controls" not in raw:
        raise ScenarioError([f"--all: {given.stem} has no part to run alone; leave it out"])
    if "controls" in raw:
        return load_controls(given, controls, own, everything)
    if own:
        raise ScenarioError([f"--stack: {given.stem} compares no congestion controls; write --suite cc"])
    if controls:
        raise ScenarioError([f"--variants: {given.stem} compares no congestion controls; write --only '*/NAME'"])
    if "matrix" not in raw:
        return load_plan(given)
    return _envelope(given, everything)


def _raw(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}  # load_plan tells what is wrong


def _is_suite(path: Path) -> bool:
    raw = _raw(path)
    return "groups" in raw or "matrix" in raw


def _envelope(path: Path, everything: bool) -> Plan:
    text = read_text(path)
    checker = Checker(path, text)
    head = head_of(checker, EnvelopeSection, parsed(path, text))
    matrix = load_plan(path.with_name(head.matrix))
    known = [scenario.name for group in matrix.groups for scenario in group.scenarios]
    for name in head.scenarios:
        if name not in known:
            checker.problem("scenarios", f"{name!r} is not in {head.matrix}; {nearest(name, known)}")
    given = {name: _like(checker, name, head.variants) for name in head.variants}
    variants = {
        name: found for name, value in given.items() if value is not None and (found := _variant(checker, name, value))
    }
    checker.raise_problems()
    wanted = known if everything else head.scenarios
    points: dict[str, Point] = {}
    groups = []
    for group in matrix.groups:
        scenarios = tuple(
            _scenario(checker, scenario, variants, head.seeds, points)
            for scenario in group.scenarios
            if scenario.name in wanted
        )
        if scenarios:
            groups.append(Group(group.name, group.title, group.description, scenarios))
    checker.raise_problems()
    kinds = {name: variant.kind for name, variant in variants.items()}
    return Plan(path, ENVELOPE, head.title, head.description, tuple(variants), tuple(groups), points, kinds)


def _like(checker: Checker, name: str, variants: Mapping[str, Any]) -> Any:
    """A variant with what it takes from the one that its `like` names, which has none itself; None after a mistake."""
    value = variants[name]
    if not isinstance(value, dict) or "like" not in value:
        return value
    other = variants.get(value["like"])
    if not isinstance(other, dict) or "like" in other:
        stand_alone = [key for key, known in variants.items() if isinstance(known, dict) and "like" not in known]
        checker.problem(f"variants.{name}.like", f"{value['like']!r}: {nearest(str(value['like']), stand_alone)}")
        return None
    return {**other, **{key: option for key, option in value.items() if key != "like"}}


def _variant(checker: Checker, name: str, value: Any) -> VariantSection | None:
    path = f"variants.{name}"
    found = checker.section(VariantSection, value, path)
    if found is None:
        return None
    if found.setting.rpartition("_")[2] not in UNITS:
        checker.problem(f"{path}.setting", f"no unit in {found.setting!r}; end it in _ and one of {', '.join(UNITS)}")
    if not checker.alternatives(f"{path}.values", found.values):
        return None
    return found


def _scenario(
    checker: Checker, scenario: Scenario, variants: Mapping[str, VariantSection], seeds: int, points: dict[str, Point]
) -> Scenario:
    """The scenario with these variants at each of their settings in place of its own."""
    (base, *_) = scenario.cases.values()
    common = {key: value for key, value in base.items() if key not in ("variant", "aqm")}
    marks = any(flow.get("ecn") for flow in common["flows"])
    cases: dict[str, dict[str, Any]] = {}
    for name, variant in variants.items():
        for value in variant.values:
            setting = Setting(variant.setting, value)
            if any(fnmatchcase(f"{scenario.name}/{value:g}", _whole(pattern)) for pattern in variant.skip):
                continue
            aqm = queue(checker, options_of(variant, setting, marks), f"variants.{name}", common)
            if aqm is not None:
                label = f"{name}-{setting.words.replace(' ', '')}"
                points[label] = Point(name, setting)
                cases[label] = {"variant": label, **common, "aqm": aqm}
    return replace(scenario, cases=cases, seeds=seeds_of(seeds), paper={})


def _whole(pattern: str) -> str:
    return pattern if "/" in pattern else f"{pattern}/*"


def options_of(variant: VariantSection, setting: Setting, marks: bool) -> dict[str, Any]:
    """A discipline's options at one setting, as a scenario's variant would say them."""
    options = {**(variant.model_extra or {}), **(variant.with_ecn if marks else {})}
    mark = f"{{{setting.parameter}}}"
    texts = {key: text for key, text in options.items() if isinstance(text, str) and mark in text}
    options |= {key: text.replace(mark, f"{setting.value:g}") for key, text in texts.items()}
    if not texts:
        options[setting.parameter] = _plain(setting.value)
    return options | {key: _plain(setting.value * factor) for key, factor in variant.also.items()}


def _plain(value: float) -> float | int:
    """Whole numbers as such: options that count, as target_us does, take no other."""
    return int(value) if value == int(value) else value
