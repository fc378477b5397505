# SPDX-License-Identifier: Apache-2.0
"""Does the paper's phase margin of 49 degrees come out under any reading of its Eq. 15 to 18?

The paper gives neither T, S, N, R nor which of Table II's gains alpha, beta and gamma are, nor any unit. Each reading
here is one choice of all of them; docs/design/model.md has the results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .margins import encirclements

TABLE2 = {"Kp": 1.3125, "Ki": 1.25, "Kd": 0.125}
PACKET_BYTES = 1440
TOLD_DEG = 49.0
PLANTS = {
    "printed": "(s + a)(s + 1/R)(1 + e^-sR), Eq. 18 as printed: poles on the imaginary axis",
    "printed, 1 + e^-sR = 2": "the same with its low-frequency value",
    "derived": "(s + a (1 + e^-sR))(s + 1/R), what Eq. 15 and 16 give",
    "Hollot": "(s + 2a)(s + 1/R)",
}
SHAPES = {
    "printed": "(alpha/T + N beta/S + gamma s)/s, Eq. 17",
    "Eq. 3": "beta + alpha/s + gamma s: the gains as of a continuous PID",
    "Eq. 5, continuous": "beta + alpha/(T s) + gamma T s: steps of T made small",
    "Eq. 5, sampled": "beta + alpha/(1 - 1/z) + gamma (1 - 1/z), held for T: as it runs",
}
TIMES = {"5 ms": 0.005, "15 ms": 0.015, "16 ms": 0.016, "30 ms": 0.030, "50 ms": 0.05, "100 ms": 0.1, "1 s": 1.0}
RTTS = {"50 ms": 0.05, "100 ms": 0.1, "102 ms": 0.102, "117 ms": 0.117, "196.8 ms": 0.1968}
CAPACITIES = {"packet/s": 10e6 / 8 / PACKET_BYTES, "byte/s": 10e6 / 8, "bit/s": 10e6}
GAINS_PER = {"s": 1.0, "ms": 1e3}
"""Unit of Table II's gains, as a factor to per second."""
FLOWS = (10, 1)
ROWS = {1: (1.5, False), 2: (1.2, True), 3: (1.2, False), 4: (0.8, False), 5: (1.0, True)}
"""Z of Table II, and whether the integral stays in (Algorithm 1). Only Eq. 5 has rows; the rest is row 5."""
OMEGA = np.geomspace(1e-2, 2e3, 700)
PROPER = ("Eq. 5, sampled", "derived", "packet/s", "s", 10)
"""Reading by the paper's own text: Eq. 5 runs, Eq. 15 and 16 hold, C in packets, ten flows."""


@dataclass(frozen=True)
class Reading:
    """One choice, and its margins in degrees: at the lowest crossover, and the least of all; None without crossover.
    stable: by Nyquist; None where the open loop has poles on the imaginary axis and the count means nothing.

    alpha_beta_gamma: which of Table II's gains stand for integral, proportional and differential.
    """

    plant: str
    shape: str
    alpha_beta_gamma: str
    interval: str
    s_time: str
    rtt: str
    capacity: str
    gains_per: str
    flows: int
    row: int
    first_deg: float | None
    least_deg: float | None
    stable: bool | None

    @property
    def proper(self) -> bool:
        """Nothing exchanged, and all as the paper's own text has it; RTT and T, which it doesn't give, are free."""
        told = (self.shape, self.plant, self.capacity, self.gains_per, self.flows)
        return told == PROPER and self.alpha_beta_gamma == "Ki Kp Kd"


def _controller(shape: str, gains: tuple[float, float, float], t_s: float, s_s: float, flows: int) -> np.ndarray:
    integral, proportional, differential = gains
    s = 1j * OMEGA
    if shape == "printed":
        return (integral / t_s + flows * proportional / s_s + differential * s) / s
    if shape == "Eq. 3":
        return proportional + integral / s + differential * s
    if shape == "Eq. 5, continuous":
        return proportional + integral / (t_s * s) + differential * t_s * s
    step = 1 - np.exp(-s * t_s)
    return (proportional + integral / step + differential * step) * step / (s * t_s)


def _plant(form: str, capacity: float, rtt_s: float, flows: int) -> np.ndarray:
    """Seconds of delay per probability: Eq. 15 and 16 over C, without the sign that the feedback takes up."""
    s = 1j * OMEGA
    dead = np.exp(-s * rtt_s)
    restore = flows / (rtt_s**2 * capacity)
    window = {
        "printed": (s + restore) * (1 + dead),
        "printed, 1 + e^-sR = 2": (s + restore) * 2,
        "derived": s + restore * (1 + dead),
        "Hollot": s + 2 * restore,
    }[form]
    return capacity / (2 * flows) * dead / (window * (s + 1 / rtt_s))


def _margins_deg(loop: np.ndarray, top_rad_s: float) -> tuple[float | None, float | None]:
    """Of one loop on OMEGA, which is fine enough for a degree."""
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(loop))
    falls = np.flatnonzero((np.signbit(size[:-1]) != np.signbit(size[1:])) & (OMEGA[1:] < top_rad_s))
    if not falls.size:
        return None, None
    part = size[falls] / (size[falls] - size[falls + 1])
    below, above = loop[falls] / np.abs(loop[falls]), loop[falls + 1] / np.abs(loop[falls + 1])
    turn = np.angle(above / below)
    degrees = np.degrees(np.angle(-below * np.exp(1j * turn * part)))
    return float(degrees[0]), float(degrees[np.argmin(np.abs(degrees))])


def readings(rtts: Mapping[str, float] = RTTS) -> Iterator[Reading]:
    """Every reading with these R, by name; with all of them 172,800, which take some ten seconds."""
    for flows, (capacity_name, capacity), (rtt_name, rtt_s), form in itertools.product(
        FLOWS, CAPACITIES.items(), rtts.items(), PLANTS
    ):
        plant = _plant(form, capacity, rtt_s, flows)
        for shape, (t_name, t_s), (s_name, s_s) in itertools.product(SHAPES, TIMES.items(), TIMES.items()):
            if shape != "printed" and s_name != t_name:
                continue  # S is in Eq. 17 alone
            if shape == "Eq. 3" and t_name != "15 ms":
                continue  # and T is not in Eq. 3
            top = np.pi / t_s if shape == "Eq. 5, sampled" else np.inf
            rows = ROWS if shape.startswith("Eq. 5") else {5: (1.0, True)}
            for names, (row, (z, keep)) in itertools.product(itertools.permutations(TABLE2), rows.items()):
                integral, second, third = (z * TABLE2[name] for name in names)
                control = _controller(shape, (integral if keep else 0.0, second, third), t_s, s_s, flows)
                for per_name, per in GAINS_PER.items():
                    loop = per * control * plant
                    first, least = _margins_deg(loop, top)
                    within = top > OMEGA
                    stable = None if form == "printed" else encirclements(OMEGA[within], loop[within]) == 0
                    told = (form, shape, " ".join(names), t_name, s_name, rtt_name, capacity_name, per_name, flows, row)
                    yield Reading(*told, first, least, stable)
