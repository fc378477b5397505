# SPDX-License-Identifier: Apache-2.0
"""From an operating point to gains: the operator's own, as far as the line bears them (docs/design/tuner.md). Pure."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

from ..gains import Gains
from ..law import TAU_MAX_US

CAPACITY_BIT_S = (50e3, 1e12)
RTT_S = (10e-6, 10.0)
"""Outside these nothing is designed: a wrong measurement is more likely than such a link."""

MARGIN_KP_LEAST_PER_S = 1.0
PROMISED_LOADS = (0.25, 1.0, 4.0)
"""A margin is promised for these multiples of the measured share of drops: the next measurement may be one of them."""
MARGIN_INTEGRAL_TIME_S = 0.07
"""Ti = Kp T / Ki where a phase margin is required, at least. Faster than four round trips it rings with them."""
FULL_PACKET_BYTES = 1514
STEPS_PER_PACKET, INTERVAL_MOST_US = 0.75, 10_000
"""With two steps without a packet the law takes the queue for idle (law.md, step 5), so on slow lines steps are this
share of a packet's time at least, up to INTERVAL_MOST_US."""
PACKET_SHARE = 0.4
"""One packet more in the queue raises U by so much at most: where the target is a few packets, Kp is bounded by it."""
TARGET_PACKETS, TARGET_LEAST_US = 3, 1_000
"""The queue is not held below so many full packets' time, for the law counts in packets, nor below so many us."""
P_MOST = 0.9
"""The model is not asked about more: that is an outage or a flood."""


@dataclass(frozen=True)
class Point:
    """Operating point of a port. p: the share of packets that the law dropped or marked, 0 unknown or none."""

    capacity_bit_s: float
    rtt_s: float
    p: float
    packet_bytes: float


def problem(point: Point) -> str | None:
    """Why no gains can be designed for this point, or None."""
    for name, value, (least, most), unit in (
        ("capacity", point.capacity_bit_s, CAPACITY_BIT_S, "bit/s"),
        ("round trip", point.rtt_s, RTT_S, "s"),
        ("packets", point.packet_bytes, (20, 65_600), "bytes"),
        ("share dropped", point.p, (0.0, 1.0), ""),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            return f"{name} of {value:g} {unit} is outside {least:g} .. {most:g}".replace("  ", " ")
    return None


def held_at(gains: Gains, target_us: int) -> Gains:
    """`gains` for another target: Algorithm 1's limits m1 and m2 follow it."""
    if target_us == gains.target_us:
        return gains
    share = target_us / gains.target_us
    m2_us = min(max(round(gains.m2_us * share), 1), TAU_MAX_US - 1)
    m1_us = min(max(round(gains.m1_us * share), m2_us + 1), TAU_MAX_US)
    return dataclasses.replace(gains, target_us=target_us, m1_us=m1_us, m2_us=m2_us)


def target_least_us(capacity_bit_s: float, base: Gains) -> int:
    """The least that the law's target may be: some packets, and as much as the departure rate is taken over, for a
    chunk larger than the queue is never measured."""
    chunk_bytes = max(TARGET_PACKETS * FULL_PACKET_BYTES, 2**base.dq_shift, base.min_backlog_bytes)
    return min(max(round(chunk_bytes * 8e6 / capacity_bit_s), TARGET_LEAST_US), base.target_us)


def gains_for(point: Point, base: Gains, target_us: int | None = None) -> Gains:
    """The operator's gains `base` at `target_us` (None: theirs), as far as the line bears them: where packets take
    long, steps are longer and Kp and Kd are lower, at the same Ti = Kp T / Ki."""
    packet_us = FULL_PACKET_BYTES * 8e6 / point.capacity_bit_s
    slow_us = 100 * round(min(STEPS_PER_PACKET * packet_us, INTERVAL_MOST_US) / 100)
    period_us = max(base.interval_us, slow_us)
    steepest = max(base.z1, base.z2, base.z3, 1.0)
    kp = min(base.kp, _rounded_down(PACKET_SHARE / (packet_us / 1e6) / steepest))
    return _borne(base, kp, period_us, base.target_us if target_us is None else target_us)


@lru_cache(maxsize=4096)
def _borne(base: Gains, kp: float, period_us: int, target_us: int) -> Gains:
    """`base` with this Kp and period. Computed once: what a port measures wavers, what follows from it hardly does."""
    if base.kp > 0 and (kp, period_us) != (base.kp, base.interval_us):
        lower = kp / base.kp
        base = dataclasses.replace(
            base, interval_us=period_us, kp=kp, kd=_rounded(base.kd * lower),
            ki=_rounded(base.ki * lower * period_us / base.interval_us),
        )  # fmt: skip
    return held_at(base, target_us)


def with_margin(point: Point, gains: Gains, phase_margin_deg: float) -> Gains:
    """`gains` with Kp lowered, and Ti raised to the loop's time, until the fluid model `promises` the margin.

    While no load is known nothing can be promised: the least Kp stands then. A load for which even that is too much
    (large windows: docs/design/tuner.md) gets it too.
    """
    integral_s = max(MARGIN_INTEGRAL_TIME_S, 4 * (point.rtt_s + gains.target_us / 1e6))
    kp = gains.kp if point.p > 0 else min(gains.kp, MARGIN_KP_LEAST_PER_S)
    while True:
        tried = dataclasses.replace(gains, kp=_rounded_down(kp), ki=_rounded(kp * gains.interval_us / 1e6 / integral_s))
        if kp <= MARGIN_KP_LEAST_PER_S or promises(point, tried, phase_margin_deg):
            return tried
        kp /= 2**0.5


def promises(point: Point, gains: Gains, phase_margin_deg: float) -> bool:
    """Whether the model gives so much at the point's load, at a quarter and at four times its share of drops, in each
    row of Algorithm 1."""
    if point.p <= 0:
        return False
    for times in PROMISED_LOADS:
        for row in (1, 2, 3, 4, 5):  # the first has the greatest Z: most of what fails fails there
            told = forecast(dataclasses.replace(point, p=min(times * point.p, P_MOST)), gains, row, False)
            if not told.stable or (told.phase_margin_deg is not None and told.phase_margin_deg < phase_margin_deg):
                return False
    return True


def _rounded(value: float) -> float:
    """Three digits: what is beyond is not known of any link."""
    return float(f"{value:.3g}")


def _rounded_down(value: float) -> float:
    """`_rounded`, and never above `value`."""
    rounded = _rounded(value)
    return rounded if rounded <= value else _rounded(0.995 * value)


@dataclass(frozen=True)
class Forecast:
    """Forecast of the fluid model for gains at a point. None: unknown. flows: of Reno's kind that would give this p.

    phase_margin_deg, settling_s: of a stable loop; None without a crossover, and where it is unstable.
    """

    flows: float | None = None
    stable: bool | None = None
    phase_margin_deg: float | None = None
    gain_margin_db: float | None = None
    settling_s: float | None = None


def forecast(point: Point, gains: Gains, row: int = 5, settling: bool = True) -> Forecast:
    """By weir.model; computed once for points that differ by less than measurements do."""
    if point.p <= 0 or problem(point):
        return Forecast()
    rounded = tuple(float(f"{value:.2g}") for value in (point.capacity_bit_s, point.rtt_s, point.p))
    return _forecast(*rounded, max(100, 100 * round(point.packet_bytes / 100)), gains, row, settling)


@lru_cache(maxsize=4096)
def _forecast(
    capacity_bit_s: float, rtt_s: float, p: float, packet_bytes: float, gains: Gains, row: int, settling: bool
) -> Forecast:
    from ..model.fluid import Plant
    from ..model.margins import margins

    try:
        plant = Plant.from_probability(
            capacity_bit_s, rtt_s, min(p, P_MOST), packet_bytes, "cubic", queue_delay_s=gains.target_us / 1e6
        )
        found = margins(plant, gains, u=math.sqrt(min(p, P_MOST)), row=row, settling=settling)
    except (ValueError, ArithmeticError):  # outside what the model can tell
        return Forecast()
    return Forecast(
        plant.flows, found.stable, found.phase_margin_deg if found.stable else None, found.gain_margin_db,
        found.settling_s,
    )  # fmt: skip
