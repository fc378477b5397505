# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors from the golden model: `python -m weir.vectors FOLDER`; those that are kept are in tests/vectors.

Deterministic: the committed files equal what this prints. The format is in tests/vectors/README.md.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

from . import bands_vectors, coupled_vectors, fair_vectors, hosts_vectors, law, scone_vectors
from .law import ALWAYS, BYTES_MAX, RANGES, TAU_MAX_US, U32_MAX, U_ONE_Q40, Flow, Params, Rate, Share, Spacing, State
from .names import vectors as names_vectors
from .settings import profile

PROFILES = {name: profile(name).to_params() for name in ("paper", "tuned")}
PAPER, TUNED = PROFILES["paper"], PROFILES["tuned"]
PLAIN = replace(
    TUNED,
    space_least_q16=0,
    space_most_q16=0,
    delay_bound_us=0,
    delay_bound_slope_q40_per_us=0,
    delay_limit_us=0,
    delay_guard_bytes=0,
    share_least_q16=0,
    ecn_bound_q32=2**30,
    ecn_weight_shift=0,
    ecn_drop_us=0,
)
"""`tuned` with independent drops and marks, and without bounds in time: what the cases of a single mechanism start
from."""
LINEAR_IDLE = replace(PAPER, integral_drop_max=3, idle_halflife_us=15000, ecn_bound_q32=2**28)
EXTREMES = {
    "greatest": Params(**{name: most for name, (_, most) in RANGES.items()}),
    "least": Params(**{name: least for name, (least, _) in RANGES.items()}),
    "all-gain": replace(
        PAPER, kp_q40_per_us=U32_MAX, ki_q40_per_us=U32_MAX, kd_q40_per_us=U32_MAX, target_us=TAU_MAX_US
    ),
    "no-gain": replace(PAPER, kp_q40_per_us=0, ki_q40_per_us=0, kd_q40_per_us=0),
    "small-z": replace(PAPER, kp_q40_per_us=U32_MAX, z1_q16=1, z2_q16=1, z3_q16=1, m1_us=9, m2_us=4),
    "odd": replace(PLAIN, target_us=1, interval_us=1, integral_drop_max=1, idle_halflife_us=1),
}
SPACED = replace(PLAIN, space_least_q16=55706, space_most_q16=557056, min_delay_us=7500)
"""RFC 8033 5.4: 0.85 and 8.5."""
BOUNDED = replace(PLAIN, delay_bound_us=25000, delay_bound_slope_q40_per_us=2**28, min_delay_us=7500)
MARKING = replace(PLAIN, ecn_weight_shift=5, ecn_drop_us=50000)
SHARED = replace(
    SPACED,
    space_least_q16=65536,
    space_most_q16=2 * 65536,
    delay_bound_us=18750,
    delay_bound_slope_q40_per_us=U32_MAX,
    delay_limit_us=26250,
    delay_guard_bytes=1514,
    share_least_q16=65536 * 11 // 10,
)
"""Drops and marks wait for large flows; of these all pay beyond 1.25 targets, and of all flows beyond 1.75."""
SECOND_US = 1_000_000


class Tape:
    """Runs the golden model and writes down each operation with everything it left behind."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _write(self, op: str, **values: object) -> None:
        self.lines.append(json.dumps({"op": op, **values}, separators=(",", ":")))

    def case(self, name: str, params: Params) -> None:
        self.params, self.state, self.rate, self.spacing = params, State(), Rate(), Spacing()
        self.flows: dict[int, Flow] = {}
        self.flow, self.share = Flow(), Share()
        self._write("params", case=name, **asdict(params))

    def set_state(self, **values: int) -> None:
        self.state = State(**values)
        self._write("state", **asdict(self.state))

    def set_rate(self, **values: int) -> None:
        self.rate = Rate(**values)
        self._write("rate", **asdict(self.rate))

    def set_spacing(self, **values: int) -> None:
        self.spacing = Spacing(**values)
        self._write("spacing", **asdict(self.spacing))

    def set_flow(self, number: int, **values: int) -> None:
        """The counter that arrivals go to; the mean is that of all, and stays if it is not given."""
        self.share.share_mean_q6 = values.pop("share_mean_q6", self.share.share_mean_q6)
        self.flow = self.flows[number] = Flow(**values)
        self._write("flow", **asdict(self.flow), **asdict(self.share))

    def arrival(self, number: int, now_us: int, len_bytes: int) -> int:
        if self.flow is not self.flows.setdefault(number, Flow()):
            self.set_flow(number, **asdict(self.flows[number]))
        size = int(law.arrival(self.flow, self.share, self.params, now_us, len_bytes))
        inputs = {"in_now_us": now_us, "in_len_bytes": len_bytes}
        self._write("arrival", **inputs, size=size, **asdict(self.flow), **asdict(self.share))
        return size

    def update(self, now_us: int, tau_us: int) -> None:
        stepped = law.update(self.state, self.params, now_us, tau_us)
        self._write("update", in_now_us=now_us, in_tau_us=tau_us, stepped=int(stepped), **asdict(self.state))

    def departure(self, now_us: int, len_bytes: int, backlog_bytes: int) -> None:
        law.departure(self.rate, self.params, now_us, len_bytes, backlog_bytes)
        inputs = {"in_now_us": now_us, "in_len_bytes": len_bytes, "in_backlog_bytes": backlog_bytes}
        self._write("departure", **inputs, **asdict(self.rate))

    def tau(self, backlog_bytes: int) -> int:
        tau_us = law.tau_us(self.rate, self.params, backlog_bytes)
        self._write("tau", in_backlog_bytes=backlog_bytes, tau_us=tau_us)
        return tau_us

    def decide(self, backlog_bytes: int, tau_us: int, ect: int, rand_a: int, rand_b: int, size: int = 0) -> law.Verdict:
        given = (
            self.state,
            self.spacing,
            self.params,
            backlog_bytes,
            tau_us,
            bool(ect),
            rand_a,
            rand_b,
            law.Size(size),
        )
        verdict = law.decide(*given)
        inputs = {"in_backlog_bytes": backlog_bytes, "in_tau_us": tau_us, "in_ect": ect, "in_size": size}
        inputs |= {"in_rand_a": rand_a, "in_rand_b": rand_b}
        self._write("decide", **inputs, verdict=int(verdict), **asdict(self.spacing))
        return verdict

    def steps(self, taus_us: Iterable[int], interval_us: int | None = None, now_us: int = SECOND_US) -> int:
        """Start at `now_us`, then one update an interval; returns the time of the last."""
        self.update(now_us, 0)
        for tau_us in taus_us:
            now_us += interval_us or self.params.interval_us
            self.update(now_us, tau_us)
        return now_us


def _bits(random: Random, most: int) -> int:
    """A number 0 .. most whose magnitude, not value, is spread evenly; only getrandbits is the same in any Python."""
    return min(random.getrandbits(64) >> (64 - random.getrandbits(16) % (most.bit_length() + 1)), most)


def steady(tape: Tape) -> None:
    """The queue at its target, a little off it, empty: what must hold and what must drift."""
    for name, params in PROFILES.items():
        for label, tau_us in (("at-target", 15000), ("above", 17000), ("below", 13000), ("empty", 0)):
            tape.case(f"steady/{name}/{label}", params)
            tape.steps([15000] * 2 + [tau_us] * 30)
    tape.case("steady/zero-error-holds", PAPER)
    tape.set_state(started=1, u_q40=123456789, last_us=SECOND_US)
    for k in range(1, 20):
        tape.update(SECOND_US + 15000 * k, 15000)


def step_up(tape: Tape) -> None:
    """From empty to a standing queue, small to beyond what is counted."""
    for name, params in PROFILES.items():
        for tau_us in (16000, 30000, 60000, 500000, TAU_MAX_US, U32_MAX):
            tape.case(f"step-up/{name}/{tau_us}", params)
            tape.steps([0] * 3 + [tau_us] * 25)


def step_down(tape: Tape) -> None:
    """From a standing queue back to a short or an empty one."""
    for name, params in PROFILES.items():
        for tau_us in (0, 7000, 14999, 15000):
            tape.case(f"step-down/{name}/{tau_us}", params)
            tape.steps([45000] * 12 + [tau_us] * 25)


def idle(tape: Tape) -> None:
    """Missed intervals, on a queue below its target and on one that stands."""
    for name, params in {**PROFILES, "idle": LINEAR_IDLE}.items():
        half, grid = params.idle_halflife_us or 15000, params.interval_us
        gaps: tuple[int, ...] = (grid - 1, grid, grid + 1, 2 * grid - 1, 2 * grid, 2 * grid + 1)
        gaps += (grid + half - 1, grid + half)
        gaps += tuple(grid + half * k for k in (2, 3, 7, 21, 42, 62, 63, 64, 1000, 2**20))
        gaps += (2**63 - 1,)
        for tau_us in (0, 14999, 15000, 40000):
            tape.case(f"idle/{name}/{tau_us}", params)
            for gap_us in gaps:
                tape.set_state(started=1, u_q40=U_ONE_Q40 - 12345, last_us=SECOND_US, o1_us=20000, o2_us=-3000)
                tape.update(SECOND_US + gap_us, tau_us)
    tape.case("idle/grid", PAPER)
    now_us = SECOND_US
    for k in range(60):
        tape.update(now_us, 15000 + 100 * k)
        now_us += 1200 + 7 * k


def rows(tape: Tape) -> None:
    """Every row of Algorithm 1 on both sides of zero and on every edge; no integral always, 3 times, never."""
    errors_us = (-15000, -12000, -10001, -10000, -9999, -1, 0, 1, 9999, 10000, 10001, 15000, 19999, 20000, 20001, 30000)
    for label, most in (("always", ALWAYS), ("three", 3), ("never", 0)):
        tape.case(f"rows/{label}", replace(PAPER, integral_drop_max=most))
        for o_us in errors_us:
            for d_us in (-5, 0, 5):
                for d1_us in (-7, 0, 7):
                    o1_us = o_us - d_us
                    state = {"u_q40": U_ONE_Q40 // 2, "o1_us": o1_us, "o2_us": o1_us - d1_us, "no_i_run": 2}
                    tape.set_state(started=1, last_us=SECOND_US, **state)
                    tape.update(SECOND_US + 15000, o_us + 15000)
    for label, most in (("always", ALWAYS), ("one", 1), ("three", 3), ("never", 0)):
        tape.case(f"rows/stall/{label}", replace(PAPER, integral_drop_max=most))
        tape.steps(
            [60000] * 12 + [26000, 27000, 28000, 26500, 26400, 26300] + [60000] * 6 + [20000, 19000, 20500, 19500]
        )
    tape.case("rows/run-saturates", PAPER)
    tape.set_state(started=1, last_us=SECOND_US, o1_us=45000, o2_us=45000, no_i_run=U32_MAX - 1)
    for k in range(1, 4):
        tape.update(SECOND_US + 15000 * k, 60000)


def saturation(tape: Tape) -> None:
    """U at 0 and at 1, dU at its clamp."""
    strong = replace(PLAIN, kp_q40_per_us=2**24, ki_q40_per_us=2**22)
    for name, params in {**PROFILES, "strong": strong, **EXTREMES}.items():
        tape.case(f"saturation/{name}", params)
        up = [0, 0, 10**5, 10**6, 10**7, TAU_MAX_US, TAU_MAX_US, U32_MAX, U32_MAX]
        tape.steps(up + [0, 0, 0] + up[::-1] + [0, TAU_MAX_US] * 4)
    for u_q40 in (0, 1, U_ONE_Q40 - 1, U_ONE_Q40):
        for tau_us in (0, 14999, 15000, 15001, 34000, TAU_MAX_US):
            tape.case(f"saturation/u={u_q40}/{tau_us}", TUNED)
            tape.set_state(started=1, u_q40=u_q40, last_us=SECOND_US)
            tape.update(SECOND_US + 15000, tau_us)
    tape.case("saturation/by-one", replace(PAPER, kp_q40_per_us=1, ki_q40_per_us=0, kd_q40_per_us=0))
    for u_q40, tau_us in ((0, 14999), (1, 14999), (U_ONE_Q40 - 1, 15001), (U_ONE_Q40, 15001)):
        tape.set_state(started=1, u_q40=u_q40, last_us=SECOND_US)
        tape.update(SECOND_US + 15000, tau_us)


def clock(tape: Tape) -> None:
    """Time that stands, goes back, jumps and wraps."""
    for name, params in PROFILES.items():
        tape.case(f"clock/back/{name}", params)
        now_us = tape.steps([30000] * 5)
        for delta_us in (-1, 0, -(10**6), 14999, 1, -(2**40), 15000, 15000, -5, 20000, 29999, 30000, 30001):
            now_us = (now_us + delta_us) % 2**64
            tape.update(now_us, 25000)
        tape.case(f"clock/wrap/{name}", params)
        now_us = 2**64 - 5 * params.interval_us - 3
        for _ in range(12):
            tape.update(now_us, 25000)
            now_us = (now_us + params.interval_us) % 2**64
        tape.case(f"clock/half-range/{name}", params)
        for now_us in (0, 2**63 - 1, 2**63, 2**64 - 1, 14998, 14999, 2**63 + 14998, 2**63 + 14999):
            tape.update(now_us, 3000)


def departures(tape: Tape) -> None:
    """The departure rate at known rates, its edges and its saturation; tau from it."""
    for shift, weight in ((14, 1), (10, 0), (24, 8), (16, 3)):
        for label, byte_us in (("10Mbit", 0.8), ("1Gbit", 0.008), ("1kbit", 8000)):
            tape.case(f"departures/{shift}/{weight}/{label}", replace(PAPER, dq_shift=shift, dq_weight_shift=weight))
            now_us = SECOND_US
            len_bytes = 1514 if shift < 20 else 2**20 + 1
            for k in range(40):
                now_us += int(len_bytes * byte_us)
                tape.departure(now_us, len_bytes, 0 if k == 30 else 2**shift - (k == 0))
            for backlog_bytes in (0, 1, 1514, 10**6, BYTES_MAX, 2**64 - 1):
                tape.tau(backlog_bytes)
    tape.case("departures/edges", PAPER)
    for now_us, len_bytes, backlog_bytes in (
        (5, 100, 16383),
        (5, 100, 16384),
        (5, 16383, 1),
        (5, 1, 1),
        (6, 2**64 - 1, 1),
        (4, 2**63, 1),
        (2**64 - 1, 2**32, 2**64 - 1),
        (3, 32767, 2**64 - 1),
        (3, 32768, 0),
        (4, 1514, 20000),
        (5, 7, 1),
        (6, 2**64 - 1, 1),
        (7, 32768, 1),
        (8, 49151, 1),
        (9, 2**64 - 7, 0),
        (9, 1514, 0),
        (10, 1514, 20000),
        (11, 1514, 0),
    ):
        tape.departure(now_us, len_bytes, backlog_bytes)
        tape.tau(2**64 - 1)
    for time_q8_us in (1, 255, 256, 2**31, U32_MAX):
        for shift in (10, 14, 24):
            tape.case(f"departures/tau/{time_q8_us}/{shift}", replace(PAPER, dq_shift=shift))
            tape.set_rate(dq_time_q8_us=time_q8_us)
            for backlog_bytes in (0, 1, 1023, 1024, 65535, 2**24, BYTES_MAX - 1, BYTES_MAX, BYTES_MAX + 1, 2**64 - 1):
                tape.tau(backlog_bytes)


def decide(tape: Tape) -> None:
    """The verdict on every edge: U, both random numbers, ECT, the bound, the backlog, the delay."""
    probabilities = (0, 255, 256, 2**36, 2**36 + 256, U_ONE_Q40 - 256, U_ONE_Q40)
    for name, squared in (("linear", 0), ("squared", 1)):
        for bound_q32 in (0, 2**28, 2**28 + 1, 2**32):
            tape.case(f"decide/{name}/{bound_q32}", replace(PLAIN, squared=squared, ecn_bound_q32=bound_q32))
            for u_q40 in probabilities:
                tape.set_state(started=1, u_q40=u_q40)
                edge = min(u_q40 >> 8, U32_MAX)
                for rand_a, rand_b in ((0, 0), (max(edge - 1, 0), 0), (edge, 0), (0, edge), (U32_MAX, U32_MAX)):
                    for ect in (0, 1):
                        tape.decide(3028, 15000, ect, rand_a, rand_b)
    tape.case("decide/backlog", PLAIN)
    tape.set_state(started=1, u_q40=U_ONE_Q40)
    for backlog_bytes in (0, 3027, 3028, 2**32, 2**64 - 1):
        tape.decide(backlog_bytes, 15000, 0, 0, 0)
    tape.case("decide/delay", replace(PLAIN, min_delay_us=12000))
    tape.set_state(started=1, u_q40=U_ONE_Q40)
    for tau_us in (0, 11999, 12000, TAU_MAX_US, U32_MAX):
        tape.decide(3028, tau_us, 0, 0, 0)


def spacing(tape: Tape) -> None:
    """Drops and marks spaced by the sum of probabilities: its two limits, what holds it, what sets it back, p = 0 and p
    = 1."""
    even = replace(SPACED, space_least_q16=65536, space_most_q16=65536)
    linear = replace(SPACED, squared=0)
    for name, params in (("rfc", SPACED), ("even", even), ("linear", linear)):
        for u_q40 in (2**24, 2**36, 2**38 + 77, 3 * 2**38, U_ONE_Q40 - 256, U_ONE_Q40):
            tape.case(f"spacing/{name}/{u_q40}", params)
            random = Random(u_q40)
            tape.set_state(started=1, u_q40=u_q40)
            for _ in range(16):
                tape.decide(10000, 15000, random.getrandbits(1), random.getrandbits(32), random.getrandbits(32))
        tape.case(f"spacing/{name}/limits", params)
        least_q32, most_q32 = params.space_least_q16 << 16, params.space_most_q16 << 16
        tape.set_state(started=1, u_q40=2**38)
        p_q32 = 2**28 if params.squared else 2**30
        for limit_q32 in (least_q32, most_q32):
            for off in (-1, 0, 1):
                for rand_a in (0, p_q32 - 1, p_q32, U32_MAX):
                    tape.set_spacing(sum_q32=limit_q32 - p_q32 + off)
                    tape.decide(10000, 15000, 0, rand_a, 0)
        tape.set_spacing(sum_q32=least_q32)
        tape.decide(3027, 15000, 0, 0, 0)  # too few bytes: the sum stays
        tape.decide(3028, 7499, 0, 0, 0)  # too short a delay: it stays as well
        tape.set_state(started=1, u_q40=0)
        tape.decide(0, 0, 0, 0, 0)  # U = 0 sets it back
    tape.case("spacing/greatest", EXTREMES["greatest"])
    tape.set_state(started=1, u_q40=U_ONE_Q40 - 1)
    tape.set_spacing(sum_q32=2**36 - 2**16 - 1)
    tape.decide(U32_MAX, U32_MAX, 0, U32_MAX, U32_MAX)


def delay_bound(tape: Tape) -> None:
    """Beyond the bound in time: the slope, its end at 1, what does not hold it back, and with a sum."""
    cliff = replace(BOUNDED, delay_bound_slope_q40_per_us=U32_MAX)
    spaced = replace(BOUNDED, space_least_q16=55706, space_most_q16=557056)
    linear = replace(BOUNDED, squared=0)
    for name, params in (("slope", BOUNDED), ("cliff", cliff), ("spaced", spaced), ("linear", linear)):
        tape.case(f"delay-bound/{name}", params)
        for u_q40 in (0, 2**37, U_ONE_Q40):
            tape.set_state(started=1, u_q40=u_q40)
            for tau_us in (24999, 25000, 25001, 25256, 25257, 27000, 29095, 29096, 29097, TAU_MAX_US, U32_MAX):
                over_q32 = law.excess_q32(params, 10000, tau_us, law.Size.SMALL)
                p_q32 = over_q32 + ((u_q40 >> 9) ** 2 >> 30 if params.squared else u_q40 >> 8)
                for rand_a in sorted({min(max(p_q32 - 1, 0), U32_MAX), min(p_q32, U32_MAX)}):
                    tape.decide(10000, tau_us, 0, rand_a, U32_MAX)
        tape.case(f"delay-bound/{name}/least-delay", replace(params, min_delay_us=30000))
        tape.set_state(started=1, u_q40=U_ONE_Q40 // 2)
        for tau_us in (25000, 25001, 27000, 29999, 30000):
            for rand_a in (0, 2**23, 2**31, U32_MAX):
                tape.decide(10000, tau_us, 1, rand_a, 0)
        tape.decide(3027, TAU_MAX_US, 1, 0, 0)
    _limit_and_guard(tape)


def _limit_and_guard(tape: Tape) -> None:
    """The second bound, from which all packets are dropped or marked, and the backlog below which neither counts."""
    limited = replace(BOUNDED, delay_limit_us=26000)
    alone = replace(PLAIN, delay_limit_us=26000)
    guarded = replace(limited, delay_guard_bytes=1514)
    spaced = replace(guarded, space_least_q16=65536, space_most_q16=2 * 65536)
    for name, params in (("limit", limited), ("limit-alone", alone), ("guard", guarded), ("guard-spaced", spaced)):
        tape.case(f"delay-bound/{name}", params)
        full = 2**params.dq_shift + params.delay_guard_bytes
        for u_q40 in (0, 2**39):
            tape.set_state(started=1, u_q40=u_q40)
            for tau_us in (25000, 25999, 26000, U32_MAX):
                for backlog_bytes in (3027, full - 1, full):
                    tape.decide(backlog_bytes, tau_us, 0, 2**26, U32_MAX)
    tape.case("delay-bound/guard-greatest", replace(limited, delay_guard_bytes=U32_MAX, dq_shift=24))
    for backlog_bytes in (U32_MAX, 2**32 + 2**24 - 2, 2**32 + 2**24 - 1):
        tape.decide(backlog_bytes, 26000, 0, U32_MAX, U32_MAX)


def share(tape: Tape) -> None:
    """Counters of flows, their halving and their mean; drops and marks that wait for a large flow; the bound for large
    flows."""
    for shift in (10, 17, 24):
        tape.case(f"share/halving/{shift}", replace(SHARED, share_shift=shift))
        half_us = 1 << shift
        for gap_us in (0, half_us - 1, half_us, 3 * half_us + 7, 31 * half_us, 32 * half_us - 1, 32 * half_us, -1):
            tape.set_flow(1, flow_bytes=U32_MAX, flow_last_us=SECOND_US, share_mean_q6=2**32)
            tape.arrival(1, SECOND_US + gap_us, 1514)
        for now_us in (2**63 + SECOND_US, 2**63 + SECOND_US - 1, 2**64 - 1):
            tape.set_flow(1, flow_bytes=12345, flow_last_us=SECOND_US)
            tape.arrival(1, now_us, 60)
            tape.arrival(1, (now_us + half_us) % 2**64, 60)
    tape.case("share/greatest", replace(SHARED, share_least_q16=2**20 - 1))
    tape.set_flow(1, flow_bytes=U32_MAX, share_mean_q6=2**38 - 1)
    for len_bytes in (0, 1, BYTES_MAX, 2**64 - 1):
        tape.arrival(1, 5, len_bytes)
    tape.case("share/off", replace(SHARED, share_least_q16=0))
    tape.set_flow(1, flow_bytes=5, flow_last_us=7, share_mean_q6=11)
    tape.arrival(1, SECOND_US, 1514)
    for least_q16 in (1, 65536, 72089, 2**20 - 1):
        tape.case(f"share/mean/{least_q16}", replace(SHARED, share_least_q16=least_q16))
        random = Random(least_q16)
        for k in range(40):
            tape.arrival(
                random.getrandbits(2) & random.getrandbits(2), SECOND_US + 7000 * k, 40 + random.getrandbits(10)
            )
    linear = replace(SHARED, squared=0)
    unspaced = replace(SHARED, space_least_q16=0, space_most_q16=0)
    for name, params in (("squared", SHARED), ("linear", linear), ("unspaced", unspaced)):
        tape.case(f"share/waits/{name}", params)
        tape.set_state(started=1, u_q40=2**39)
        for k in range(40):
            tape.decide(10000, 15000, k & 1, U32_MAX * (k % 3 == 0), 0, int(k % 7 == 6))
        for least_q32, size in ((2**32, 0), (2**32, 1), (2**33, 0), (2**33, 1)):
            for off in (-1, 0):
                p_q32 = 2**30 if params.squared else 2**31
                tape.set_spacing(sum_q32=least_q32 - p_q32 + off)
                tape.decide(10000, 15000, 0, 0, 0, size)
        tape.set_spacing(sum_q32=2**32)
        for u_q40 in (0, 2**20):  # U at 0 sets the sum back; at p = 0 the hit that waits still comes
            tape.set_state(started=1, u_q40=u_q40)
            for size in (0, 1, 2):
                tape.set_spacing(sum_q32=2**32)
                tape.decide(10000, 15000, 0, 0, 0, size)
        tape.case(f"share/bounds/{name}", params)
        for u_q40 in (0, 2**38):
            tape.set_state(started=1, u_q40=u_q40)
            for tau_us in (18750, 18751, 19007, 26249, 26250):
                for backlog_bytes in (5609, 5610):
                    for size in (0, 1, 2):
                        tape.decide(backlog_bytes, tau_us, 0, U32_MAX, U32_MAX, size)
    _new_flows(tape)


def _new_flows(tape: Tape) -> None:
    """Sparing of a flow's first packet: up to which delay, from what, and the sum at which it is dropped or marked all
    the same."""
    sparing = replace(SHARED, ecn_drop_us=90000, ecn_bound_q32=2**32)
    unspaced = replace(sparing, space_least_q16=0, space_most_q16=0)
    for name, params in (("spared", sparing), ("spared-unspaced", unspaced), ("not-spared", SHARED)):
        tape.case(f"share/new/{name}", params)
        for u_q40 in (0, 2**39, U_ONE_Q40):
            tape.set_state(started=1, u_q40=u_q40)
            for tau_us in (26250, 89999, 90000):
                for size in (0, 1, 2):
                    for sum_q32 in (0, 2**32):
                        tape.set_spacing(sum_q32=sum_q32)
                        tape.decide(10000, tau_us, 0, 2**31, 2**31, size)


def marks(tape: Tape) -> None:
    """The bound for ECN by a mean of U, and the delay from which ECT packets are dropped."""
    for name, params in (("marking", MARKING), ("linear", replace(MARKING, squared=0))):
        tape.case(f"marks/{name}/mean", params)
        now_us = tape.steps([15000] * 2 + [30000] * 20 + [16000] * 20 + [5000] * 20)
        tape.update(now_us + 10**6, 0)  # idle
        bound_q32 = params.ecn_bound_q32
        for u_q40, mean_q32 in ((2**38, bound_q32 - 1), (2**38, bound_q32), (2**38, bound_q32 + 1), (U_ONE_Q40, 0)):
            tape.case(f"marks/{name}/{u_q40}/{mean_q32}", params)
            tape.set_state(started=1, u_q40=u_q40, u_ecn_q40=mean_q32 << 8)
            for tau_us in (15000, 49999, 50000):
                for ect in (0, 1):
                    for rand_a in (2**28 - 1, 2**28, 2**29 - 1, 2**29, 3 * 2**28):
                        tape.decide(10000, tau_us, ect, rand_a, 2**29)
    smooth = replace(SHARED, ecn_weight_shift=6, ecn_drop_us=90000, ecn_bound_q32=2**32)
    for name, params in (("smooth", smooth), ("momentary", replace(smooth, ecn_weight_shift=0))):
        tape.case(f"marks/{name}", params)
        for u_q40, mean_q40 in ((0, 2**39), (1, U_ONE_Q40), (2**39, 0), (U_ONE_Q40, 2**38), (U_ONE_Q40, U_ONE_Q40)):
            tape.set_state(started=1, u_q40=u_q40, u_ecn_q40=mean_q40)
            for tau_us in (7499, 26250, 89999, 90000):
                for ect in (0, 1):
                    tape.set_spacing(sum_q32=2**32 - 2**28)
                    tape.decide(10000, tau_us, ect, 0, 0, 1)
    for spaced_q16 in (0, 65536):
        params = replace(MARKING, space_least_q16=spaced_q16, space_most_q16=spaced_q16)
        tape.case(f"marks/spaced={spaced_q16}", params)
        tape.set_state(started=1, u_q40=2**38 + 12345, u_ecn_q40=2**36)
        for rand_a in (0, 2**24, 2**28, 2**30, U32_MAX):
            for ect in (0, 1):
                tape.decide(10000, 15000, ect, rand_a, 2**30)
    for weight in (1, 15):
        tape.case(f"marks/weight={weight}", replace(MARKING, ecn_weight_shift=weight))
        tape.set_state(started=1, u_q40=U_ONE_Q40, u_ecn_q40=U_ONE_Q40, last_us=SECOND_US)
        for k in range(1, 4):
            tape.update(SECOND_US + 5000 * k, 60000)


def random_steps(tape: Tape) -> None:
    """Random parameters, states, times and delays of any magnitude."""
    random = Random(20261120)
    sets = list({**PROFILES, **EXTREMES}.items())
    ranges = RANGES.items()
    for k in range(20):
        values = {name: least + _bits(random, most - least) for name, (least, most) in ranges}
        sets.append((f"set-{k}", Params(**values)))
    for name, params in sets:
        tape.case(f"random/{name}", params)
        now_us = random.getrandbits(64)
        for _ in range(11):
            gap_us = tape.params.interval_us + _bits(random, 2 * tape.params.interval_us) - random.getrandbits(1)
            if random.getrandbits(4) == 0:
                gap_us = _bits(random, 2**64 - 1)
            now_us = (now_us + gap_us) % 2**64
            tape.update(now_us, _bits(random, U32_MAX) if random.getrandbits(1) else _bits(random, 60000))
            tape.departure(now_us, _bits(random, 2**64 - 1), _bits(random, 2**64 - 1))
            tape.tau(_bits(random, 2**64 - 1))
            delay_us = _bits(random, U32_MAX)
            rand_a, rand_b = _bits(random, U32_MAX), _bits(random, U32_MAX)
            size = tape.arrival(random.getrandbits(2), now_us, _bits(random, 2**64 - 1))
            tape.decide(_bits(random, 2**64 - 1), delay_us, random.getrandbits(1), rand_a, rand_b, size)


def closed_loop(tape: Tape) -> None:
    """A queue of 1500-byte packets at 10 Mbit/s under the law: everything together, as a data plane runs it."""
    every = replace(BOUNDED, space_least_q16=55706, space_most_q16=557056, ecn_weight_shift=4)
    sets = {
        **PROFILES,
        "coupled": profile("coupled").to_params(),
        "every": replace(every, ecn_drop_us=40000),
        "share": replace(SHARED, share_shift=14),
    }
    for name, params in sets.items():
        tape.case(f"closed-loop/{name}", params)
        random = Random(1)
        backlog_bytes, now_us, next_departure_us = 0, SECOND_US, 0
        steps = 140 if name in PROFILES else 70
        for k in range(steps):
            now_us += 250 + random.getrandbits(10) if k < steps - 30 else 2000
            while backlog_bytes and next_departure_us <= now_us:
                backlog_bytes -= 1500
                tape.departure(next_departure_us, 1500, backlog_bytes)
                next_departure_us += 1200
            tau_us = tape.tau(backlog_bytes)
            tape.update(now_us, tau_us)
            rand_a, rand_b = random.getrandbits(32), random.getrandbits(32)
            size = 0
            if params.share_least_q16:  # three flows, the first sends three packets of four
                size = tape.arrival((0, 1, 0, 0, 0, 2, 0, 0)[k % 8], now_us, 1500)
            if tape.decide(backlog_bytes, tau_us, k & 1, rand_a, rand_b, size) != law.Verdict.DROP:
                if not backlog_bytes:
                    next_departure_us = now_us + 1200
                backlog_bytes += 1500


FILES: dict[str, Callable[[Tape], None]] = {
    "steady": steady,
    "step-up": step_up,
    "step-down": step_down,
    "idle": idle,
    "rows": rows,
    "saturation": saturation,
    "clock": clock,
    "departures": departures,
    "decide": decide,
    "spacing": spacing,
    "delay-bound": delay_bound,
    "share": share,
    "marks": marks,
    "random": random_steps,
    "closed-loop": closed_loop,
}


def generate() -> Iterator[tuple[str, str]]:
    """File name and text of each vector file."""
    for name, fill in FILES.items():
        tape = Tape()
        fill(tape)
        yield f"{name}.jsonl", "\n".join(tape.lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the vector files; 2 on a wrong argument."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m weir.vectors FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    if not folder.is_dir():
        print(f"weir.vectors: {folder}: no such folder; must be one that exists", file=sys.stderr)
        return 2
    others = (
        ("bands/arrival.jsonl", bands_vectors.generate()),
        ("coupled/decide.jsonl", coupled_vectors.generate_decide()),
        ("coupled/follow.jsonl", coupled_vectors.generate_follow()),
        ("fair/share.jsonl", fair_vectors.generate()),
        ("fair/hosts.jsonl", hosts_vectors.generate()),
        ("icn/names.json", names_vectors.generate()),
        ("scone/advice.jsonl", scone_vectors.generate()),
    )
    for name, text in [*generate(), *others]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{name}: {text.count(chr(10))} lines, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
