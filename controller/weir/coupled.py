# SPDX-License-Identifier: Apache-2.0
"""The golden model of the coupled law for L4S: docs/design/coupled.md step by step, clear rather than fast.

Band C is the law's (`weir.law`); this module has band L, which follows R, the root mean square of the law's U. Pure. As
in `weir.law` every number is checked against the width that the page promises it, and raises WidthError beyond.

Sources: RFC 9332 2.1, 2.5, 4.2 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, get_type_hints

from .law import P_ONE_Q32, TAU_MAX_US, U_ONE_Q40, Verdict, WidthError

KEYS = {
    "coupling": "k: packets of band L are marked with k times the root mean square of U",
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


FOLLOW_SHIFT, LEAK_SHIFT = 4, 6


def follow_q40(r_q40: int, u_q40: int, classic_active: bool, missed: bool) -> int:
    """R after a step of the law. `missed`: the step came two intervals late."""
    u_q20, r_q20 = _within("u_q40", u_q40, U_ONE_Q40) >> 20, _within("r_q40", r_q40, U_ONE_Q40) >> 20
    if missed and not classic_active:  # a
        return u_q40
    r_q40 += (u_q20 * u_q20 >> FOLLOW_SHIFT) - (r_q20 * r_q20 >> FOLLOW_SHIFT)  # b
    if not classic_active:  # c
        r_q40 -= r_q40 >> LEAK_SHIFT
    return _within("r_q40", min(r_q40, U_ONE_Q40), U_ONE_Q40)


def coupled_q32(coupling: Coupling, r_q40: int) -> int:
    """k R (step 1); 2^32 and more is overload."""
    r_q32 = _within("r_q40", r_q40, U_ONE_Q40) >> 8
    return _within("k R", (r_q32 * coupling.coupling_q16) >> 16, 2**36)


def mark_probability_q32(coupling: Coupling, r_q40: int, tau_l_us: int, floor_us: int) -> int:
    """The probability that a packet of L is marked: the larger of its own law's and k R (steps 3 and 4), at most 1."""
    tau_l_us = min(_within("tau_l_us", tau_l_us, 2**32 - 1), TAU_MAX_US)
    threshold_us = max(coupling.ramp_least_us, _within("floor_us", floor_us, 2**32 - 1))
    native_q32 = 0
    if tau_l_us > threshold_us:
        rise_q32 = _within("rise", (tau_l_us - threshold_us) * coupling.ramp_slope_q32_per_us, 2**57 - 1)
        native_q32 = min(rise_q32, P_ONE_Q32)
    return min(max(native_q32, coupled_q32(coupling, r_q40)), P_ONE_Q32)


def decide_low(coupling: Coupling, r_q40: int, tau_l_us: int, floor_us: int, rand_a: int, rand_b: int) -> Verdict:
    """Verdict for one packet of L that finds a delay of `tau_l_us` before it; `floor_us`: the floor of the ramp."""
    _within("rand_a", rand_a, 2**32 - 1)
    _within("rand_b", rand_b, 2**32 - 1)
    if coupled_q32(coupling, r_q40) >= P_ONE_Q32:  # 2
        r_q32 = r_q40 >> 8
        return Verdict.DROP if rand_a < r_q32 and rand_b < r_q32 else Verdict.MARK
    return Verdict.MARK if rand_a < mark_probability_q32(coupling, r_q40, tau_l_us, floor_us) else Verdict.PASS
