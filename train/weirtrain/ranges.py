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
