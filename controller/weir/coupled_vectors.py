# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of the coupled law, tests/vectors/coupled/decide.jsonl (format: tests/vectors/README.md)."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from random import Random

from . import coupled
from .coupled import DEFAULT, P_ONE_Q32, RANGES, Coupling, slope_q32_per_us
from .law import U32_MAX, U_ONE_Q40

CASES = {
    "default": DEFAULT,
    "step": replace(DEFAULT, ramp_slope_q32_per_us=slope_q32_per_us(1)),
    "k=1": replace(DEFAULT, coupling_q16=coupled.K_ONE_Q16),
    "uncoupled": replace(DEFAULT, coupling_q16=0),
    "least": Coupling(**{name: least for name, (least, _) in RANGES.items()}),
    "greatest": Coupling(**{name: most for name, (_, most) in RANGES.items()}),
}
"""Parameters on both sides of every choice of docs/design/coupled.md."""


def _around(*values: int, most: int) -> list[int]:
    """Each value and the values next to it, those that are 0 .. most, in order."""
    return sorted({near for value in values for near in (value - 1, value, value + 1) if 0 <= near <= most})


def _inputs(coupling: Coupling) -> Iterator[tuple[int, int, int, int, int]]:
    """u_q40, tau_l_us, floor_us, rand_a, rand_b: the edges of every step, then numbers of any size."""
    overload_q32 = (P_ONE_Q32 << 16) // coupling.coupling_q16 if coupling.coupling_q16 else P_ONE_Q32
    levels_q32 = _around(0, 2**28, min(overload_q32, P_ONE_Q32), P_ONE_Q32, most=P_ONE_Q32)
    for u_q32 in levels_q32:
        for floor_us in (0, coupling.ramp_least_us + 500):
            threshold_us = max(coupling.ramp_least_us, floor_us)
            width_us = max(P_ONE_Q32 // coupling.ramp_slope_q32_per_us, 1)
            rises_us = (0, 1, width_us // 2, width_us)
            for tau_us in (0, *(min(threshold_us + rise_us, U32_MAX) for rise_us in rises_us)):
                u_q40 = u_q32 << 8
                p_q32 = coupled.mark_probability_q32(coupling, u_q40, tau_us, floor_us)
                for rand_a in sorted(
                    {0, *(edge for edge in (u_q32 - 1, u_q32, p_q32 - 1, p_q32) if 0 <= edge <= U32_MAX)}
                ):
                    yield u_q40, tau_us, floor_us, rand_a, min(u_q32, U32_MAX)
    random = Random(9332)
    for _ in range(200):
        u_q40 = min(random.getrandbits(41) >> random.getrandbits(5), U_ONE_Q40)
        tau_us = random.getrandbits(32) >> random.getrandbits(5)
        yield u_q40, tau_us, random.getrandbits(14), random.getrandbits(32), random.getrandbits(32)


def generate() -> str:
    """The text of the vector file."""
    lines = []
    for name, coupling in CASES.items():
        lines.append({"op": "params", "case": name, **asdict(coupling)})
        seen = set()
        for inputs in _inputs(coupling):
            if inputs in seen:
                continue
            seen.add(inputs)
            u_q40, tau_us, floor_us, rand_a, rand_b = inputs
            lines.append(
                {
                    "op": "decide_low",
                    "in_u_q40": u_q40,
                    "in_tau_us": tau_us,
                    "in_floor_us": floor_us,
                    "in_rand_a": rand_a,
                    "in_rand_b": rand_b,
                    "p_q32": coupled.mark_probability_q32(coupling, u_q40, tau_us, floor_us),
                    "verdict": int(coupled.decide_low(coupling, *inputs)),
                }
            )
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
