# SPDX-License-Identifier: Apache-2.0
"""TCP flows at one bottleneck as a fluid, and its linearisation (Misra 2000, Hollot TAC'02, Cao Eq. 6-16).

    dW/dt = g(W(t), R(t)) - b W(t) W(t-R)/R(t-R) p(t-R)        window of one flow, packets
    dq/dt = N W(t)/R(t) (1 - p(t)) - C                         queue, packets; R = rtt_s + q/C

`g` is a window's growth in a second and `b` the part of it that a loss takes. Reno: g = 1/R, b = 1/2, which is Cao Eq.
8, and with packets marked rather than dropped, so without 1 - p, Eq. 9. A drop thins the queue at once, a round trip
before the sender yields: at a few percent that is a fourth of the loop's gain near its crossover, and with half of all
packets dropped most of it.

CUBIC (RFC 9438): b = 0.3, and g the larger of its Reno-friendly growth 0.529/R and of the mean growth 0.3 (k
W^(1/2))^(4/3) that gives RFC 9438's response function W = k (R/p)^(3/4); its window's memory of the last loss is not in
it. BBR reacts to neither delay nor single losses in this manner and is not modelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CUBIC_DECREASE = 0.3
CUBIC_FRIENDLY_INCREASE = 3 * CUBIC_DECREASE / (2 - CUBIC_DECREASE)
"""Packets a round trip, RFC 9438 4.3."""
CUBIC_RESPONSE = (0.4 * (4 - CUBIC_DECREASE) / (4 * CUBIC_DECREASE)) ** 0.25
"""k of RFC 9438 5.1's response function, 1.054, in packets (per second)^(3/4)."""
CCS = ("reno", "cubic")
FORMS = ("exact", "hollot", "cao")


@dataclass(frozen=True)
class OperatingPoint:
    """Where the flows balance with the queue at its target.

    rtt_s: with the queue in it. p: the share that the queue must drop (or mark) beside other losses, 0 where the flows
    don't fill the line, above 1 where not even marking all is enough. u: the law's output for it. growth_per_s: g;
    elasticity: d ln g / d ln W.
    """

    rtt_s: float
    window_packets: float
    p: float
    u: float
    growth_per_s: float
    elasticity: float
    fills: bool


@dataclass(frozen=True)
class Plant:
    """`flows` long flows over one bottleneck. ValueError names the value out of range.

    rtt_s: without the queue. flows: any number above 0, also a mean. packet_bytes: as the bottleneck counts them.
    cc: "reno" or "cubic". loss: probability of loss elsewhere on the path. drops: the queue drops, else it marks (ECN).
    """

    capacity_bit_s: float
    rtt_s: float
    flows: float
    packet_bytes: float = 1500
    cc: str = "reno"
    loss: float = 0.0
    drops: bool = True

    def __post_init__(self) -> None:
        for name in ("capacity_bit_s", "rtt_s", "flows", "packet_bytes"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} = {value!r}: must be a number above 0")
        if self.cc not in CCS:
            raise ValueError(f"cc = {self.cc!r}: must be one of {', '.join(CCS)} (BBR has no fluid model here)")
        if not 0 <= self.loss < 1:
            raise ValueError(f"loss = {self.loss!r}: must be 0 or above and below 1")

    @classmethod
    def from_probability(
        cls,
        capacity_bit_s: float,
        rtt_s: float,
        p: float,
        packet_bytes: float = 1500,
        cc: str = "reno",
        queue_delay_s: float = 0.015,
        loss: float = 0.0,
        drops: bool = True,
    ) -> Plant:
        """The load shown by the probability `p` that the queue drops with, at a mean delay of `queue_delay_s`."""
        if not (0 <= p < 1 and p + loss > 0):
            raise ValueError(f"p = {p!r}: must be below 1, and above 0 where nothing else is lost")
        one = cls(capacity_bit_s, rtt_s, 1, packet_bytes, cc, loss, drops)
        loop_rtt_s = rtt_s + queue_delay_s
        flows = loop_rtt_s * one.packets_s / (window_packets(cc, loop_rtt_s, p + loss) * (1 - p if drops else 1))
        return cls(capacity_bit_s, rtt_s, flows, packet_bytes, cc, loss, drops)

    @property
    def packets_s(self) -> float:
        """C of the equations."""
        return self.capacity_bit_s / (8 * self.packet_bytes)

    def operating_point(self, target_s: float, squared: bool) -> OperatingPoint:
        """dW/dt = dq/dt = 0 at a queue delay of `target_s` (Cao Eq. 10). squared: p is U^2, else U."""
        return _operating_point(self, target_s, squared)

    def response(self, s: np.ndarray, target_s: float, form: str = "exact") -> np.ndarray:
        """Seconds of queue delay per unit of drop probability at complex frequencies `s`, rad/s; negative at s = 0.

        exact: every term of the linearisation. hollot: W(t-R) taken as W(t), R as constant in dW/dt, and no thinning by
        drops (Hollot Eq. 7). cao: Eq. 15 and 16 as printed, which is that with W(t-R) kept. Dead time is exact in all.
        """
        if form not in FORMS:
            raise ValueError(f"form = {form!r}: must be one of {', '.join(FORMS)}")
        point = self.operating_point(target_s, squared=False)
        rtt_s, window, growth_per_s = point.rtt_s, point.window_packets, point.growth_per_s
        dead = np.exp(-s * rtt_s)
        restore = growth_per_s / window  # Cao Eq. 11: N/(R^2 C) for Reno
        by_p = decrease(self.cc) * window**2 / rtt_s
        arriving = self.flows / rtt_s * (1 - point.p if self.drops else 1)
        queue_pole = s + 1 / rtt_s
        if form == "hollot":
            window_pole = s + restore * (2 - point.elasticity)
            return -arriving * by_p * dead / (window_pole * queue_pole * self.packets_s)
        window_pole = s + restore * (1 - point.elasticity + dead)
        if form == "cao":
            return -arriving * by_p * dead / (window_pole * queue_pole * self.packets_s)
        # g falls with R only where it counts in round trips; the rate of losses falls with the R of a round ago.
        falls_now = 0.0 if point.elasticity else growth_per_s / rtt_s
        by_queue = (falls_now - dead * growth_per_s / rtt_s) / self.packets_s
        thinning = window_pole * self.packets_s / (1 - point.p) if self.drops else 0.0
        below = window_pole * queue_pole + arriving * by_queue
        return -(arriving * by_p * dead + thinning) / (below * self.packets_s)


def decrease(cc: str) -> float:
    """b: the part of the window that a loss takes."""
    return CUBIC_DECREASE if cc == "cubic" else 0.5


def growth(cc: str, window: float, rtt_s: float) -> tuple[float, float]:
    """g in packets per second, and its elasticity d ln g / d ln W."""
    if cc == "reno":
        return 1 / rtt_s, 0.0
    friendly = CUBIC_FRIENDLY_INCREASE / rtt_s
    cubic = CUBIC_DECREASE * CUBIC_RESPONSE ** (4 / 3) * window ** (2 / 3)
    return (friendly, 0.0) if friendly >= cubic else (cubic, 2 / 3)


def window_packets(cc: str, rtt_s: float, p: float) -> float:
    """The window that losses of probability `p` allow, the other way round from `growth`."""
    if cc == "reno":
        return math.sqrt(2 / p)
    friendly = math.sqrt(CUBIC_FRIENDLY_INCREASE / (CUBIC_DECREASE * p))
    return max(friendly, CUBIC_RESPONSE * (rtt_s / p) ** 0.75)


@lru_cache(maxsize=256)
def _operating_point(plant: Plant, target_s: float, squared: bool) -> OperatingPoint:
    rtt_s = plant.rtt_s + target_s
    part = decrease(plant.cc)

    def need(window: float) -> float:
        return growth(plant.cc, window, rtt_s)[0] * rtt_s / (part * window**2) - plant.loss

    window = rtt_s * plant.packets_s / plant.flows
    p = need(window)
    fills = p > 0
    p = max(p, 0.0)
    if plant.drops and fills:  # the window is larger by what is dropped of it: find p = need(window / (1 - p))
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2
            low, high = (p, high) if need(window / (1 - p)) > p else (low, p)
        window /= 1 - p
    growth_per_s, elasticity = growth(plant.cc, window, rtt_s)
    return OperatingPoint(rtt_s, window, p, math.sqrt(p) if squared else p, growth_per_s, elasticity, fills)
