# SPDX-License-Identifier: Apache-2.0
"""Rates of a line that varies, by kind, mean and seed. Pure.

Orders of magnitude as in weirlab/scenario/access_lines.py; no measured line.

- steps: another rate each 2 to 6 s, between a third of the greatest one and that.
- wifi: contention and rate adaptation. The rate's logarithm swings by 0.35 with a correlation time of 0.4 s, and halves
  or doubles with the modulation each 5 s on average.
- fading: a Brownian motion between 0 and twice the mean (the model of Sprout, Winstein et al. 2013, section 3.1), in
  steps of 100 ms; at 0 the line is out, and comes back at a rate of once in 0.5 s.
- lte, starlink, cellular: the lab's lines of these names, at another mean. For held-out links alone."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

from weirlab.lab.rates import mean_mbit_s, over_run, parse
from weirlab.scenario.cellular import text_of

CONSTANT = "constant"
LAB_LINES = ("lte", "starlink", "cellular")
STEP_S = 0.1
STEPS_EVERY_S, STEPS_LEAST = (2.0, 6.0), 1 / 3
WIFI_SIGMA, WIFI_CORRELATION_S, WIFI_MODULATION_S = 0.35, 0.4, 5.0
FADING_PER_SQRT_S, FADING_BACK_S = 0.4, 0.5  # of the mean; s
LEAST_MBIT_S = 0.001  # a rate that is not 0: what tc takes
Rates = tuple[tuple[float, float], ...]  # from when on in s, Mbit/s


def rates(kind: str, mean: float, duration_s: float, seed: int) -> Rates:
    """Rates of a run, with about this mean in Mbit/s over the run; empty for a constant rate. Raises ValueError for an
    unknown kind."""
    if kind == CONSTANT:
        return ()
    if kind in LAB_LINES:
        found = over_run(parse(text_of(Path(), f"{kind}:{seed}")), duration_s)
    else:
        made = {"steps": _steps, "wifi": _wifi, "fading": _fading}.get(kind)
        if made is None:
            raise ValueError(f"'{kind}' is no kind of rates, expected {CONSTANT}, steps, wifi, fading or a lab's line")
        found = made(random.Random(f"{kind} {seed}"), duration_s)
    factor = mean / max(mean_mbit_s(found, duration_s), 1e-3)
    scaled = [(round(at_s, 3), _taken(rate * factor)) for at_s, rate in found]
    apart = [first for first, then in pairwise([*scaled, (math.inf, 0.0)]) if first[0] < then[0]]
    return tuple(then for first, then in pairwise([(0.0, -1.0), *apart]) if first[1] != then[1])


def text(found: Rates, duration_s: float) -> str:
    """CSV for `rate_file`. The last row is the run's end: the lab starts a shorter file over."""
    whole = (*found, (duration_s, found[-1][1]))
    return "time_s,rate_mbit_s\n" + "".join(f"{at_s:.3f},{rate:.3f}\n" for at_s, rate in whole)


def _taken(rate: float) -> float:
    return round(rate, 3) if rate >= LEAST_MBIT_S else 0.0


def _steps(dice: random.Random, duration_s: float) -> list[tuple[float, float]]:
    found, at_s = [], 0.0
    while at_s < duration_s:
        found.append((at_s, dice.uniform(STEPS_LEAST, 1.0)))
        at_s += dice.uniform(*STEPS_EVERY_S)
    return found


def _wifi(dice: random.Random, duration_s: float) -> list[tuple[float, float]]:
    kept, found = math.exp(-STEP_S / WIFI_CORRELATION_S), []
    swing, modulation = dice.gauss(0, WIFI_SIGMA), 1.0
    for step in range(math.ceil(duration_s / STEP_S)):
        if dice.random() < STEP_S / WIFI_MODULATION_S:
            modulation = dice.choice((0.5, 1.0, 2.0))
        swing = kept * swing + dice.gauss(0, WIFI_SIGMA * math.sqrt(1 - kept**2))
        found.append((step * STEP_S, modulation * math.exp(swing)))
    return found


def _fading(dice: random.Random, duration_s: float) -> list[tuple[float, float]]:
    rate, found = 1.0, []
    for step in range(math.ceil(duration_s / STEP_S)):
        found.append((step * STEP_S, rate))
        if rate > 0 or dice.random() < 1 - math.exp(-STEP_S / FADING_BACK_S):
            moved = rate + dice.gauss(0, FADING_PER_SQRT_S * math.sqrt(STEP_S))
            rate = max(0.0, 2.0 - abs(2.0 - (abs(moved) if rate == 0 else moved)))
    return found
