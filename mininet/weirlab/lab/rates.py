# SPDX-License-Identifier: Apache-2.0
"""A link's rate that follows a file: the file's text in, rates over a run out. Pure.

Two formats are read. Lines that are empty or begin with # are left out in both.

- CSV: a header of two columns, `time_s` or `time_ms` and `rate_mbit_s`, then a row for each rate from its time on. The
  first time is 0, and each is at least a millisecond after the one before. A rate may be 0. The last row's rate lasts
  as long as the row's before.
- Mahimahi's traces (mahimahi(1), mm-link): each line is a time in whole milliseconds at which the link can send one
  packet of 1504 bytes, in order; so many lines of one time, so many packets. The last time is the trace's length. The
  packets of each BIN_MS are made a rate.

A file that is shorter than the run starts over as often as needed, as mm-link does it.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

BIN_MS = 20
OPPORTUNITY_BYTES = 1504
FULL_PACKET_BYTES = 1514  # the largest on the lab's links
LEAST_MBIT_S = 0.001  # what tc takes
MOST_MBIT_S = 1e5
LEAST_STEP_S = 0.001
MOST_S = 86_400
MOST_STEPS = 100_000  # in a run
TIMES = {"time_s": 1.0, "time_ms": 1e-3}
RATE = "rate_mbit_s"
HEADER = f"{' or '.join(TIMES)}, then {RATE}"
# A stretch that lets one packet through, see `followed`: from which length on it is halved, and how much of its last
# part is over when the next rate comes into force.
LONG_GAP_S = 0.1
GAP_SHARE = 0.9
Steps = list[tuple[float, float]]  # from when on in s, Mbit/s


class RateFileError(ValueError):
    """Mistake in a file of rates, with its line, and the right form."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True)
class RateFile:
    """The rates of a file, the first from 0 s on, and when it starts over."""

    steps: Steps
    period_s: float


def parse(text: str) -> RateFile:
    """The rates of a file's text in either format. Raises RateFileError."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise RateFileError(1, f"no rates in the file; write a CSV with the columns {HEADER}, or a Mahimahi trace")
    found = _opportunities(lines) if lines[0][1].isdecimal() else _csv(lines)
    if not any(rate for _, rate in found.steps):
        raise RateFileError(lines[-1][0], "the link never carries anything; write some rate above 0")
    return found


def _csv(lines: Sequence[tuple[int, str]]) -> RateFile:
    number, header = lines[0]
    names = [name.strip() for name in header.split(",")]
    if len(names) != 2 or names[0] not in TIMES or names[1] != RATE:
        raise RateFileError(number, f"the header is {header!r}; write two columns, {HEADER}")
    scale, steps = TIMES[names[0]], Steps()
    for number, line in lines[1:]:
        cells = next(csv.reader([line]))
        if len(cells) != len(names):
            raise RateFileError(number, f"{len(cells)} cells; write {len(names)}, as in the header")
        time, rate = (_number(number, name, cell.strip()) for name, cell in zip(names, cells, strict=True))
        at_s = time * scale
        if not steps and at_s:
            raise RateFileError(number, f"{names[0]} begins at {time:g}; write 0 in the first row")
        if steps and at_s - steps[-1][0] < LEAST_STEP_S * (1 - 1e-6):
            raise RateFileError(
                number, f"{names[0]} {time:g} is less than 1 ms after the row before; write increasing times"
            )
        if at_s > MOST_S:
            raise RateFileError(number, f"{names[0]} {time:g} is more than a day; write {MOST_S} s at most")
        if rate > MOST_MBIT_S or 0 < rate < LEAST_MBIT_S:
            raise RateFileError(number, f"{RATE} {rate:g}; write 0, or a rate from {LEAST_MBIT_S:g} to {MOST_MBIT_S:g}")
        steps.append((at_s, rate))
    if not steps:
        raise RateFileError(number, "no row under the header; write at least one")
    last_s = steps[-1][0] - steps[-2][0] if len(steps) > 1 else float(MOST_S)
    return RateFile(steps, steps[-1][0] + last_s)


def _number(line: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise RateFileError(line, f"{name} is {cell!r}; write a number from 0")
    return value


def _opportunities(lines: Sequence[tuple[int, str]]) -> RateFile:
    times_ms: list[int] = []
    for number, line in lines:
        if not line.isdecimal() or len(line) > 12:
            raise RateFileError(number, f"{line[:40]!r} is no time; write whole milliseconds, one a line")
        if times_ms and int(line) < times_ms[-1]:
            raise RateFileError(number, f"{line} is before {times_ms[-1]}; write times in order")
        times_ms.append(int(line))
    length_ms = times_ms[-1]
    if not 0 < length_ms <= MOST_S * 1000:
        raise RateFileError(lines[-1][0], f"the trace ends at {length_ms} ms; write one from 1 ms to a day long")
    # The packet that is through at a time was sent in the millisecond before.
    counts = Counter(max(time - 1, 0) // BIN_MS for time in times_ms)
    steps = Steps()
    for place, from_ms in enumerate(range(0, length_ms, BIN_MS)):
        width_ms = min(BIN_MS, length_ms - from_ms)
        steps.append((from_ms / 1e3, counts[place] * OPPORTUNITY_BYTES * 8 / (width_ms * 1e3)))
    return RateFile(steps, length_ms / 1e3)


def over_run(file: RateFile, duration_s: float) -> Steps:
    """A run's rates: the file's, again from its start as often as needed, steps without a change left out.

    Raises RateFileError for more than MOST_STEPS.
    """
    rounds = math.ceil(duration_s / file.period_s)
    if rounds * len(file.steps) > 10 * MOST_STEPS:
        raise RateFileError(1, f"more than {MOST_STEPS} changes in the run; write a coarser file, or a shorter run")
    found = Steps()
    for number in range(rounds):
        for at_s, rate in file.steps:
            at = round(number * file.period_s + at_s, 6)
            if at < duration_s and not (found and found[-1][1] == rate):
                found.append((at, rate))
    if len(found) > MOST_STEPS:
        raise RateFileError(1, f"{len(found)} changes in the run; write a coarser file, or a shorter run")
    return found


class Capacity:
    """Capacity of a link of such rates between two times."""

    def __init__(self, steps: Sequence[Sequence[float]], end_s: float) -> None:
        self.steps, self.end_s = steps, end_s
        self.times_s = [at for at, _ in steps]
        lengths_s = (later - at for at, later in pairwise([*self.times_s, end_s]))
        self.bits_before = list(
            accumulate((s * r * 1e6 for s, (_, r) in zip(lengths_s, steps, strict=True)), initial=0.0)
        )

    def bits(self, begin_s: float, end_s: float) -> float:
        return self._until(end_s) - self._until(begin_s)

    def _until(self, time_s: float) -> float:
        time_s = min(max(time_s, 0.0), self.end_s)
        place = max(bisect_right(self.times_s, time_s) - 1, 0)
        return self.bits_before[place] + (time_s - self.times_s[place]) * self.steps[place][1] * 1e6


def mean_mbit_s(steps: Sequence[Sequence[float]], duration_s: float) -> float:
    """The mean rate of a run."""
    return Capacity(steps, duration_s).bits(0, duration_s) / 1e6 / duration_s


def followed(steps: Sequence[Sequence[float]], end_s: float) -> Steps:
    """The rates to set so that a token bucket of one packet carries these rates.

    htb lets a packet go at once and makes the next one wait for as long as this one takes at the rate of that moment,
    whatever the rate becomes meanwhile. So no rate is set at which a full packet takes longer than the rate applies: a
    stretch in which less than one packet gets through, an outage above all, becomes one at whose rate exactly one gets
    through (`_gap`).
    """
    packet_mbit = FULL_PACKET_BYTES * 8 / 1e6
    edges_s = [*(at for at, _ in steps), end_s]
    found = Steps()
    at_s, set_s, i = edges_s[0], edges_s[0], 0
    while i < len(steps):
        if steps[i][1] * (edges_s[i + 1] - at_s) >= packet_mbit:
            found.append((set_s, steps[i][1]))
            at_s = set_s = edges_s[i + 1]
            i += 1
            continue
        begin_s, left_mbit = at_s, packet_mbit
        while i < len(steps) and steps[i][1] * (edges_s[i + 1] - at_s) < left_mbit:
            left_mbit -= steps[i][1] * (edges_s[i + 1] - at_s)
            at_s, i = edges_s[i + 1], i + 1
        if i < len(steps):
            at_s += left_mbit / steps[i][1]
        rates, over_s = _gap(set_s, begin_s, at_s)
        found += rates
        set_s = over_s
    return [(round(at, 6), rate) for at, rate in found]


def _gap(set_s: float, begin_s: float, end_s: float) -> tuple[Steps, float]:
    """The rates of a stretch that lets one packet through, and when the next rate comes into force.

    A packet smaller than a full one would let another start just before the end, which would hold up all that follows
    for as long as the gap was. So the rate of a long gap rises, to one that gets one packet through in the rest of it,
    at its half, at three quarters, and so on; this may let one full packet more through. And the next rate comes into
    force a little before the end. The delay of what follows is an eighth of the gap at most (by packets that are three
    quarters of a full one).
    """
    packet_mbit = FULL_PACKET_BYTES * 8 / 1e6
    found, left_s = Steps(), max(end_s - begin_s, 1e-6)
    while True:
        found.append((set_s, max(packet_mbit / left_s, LEAST_MBIT_S)))
        if left_s < LONG_GAP_S:
            return found, end_s - (1 - GAP_SHARE) * left_s
        left_s /= 2
        set_s = end_s - left_s
