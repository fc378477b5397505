# SPDX-License-Identifier: Apache-2.0
"""Synthetic traces of a cellular link in Mahimahi's format: `rate_file = "cellular:SEED"`.

The model is Sprout's (Winstein, Sivaraman, Balakrishnan: Stochastic Forecasts Achieve High Throughput and Low Delay
over Cellular Networks, NSDI 2013, section 3.1), with its figures: packets of 1504 bytes can be sent as a Poisson
process; its rate is a Brownian motion of 200 packets a second per square root of a second, from 0 to 1000 packets a
second (12 Mbit/s); at 0 the link is out, and comes back at a rate of once a second. The rate moves every 20 ms.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

from weirlab.scenario.access_lines import docsis, lte, starlink, wifi

STEP_MS = 20
NOISE_PER_SQRT_S = 200.0
MOST_PER_S = 1000.0
ESCAPES_PER_S = 1.0
FIRST_PER_S = 500.0
SECONDS = 30
MOST_SEED_DIGITS = 18


def text_of(folder: Path, name: str) -> str:
    """Text of a `rate_file`: a file, by its path from `folder`, or a synthetic one, as `cellular:SEED`. Raises OSError
    and ValueError, of which UnicodeDecodeError is one."""
    kind, colon, seed = name.partition(":")
    if not colon or kind not in SYNTHETIC:
        return (folder / name).read_text(encoding="utf-8")
    if not (seed.isascii() and seed.isdigit() and len(seed) <= MOST_SEED_DIGITS):
        raise ValueError(f"the seed is {seed!r}, not a whole number")
    return SYNTHETIC[kind](int(seed))


def trace(seed: int) -> list[int]:
    """Milliseconds at which a packet can be sent, over SECONDS."""
    draw = random.Random(seed)
    step_s = STEP_MS / 1000
    found: list[int] = []
    rate = FIRST_PER_S
    for step in range(SECONDS * 1000 // STEP_MS):
        for ms in range(step * STEP_MS + 1, (step + 1) * STEP_MS + 1):
            found += [ms] * _poisson(draw, rate / 1000)
        if rate > 0 or draw.random() < 1 - math.exp(-ESCAPES_PER_S * step_s):
            moved = rate + draw.gauss(0, NOISE_PER_SQRT_S * math.sqrt(step_s))
            if rate == 0:
                moved = abs(moved)
            rate = max(0.0, MOST_PER_S - abs(MOST_PER_S - moved))
    return found


def _poisson(draw: random.Random, mean: float) -> int:
    """Draw from the Poisson distribution (Knuth's method: fit for small means)."""
    count, product, least = -1, 1.0, math.exp(-mean)
    while product >= least:
        count, product = count + 1, product * draw.random()
    return max(count, 0) if mean > 0 else 0


def _mahimahi(seed: int) -> str:
    return "".join(f"{ms}\n" for ms in trace(seed))


SYNTHETIC: dict[str, Callable[[int], str]] = {
    "cellular": _mahimahi,
    "docsis": docsis,
    "lte": lte,
    "starlink": starlink,
    "wifi": wifi,
}
