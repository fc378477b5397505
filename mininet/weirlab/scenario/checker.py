# SPDX-License-Identifier: Apache-2.0
"""Checks the parts of one scenario file and collects every mistake, each with its line and the right form."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from weirlab.scenario.document import key_lines
from weirlab.scenario.errors import ScenarioError, listed, nearest, shown
from weirlab.scenario.explain import explain, likely_key
from weirlab.scenario.sections import Section

T = TypeVar("T", bound=Section)


class Checker:
    """Collects the faults of one file; `raise_problems` raises if anything was.

    With `shared`, the lines after the first `own_lines` are those of that other file.
    """

    def __init__(self, path: Path, text: str, shared: Path | None = None, own_lines: int | None = None) -> None:
        self.path, self.shared, self.own_lines = path, shared, own_lines
        self.lines = key_lines(text)
        self.problems: dict[str, int] = {}  # message to line; crossed cases repeat each other's mistakes
        self.swept: set[str] = set()  # dotted keys that [sweep] sets

    def problem(self, key: str, message: str) -> None:
        """Note a mistake at a dotted key."""
        where, line = self.place(key)
        self.problems[f"{where}: {key}: {message}"] = line

    def place(self, key: str) -> tuple[str, int]:
        """FILE:LINE of a dotted key or of what it stands in, and the line in all that was read; 0 if there is none."""
        at = key
        while at and at not in self.lines:
            at = at.rpartition(".")[0]
        line = self.lines[at] if at else 0
        where = f"{self.path}:{line}" if line else f"{self.path}"
        if self.own_lines is not None and line > self.own_lines:
            where = f"{self.shared}:{line - self.own_lines}"
        return where, line

    def raise_problems(self) -> None:
        """Raises ScenarioError with all mistakes in the file's order, if there are any."""
        if self.problems:
            raise ScenarioError(sorted(self.problems, key=self.problems.__getitem__))

    def section(
        self, model: type[T], value: Any, path: str, extra: Sequence[str] = (), under: Mapping[str, str] | None = None
    ) -> T | None:
        """Check one table against its model; None if anything is wrong with it.

        `extra` are keys that are checked elsewhere. `under` says which keys stand in another table than at `path`.
        """
        under = under or {}
        if not isinstance(value, dict):
            self.problem(path, f"missing or not a table; write a table [{path}]")
            return None
        try:
            return model.model_validate(value)
        except ValidationError as errors:
            allowed = [*model.model_fields, *extra]
            unknown = [str(e["loc"][0]) for e in errors.errors() if e["type"] == "extra_forbidden"]
            meant = {likely_key(key, allowed) for key in unknown}
            seen = set()
            for error in errors.errors():
                key = str(error["loc"][0]) if error["loc"] else ""
                if error["type"] == "missing" and key in meant:
                    continue  # reported as the unknown key that was meant to be this one
                if key in seen:
                    continue  # the members of a union each complain
                seen.add(key)
                if error["type"] == "value_error":
                    own_key, colon, rest = str(error["ctx"]["error"]).partition(": ")
                    at = f"{under.get(own_key, path)}.{own_key}" if colon and own_key in allowed else path
                    self.problem(at, rest if at != path else str(error["ctx"]["error"]))
                else:
                    at = f"{under.get(key, path)}.{key}" if key else path
                    self.problem(at, explain(error, key, value.get(key), model, allowed))
            return None

    def tagged(
        self, models: Mapping[str, type[T]], tag: str, value: Any, path: str, under: Mapping[str, str] | None = None
    ) -> T | None:
        """Check a table whose `tag` key says which keys it may have; `under` as in `section`."""
        if not isinstance(value, dict):
            self.problem(path, f"not a table; write a table with {tag} in it")
            return None
        name = value.get(tag)
        if name is None:
            self.problem(path, f'{tag} is missing; write {tag} = "{next(iter(models))}" or another of {listed(models)}')
            return None
        if not isinstance(name, str) or name not in models:
            at = (under or {}).get(tag, path)
            self.problem(f"{at}.{tag}", f"unknown name {shown(name)!r}; {nearest(str(name), list(models))}")
            return None
        return self.section(models[name], value, path, under=under)

    def listed(self, model: type[T], value: Any, path: str) -> dict[int, T]:
        """A list of tables, each by its place in the file; those with mistakes are left out."""
        if value is None:
            return {}
        if not isinstance(value, list):
            self.problem(path, f"not a list of tables; write [[{path}]] above each")
            return {}
        checked = {i: self.section(model, table, f"{path}.{i}") for i, table in enumerate(value)}
        return {i: found for i, found in checked.items() if found is not None}

    def tables(self, value: Any, path: str, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        """The tables [path.NAME] of a section that has all of `names` and may have those that are `optional`."""
        if not isinstance(value, dict):
            self.problem(path, f"missing or not a table; write [{path}.{names[0]}] and so on: {', '.join(names)}")
            return {}
        for name in value:
            if name not in (*names, *optional):
                self.problem(f"{path}.{name}", f"unknown; {nearest(name, [*names, *optional])}")
        for name in names:
            if name not in value:
                self.problem(path, f"{name} is missing; write a table [{path}.{name}]")
        return {name: value[name] for name in (*names, *optional) if name in value}

    def alternatives(self, path: str, values: list[Any]) -> bool:
        """Whether these are different plain values, at least one."""
        if not values:
            self.problem(path, "an empty list; write at least one value")
        elif any(isinstance(value, dict | list) for value in values):
            self.problem(path, "a list within the list; write plain values")
        elif len({shown(value) for value in values}) != len(values):
            self.problem(path, "the same value twice; write each value once")
        else:
            return True
        return False

    def variants(
        self, value: Any, example: tuple[str, str], check: Callable[[dict[str, Any], str], dict[str, Any] | None]
    ) -> dict[str, dict[str, Any]]:
        """Label to checked options, lists in a variant crossed into sub-variants such as `paper,kp=4`.

        `check` is given a variant's options and its dotted key. `example` is a label and a setting for messages.
        """
        label, setting = example
        if not isinstance(value, dict) or not value:
            self.problem("variants", f"no variants; write at least one, as in [variants.{label}] with {setting}")
            return {}
        found: dict[str, dict[str, Any]] = {}
        for name, options in value.items():
            path = f"variants.{name}"
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
                self.problem(path, "not a good label; write lower-case letters, digits, - and _ (it names a folder)")
                continue
            if not isinstance(options, dict):
                self.problem(path, f"not a table; write [variants.{name}] with {setting}, for example")
                continue
            lists = {key: values for key, values in options.items() if isinstance(values, list)}
            if not all([self.alternatives(f"{path}.{key}", values) for key, values in lists.items()]):
                continue
            for values in itertools.product(*lists.values()):
                chosen = dict(zip(lists, values, strict=True))
                checked = check({**options, **chosen}, path)
                if checked is not None:
                    label = name + "".join(f",{key}={shown(value)}" for key, value in chosen.items())
                    if "/" in label:
                        self.problem(path, f"{label!r} can't name a folder; write a variant for each value with a /")
                    found[label] = checked
        return found
