# SPDX-License-Identifier: Apache-2.0
"""Checks a variant of a dumbbell scenario: the discipline's options, with nothing left to default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir import bands, coupled, gains, resources, settings
from weirlab import paths
from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import nearest
from weirlab.topologies.dumbbell.queues.red import red_refusal
from weirlab.topologies.dumbbell.queues.sections import DISCIPLINES, P4, Red, Weir

TUNED_BANDS = "the tuner knows one queue, not two bands; remove tune or {key}"


def queue(checker: Checker, options: dict[str, Any], path: str, common: Mapping[str, Any]) -> dict[str, Any] | None:
    """A queue discipline's options with nothing left to default."""
    checked = checker.tagged(DISCIPLINES, "qdisc", options, path)
    if checked is None:
        return None
    given = checked.model_dump(exclude_none=True)
    bottleneck = common.get("link", {}).get("bottleneck")
    if isinstance(checked, Red) and bottleneck and (refusal := red_refusal(given, bottleneck["rate_mbit_s"])):
        checker.problem(path, refusal)
    if not isinstance(checked, Weir | P4):
        return given
    if isinstance(checked, P4) and any("rate_mbit_s" in change for change in common.get("changes", ())):
        checker.problem(
            f"{path}.qdisc",
            "a P4 switch's queue has one rate for good, and [[changes]] has rate_mbit_s; remove one of them",
        )
        return None
    if isinstance(checked, Weir) and checked.coupled:
        if checked.flow_queues:
            checker.problem(f"{path}.flow_queues", "the queues of two coupled bands are fifos; remove this or coupled")
            return None
        if checked.advise:
            checker.problem(f"{path}.advise", "two coupled bands give no advice; remove this or coupled")
            return None
        if refusal := _coupled_refusal(checked.tune, bottleneck or {}, common.get("changes", ())):
            checker.problem(f"{path}.coupled", refusal)
            return None
    elif isinstance(checked, Weir) and (alone := [key for key in coupled.KEYS if key in given]):
        checker.problem(f"{path}.{alone[0]}", "is not valid without coupled = true; add that, or remove this")
        return None
    if isinstance(checked, Weir) and checked.bands:
        if checked.coupled:
            checker.problem(f"{path}.bands", "two bands of flows or two coupled ones; remove bands or coupled")
            return None
        if checked.tune:
            checker.problem(f"{path}.bands", TUNED_BANDS.format(key="bands"))
            return None
    elif isinstance(checked, Weir) and (alone := [key for key in (*bands.KEYS, "hosts") if key in given]):
        checker.problem(f"{path}.{alone[0]}", "is not valid without bands = true; add that, or remove this")
        return None
    if isinstance(checked, P4) and not _is_there(checked.program):
        checker.problem(f"{path}.program", f"no file {checked.program!r}; write a path from the repository's top")
        return None
    if checked.profile not in settings.profile_names():
        known = settings.profile_names()
        checker.problem(f"{path}.profile", f"unknown name {checked.profile!r}; {nearest(checked.profile, known)}")
        return None
    for key in ("coupled", "bands", "flow_queues"):
        if not given.get(key):
            given.pop(key, None)  # one band is the same law wherever it runs
    overrides = {key: value for key, value in given.items() if key in gains.KEYS}
    try:
        law = settings.profile(checked.profile).with_changes(overrides)
    except gains.GainError as error:
        key, _, what = str(error).partition(" = ")
        checker.problem(f"{path}.{key}", what.replace(": must be ", " is not valid; it must be "))
        return None
    if isinstance(checked, Weir) and checked.coupled and law.probability != "squared":
        checker.problem(f"{path}.probability", 'is not valid with coupled; it must be "squared"')
        return None
    return {**{key: value for key, value in given.items() if key not in gains.KEYS}, **asdict(law)}


def _coupled_refusal(tune: bool, bottleneck: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> str | None:
    """Why two coupled bands don't go with the rest of a scenario; None if they do."""
    if tune:
        return TUNED_BANDS.format(key="coupled")
    if "rates" in bottleneck:
        return "its classes have one rate for good, and the bottleneck has a rate_file; remove one of them"
    if any("rate_mbit_s" in change for change in changes):
        return "its classes have one rate for good, and [[changes]] has rate_mbit_s; remove one of them"
    return None


def _is_there(program: str) -> bool:
    """Whether the clone has that P4 program; without a clone, whether one of that name comes with the controller."""
    try:
        return (paths.clone() / program).is_file()
    except paths.NoCloneError:
        return (resources.P4_PROGRAMS / Path(program).name).is_file()
