# SPDX-License-Identifier: Apache-2.0
"""The loop as the code closes it: the law of docs/design/law.md as a discrete transfer function around the fluid.

One step each T adds dU = Z (kp d + ki o + kd (o - 2 o1 + o2)) to U, which holds until the next, so

    C(z) = Z (kp + ki/(1 - 1/z) + kd (1 - 1/z)),   z = e^(sT)
    L(s) = C(z) (1/T) sum over k of H(s + jkw) P(s + jkw),   H(s) = (1 - e^(-sT))/s,   w = 2 pi/T

which is exact at the sampling instants. The immediate thinning by a drop, 1/(1-p) over s + 1/R, falls so slowly with k
that it is not summed but sampled in closed form. Z is taken as that of one row held; Algorithm 1's switching of rows is
not linear.
"""

from __future__ import annotations

import numpy as np

from ..gains import Gains
from .fluid import Plant

ROWS = (1, 2, 3, 4, 5)
SIGNALS = ("rate", "sojourn")
ALIASES = 4
"""Terms of the sum on either side; they fall as k^-3, and the rest as k^-2."""


def interval_s(plant: Plant, gains: Gains) -> float:
    """T, or the time between packets where that is longer: steps are taken by packets, no more than one each."""
    return max(gains.interval_us / 1e6, 1 / plant.packets_s)


def factor(gains: Gains, row: int) -> tuple[float, bool]:
    """Z of a row of Algorithm 1, and whether the integral stays in when the row holds for long."""
    if row not in ROWS:
        raise ValueError(f"row = {row!r}: must be 1 .. 5, a row of Algorithm 1")
    z = {1: gains.z1, 2: gains.z2, 3: gains.z2, 4: gains.z3, 5: 1.0}[row]
    return z, row in (2, 5) or gains.integral != "drop"


def slope(gains: Gains, u: float) -> float:
    """dp/dU: 2U where packets are dropped with U squared."""
    return 2 * u if gains.probability == "squared" else 1.0


def controller(gains: Gains, s: np.ndarray, period_s: float, row: int = 5) -> np.ndarray:
    """C(e^(sT)): U per second of error."""
    z, integral = factor(gains, row)
    step = 1 - np.exp(-s * period_s)
    inner = gains.kp + gains.kd * step
    if integral and gains.ki:
        inner = inner + gains.ki / step
    return z * inner


def open_loop(
    plant: Plant,
    gains: Gains,
    s: np.ndarray,
    u: float | None = None,
    row: int = 5,
    signal: str = "rate",
    form: str = "exact",
    aliases: int = ALIASES,
) -> np.ndarray:
    """L(s), of which -1 is the edge of stability; complex `s` in rad/s, not 0.

    u: the law's output, for the slope of the square; None: the plant's operating point. signal: "rate" is
    Eq. 1, which is as old as its step; "sojourn" is the time a packet spent in the queue, known when it leaves.
    """
    if signal not in SIGNALS:
        raise ValueError(f"signal = {signal!r}: must be one of {', '.join(SIGNALS)}")
    target_s = gains.target_us / 1e6
    period_s = interval_s(plant, gains)
    if u is None:
        u = plant.operating_point(target_s, gains.probability == "squared").u
    shifted = np.asarray(s)[..., None] + 2j * np.pi / period_s * np.arange(-aliases, aliases + 1)
    late_s = target_s if signal == "sojourn" else 0.0
    rest = plant.response(shifted, target_s, form)
    sampled: float | np.ndarray = 0.0
    if plant.drops and form == "exact":
        point = plant.operating_point(target_s, squared=False)
        rest = rest + 1 / ((1 - point.p) * (shifted + 1 / point.rtt_s))
        sampled = -_sampled_lag(s, point.rtt_s, late_s, period_s) / (1 - point.p)
    seen = np.sum(rest / shifted * np.exp(-shifted * late_s), axis=-1)
    seen = seen * (1 - np.exp(-s * period_s)) / period_s + sampled
    return -controller(gains, s, period_s, row) * slope(gains, u) * seen


def _sampled_lag(s: np.ndarray, lag_s: float, late_s: float, period_s: float) -> np.ndarray:
    """1/(s + 1/lag_s), late by late_s, behind a zero-order hold, sampled: the modified z-transform."""
    whole = int(late_s // period_s)
    kept_s = period_s - (late_s - whole * period_s)  # of a step's hold, what shows by the next step but `whole`
    decay, part = np.exp(-period_s / lag_s), np.exp(-kept_s / lag_s)
    z = np.exp(s * period_s)
    return lag_s * (1 - part + (part - decay) / z) / (z - decay) * z**-whole
