# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of the coupled law, tests/vectors/coupled/ (format: tests/vectors/README.md)."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
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
    """r_q40, tau_l_us, floor_us, rand_a, rand_b: the edges of every step, then numbers of any size."""
    overload_q32 = (P_ONE_Q32 << 16) // coupling.coupling_q16 if coupling.coupling_q16 else P_ONE_Q32
    levels_q32 = _around(0, 2**28, min(overload_q32, P_ONE_Q32), P_ONE_Q32, most=P_ONE_Q32)
    for r_q32 in levels_q32:
        for floor_us in (0, coupling.ramp_least_us + 500):
            threshold_us = max(coupling.ramp_least_us, floor_us)
            width_us = max(P_ONE_Q32 // coupling.ramp_slope_q32_per_us, 1)
            rises_us = (0, 1, width_us // 2, width_us)
            for tau_us in (0, *(min(threshold_us + rise_us, U32_MAX) for rise_us in rises_us)):
                r_q40 = r_q32 << 8
                p_q32 = coupled.mark_probability_q32(coupling, r_q40, tau_us, floor_us)
                for rand_a in sorted(
                    {0, *(edge for edge in (r_q32 - 1, r_q32, p_q32 - 1, p_q32) if 0 <= edge <= U32_MAX)}
                ):
                    yield r_q40, tau_us, floor_us, rand_a, min(r_q32, U32_MAX)
    random = Random(9332)
    for _ in range(200):
        r_q40 = min(random.getrandbits(41) >> random.getrandbits(5), U_ONE_Q40)
        tau_us = random.getrandbits(32) >> random.getrandbits(5)
        yield r_q40, tau_us, random.getrandbits(14), random.getrandbits(32), random.getrandbits(32)


def generate_decide() -> str:
    """The text of decide.jsonl."""
    lines = []
    for name, coupling in CASES.items():
        lines.append({"op": "params", "case": name, **asdict(coupling)})
        seen = set()
        for inputs in _inputs(coupling):
            if inputs in seen:
                continue
            seen.add(inputs)
            r_q40, tau_us, floor_us, rand_a, rand_b = inputs
            lines.append(
                {
                    "op": "decide_low",
                    "in_r_q40": r_q40,
                    "in_tau_us": tau_us,
                    "in_floor_us": floor_us,
                    "in_rand_a": rand_a,
                    "in_rand_b": rand_b,
                    "p_q32": coupled.mark_probability_q32(coupling, r_q40, tau_us, floor_us),
                    "verdict": int(coupled.decide_low(coupling, *inputs)),
                }
            )
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def generate_follow() -> str:
    """The text of follow.jsonl: edges, numbers of any size, and R's course behind a U that swings."""
    levels = (*_around(0, 2**20, 2**30, U_ONE_Q40, most=U_ONE_Q40), U_ONE_Q40 // 100, U_ONE_Q40 - 2**20)
    inputs = [(r_q40, u_q40, *flags) for r_q40 in levels for u_q40 in levels for flags in product((0, 1), (0, 1))]
    random = Random(9332)
    for _ in range(200):
        r_q40, u_q40 = (min(random.getrandbits(41) >> random.getrandbits(5), U_ONE_Q40) for _ in range(2))
        inputs.append((r_q40, u_q40, random.getrandbits(1), random.getrandbits(1)))
    r_q40 = 0
    for step in range(400):
        u_q40 = U_ONE_Q40 // 20 if step % 40 < 10 else 0
        inputs.append((r_q40, u_q40, 1, 0))
        r_q40 = coupled.follow_q40(r_q40, u_q40, True, False)
    lines: list[dict[str, object]] = [{"op": "params", "case": "follow"}]
    for r_q40, u_q40, waits, missed in inputs:
        line = {"op": "follow", "in_r_q40": r_q40, "in_u_q40": u_q40, "in_classic_active": waits, "in_missed": missed}
        lines.append(line | {"r_q40": coupled.follow_q40(r_q40, u_q40, bool(waits), bool(missed))})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
