# SPDX-License-Identifier: Apache-2.0
"""Statistics of a port's last samples: capacity, load, delay. Pure; a few microseconds a sample, for a thousand
ports."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from ..dataplane.base import Sample

GAP_US = 3_000_000
"""Samples further apart have nothing to do with each other."""
STEP = 0.12
"""A capacity that differs by more in as many samples as AGREE is another one."""
AGREE = 3
COUNT_PACKETS, COUNT_BYTES, AGREEMENT = 20, 6_000, 0.2
"""A rate is counted over so many packets of a queue never seen empty; it agrees with the reported one within that
share."""
LOAD_US = 3_000_000
"""Fewer samples don't show the load: flows that start, and their first losses, are not how it stays."""


class Faulty(ValueError):
    """A sample that can't follow the ones before it; the message says why."""


LOOK_US, LOOK_SAMPLES = 3_000_000, 20
"""A mean and a deviation take so much."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Statistics of the time between two moments. utilisation: of the capacity as it is thought to be, None while
    unknown. hits: packets that the law dropped or marked; p: their share of those that reached it, which are `packets`.
    lost: the share that was dropped, by the law or by the queue's limit."""

    seconds: float
    samples: int
    delay_mean_us: float
    delay_sd_us: float
    utilisation: float | None
    packets: int
    hits: int
    p: float
    lost: float

    def summary(self) -> dict[str, float | None]:
        """As the `effect` lines have it."""
        return {
            "delay_mean_ms": round(self.delay_mean_us / 1e3, 3),
            "delay_sd_ms": round(self.delay_sd_us / 1e3, 3),
            "utilisation": None if self.utilisation is None else round(self.utilisation, 4),
            "lost_percent": round(100 * self.lost, 3),
        }


def _between(
    first: Sample, last: Sample, count: int, mean_us: float, square: float, capacity_bit_s: float | None
) -> Stretch:
    """The stretch from `first` to `last`, of `count` samples. square: the sum of the squares of what their delays
    differ from the mean by."""
    drops = last.drops_aqm_packets - first.drops_aqm_packets
    hits = drops + last.marks_packets - first.marks_packets
    reached = last.passed_packets - first.passed_packets + drops
    limit = max(0, last.drops_limit_packets - first.drops_limit_packets)
    seconds = (last.t_us - first.t_us) / 1e6
    sent_bytes = last.passed_bytes - first.passed_bytes + first.backlog_bytes - last.backlog_bytes
    return Stretch(
        seconds, count, mean_us, math.sqrt(square / (count - 1)),
        max(0.0, sent_bytes * 8 / seconds / capacity_bit_s) if capacity_bit_s else None,
        reached, hits, hits / reached if reached else 0.0, (drops + limit) / (reached + limit) if reached else 0.0,
    )  # fmt: skip


class Look:
    """The queue's delay since it last did anything new, kept in sums: a port's window is too short to meet many drops
    where round trips are long, and a thousand ports' longer ones too much to keep."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._first: Sample | None = None
        self._count, self._mean_us, self._square = 0, 0.0, 0.0

    def add(self, sample: Sample) -> None:
        if self._first is None:
            self._first = sample
        self._last = sample
        self._count += 1
        ahead = sample.delay_us - self._mean_us
        self._mean_us += ahead / self._count
        self._square += ahead * (sample.delay_us - self._mean_us)

    def told(self, capacity_bit_s: float | None) -> Stretch | None:
        """Statistics so far; None while the time is too short."""
        if self._first is None or self._count < LOOK_SAMPLES or self._last.t_us - self._first.t_us < LOOK_US:
            return None
        return _between(self._first, self._last, self._count, self._mean_us, self._square, capacity_bit_s)


class Window:
    """Samples of the last `span_us`, and the capacity that they show."""

    def __init__(self, span_us: int = 10_000_000):
        self.span_us = span_us
        self.samples: deque[Sample] = deque()
        self.capacity_bit_s: float | None = None
        self._rates: deque[float] = deque(maxlen=5)

    def restart(self) -> None:
        """Forget the samples, keep the capacity."""
        self.samples.clear()
        self._rates.clear()

    def add(self, sample: Sample) -> bool:
        """Takes a sample in. True if it shows a capacity other than before. Raises Faulty, and then has forgotten."""
        last = self.samples[-1] if self.samples else None
        if last is not None:
            why = self._fault(last, sample)
            if why:
                self.restart()
                self.samples.append(sample)
                raise Faulty(why)
        self.samples.append(sample)
        while self.samples[0].t_us < sample.t_us - self.span_us:
            self.samples.popleft()
        rate = self._rate(sample)
        if rate is None:
            return False
        self._rates.append(rate)
        return self._learn(sample.t_us)

    @staticmethod
    def _fault(last: Sample, sample: Sample) -> str | None:
        ahead_us = sample.t_us - last.t_us
        if ahead_us == 0:
            return "a sample twice"
        if ahead_us < 0:
            return f"time went back by {-ahead_us / 1e6:g} s"
        if ahead_us > GAP_US:
            return f"no sample for {ahead_us / 1e6:.1f} s"
        if (
            sample.passed_packets < last.passed_packets
            or sample.passed_bytes < last.passed_bytes
            or sample.drops_aqm_packets < last.drops_aqm_packets
            or sample.marks_packets < last.marks_packets
        ):
            return "counters started anew"
        return None

    def _rate(self, sample: Sample) -> float | None:
        """The line's rate as this sample shows it, None where it shows nothing.

        The data plane's own figure stands as long as nothing is measured anew, also when what it is taken over is
        changed, and a queue that was empty for a while sent less than the line carries. So both are asked, and count
        where they agree; the counters alone where the data plane has none and the queue is long.
        """
        first = None
        for earlier in reversed(self.samples):
            if earlier.backlog_bytes == 0:
                break
            if earlier is not sample:
                first = earlier
                if sample.passed_packets - earlier.passed_packets >= COUNT_PACKETS:
                    break
        if first is None or sample.passed_packets - first.passed_packets < COUNT_PACKETS // 2:
            return None
        sent_bytes = sample.passed_bytes - first.passed_bytes + first.backlog_bytes - sample.backlog_bytes
        counted = sent_bytes * 8e6 / (sample.t_us - first.t_us)
        told = sample.rate_bit_s
        if told is None:
            return counted if min(first.backlog_bytes, sample.backlog_bytes) >= COUNT_BYTES and counted > 0 else None
        return float(told) if told / (1 + AGREEMENT) <= counted <= told * (1 + AGREEMENT) else None

    def _learn(self, now_us: int) -> bool:
        recent = list(self._rates)[-AGREE:]
        if len(recent) < AGREE:
            return False
        middle = sorted(recent)[AGREE // 2]
        known = self.capacity_bit_s
        changed = known is None
        if known is None:
            if max(recent) > min(recent) * (1 + 2 * STEP):
                return False
            known = middle
        elif all(rate > known * (1 + STEP) for rate in recent) or all(rate < known * (1 - STEP) for rate in recent):
            known, changed = middle, True
        else:
            known += 0.03 * (middle - known)
        self.capacity_bit_s = known
        return changed

    def packet_bytes(self) -> float | None:
        """Mean size of the packets that passed; None below a hundred of them."""
        if len(self.samples) < 2:
            return None
        first, last = self.samples[0], self.samples[-1]
        packets = last.passed_packets - first.passed_packets
        return (last.passed_bytes - first.passed_bytes) / packets if packets >= 100 else None

    def share_hit(self, mark: Sample | None) -> float | None:
        """The share of packets that the law dropped or marked since `mark`, a sample; None while too few were."""
        if mark is None or not self.samples:
            return None
        first, last = max(mark, self.samples[0], key=lambda sample: sample.t_us), self.samples[-1]
        drops = last.drops_aqm_packets - first.drops_aqm_packets
        hits = drops + last.marks_packets - first.marks_packets
        reached = last.passed_packets - first.passed_packets + drops
        if last.t_us - first.t_us < LOAD_US or reached < 200 or (hits < 20 and last.t_us - first.t_us < 2 * LOAD_US):
            return None
        return hits / reached

    def since(self, begin_us: int, capacity_bit_s: float | None = None) -> Stretch | None:
        """The stretch from `begin_us` on; None with fewer than three samples in it. capacity_bit_s: of which it used
        its share; None: as known now."""
        inside = [sample for sample in self.samples if sample.t_us >= begin_us]
        if len(inside) < 3:
            return None
        mean_us = sum(sample.delay_us for sample in inside) / len(inside)
        square = sum((sample.delay_us - mean_us) ** 2 for sample in inside)
        return _between(inside[0], inside[-1], len(inside), mean_us, square, capacity_bit_s or self.capacity_bit_s)
