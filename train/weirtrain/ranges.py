# SPDX-License-Identifier: Apache-2.0
"""Reads ranges.toml, and draws numbers from its ranges."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import exp, log
from typing import Any

Interval = tuple[float, float]
COMMON = "common"  # of the held-out kinds


@cache
def load() -> dict[str, Any]:
    """To read only: `paper`, `training`, `test` with the ranges of each test by its name, and `held_out` with the whole
    table of each kind."""
    found = tomllib.loads(files("weirtrain").joinpath("ranges.toml").read_text("utf-8"))
    common = found["held_out"].pop(COMMON)
    return found | {"held_out": {kind: common | own for kind, own in found["held_out"].items()}}


def drawn(range_: Sequence[Interval], dice: random.Random, logarithmic: bool = False) -> float:
    """A number of a range; each interval as often as it is wide, and small numbers as often as great ones if
    `logarithmic`."""
    put, back = (log, exp) if logarithmic else (float, float)
    widths = [put(most) - put(least) for least, most in range_]
    least, most = dice.choices(range_, widths if sum(widths) > 0 else None)[0]
    return min(max(back(dice.uniform(put(least), put(most))), least), most)
