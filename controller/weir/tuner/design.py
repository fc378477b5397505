# SPDX-License-Identifier: Apache-2.0
"""From an operating point to gains: pure, a formula with few constants, each with its reason (docs/design/tuner.md)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

from ..gains import Gains

CAPACITY_BIT_S = (50e3, 1e12)
RTT_S = (10e-6, 10.0)
"""Outside these nothing is designed: a measurement gone wrong is more likely than such a link."""

KP_PER_S = 160.0
"""U rises by 1 for 6 ms of error. More swings between nothing and all, less lets TCP's sawtooth through."""
KP_MOST_PER_S = 400.0
MARGIN_KP_LEAST_PER_S = 1.0
PROMISED_LOADS = (0.25, 1.0, 4.0)
"""A margin is promised for these multiples of the measured share of drops: the next measurement may be one of them."""
INTEGRAL_TIME_S, INTEGRAL_ROUND_TRIPS, INTEGRAL_TIME_MOST_S = 0.07, 2.0, 0.5
"""Ti = Kp T / Ki. Faster than two round trips, queue and all, it rings with them; slower, noise cut off at U = 0 pulls
the mean below the target."""
FEW_P, FEW_MOST = 0.0064, 3.0
"""Below this share of drops windows are large, drops rare, and each step of U lasts: Ti grows by FEW_P / p, Kp by its
root, up to FEW_MOST."""
GATE, GATE_SLOPE, GATE_MOST = 0.8, 0.1, 1.0
"""Nothing is dropped below this share of the target: U is high just after a peak, and must not empty the queue. More by
the slope where few flows of long round trips make the queue swing by more than the target (`swing`), and where the
line is seen to run idle. Never more than the target: above it the integral would raise U while nothing may be dropped,
and a queue that no controller watches any more would be one with a limit and no law."""
FLOWS_UNKNOWN = 10.0
PACKETS_PER_STEP, STEP_US, STEPS_PER_PACKET = 4, 5_000, 0.75
"""A step for so many packet times, up to STEP_US: a queue of a few packets that is seen to less often swings more. But
with two steps without a packet the law takes the queue for idle (law.md, step 5)."""
INTERVAL_US = (2_000, 10_000)
PACKET_SHARE = 0.4
"""One packet more in the queue raises U by so much at most: where the target is a few packets, Kp is bounded by it."""
P_MOST = 0.9
"""More is an outage or a flood: a law whose gains went to 0 with what is left would never let go again."""
THINNING = 1.0
"""Of what a drop takes from the arrivals at once, a step of the steepest row takes back so much: up to 1 it comes to
rest in a step, above it swings over, from 2 on it grows."""
RATE_OVER_S = 0.05
"""The departure rate is averaged over so long: packets fill what it is taken over unevenly, and tau wavers with it."""
RATE_SHARE = 0.5
"""The departure rate is taken over so much of the queue at its target: more would not be seen in it (law.md)."""
TARGET_PACKETS, TARGET_LEAST_US = 3, 1_000
"""The queue is not held below so many full packets' time, for the law counts in packets, nor below so many us."""
NOT_COUNTED, LEFT_PACKETS = 0.25, 1.4
"""The packet that is being sent is in no backlog: where its time is more of the target than this, it is taken off, down
to so many packets' time."""
DQ_SHIFT, DQ_WEIGHT_SHIFT = (11, 16), (1, 5)
LEAST_BACKLOG_BYTES = 3028  # two full Ethernet frames, RFC 8033 4.1


@dataclass(frozen=True)
class Point:
    """What is known of a port. p: the share of packets that the law dropped or marked, 0 unknown or none."""

    capacity_bit_s: float
    rtt_s: float
    p: float
    packet_bytes: float


@dataclass(frozen=True)
class Choice:
    """What experience with a port has made of the formula: Kp, the gate and Ti are multiplied by these. target_us: what
    the law is told to hold, None where it is the operator's own."""

    kp_factor: float = 1.0
    gate_factor: float = 1.0
    integral_time_factor: float = 1.0
    target_us: int | None = None


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


def interval_us(point: Point) -> int:
    packet_us = point.packet_bytes * 8e6 / point.capacity_bit_s
    wanted_us = min(PACKETS_PER_STEP * packet_us, max(STEP_US, STEPS_PER_PACKET * packet_us))
    return 100 * round(min(max(wanted_us, INTERVAL_US[0]), INTERVAL_US[1]) / 100)


def kp_bound_per_s(point: Point, period_us: int, base: Gains) -> float:
    """The highest Kp at which what a step changes at once stays below THINNING, and a packet's share PACKET_SHARE,
    in each row of Algorithm 1, whose Z multiplies it. Of p, P_MOST at most.

    A drop takes its packet from the arrivals in the same moment: d(tau)/dt falls by 2 U dU / (1 - p)
    (docs/design/model.md),
    so one step answers itself by 2 U Kp T / (1 - p). Steps are taken by packets: T is the time between two of them at
    least.
    """
    packet_s = point.packet_bytes * 8 / point.capacity_bit_s
    u = math.sqrt(min(point.p, P_MOST))
    thinning = THINNING * (1 - u * u) / (2 * u * max(period_us / 1e6, packet_s)) if u > 0 else math.inf
    return min(min(thinning, PACKET_SHARE / packet_s) / max(base.z1, base.z2, base.z3, 1.0), KP_MOST_PER_S)


def swing(point: Point, target_us: int) -> float:
    """How far TCP's sawteeth move the queue, in targets: a round trip over the root of the number of flows.

    Flows from the share that must go, by a window of 1.3 / sqrt(p) (CUBIC's Reno-friendly one, RFC 9438 4.3).
    """
    rtt_s = point.rtt_s + target_us / 1e6
    flows = FLOWS_UNKNOWN
    if point.p > 0:
        flows = rtt_s * point.capacity_bit_s / 8 / point.packet_bytes * math.sqrt(point.p) / 1.3
    return rtt_s / (target_us / 1e6) / math.sqrt(max(flows, 1.0))


def gate(point: Point, target_us: int, choice: Choice) -> float:
    """The share of the target below which nothing is dropped."""
    wanted = GATE + GATE_SLOPE * max(0.0, swing(point, target_us) - 1.2)
    return min(max(wanted * choice.gate_factor, GATE), GATE_MOST)


def targets_us(capacity_bit_s: float, target_us: int) -> tuple[int, int]:
    """The least and the most that the law is told to hold, so that no packet waits longer than `target_us`, the
    operator's, without need: its own time on the line is not in the backlog that the law sees."""
    packet_us = 1514 * 8e6 / capacity_bit_s
    most_us = float(target_us)
    if packet_us > NOT_COUNTED * target_us:  # and not to nothing, if one tuner after the other takes it off
        most_us = max(target_us - packet_us, min(most_us, LEFT_PACKETS * packet_us))
    least_us = min(max(TARGET_PACKETS * packet_us, TARGET_LEAST_US), most_us)
    return max(round(least_us), 1), max(round(most_us), 1)


def gains_for(point: Point, base: Gains, choice: Choice = Choice()) -> Gains:
    """The gains for `point`. From `base`: the target where `choice` has none, the bound for ECN, Z, and what becomes of
    an idle queue."""
    target_us = base.target_us if choice.target_us is None else choice.target_us
    period_us = interval_us(point)
    few = min(max(FEW_P / point.p, 1.0), FEW_MOST) if point.p > 0 else 1.0
    kp = min(KP_PER_S * math.sqrt(few) * choice.kp_factor, kp_bound_per_s(point, period_us, base))
    round_trips_s = INTEGRAL_ROUND_TRIPS * (point.rtt_s + target_us / 1e6)
    integral_s = min(max(INTEGRAL_TIME_S * few, round_trips_s), INTEGRAL_TIME_MOST_S) * choice.integral_time_factor
    standing_bytes = target_us / 1e6 * point.capacity_bit_s / 8
    shift = min(max(int(math.log2(max(RATE_SHARE * standing_bytes, 1))), DQ_SHIFT[0]), DQ_SHIFT[1])
    chunks = RATE_OVER_S * point.capacity_bit_s / 8 / 2**shift
    weight_shift = min(max(round(math.log2(max(chunks, 1))), DQ_WEIGHT_SHIFT[0]), DQ_WEIGHT_SHIFT[1])
    return dataclasses.replace(
        base,
        target_us=target_us,
        interval_us=period_us,
        kp=_rounded_down(kp),
        ki=_rounded(kp * period_us / 1e6 / integral_s),
        kd=0.0,
        m1_us=max(target_us * 4 // 3, 2),
        m2_us=max(target_us * 2 // 3, 1),
        integral="keep",
        probability="squared",
        burst_us=0,
        idle_halflife_us=base.idle_halflife_us or 100_000,
        min_backlog_bytes=base.min_backlog_bytes or LEAST_BACKLOG_BYTES,
        min_delay_share=_rounded(gate(point, target_us, choice)),
        dq_shift=shift,
        dq_weight_shift=weight_shift,
        schedule_shift=0,
        schedule_weight_shift=0,
    )


def with_margin(point: Point, gains: Gains, phase_margin_deg: float) -> Gains:
    """`gains` with Kp lowered, and Ti raised to the loop's time, until the fluid model `promises` the margin.

    While no load is known nothing can be promised: the least Kp stands then. A load for which even that is too much
    (large windows: docs/design/tuner.md) gets it too.
    """
    integral_s = max(INTEGRAL_TIME_S, 4 * (point.rtt_s + gains.target_us / 1e6))
    kp = gains.kp if point.p > 0 else min(gains.kp, MARGIN_KP_LEAST_PER_S)
    while True:
        tried = dataclasses.replace(
            gains, kp=_rounded_down(kp), ki=_rounded(kp * gains.interval_us / 1e6 / integral_s), schedule_shift=0
        )
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
    """What the fluid model says of gains at a point. None: unknown. flows: of Reno's kind that would give this p.

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
