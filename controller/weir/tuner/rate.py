# SPDX-License-Identifier: Apache-2.0
"""A shaper's rate that follows the line behind it: probes and byte counts in, a rate out. Pure.

The line's queue is beyond the shaper, so no counter of this machine shows it. Small probes that bypass the shaper wait
there. Of each the shaper's byte counter at its departure is known: as long as that queue is never empty, the bytes
sent between two probes left the line between their two answers. Their quotient is the line's rate, without a model of
the line (docs/design/tuner.md).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

PACKET_BITS = 1514 * 8
LIMITS_BIT_S = (8e3, 1e11)
TARGET_LIMITS_US = (1_000, 1_000_000)
LOAD_US = 250_000
"""Load is what was sent of what the rate allowed, over this time."""
LOADED, UNLOADED = 0.8, 0.4
"""From LOADED on the shaper limits the traffic, and its rate may grow. Below UNLOADED a delay has another cause."""
USED, USED_US = 0.7, 100_000
"""Growth stops while so much of the present rate is not used over this time: the senders can't follow."""
GROWTH_PER_S = 1.5
"""At first. The delay it causes by the time that the first answer shows it is a few ms."""
GROWTH_MOST_PER_S = 4.0
GROWTH_DOUBLES_S = 0.5
GROWTH_PER_ROUND = 0.3
"""At most, of the time until an answer can show the growth."""
"""A line that has become much faster is found in seconds."""
DRAIN_PER_S = 4.0
"""A delay of 1/DRAIN_PER_S above the target would stop all traffic; the queue drains in about that time. The loop of
answer and rate is stable while answers take less than pi / 2 of it."""
SHARE_LEAST = 0.3
"""Of the measured rate: senders that get less than that time out."""
LINE_FRESH_US = 500_000
"""A queue that was drained within this time after a measurement leaves a line of that rate."""
WINDOW_US = (60_000, 250_000)
"""The rate is measured between answers at least and at most so far apart."""
FRESH_US = 300_000
"""An answer to a probe sent before that says nothing of the queue now."""
LOST_US = 10_000_000
"""A probe without an answer after so long is lost."""
KEPT_US = 10_000_000
"""Answers and rates are kept for so long."""
SILENT_US = 5_000_000
"""No answers for so long while traffic flows: the reflectors fail, not the line."""
JUMP_US = 1_000_000
"""A longer time between two ticks is a clock's jump, or a machine that slept."""
BASE_BUCKET_US, BASE_BUCKETS = 5_000_000, 12
"""The least round trip of the last minute is the line's without a queue."""
STUCK_FALL, STUCK_US, STUCK_DELAYS = 0.4, 400_000, 2.5
"""A rate that has fallen to STUCK_FALL drains a queue within STUCK_DELAYS times its delay. A delay that is then still
the same is no queue's: the path has become longer, or its delay varies by itself."""
STUCK_SPREAD, STUCK_SPREAD_US, STUCK_LEAST = 0.1, 2_000, 4
"""The same: to within this share or time, over so many answers."""
NOISE_LEAST, NOISE_SPREAD, NOISE_MOST_US = 24, 0.25, 30_000
"""Noise: of so many answers a share of TURNS_LEAST is above or below both adjacent values (noise has two thirds;
a queue rises and falls in runs), and both halves have one mean. The target is raised by the mean."""
TURNS_LEAST = 0.6
NOISE_HALVES_S = 30.0
"""The allowance for a delay that varies by itself halves in this time."""
DRAIN_EVERY_US, DRAIN_SHARE, DRAIN_US = 10_000_000, 0.75, 400_000
"""A queue that was not empty for so long is drained for a moment, so that the least round trip is seen again."""
EMPTY_SHARE = 0.15
"""Up to this share of the target the queue counts as empty."""
START_US = 1_000_000
"""So long the rate is the lowest, which drains a queue that stands already: the least round trip has to be seen."""
MISSED_CHANCE, MISSED_GAIN = 0.01, 0.05
"""Overdue probes are evidence of a queue when the chance of losing that many in a row is at most this. Gain of the
share of lost probes."""
IDLE_S = 10.0
"""Time constant of the return to the base rate without load: a measurement ages."""


@dataclass(frozen=True)
class RateSettings:
    """Bounds of a rate, and the delay allowed in the line's queue. ValueError names the wrong value."""

    min_bit_s: float
    base_bit_s: float
    max_bit_s: float
    target_us: int = 30_000

    def __post_init__(self) -> None:
        least, most = LIMITS_BIT_S
        for name in ("min_bit_s", "base_bit_s", "max_bit_s"):
            value = getattr(self, name)
            if not least <= value <= most:  # NaN as well
                raise ValueError(f"{name} = {value:g}: must be {least:g} .. {most:g}")
        if not self.min_bit_s <= self.base_bit_s <= self.max_bit_s:
            raise ValueError(
                f"min_bit_s {self.min_bit_s:g}, base_bit_s {self.base_bit_s:g}, max_bit_s {self.max_bit_s:g}: "
                "must be in that order"
            )
        if not TARGET_LIMITS_US[0] <= self.target_us <= TARGET_LIMITS_US[1]:
            raise ValueError(f"target_us = {self.target_us}: must be {TARGET_LIMITS_US[0]} .. {TARGET_LIMITS_US[1]}")


@dataclass(frozen=True)
class RateDecision:
    """A tick's result. `action`: grow, follow, drain, hold, idle, blind, path. delay_us and line_bit_s: as measured,
    None where nothing was."""

    t_us: int
    rate_bit_s: float
    action: str
    delay_us: float | None
    line_bit_s: float | None
    load: float


@dataclass(frozen=True)
class _Probe:
    reflector: str
    sent_us: int
    total_bytes: int


@dataclass(frozen=True)
class _Answer:
    reflector: str
    sent_us: int
    delay_us: float
    total_bytes: int

    @property
    def left_us(self) -> float:
        """When it left the line's queue, but for a constant."""
        return self.sent_us + self.delay_us


class Baseline:
    """The least round trip to one reflector over the last minute."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, float]] = deque()

    def add(self, now_us: int, rtt_us: float) -> None:
        number = now_us // BASE_BUCKET_US
        if self._buckets and self._buckets[-1][0] >= number:
            last, least = self._buckets[-1]
            self._buckets[-1] = last, min(least, rtt_us)
        else:
            self._buckets.append((number, rtt_us))
        while self._buckets[0][0] <= self._buckets[-1][0] - BASE_BUCKETS:
            self._buckets.popleft()

    @property
    def least_us(self) -> float | None:
        return min((least for _, least in self._buckets), default=None)

    def shift(self, by_us: float) -> None:
        """The path has become longer by so much."""
        self._buckets = deque((number, least + by_us) for number, least in self._buckets)


class RateRule:
    """`sent` and `answered` for each probe, then `tick` as often as the rate may change. `now_us` is a clock that
    should not go back; where it does, or leaps, what was measured is forgotten and the rate stays."""

    def __init__(self, settings: RateSettings, now_us: int, rate_bit_s: float | None = None) -> None:
        self.settings = settings
        self.rate_bit_s = self._bounded(settings.base_bit_s if rate_bit_s is None else rate_bit_s)
        self._baselines: dict[str, Baseline] = {}
        self._now_us = now_us
        self._missed = 0.0
        self._noise_us = 0.0
        self._is_started = False
        self._forget()

    def _forget(self) -> None:
        self._open: dict[int, _Probe] = {}
        self._answers: deque[_Answer] = deque()
        self._loads: deque[tuple[int, int, float]] = deque()  # time, bytes sent, bits allowed since the one before
        self._answered_us: int | None = None
        self._news = False
        self._grown_us = 0
        self._stuck: int | None = None  # when the rate had fallen far
        self._high: deque[tuple[int, float]] = deque()  # rates of the last seconds
        self._empty_us = self._now_us
        self._drain_until_us: int | None = None
        self._line_bit_s: float | None = None
        self._start_until_us: int | None = None
        self._line_us: int | None = None  # when it was measured, until it is used

    def _bounded(self, rate_bit_s: float) -> float:
        return min(max(rate_bit_s, self.settings.min_bit_s), self.settings.max_bit_s)

    # ---- probes ----

    def sent(self, key: int, reflector: str, now_us: int, total_bytes: int) -> None:
        """A probe leaves; total_bytes: the shaper's counter at that moment."""
        self._open[key] = _Probe(reflector, now_us, total_bytes)

    def answered(self, key: int, now_us: int) -> bool:
        """An answer came. False where it is to no open probe, or late."""
        probe = self._open.pop(key, None)
        if probe is None or now_us < probe.sent_us:
            return False
        self._missed -= MISSED_GAIN * self._missed
        rtt_us = float(now_us - probe.sent_us)
        baseline = self._baselines.setdefault(probe.reflector, Baseline())
        baseline.add(now_us, rtt_us)
        least_us = baseline.least_us
        assert least_us is not None  # it has just been given one
        answer = _Answer(probe.reflector, probe.sent_us, rtt_us - least_us, probe.total_bytes)
        place = len(self._answers)
        while place and self._answers[place - 1].sent_us > answer.sent_us:
            place -= 1  # a nearer reflector has answered a later probe
        self._answers.insert(place, answer)
        self._answered_us, self._news = now_us, True
        return True

    # ---- the rule ----

    def tick(self, now_us: int, total_bytes: int) -> RateDecision:
        passed_us = now_us - self._now_us
        self._now_us = now_us
        if not 0 <= passed_us <= JUMP_US or (self._loads and total_bytes < self._loads[-1][1]):
            self._forget()
            return self._decision("hold", None, 0.0)
        load = self._load(now_us, total_bytes, passed_us)
        self._expire(now_us)
        delay_us, overdue = self._delay_us(now_us)
        action = self._act(now_us, passed_us, load, delay_us, overdue)
        self.rate_bit_s = self._bounded(self.rate_bit_s)
        return self._decision(action, delay_us, load)

    def _decision(self, action: str, delay_us: float | None, load: float) -> RateDecision:
        return RateDecision(self._now_us, self.rate_bit_s, action, delay_us, self._line_bit_s, load)

    def _load(self, now_us: int, total_bytes: int, passed_us: int) -> float:
        self._loads.append((now_us, total_bytes, self.rate_bit_s * passed_us / 1e6))
        while self._loads[0][0] < now_us - LOAD_US:
            self._loads.popleft()
        allowed = math.fsum(bits for _, _, bits in list(self._loads)[1:])
        return 8 * (total_bytes - self._loads[0][1]) / allowed if allowed > 0 else 0.0

    def _used(self) -> float:
        """Share of the present rate that was sent lately."""
        now_us, total_bytes, _ = self._loads[-1]
        for at_us, sent_bytes, _ in reversed(self._loads):
            if now_us - at_us >= USED_US:
                return 8e6 * (total_bytes - sent_bytes) / (now_us - at_us) / self.rate_bit_s
        return 1.0

    def _expire(self, now_us: int) -> None:
        lost = [key for key, probe in self._open.items() if now_us - probe.sent_us >= LOST_US]
        for key in lost:
            del self._open[key]
            self._missed += MISSED_GAIN * (1 - self._missed)
        while self._answers and self._answers[0].left_us < now_us - KEPT_US:
            self._answers.popleft()

    def _delay_us(self, now_us: int) -> tuple[float | None, _Answer | None]:
        """The delay in the line's queue, and the overdue probe that shows it where answers don't."""
        if self._answered_us is None or now_us - self._answered_us >= SILENT_US:
            return None, None
        known = None
        if self._answers and now_us - self._answered_us < FRESH_US:
            known = min(answer.delay_us for answer in list(self._answers)[-2:])
        last_us = self._answers[-1].sent_us if self._answers else -1
        overdue = []
        for probe in self._open.values():
            baseline = self._baselines.get(probe.reflector)
            if probe.sent_us > last_us and baseline is not None and baseline.least_us is not None:
                waited_us = now_us - probe.sent_us - baseline.least_us
                if waited_us > 0:
                    overdue.append(_Answer(probe.reflector, probe.sent_us, waited_us, probe.total_bytes))
        overdue.sort(key=lambda answer: -answer.delay_us)
        place = 1  # one missing answer may be a lost packet
        if self._missed > 0:
            place = max(place, math.ceil(math.log(MISSED_CHANCE) / math.log(min(self._missed, 0.99))) - 1)
        if len(overdue) > place and overdue[place].delay_us > (known or 0.0):
            return overdue[place].delay_us, overdue[place]
        return known, None

    def _target_us(self) -> float:
        """Two packets more: the one on the line, and the one that a shaper lets go at once."""
        rate_bit_s = max(self.rate_bit_s, self.settings.min_bit_s)
        return self.settings.target_us + self._noise_us + 2e6 * PACKET_BITS / rate_bit_s

    def _measured_bit_s(self, overdue: _Answer | None) -> float | None:
        """The line's rate between two answers. With the first from an empty queue it is a lower bound; with an overdue
        probe in the place of the second an upper one."""
        answers = [*self._answers, *([overdue] if overdue is not None else [])]
        found = None
        for first in reversed(answers[:-1]):
            apart_us = answers[-1].left_us - first.left_us
            if apart_us > 0 and (found is None or apart_us <= WINDOW_US[1]):
                found = 8e6 * (answers[-1].total_bytes - first.total_bytes) / apart_us
            if apart_us >= WINDOW_US[0]:
                break
        return found

    def _act(self, now_us: int, passed_us: int, load: float, delay_us: float | None, overdue: _Answer | None) -> str:
        news, self._news = self._news, False
        self._noise_us *= 0.5 ** (passed_us / 1e6 / NOISE_HALVES_S)
        if delay_us is None:
            return self._without_answers(now_us, passed_us, load)
        target_us = self._target_us()
        if delay_us <= EMPTY_SHARE * target_us or load < UNLOADED:
            self._empty_us, self._drain_until_us = now_us, None
        if not self._is_started:
            if self._start_until_us is None:
                self._start_until_us = now_us + START_US
            self._is_started = now_us >= self._start_until_us
            self.rate_bit_s = self.settings.base_bit_s if self._is_started else self.settings.min_bit_s
            return "start"
        if self._drain_until_us is not None and now_us < self._drain_until_us:
            return "drain"
        if now_us - self._empty_us > DRAIN_EVERY_US:
            self._empty_us, self._drain_until_us = now_us, now_us + DRAIN_US
            self.rate_bit_s = DRAIN_SHARE * min(self.rate_bit_s, self._line_bit_s or self.rate_bit_s)
            return "drain"
        if delay_us <= target_us:
            if self._line_bit_s is not None and self._line_us is not None:
                is_fresh, self._line_us = now_us - self._line_us < LINE_FRESH_US, None
                if is_fresh and self._line_bit_s > self.rate_bit_s:
                    self.rate_bit_s = self._line_bit_s
                    return "follow"
            return self._below(passed_us, load, delay_us / target_us)
        self._grown_us = 0
        if load < UNLOADED:
            return self._idle(passed_us)
        if not (news or overdue):
            return "hold"
        self._note_fall(now_us)
        if overdue is None and self._path_changed(now_us):
            return "path"
        line_bit_s = self._measured_bit_s(overdue)
        if line_bit_s is None:
            return "hold"
        if overdue is None:
            self._line_bit_s, self._line_us = line_bit_s, now_us
        wanted = line_bit_s * max(1 - DRAIN_PER_S * (delay_us - target_us) / 1e6, SHARE_LEAST)
        self.rate_bit_s = wanted if overdue is None else min(wanted, self.rate_bit_s)  # a bound, no measurement
        return "follow"

    def _below(self, passed_us: int, load: float, share: float) -> str:
        if load < UNLOADED:
            self._grown_us = 0
            return self._idle(passed_us)
        if load < LOADED or self._used() < USED:
            return "hold"
        self._grown_us += passed_us
        growth = min(GROWTH_PER_S * 2 ** (self._grown_us / 1e6 / GROWTH_DOUBLES_S), GROWTH_MOST_PER_S)
        growth = min(growth, 1e6 * GROWTH_PER_ROUND / self._round_us())
        self.rate_bit_s *= 1 + growth * (1 - share) * passed_us / 1e6
        return "grow"

    def _round_us(self) -> float:
        """Time between a change of the rate and the answer that shows it: a round trip and the time between probes."""
        nearest_us = min((base.least_us or 0.0 for base in self._baselines.values()), default=0.0)
        answers = list(self._answers)[-2:]
        return nearest_us + (answers[-1].sent_us - answers[0].sent_us if len(answers) == 2 else 0) + 1.0

    def _idle(self, passed_us: int) -> str:
        base = self.settings.base_bit_s
        self.rate_bit_s += (base - self.rate_bit_s) * min(passed_us / 1e6 / IDLE_S, 1.0)
        return "idle"

    def _without_answers(self, now_us: int, passed_us: int, load: float) -> str:
        """Senders stop in an outage. Where traffic flows on, the line works, and the reflectors don't."""
        if load < UNLOADED:
            return "hold"
        self._idle(passed_us)
        return "blind"

    # ---- paths ----

    def _note_fall(self, now_us: int) -> None:
        """Keeps the highest rate of the last seconds, and when the rate had fallen far below it."""
        self._high.append((now_us, self.rate_bit_s))
        while self._high[0][0] < now_us - KEPT_US:
            self._high.popleft()
        highest = max(rate for _, rate in self._high)
        if self.rate_bit_s > STUCK_FALL * highest:
            self._stuck = None
        elif self._stuck is None:
            self._stuck = now_us

    def _path_changed(self, now_us: int) -> bool:
        """Whether the delay stayed as it was while the rate fell. The least round trips then rise by it."""
        if self._stuck is None:
            return False
        since_us = self._stuck
        answers = [answer for answer in self._answers if answer.sent_us >= since_us]
        if len(answers) < STUCK_LEAST:
            return False
        delays = [answer.delay_us for answer in answers]
        least_us, mean_us = min(delays), math.fsum(delays) / len(delays)
        if answers[-1].sent_us - since_us < max(STUCK_US, STUCK_DELAYS * mean_us):
            return False
        if self._is_dropping(since_us, answers[-1].sent_us):
            return False
        if max(delays) - least_us <= max(STUCK_SPREAD * max(delays), STUCK_SPREAD_US):
            for baseline in self._baselines.values():
                baseline.shift(least_us)
        elif len(delays) >= NOISE_LEAST and _is_noise(delays):
            self._noise_us = min(self._noise_us + mean_us - least_us, NOISE_MOST_US)
        else:
            return False
        self._answers.clear()
        self._stuck = None
        self._high.clear()
        return True

    def _is_dropping(self, since_us: int, until_us: int) -> bool:
        """Whether a probe to a reflector that answers is missing: a full queue has a constant delay as well."""
        answering = {one.reflector for one in self._answers if one.sent_us >= since_us}
        return any(
            since_us <= probe.sent_us < until_us and probe.reflector in answering for probe in self._open.values()
        )


def _is_noise(delays: list[float]) -> bool:
    """Values without a trend: many turn, and both halves have one mean."""
    turns = sum((b - a) * (c - b) < 0 for a, b, c in zip(delays, delays[1:], delays[2:], strict=False))
    half = len(delays) // 2
    first, second = math.fsum(delays[:half]) / half, math.fsum(delays[-half:]) / half
    return turns >= TURNS_LEAST * (len(delays) - 2) and second >= (1 - NOISE_SPREAD) * first
