# SPDX-License-Identifier: Apache-2.0
"""Scenario files: TOML in, checked scenarios out.

A file says what is measured: its topology's own sections, the variants that are compared, seeds, and the figures of a
paper to show beside ours. Lists in a variant and in [sweep] are crossed into cases of one scenario; [cells] make
several scenarios of one file (`weirlab.scenario.cells`). Every mistake in the file is found at once and reported in
one line each: file and line, key, what is wrong, what would be right.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from weirlab.scenario.cells import cells_of
from weirlab.scenario.checker import Checker
from weirlab.scenario.choices import choices_of, is_only_with_all, seeds_for
from weirlab.scenario.document import parsed, read_text
from weirlab.scenario.errors import ScenarioError, listed, nearest, shown
from weirlab.scenario.model import Scenario, seeds_of
from weirlab.scenario.nested import reachable, replaced
from weirlab.scenario.schema import COMMON, Schema
from weirlab.scenario.sections import Section

LONGEST_LABEL = 150  # it names a folder
NOT_SWEPT = tuple(f"scenario.{key}" for key in ("topology", "name", "title", "description", "source", "seeds"))


class PaperHead(Section):
    """`[paper]`: where the figures come from; `[paper.figures.VARIANT]` holds them under our metrics' names."""

    source: str = Field(min_length=1)
    short: str = Field(min_length=1)
    note: str = ""


def load_scenarios(path: str | Path, schemas: Mapping[str, Schema]) -> list[Scenario]:
    """Read and check one scenario file: one scenario, or one for each of its cells.

    `schemas` are the topologies' by name; the first is that of a file that names none. Raises ScenarioError with one
    line for each mistake; OSError if the file can't be read.
    """
    path = Path(path)
    text = read_text(path)
    raw = parsed(path, text)
    head = raw.get("scenario")
    name = head.get("variants_from") if isinstance(head, dict) else None
    if not isinstance(name, str):  # not there, or reported with the section's other mistakes
        return _loaded(Checker(path, text), text, raw, schemas)
    shared = path.parent / name
    if not shared.is_file():
        raise ScenarioError(
            [f"{path}: scenario.variants_from: no file {name!r}; write a file's name in the same folder"]
        )
    more_text = read_text(shared)
    more = parsed(shared, more_text)
    own = raw.get("variants", {})
    mistakes = [
        f"{shared}: {key}: not for a file of variants; leave only [variants.X]" for key in more if key != "variants"
    ]
    mistakes += [
        f"{path}: variants.{label}: is in {name} too; write another label, or remove it there"
        for label in more.get("variants", {})
        if isinstance(own, dict) and label in own
    ]
    if mistakes:
        raise ScenarioError(mistakes)
    text = text.rstrip("\n") + "\n"
    whole = text + more_text
    return _loaded(Checker(path, whole, shared, text.count("\n")), whole, parsed(path, whole), schemas)


def _loaded(checker: Checker, text: str, raw: dict[str, Any], schemas: Mapping[str, Schema]) -> list[Scenario]:
    schema = _chosen(checker, raw.get("scenario"), schemas)
    for key in raw:
        elsewhere = [other.name for other in schemas.values() if key in other.sections and key not in schema.sections]
        if elsewhere:
            checker.problem(key, f'not for {schema.name}; remove it, or write topology = "{elsewhere[0]}"')
        elif key not in COMMON + schema.sections:
            checker.problem(key, f"unknown section; {nearest(key, COMMON + schema.sections)}")
    cells = cells_of(checker, raw)
    found = [_scenario(checker, text, cell, schema) for cell in cells]
    checker.raise_problems()
    return [scenario for scenario in found if scenario is not None]


def _chosen(checker: Checker, head: Any, schemas: Mapping[str, Schema]) -> Schema:
    name = head.get("topology", next(iter(schemas))) if isinstance(head, dict) else next(iter(schemas))
    if isinstance(name, str) and name in schemas:
        return schemas[name]
    checker.problem("scenario.topology", f"unknown name {shown(name)!r}; {nearest(str(name), schemas)}")
    raise ScenarioError(list(checker.problems))  # its sections are unknown


def _scenario(checker: Checker, text: str, raw: dict[str, Any], schema: Schema) -> Scenario | None:
    """The scenario of a file, or of one of its cells; None if it has mistakes, which are then with the checker."""
    head: Any = checker.section(schema.head, raw.get("scenario"), "scenario")
    own_seeds: dict[str, tuple[int, ...]] = {}
    only_with_all: set[str] = set()
    cases = _cases(checker, raw, schema, own_seeds, only_with_all)
    paper = _paper(checker, raw, schema)
    if head is None:
        return None
    if isinstance(head.seeds, list) and (not head.seeds or len(set(head.seeds)) != len(head.seeds)):
        checker.problem("scenario.seeds", "an empty list or a seed twice; write different whole numbers, or a count")
        return None
    return Scenario(
        path=checker.path,
        text=text,
        topology=schema.name,
        name=head.name,
        title=head.title,
        description=head.description,
        duration_s=head.duration_s,
        warmup_s=getattr(head, "warmup_s", 0.0),
        reference_target_ms=getattr(head, "reference_target_ms", 15.0),
        seeds=seeds_of(head.seeds),
        cases=cases,
        paper=paper,
        own_seeds=own_seeds,
        only_with_all=frozenset(only_with_all),
        source=getattr(head, "source", ""),
        places={name: checker.place(f"variants.{name}")[0] for name in raw["variants"]} if cases else {},
    )


def _cases(
    checker: Checker,
    raw: Mapping[str, Any],
    schema: Schema,
    own_seeds: dict[str, tuple[int, ...]],
    only_with_all: set[str],
) -> dict[str, dict[str, Any]]:
    """Label to spec: each variant with each combination of the values in [sweep]. Keys of [[runs]] go to `own_seeds`,
    by label, and `only_with_all`."""
    sweep = _sweep(checker, raw, schema)
    choices = choices_of(checker, raw.get("runs"), sweep)
    checker.swept = set(sweep)
    cases: dict[str, dict[str, Any]] = {}
    for values in itertools.product(*sweep.values()):
        settings = dict(zip(sweep, values, strict=True))
        swept = {key: raw.get(key) for key in ("scenario", "variants", *schema.sections)}
        for key, value in settings.items():
            swept = replaced(swept, key.split("."), value)
        suffix = "".join(f",{_short(key, sweep)}={shown(value)}" for key, value in settings.items())
        for label, spec in schema.specs(checker, swept).items():
            if len(label + suffix) > LONGEST_LABEL:
                checker.problem(
                    f"variants.{label.split(',')[0]}",
                    f"{label + suffix!r} is too long to name a folder; write a shorter label or fewer lists",
                )
            if "/" in suffix:
                checker.problem("sweep", f"{label + suffix!r} can't name a folder; write values without a /")
            cases[label + suffix] = {"variant": label + suffix, **spec}
            if (seeds := seeds_for(choices, settings)) is not None:
                own_seeds[label + suffix] = seeds
            if is_only_with_all(choices, settings):
                only_with_all.add(label + suffix)
    return cases


def _sweep(checker: Checker, raw: Mapping[str, Any], schema: Schema) -> dict[str, list[Any]]:
    """[sweep]'s dotted keys with their values; keys with mistakes are left out."""
    value = raw.get("sweep", {})
    if not isinstance(value, dict):
        checker.problem("sweep", 'not a table; write [sweep] with, for example, "flows.0.count" = [2, 10]')
        return {}
    sweep = {}
    for key, values in value.items():
        parts = key.split(".")
        path = f"sweep.{key}"
        if isinstance(values, dict):
            checker.problem(path, 'a dotted key without quotes; write it in quotes, as in "flows.0.count" = [2, 10]')
        elif parts[0] == "variants":
            checker.problem(path, f"variants are swept where they are; write the list at {key} itself")
        elif parts[0] not in ("scenario", *schema.sections) or key in NOT_SWEPT:
            places = listed([*schema.sections, "scenario"])
            checker.problem(path, f"can't be swept; give a key of one of {places}, as {schema.sweep_example}")
        elif not isinstance(values, list):
            checker.problem(path, f"not a list; write [{shown(values)}] or set {key} itself")
        elif not reachable(raw, parts):
            checker.problem(path, f"the file has no {'.'.join(parts[:-1])}; give the dotted key of a section in it")
        elif checker.alternatives(path, values):
            sweep[key] = values
    return sweep


def _short(key: str, sweep: Mapping[str, Any]) -> str:
    """The last part of a swept key, or all of it where two swept keys end alike."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in sweep) == 1 else key


def _paper(checker: Checker, raw: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The paper's figures; they belong to a variant as the file names it, before lists are crossed."""
    value = raw.get("paper")
    if value is None:
        return {}
    if not isinstance(value, dict):
        checker.problem("paper", "not a table; write [paper] with a source")
        return {}
    figures = value.get("figures", {})
    given = {key: rest for key, rest in value.items() if key != "figures"}
    head = checker.section(PaperHead, given, "paper", extra=("figures",))
    if not isinstance(figures, dict):
        checker.problem("paper.figures", "not a table; write [paper.figures.VARIANT] with metrics in it")
        return {}
    for name, row in figures.items():
        path = f"paper.figures.{name}"
        if name not in (variants := raw.get("variants", {})):
            checker.problem(path, f"no such variant; {nearest(name, list(variants))}")
        if not isinstance(row, dict):
            checker.problem(path, f"not a table; write [{path}] with metrics in it")
            continue
        for metric, number in row.items():
            ours = schema.figures
            if metric not in ours:
                close = difflib.get_close_matches(metric, ours, n=1) or list(ours)[:1]
                checker.problem(f"{path}.{metric}", f"unknown metric; write one of ours with its unit, as {close[0]}")
            elif isinstance(number, bool) or not isinstance(number, int | float):
                checker.problem(f"{path}.{metric}", f"{shown(number)} is not a number; write the paper's figure")
    return {} if head is None else {**head.model_dump(), "figures": figures}
