# SPDX-License-Identifier: Apache-2.0
"""Synthetic lines of varying rate as CSV for `rate_file`: `docsis:SEED`, `lte:SEED`, `starlink:SEED`, `wifi:SEED`.

The orders of magnitude are those of publications; the numbers are ours, and no measured line.

- docsis: an upstream of 20 Mbit/s on a channel of 60 Mbit/s that is shared with 24 others. Each is idle for 12 s and
  sends for 3 s on average; all that send have equal shares.
- lte: around 10 Mbit/s the rate's logarithm swings by 0.5 with a correlation time of 2 s, in steps of 50 ms. A handover
  comes every 20 s on average: no rate for 30 to 100 ms, then another cell's. `cellular:SEED` is Sprout's model.
- starlink: a terminal is assigned anew every 15 s (Mohan et al., WWW 2024). Each interval has a mean drawn
  around 14 Mbit/s; within it the rate swings by 12 % with a correlation time of 1 s. At half of the changes the line is
  out for 50 to 150 ms.
- wifi: a station of IEEE 802.11n, one stream of 20 MHz. Its rate adaptation moves by one of the standard's eight rates
  (MCS 0 to 7) three times a second on average, more often up than down, and drops to the two lowest ones every 6 s on
  average, as the signal fades. Two other stations, idle for 4 s and sending for 1 s on average, take equal shares of
  the air. All rates are scaled so that the mean of WIFI_SECONDS is WIFI_MBIT_S.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise

SECONDS = 120
STEP_MS = 100
DOCSIS_MBIT_S, DOCSIS_CHANNEL_MBIT_S, DOCSIS_OTHERS = 20.0, 60.0, 24
DOCSIS_IDLE_S, DOCSIS_SENDS_S = 12.0, 3.0
LTE_STEP_MS, LTE_MBIT_S, LTE_SIGMA, LTE_CORRELATION_S = 50, 10.0, 0.5, 2.0
LTE_LEAST_MBIT_S, LTE_MOST_MBIT_S = 1.0, 40.0
LTE_CELL_S, LTE_OUT_MS = 20.0, (30, 100)
STARLINK_EVERY_MS, STARLINK_MBIT_S, STARLINK_SIGMA = 15_000, 14.0, 0.4
STARLINK_LEAST_MBIT_S, STARLINK_MOST_MBIT_S = 3.0, 30.0
STARLINK_SWING, STARLINK_CORRELATION_S = 0.12, 1.0
STARLINK_OUT_MS = (50, 150)
WIFI_SECONDS, WIFI_STEP_MS, WIFI_MBIT_S = 30, 50, 22.0
WIFI_RATES_MBIT_S = (6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0)  # IEEE 802.11n, table 20-30, guard interval 800 ns
WIFI_MOVES_PER_S, WIFI_UP, WIFI_FADES_PER_S = 3.0, 0.65, 1 / 6
WIFI_OTHERS, WIFI_IDLE_S, WIFI_SENDS_S = 2, 4.0, 1.0

Rates = list[tuple[int, float]]  # from when on in ms, Mbit/s


def docsis(seed: int) -> str:
    """CSV of a cable upstream."""
    draw = random.Random(f"docsis {seed}")
    changes: list[tuple[float, int]] = []
    for _ in range(DOCSIS_OTHERS):
        sends = draw.random() < DOCSIS_SENDS_S / (DOCSIS_IDLE_S + DOCSIS_SENDS_S)
        at_s = 0.0
        while at_s < SECONDS:
            if sends:
                changes.append((at_s, 1))
            at_s += draw.expovariate(1 / (DOCSIS_SENDS_S if sends else DOCSIS_IDLE_S))
            if sends:
                changes.append((at_s, -1))
            sends = not sends
    rates = Rates()
    for begin_ms in range(0, SECONDS * 1000, STEP_MS):
        active = sum(change for at_s, change in changes if at_s * 1000 <= begin_ms)
        rates.append((begin_ms, min(DOCSIS_MBIT_S, DOCSIS_CHANNEL_MBIT_S / (1 + active))))
    return _csv(rates)


def lte(seed: int) -> str:
    """CSV of a moving terminal's rate."""
    draw = random.Random(f"lte {seed}")
    kept = math.exp(-LTE_STEP_MS / 1000 / LTE_CORRELATION_S)
    rates, swing, out_until_ms = Rates(), draw.gauss(0, LTE_SIGMA), 0
    for begin_ms in range(0, SECONDS * 1000, LTE_STEP_MS):
        if draw.random() < LTE_STEP_MS / 1000 / LTE_CELL_S:
            out_until_ms = begin_ms + draw.randint(*LTE_OUT_MS)
            swing = draw.gauss(0, LTE_SIGMA)
        swing = kept * swing + draw.gauss(0, LTE_SIGMA * math.sqrt(1 - kept**2))
        rate = min(max(LTE_MBIT_S * math.exp(swing), LTE_LEAST_MBIT_S), LTE_MOST_MBIT_S)
        rates.append((begin_ms, 0.0 if begin_ms < out_until_ms else rate))
    return _csv(rates)


def starlink(seed: int) -> str:
    """CSV of a satellite uplink."""
    draw = random.Random(f"starlink {seed}")
    first_ms = draw.randrange(0, STARLINK_EVERY_MS, STEP_MS)
    kept = math.exp(-STEP_MS / 1000 / STARLINK_CORRELATION_S)
    rates, swing, mean = Rates(), 0.0, _starlink_mean(draw)
    for begin_ms in range(0, SECONDS * 1000, STEP_MS):
        out_ms = 0
        if begin_ms and begin_ms % STARLINK_EVERY_MS == first_ms:
            mean = _starlink_mean(draw)
            out_ms = draw.choice((0, draw.randint(*STARLINK_OUT_MS)))
        swing = kept * swing + draw.gauss(0, STARLINK_SWING * math.sqrt(1 - kept**2))
        rate = min(max(mean * (1 + swing), STARLINK_LEAST_MBIT_S), STARLINK_MOST_MBIT_S)
        rates += [(begin_ms, 0.0), (begin_ms + out_ms, rate)] if out_ms else [(begin_ms, rate)]
    in_order = [first for first, then in pairwise(rates) if first[0] < then[0]]
    return _csv([*in_order, rates[-1]])


def wifi(seed: int) -> str:
    """CSV of a Wi-Fi station's downlink."""
    draw = random.Random(f"wifi {seed}")
    step_s = WIFI_STEP_MS / 1000
    sends = [draw.random() < WIFI_SENDS_S / (WIFI_IDLE_S + WIFI_SENDS_S) for _ in range(WIFI_OTHERS)]
    place, rates = len(WIFI_RATES_MBIT_S) - 2, Rates()
    for begin_ms in range(0, WIFI_SECONDS * 1000, WIFI_STEP_MS):
        if draw.random() < WIFI_FADES_PER_S * step_s:
            place = draw.randint(0, 1)
        elif draw.random() < WIFI_MOVES_PER_S * step_s:
            place += 1 if draw.random() < WIFI_UP else -1
        place = min(max(place, 0), len(WIFI_RATES_MBIT_S) - 1)
        for other, on in enumerate(sends):
            if draw.random() < step_s / (WIFI_SENDS_S if on else WIFI_IDLE_S):
                sends[other] = not on
        rates.append((begin_ms, WIFI_RATES_MBIT_S[place] / (1 + sum(sends))))
    mean = math.fsum(rate for _, rate in rates) / len(rates)
    return _csv([(at_ms, rate * WIFI_MBIT_S / mean) for at_ms, rate in rates])


def _starlink_mean(draw: random.Random) -> float:
    return STARLINK_MBIT_S * math.exp(draw.gauss(0, STARLINK_SIGMA))


def _csv(rates: Rates) -> str:
    return "time_ms,rate_mbit_s\n" + "".join(f"{at_ms},{rate:.3f}\n" for at_ms, rate in rates)
