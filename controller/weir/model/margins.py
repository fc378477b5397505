# SPDX-License-Identifier: Apache-2.0
"""Stability margin of a loop, and its settling time. numpy alone: the tuner asks it at each decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..gains import Gains
from . import loop
from .fluid import Plant

Response = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Margins:
    """None: no such crossover, or (settling_s) no pole found. stable: no closed-loop pole to the right.

    phase_margin_deg: at the crossover where it is least, crossover_rad_s; of an unstable loop never above 0, and below
    -180 where the angle has turned further than a circle. gain_margin_db: the factor on all gains up to the edge, of
    stable loops from below, and in an unstable loop negative: what they must be multiplied by to come to it.
    delay_margin_s: further dead time until the edge. settling_s: until what is left of a disturbance is 2 % by the
    slowest closed-loop pole; None where it is unstable.
    """

    phase_margin_deg: float | None
    gain_margin_db: float | None
    crossover_rad_s: float | None
    delay_margin_s: float | None
    settling_s: float | None
    phase_crossover_rad_s: float | None
    stable: bool


def margins(
    plant: Plant,
    gains: Gains,
    u: float | None = None,
    row: int = 5,
    signal: str = "rate",
    form: str = "exact",
    settling: bool = True,
) -> Margins:
    """Margins of the law with `gains` around `plant`; `loop.open_loop` defines u, row and signal.

    settling: False leaves settling_s out, which is most of the time it takes (2 of 10 ms stay).
    At an operating point with U = 0 there is no loop: all None, and stable.
    """
    rtt_s = plant.rtt_s + gains.target_us / 1e6

    def response(s: np.ndarray) -> np.ndarray:
        return loop.open_loop(plant, gains, s, u, row, signal, form)

    if not np.any(response(np.array([1j / rtt_s]))):
        return Margins(None, None, None, None, None, None, True)
    return of_response(response, rtt_s, math.pi / loop.interval_s(plant, gains), settling)


def of_response(response: Response, rtt_s: float, top_rad_s: float, settling: bool = True) -> Margins:
    """Margins of any open loop without poles to the right, given as a function of s.

    rtt_s: its dead time, which sets the grid's step. top_rad_s: half the sampling frequency, or where to stop looking.
    """
    omega = _grid(rtt_s, top_rad_s)
    value = response(1j * omega)
    crossings = _roots(lambda w: np.log(np.abs(response(1j * w))), omega, np.log(np.abs(value)))
    phase_crossings = _phase_crossings(response, omega, value)

    stable = encirclements(omega, value) == 0
    phase_margin = crossover = delay_margin = gain_margin = phase_crossover = None
    if crossings.size:
        degrees = np.degrees(np.angle(-response(1j * crossings)))
        if stable:
            least = int(np.argmin(np.abs(degrees)))
            delay_margin = float(np.min(np.radians(degrees % 360) / crossings))
        else:  # an angle of more than a circle would pass for a margin: the angle as it grew along the curve
            grown = np.interp(crossings, omega, np.degrees(np.unwrap(np.angle(-value))))
            degrees = degrees + 360 * np.round((grown - degrees) / 360)
            least = int(np.argmin(degrees))
        if stable or degrees[least] < 0:
            phase_margin, crossover = float(degrees[least]), float(crossings[least])
    if phase_crossings.size:
        decibels = -20 * np.log10(np.abs(response(1j * phase_crossings)))
        if stable:
            decibels = np.where(decibels > 0, decibels, np.inf)
        least = int(np.argmin(decibels))
        if decibels[least] < np.inf:
            gain_margin, phase_crossover = float(decibels[least]), float(phase_crossings[least])
    settled = settling_s(response, rtt_s, top_rad_s) if stable and settling else None
    return Margins(phase_margin, gain_margin, crossover, delay_margin, settled, phase_crossover, stable)


def _grid(rtt_s: float, top_rad_s: float) -> np.ndarray:
    """Log-spaced below, and no two adjacent ones further apart than a sixth of a radian of dead time above."""
    steps = min(4000, max(16, math.ceil(6 * rtt_s * top_rad_s)))
    low = np.geomspace(min(1e-4 / rtt_s, top_rad_s / 10), top_rad_s, 400)
    return np.unique(np.concatenate([low, np.linspace(0, top_rad_s, steps + 1)[1:]]))


def _roots(function: Callable[[np.ndarray], np.ndarray], omega: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where `function`, continuous and known at the grid, changes its sign; by regula falsi with halving (Illinois)."""
    at = np.flatnonzero(np.signbit(values[:-1]) != np.signbit(values[1:]))
    if not at.size:
        return np.array([])
    low, high, f_low, f_high = omega[at], omega[at + 1], values[at], values[at + 1]
    for _ in range(60):
        middle = high - f_high * (high - low) / (f_high - f_low)
        f_middle = function(middle)
        crossed = np.signbit(f_middle) != np.signbit(f_high)
        low, f_low = np.where(crossed, high, low), np.where(crossed, f_high, f_low / 2)
        high, f_high = middle, f_middle
        if np.all(np.abs(high - low) < 1e-10 * high) or not np.any(f_middle):
            break
        f_low = np.where(f_low == f_high, -f_high, f_low)
    return high


def _phase_crossings(response: Response, omega: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Where L crosses the negative real axis, and the end of the grid where L is real there: half the sampling rate."""
    found = _roots(lambda w: np.imag(response(1j * w)), omega, np.imag(value))
    found = found[np.real(response(1j * found)) < 0] if found.size else found
    end = value[-1]
    if end.real < 0 and abs(end.imag) < 1e-3 * abs(end.real) and not np.any(found > 0.999 * omega[-1]):
        found = np.append(found, omega[-1])
    return found


def encirclements(omega: np.ndarray, value: np.ndarray) -> int:
    """Closed-loop poles to the right (Nyquist), for an open loop without any and at most one at 0."""
    around = 1 + value
    turned = float(np.sum(np.angle(around[1:] / around[:-1])))
    return round((-float(np.angle(around[0])) - turned) / math.pi)


def settling_s(response: Response, rtt_s: float, top_rad_s: float) -> float | None:
    """4 over the distance from the imaginary axis of the closed-loop pole nearest to it: the 2 % time of its mode.

    The poles are the roots of 1 + L(s), found by Newton's method from a net of starts around the loop's frequencies.
    """
    scale = 1 / rtt_s
    frequency = np.geomspace(0.02 * scale, min(12 * scale, top_rad_s), 24)
    damping = np.array([0.03, 0.2, 0.6])
    s = np.concatenate([(1j * frequency[:, None] - damping * frequency[:, None]).ravel(), -frequency + 0j])
    found = []
    with np.errstate(all="ignore"):
        for _ in range(30):
            step = 1e-6 * (np.abs(s) + 1e-3 * scale)
            here, beside = np.split(1 + response(np.concatenate([s, s + step])), 2)
            move = here * step / (beside - here)
            done = (np.abs(move) < 1e-7 * np.abs(s)) & (np.abs(s.imag) <= top_rad_s * 1.001) & (s.real < 0)
            found.extend(s.real[done])
            s = (s - move)[~done]
            s = s[np.isfinite(s) & (np.abs(s) < 50 * scale + top_rad_s) & (s.imag > -scale)]
            if not s.size:
                break
    return float(4 / -max(found)) if found else None
