# SPDX-License-Identifier: Apache-2.0
"""A line with TCP flows and the golden law before its queue, packet by packet; and a tuner beside it.

Small on purpose: ACK-clocked Reno flows that learn of a loss one round trip after it. Time is the simulation's own.
"""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections import deque
from dataclasses import dataclass, field

from weir import law
from weir.dataplane.base import Sample
from weir.gains import Gains
from weir.resources import PROFILES
from weir.settings import load
from weir.tuner.core import Tuner
from weir.tuner.decision import Decision, Effect

PACKET_BYTES = 1500

PAPER = load(PROFILES / "paper.toml")
STEEP = dataclasses.replace(
    PAPER, target_us=15_000, interval_us=5_000, kp=60.0, ki=3.0, kd=0.0, z1=1.25, z2=1.2, z3=0.8, m1_us=20_000,
    m2_us=10_000, integral="keep", probability="squared", idle_halflife_us=100_000,
    min_backlog_bytes=3028, min_delay_share=0.8, dq_shift=12, dq_weight_shift=3,
)  # fmt: skip
"""A PI law of a squared probability. The tests' own, so that another default profile does not change them."""
GENTLE = dataclasses.replace(
    STEEP, interval_us=15_000, kp=20.0, ki=0.5, z1=1.0004, z2=1.0002, z3=0.9998, min_delay_share=0.3,
    space_least=1.0, space_most=2.0, delay_bound_share=1.25, delay_bound_slope=3906.0,
)  # fmt: skip
"""The same with low gains, evenly spaced drops and marks, and a bound in time."""


@dataclass
class _Flow:
    window: float = 10.0
    slow_start: bool = True
    in_flight: int = 0
    recover: int = -1
    sent: int = 0


@dataclass
class Line:
    """`run` to a time in seconds. delays_ms: (t_s, delay) of each packet that left."""

    rate_bit_s: float
    rtt_s: float
    flows: int
    gains: Gains
    seed: int = 1
    limit_packets: int = 1000
    now_s: float = 0.0
    delays_ms: list[tuple[float, float]] = field(default_factory=list)
    sent_bytes: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._state, self._spacing, self._rate = law.State(), law.Spacing(), law.Rate()
        self._params = self.gains.to_params()
        self._queue: deque[tuple[float, int, int]] = deque()
        self._flows = [_Flow() for _ in range(self.flows)]
        self._events: list[tuple[float, int, str, int, int]] = []
        self._number = 0
        self._passed = self._drops = self._limit = 0
        self._free_s = 0.0
        for flow in range(self.flows):
            self._at(self._random.uniform(0, 0.1), "go", flow, 0)

    def join(self, flows: int) -> None:
        """So many more flows start."""
        first = len(self._flows)
        self._flows += [_Flow() for _ in range(flows)]
        for flow in range(first, len(self._flows)):
            self._at(self.now_s + self._random.uniform(0, 0.5), "go", flow, 0)

    def set(self, gains: Gains) -> None:
        self.gains, self._params = gains, gains.to_params()

    def _at(self, t_s: float, what: str, flow: int, number: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (t_s, self._number, what, flow, number))

    def run(self, until_s: float) -> None:
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what, flow, number = heapq.heappop(self._events)
            if what == "leave":
                self._leave()
            elif what == "ack":
                self._ack(self._flows[flow])
                self._send(flow)
            elif what == "lost":
                self._lost(self._flows[flow], number)
                self._send(flow)
            else:
                self._send(flow)
        self.now_s = until_s

    def _send(self, index: int) -> None:
        flow = self._flows[index]
        while flow.in_flight < int(max(flow.window, 1)):
            flow.in_flight += 1
            flow.sent += 1
            self._arrive(index, flow.sent)

    def _ack(self, flow: _Flow) -> None:
        flow.in_flight -= 1
        flow.window += 1 if flow.slow_start else 1 / flow.window

    def _lost(self, flow: _Flow, number: int) -> None:
        flow.in_flight -= 1
        if number > flow.recover:
            flow.recover, flow.slow_start, flow.window = flow.sent, False, max(flow.window / 2, 1.0)

    def _arrive(self, flow: int, number: int) -> None:
        now_us, backlog_bytes = round(self.now_s * 1e6), len(self._queue) * PACKET_BYTES
        tau_us = law.tau_us(self._rate, self._params, backlog_bytes)
        law.update(self._state, self._params, now_us, tau_us)
        rands = self._random.getrandbits(32), self._random.getrandbits(32)
        verdict = law.decide(self._state, self._spacing, self._params, backlog_bytes, tau_us, False, *rands)
        dropped = verdict is law.Verdict.DROP
        if dropped or len(self._queue) >= self.limit_packets:
            self._drops += dropped
            self._limit += not dropped
            self._at(
                self.now_s + self.rtt_s + len(self._queue) * PACKET_BYTES * 8 / self.rate_bit_s, "lost", flow, number
            )
            return
        self._passed += 1
        self._queue.append((self.now_s, flow, number))
        if len(self._queue) == 1:
            self._at(max(self.now_s, self._free_s), "leave", 0, 0)

    def _leave(self) -> None:
        arrived_s, flow, number = self._queue.popleft()
        self.sent_bytes += PACKET_BYTES
        self.delays_ms.append((self.now_s, 1e3 * (self.now_s - arrived_s)))
        self._free_s = self.now_s + PACKET_BYTES * 8 / self.rate_bit_s
        law.departure(self._rate, self._params, round(self.now_s * 1e6), PACKET_BYTES, len(self._queue) * PACKET_BYTES)
        self._at(self.now_s + self.rtt_s, "ack", flow, number)
        if self._queue:
            self._at(self._free_s, "leave", 0, 0)

    def sample(self) -> Sample:
        """Sample of the device now."""
        backlog_bytes = len(self._queue) * PACKET_BYTES
        u = self._state.u_q40 / law.U_ONE_Q40
        drain_q8_us = self._rate.dq_time_q8_us
        return Sample(
            "rig", "p1", round(self.now_s * 1e6) + 1_000_000, law.tau_us(self._rate, self._params, backlog_bytes), u,
            u * u if self._params.squared else u, backlog_bytes,
            round(8e6 * 256 * 2**self._params.dq_shift / drain_q8_us) if drain_q8_us else None,
            self._passed, self._passed * PACKET_BYTES, 0, self._drops, self._limit, self._state.row,
        )  # fmt: skip

    def delays_between(self, begin_s: float, end_s: float) -> list[float]:
        return [delay for t_s, delay in self.delays_ms if begin_s <= t_s < end_s]


def tuned(line: Line, tuner: Tuner, until_s: float, every_s: float = 0.1) -> list[Decision | Effect]:
    """Runs the line with the tuner beside it, as the shell would."""
    told: list[Decision | Effect] = []
    while line.now_s < until_s - 1e-9:
        line.run(min(until_s, line.now_s + every_s))
        sample = line.sample()
        for decision in tuner.sample(sample, sample.t_us):
            told.append(decision)
            if isinstance(decision, Decision) and decision.gains is not None:
                line.set(decision.gains)
                tuner.written()
    return told
