# SPDX-License-Identifier: Apache-2.0
"""One port's samples over time: rates from counters, and which samples can't be trusted; pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..dataplane.base import Sample

GAP = "gap"
REPEAT = "repeat"
BACK = "time going back"
RESET = "counters reset"
TROUBLES = (GAP, REPEAT, BACK, RESET)


@dataclass(frozen=True, slots=True)
class Rates:
    """Means over the last `over_us`, by the data plane's clock. passed_*: what entered the queue."""

    over_us: int
    passed_packets_s: float
    passed_bit_s: float
    marks_s: float
    drops_aqm_s: float
    drops_limit_s: float

    @property
    def drops_s(self) -> float:
        return self.drops_aqm_s + self.drops_limit_s


@dataclass(frozen=True, slots=True)
class Taken:
    """Result of a sample. trouble: one of TROUBLES, then the sample must not be used to judge the queue, and `words`
    describes it. rates: None with trouble, and until there are two good samples in a row."""

    rates: Rates | None = None
    trouble: str | None = None
    words: str = ""

    @property
    def usable(self) -> bool:
        return self.trouble is None


def _counters(sample: Sample) -> tuple[int, ...]:
    return (
        sample.passed_packets,
        sample.passed_bytes,
        sample.marks_packets,
        sample.drops_aqm_packets,
        sample.drops_limit_packets,
    )


_NAMES = ("passed_packets", "passed_bytes", "marks_packets", "drops_aqm_packets", "drops_limit_packets")
# eBPF reads its counters one after the other while packets pass, so that a difference of them may shrink by a few
_SLACK = (64, 64 * 65536, 0, 0, 0)


class Track:
    """One port's samples in the order they came. window_us: rates are means over this. gap_us: a longer silence, if
    also three times as long as the one before, is a gap. A P4 switch is silent while no packet passes, so a gap says
    that the time between is unknown, no more."""

    def __init__(self, window_us: int = 1_000_000, gap_us: int = 2_000_000) -> None:
        self._window_us, self._gap_us = window_us, gap_us
        self._good: deque[Sample] = deque()
        self._step_us: int | None = None
        self._stray: Sample | None = None  # went back; a second one that follows it means that the clock began anew
        self.counts = dict.fromkeys(TROUBLES, 0)

    def take(self, sample: Sample) -> Taken:
        if not self._good:
            self._good.append(sample)
            return Taken()
        last = self._good[-1]
        step_us = sample.t_us - last.t_us
        if step_us == 0:
            return self._trouble(REPEAT, f"a second sample of {sample.t_us} us")
        if step_us < 0:
            stray, self._stray = self._stray, sample
            if stray is None or sample.t_us <= stray.t_us:
                return self._trouble(BACK, f"{-step_us} us before the last sample")
            self._start(sample)
            return self._trouble(BACK, f"{-step_us} us before the last good sample, and going on: its clock began anew")
        self._stray = None
        before, now = _counters(last), _counters(sample)
        for name, was, counted, slack in zip(_NAMES, before, now, _SLACK, strict=True):
            if counted + slack < was:
                self._start(sample)
                return self._trouble(RESET, f"{name} fell from {was} to {counted}")
        if self._step_us is not None and step_us > max(self._gap_us, 3 * self._step_us):
            self._start(sample)
            return self._trouble(GAP, f"no sample for {step_us / 1e6:.1f} s")
        self._step_us = step_us
        good = self._good
        good.append(sample)
        while len(good) > 2 and sample.t_us - good[1].t_us >= self._window_us:
            good.popleft()
        first = good[0]
        over_us = sample.t_us - first.t_us
        per_s = 1e6 / over_us
        packets, size, marks, aqm, limit = (max(0, b - a) * per_s for a, b in zip(_counters(first), now, strict=True))
        return Taken(Rates(over_us, packets, size * 8, marks, aqm, limit))

    def _start(self, sample: Sample) -> None:
        self._good.clear()
        self._good.append(sample)
        self._step_us = self._stray = None

    def _trouble(self, kind: str, words: str) -> Taken:
        self.counts[kind] += 1
        return Taken(trouble=kind, words=f"{kind}: {words}")
