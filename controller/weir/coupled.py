# SPDX-License-Identifier: Apache-2.0
"""The golden model of the coupled law for L4S: docs/design/coupled.md step by step, clear rather than fast.

Band C is the law's (`weir.law`); this module has band L, which follows the law's U. Pure. As in `weir.law` every number
is checked against the width that the page promises it, and raises WidthError beyond.

Sources: RFC 9332 2.1, 2.5, 4.2 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, get_type_hints

from .law import P_ONE_Q32, TAU_MAX_US, U_ONE_Q40, Verdict, WidthError

KEYS = {
    "coupling": "k: packets of band L are marked with k times U",
    "ramp_least_us": "up to this delay of band L its own law marks nothing",
    "ramp_us": "from there to where it marks all; 1 is a step",
    "floor_bytes": "the ramp begins no earlier than so much takes on the line",
}
"""Users' settings; `in_users_units` and `weir-xdp` turn them into the integers below."""
K_ONE_Q16 = 2**16
RAMP_MOST_US = 65535
"""Above it the slope, which is whole, would no longer give the width back."""


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of a parameter, both included."""

    least: int
    most: int


@dataclass(frozen=True)
class Coupling:
    """The run-time data of the coupling in its integer formats. Raises ValueError naming parameter, value and range."""

    coupling_q16: Annotated[int, Range(0, 2**20 - 1)]
    ramp_least_us: Annotated[int, Range(0, TAU_MAX_US)]
    ramp_slope_q32_per_us: Annotated[int, Range(1, P_ONE_Q32)]
    floor_bytes: Annotated[int, Range(0, 2**24 - 1)]

    def __post_init__(self) -> None:
        for field in fields(self):
            value, (least, most) = getattr(self, field.name), RANGES[field.name]
            if not least <= value <= most:
                raise ValueError(f"{field.name} = {value}: must be {least} .. {most}")


def _ranges() -> dict[str, tuple[int, int]]:
    hints = get_type_hints(Coupling, include_extras=True)
    bounds = {field.name: hints[field.name].__metadata__[0] for field in fields(Coupling)}
    return {name: (bound.least, bound.most) for name, bound in bounds.items()}


RANGES = _ranges()
"""Least and greatest value of each parameter, both included."""


def slope_q32_per_us(ramp_us: int) -> int:
    """The slope of a ramp so many microseconds wide (1 .. RAMP_MOST_US; 1 is a step), rounded to nearest."""
    if not 1 <= ramp_us <= RAMP_MOST_US:
        raise ValueError(f"ramp_us = {ramp_us}: must be 1 .. {RAMP_MOST_US}")
    return round(P_ONE_Q32 / ramp_us)


DEFAULT = Coupling(2 * K_ONE_Q16, 800, slope_q32_per_us(400), 2 * 1514)
"""RFC 9332 2.1 and A.1."""


def in_users_units(coupling: float, ramp_least_us: int, ramp_us: int, floor_bytes: int) -> Coupling:
    """From k and the ramp's width in us; as `weir-xdp` takes them. Raises ValueError."""
    coupling_q16 = min(round(coupling * K_ONE_Q16), RANGES["coupling_q16"][1]) if coupling < 16 else 2**20
    return Coupling(coupling_q16, ramp_least_us, slope_q32_per_us(ramp_us), floor_bytes)


def _within(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise WidthError(f"{name} = {value}: must be 0 .. {most}")
    return value


def coupled_q32(coupling: Coupling, u_q40: int) -> int:
    """k U (step 1); 2^32 and more is overload."""
    u_q32 = _within("u_q40", u_q40, U_ONE_Q40) >> 8
    return _within("k U", (u_q32 * coupling.coupling_q16) >> 16, 2**36)


def mark_probability_q32(coupling: Coupling, u_q40: int, tau_l_us: int, floor_us: int) -> int:
    """The probability that a packet of L is marked: the larger of its own law's and k U (steps 3 and 4), at most 1."""
    tau_l_us = min(_within("tau_l_us", tau_l_us, 2**32 - 1), TAU_MAX_US)
    threshold_us = max(coupling.ramp_least_us, _within("floor_us", floor_us, 2**32 - 1))
    native_q32 = 0
    if tau_l_us > threshold_us:
        rise_q32 = _within("rise", (tau_l_us - threshold_us) * coupling.ramp_slope_q32_per_us, 2**57 - 1)
        native_q32 = min(rise_q32, P_ONE_Q32)
    return min(max(native_q32, coupled_q32(coupling, u_q40)), P_ONE_Q32)


def decide_low(coupling: Coupling, u_q40: int, tau_l_us: int, floor_us: int, rand_a: int, rand_b: int) -> Verdict:
    """Verdict for one packet of L that finds a delay of `tau_l_us` before it; `floor_us`: the floor of the ramp."""
    _within("rand_a", rand_a, 2**32 - 1)
    _within("rand_b", rand_b, 2**32 - 1)
    if coupled_q32(coupling, u_q40) >= P_ONE_Q32:  # 2
        u_q32 = u_q40 >> 8
        return Verdict.DROP if rand_a < u_q32 and rand_b < u_q32 else Verdict.MARK
    return Verdict.MARK if rand_a < mark_probability_q32(coupling, u_q40, tau_l_us, floor_us) else Verdict.PASS
