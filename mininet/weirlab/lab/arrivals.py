# SPDX-License-Identifier: Apache-2.0
"""When short transfers start and how large they are: pure, from a flow's settings and the seed."""

from __future__ import annotations

import math
import random

LEAST_SHORT_BYTES = 100


def arrivals(flow: dict, group: int, seed: int) -> list[list[tuple[int, int]]]:
    """When short transfers start, in microseconds of the run, and their bytes, for each of the group's `count` places.

    It depends on the flow's settings, its place in the scenario and the seed alone: all variants meet the same.
    """
    random_ = random.Random(f"short {group} {seed}")
    found: list[list[tuple[int, int]]] = [[] for _ in range(flow["count"])]
    at_s, number = flow["start_s"] + random_.expovariate(flow["arrivals_per_s"]), 0
    while at_s < flow["stop_s"]:
        size = flow.get("bytes") or flow["bytes_median"] * math.exp(random_.gauss(0, flow["bytes_sigma"]))
        found[number % flow["count"]].append((round(at_s * 1e6), round(min(max(size, LEAST_SHORT_BYTES), 1e9))))
        at_s, number = at_s + random_.expovariate(flow["arrivals_per_s"]), number + 1
    return found
