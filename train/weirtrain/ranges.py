# SPDX-License-Identifier: Apache-2.0
"""Reads ranges.toml: what is trained in and what is tested in."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

Interval = tuple[float, float]


def load() -> dict[str, Any]:
    """`paper`, `training`, and `test` with the ranges of each test by its name."""
    return tomllib.loads(files("weirtrain").joinpath("ranges.toml").read_text("utf-8"))


def apart(one: list[Interval], other: list[Interval]) -> bool:
    """Whether two ranges have no number in common."""
    return all(a[1] < b[0] or b[1] < a[0] for a in one for b in other)


def keeps_apart(training: dict[str, Any], test: dict[str, Any]) -> list[str]:
    """The names of the ranges that keep a test out of the training."""
    return [name for name, range_ in test.items() if name in training and apart(training[name], range_)]
