#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a made-up trace of a cellular link in Mahimahi's format: mininet/scenarios/cellular.trace is its output.

    mininet/tools/cellular-trace.py > mininet/scenarios/cellular.trace

The model is Sprout's (Winstein, Sivaraman, Balakrishnan: Stochastic Forecasts Achieve High Throughput and Low Delay
over Cellular Networks, NSDI 2013, section 3.1), with its figures: packets of 1504 bytes can be sent as a Poisson
process; its rate is a Brownian motion of 200 packets a second per square root of a second, from 0 to 1000 packets a
second (12 Mbit/s); at 0 the link is out, and comes back at a rate of once a second. The rate moves every 20 ms.
"""

import argparse
import math
import random

STEP_MS = 20
NOISE_PER_SQRT_S = 200.0
MOST_PER_S = 1000.0
ESCAPES_PER_S = 1.0


def trace(seed: int, seconds: int, first_per_s: float) -> list[int]:
    """Milliseconds at which a packet can be sent."""
    draw = random.Random(seed)
    step_s = STEP_MS / 1000
    found: list[int] = []
    rate = first_per_s
    for step in range(seconds * 1000 // STEP_MS):
        for ms in range(step * STEP_MS + 1, (step + 1) * STEP_MS + 1):
            found += [ms] * poisson(draw, rate / 1000)
        if rate > 0 or draw.random() < 1 - math.exp(-ESCAPES_PER_S * step_s):
            moved = rate + draw.gauss(0, NOISE_PER_SQRT_S * math.sqrt(step_s))
            if rate == 0:
                moved = abs(moved)
            rate = max(0.0, MOST_PER_S - abs(MOST_PER_S - moved))
    return found


def poisson(draw: random.Random, mean: float) -> int:
    """Number of events of a Poisson process with this mean (Knuth's method: fit for small means)."""
    count, product, least = -1, 1.0, math.exp(-mean)
    while product >= least:
        count, product = count + 1, product * draw.random()
    return max(count, 0) if mean > 0 else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=2, help="another seed gives another trace; 2")
    parser.add_argument("--seconds", type=int, default=30, help="how long the trace is; 30")
    parser.add_argument("--first-per-s", type=float, default=500.0, help="packets a second at its start; 500")
    args = parser.parse_args()
    print("\n".join(map(str, trace(args.seed, args.seconds, args.first_per_s))))


if __name__ == "__main__":
    main()
