# SPDX-License-Identifier: Apache-2.0
"""A simulated line with a fifo behind a shaper, and the probes that cross it. Deterministic by seed; 1 ms a step."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from weir.tuner.rate import RateDecision, RateRule

STEP_US = 1_000


@dataclass
class SimulatedLine:
    """Time functions take seconds. `load`: of the shaper's rate; jitter_ms is uniform, and on the answers' way back;
    `stopped`: reflectors that do not answer. `offset_us` is added to the clock of the rule."""

    rule: RateRule
    rate_bit_s: Callable[[float], float]
    load: Callable[[float], float] = lambda _: 1.0
    base_ms: float = 20.0
    limit_bytes: float = 300_000.0
    lost_share: float = 0.0
    jitter_ms: float = 0.0
    probe_every_ms: int = 50
    reflectors: tuple[str, ...] = ("a", "b")
    seed: int = 1
    stopped: set[str] = field(default_factory=set)
    offset_us: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.t_us = 0
        self.sent_bytes = 0.0  # by the shaper
        self._in = self._out = 0.0  # the line's queue, in bytes since the start
        self._crossing: deque[tuple[float, int]] = deque()
        self._answers: list[tuple[int, int]] = []
        self._key = 0
        self._dropped_share = 0.0
        self.carried_bytes = self.could_bytes = 0.0
        self.delays_ms: list[float] = []
        self.decisions: list[RateDecision] = []

    @property
    def now_us(self) -> int:
        return self.t_us + self.offset_us

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 1e6 / STEP_US)):
            self._step()

    def _step(self) -> None:
        at_s = self.t_us / 1e6
        line, rate = self.rate_bit_s(at_s), self.rule.rate_bit_s
        sent = rate * min(self.load(at_s), 1.0) * STEP_US / 8e6
        self.sent_bytes += sent
        taken = min(sent, self.limit_bytes - (self._in - self._out))
        self._dropped_share = 1 - taken / sent if sent else 0.0
        self._in += taken
        could = line * STEP_US / 8e6
        carried = min(could, self._in - self._out)
        self._out += carried
        self.carried_bytes, self.could_bytes = self.carried_bytes + carried, self.could_bytes + could
        self.t_us += STEP_US
        self.delays_ms.append((self._in - self._out) * 8e3 / max(line, 1e3))
        if self.t_us % (self.probe_every_ms * 1000) == 0:
            self._probe()
        while self._crossing and self._out >= self._crossing[0][0] - 1e-6:
            back_us = (self.base_ms + self.draw.random() * self.jitter_ms) * 1000
            self._answers.append((self.t_us + round(back_us), self._crossing.popleft()[1]))
        self._answers.sort()
        while self._answers and self._answers[0][0] <= self.t_us:
            self.rule.answered(self._answers.pop(0)[1], self.now_us)
        if self.t_us % (self.probe_every_ms * 500) == 0:
            self.decisions.append(self.rule.tick(self.now_us, round(self.sent_bytes)))

    def _probe(self) -> None:
        self._key += 1
        name = self.reflectors[self._key % len(self.reflectors)]
        self.rule.sent(self._key, name, self.now_us, round(self.sent_bytes))
        lost = self.draw.random() < self.lost_share or self.draw.random() < self._dropped_share
        if name not in self.stopped and not lost:
            self._crossing.append((self._in, self._key))

    def begin_figures(self) -> None:
        self.carried_bytes = self.could_bytes = 0.0
        self.delays_ms.clear()
        self.decisions.clear()

    @property
    def used(self) -> float:
        return self.carried_bytes / self.could_bytes

    def delay_ms(self, share: float) -> float:
        return sorted(self.delays_ms)[int(share * (len(self.delays_ms) - 1))]
