# SPDX-License-Identifier: Apache-2.0
"""[cells]: several scenarios in one file, as a cross product.

    [scenario]
    name = "grid-{rate}-{round_trip}"
    title = "{rate} Mbit/s, {round_trip} ms"
    description = "The buffer holds {link.bottleneck.queue_limit_packets} packets."

    [cells.rate.2]                              # axis `rate`, its value 2: what the file's settings become there
    "link.bottleneck.rate_mbit_s" = 2
    [cells.rate.10]
    "link.bottleneck.rate_mbit_s" = 10
    [cells.round_trip.20]
    "link.bottleneck.delay_ms" = 9.5
    [cells.round_trip.80]
    "link.bottleneck.delay_ms" = 39.5

    [cells.except."10-80"]                      # one cell alone: its values joined by -, in the order of the axes
    "link.bottleneck.queue_limit_packets" = 1400

A list of tables, as [[paths]], can also be set whole: paths = [...]. Every combination of one value of each axis is a
scenario of its own. In the texts of [scenario] an axis' name in braces is its value, and a dotted key in braces is what
the cell has there. Of two settings of one key the later axis' counts, and that of [cells.except] before all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import nearest, shown
from weirlab.scenario.nested import found, reachable, replaced

EXCEPT = "except"
TEXTS = ("name", "title", "description")
VALUE = re.compile(r"[a-z0-9_.]+")


def cells_of(checker: Checker, raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The file's content for each of its cells, in order; the content itself if it has none."""
    if "cells" not in raw:
        return [raw]
    cells = raw["cells"]
    rest = {key: value for key, value in raw.items() if key != "cells"}
    if not _well_formed(checker, cells):
        return []
    axes = {name: values for name, values in cells.items() if name != EXCEPT}
    exceptions = cells.get(EXCEPT, {})
    made, names = [], set()
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        names.add("-".join(values))
        settings = [(f"cells.{axis}.{value}", axes[axis][value]) for axis, value in chosen.items()]
        if "-".join(values) in exceptions:
            settings.append((f"cells.{EXCEPT}.{'-'.join(values)}", exceptions["-".join(values)]))
        made.append(_texts_filled(checker, _with_settings(checker, rest, settings), chosen))
    for name in exceptions:
        if name not in names:
            checker.problem(f"cells.{EXCEPT}.{name}", f"no such cell; {nearest(name, sorted(names))}")
    scenarios = [found(cell, ["scenario", "name"]) for cell in made]
    if len({shown(name) for name in scenarios}) != len(scenarios):
        checker.problem("scenario.name", f"the same for several cells; write {_braces(axes)} in it")
    return made


def _well_formed(checker: Checker, cells: Any) -> bool:
    """Whether [cells] has axes of values, each a table."""
    if not isinstance(cells, dict) or not set(cells) - {EXCEPT}:
        checker.problem("cells", "no axis; write tables such as [cells.rate.10] with settings in them")
        return False
    well = True
    for axis, values in cells.items():
        if not isinstance(values, dict) or not values:
            checker.problem(f"cells.{axis}", f"not a table of tables; write [cells.{axis}.VALUE] with settings in it")
            well = False
            continue
        for value, settings in values.items():
            path = f"cells.{axis}.{value}"
            if not isinstance(settings, dict):
                checker.problem(path, f"not a table; write [{path}] with settings in it")
                well = False
            elif axis != EXCEPT and not VALUE.fullmatch(value):
                checker.problem(path, "not a good value; write lower-case letters, digits, . and _ (it is in a name)")
                well = False
    return well


def _with_settings(checker: Checker, raw: dict[str, Any], settings: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    for path, table in settings:
        for key, value in table.items():
            parts = key.split(".")
            whole_list = isinstance(raw.get(key), list)
            if key == "scenario.topology" or not (whole_list or reachable(raw, parts)):
                checker.problem(
                    f"{path}.{key}",
                    'not a setting of this file; write the dotted key in quotes, as "link.bottleneck.rate_mbit_s" = 10',
                )
                continue
            raw = replaced(raw, parts, value)
    return raw


def _texts_filled(checker: Checker, raw: dict[str, Any], chosen: Mapping[str, str]) -> dict[str, Any]:
    """The texts of [scenario] with what the cell has in place of each pair of braces."""
    if not isinstance(raw.get("scenario"), dict):
        return raw
    for key in TEXTS:
        text = raw["scenario"].get(key)
        if not isinstance(text, str):
            continue
        for name in dict.fromkeys(_named(text)):
            value = chosen.get(name, found(raw, name.split(".")))
            if value is None or isinstance(value, dict | list):
                checker.problem(f"scenario.{key}", f"nothing to put for {{{name}}}; write {_braces(chosen)}")
            else:
                text = text.replace(f"{{{name}}}", shown(value))
        raw = replaced(raw, ["scenario", key], text)
    return raw


def _named(text: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(r"\{([^{}]*)\}", text))


def _braces(axes: Mapping[str, Any]) -> str:
    return " and ".join(f"{{{axis}}}" for axis in axes)
