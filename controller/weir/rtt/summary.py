# SPDX-License-Identifier: Apache-2.0
"""One figure for a port's round trip from measurements of many flows; pure.

A handshake's packets have waited in the queue under control like all others, so the median over flows is the round trip
as flows meet it now, queue and all (`rtt_us`), and the least one heard lately is that of the way itself (`base_us`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from statistics import median

from .tracker import RttSample

_PER_FLOW = 16  # a spinning flow tells once a round trip and must not outweigh the others


@dataclass(frozen=True, slots=True)
class Rtt:
    """rtt_us: median over flows. spread_us: median distance of a flow's from it. base_us: the least lately.
    lower_bound: only far halves were seen, so the true round trip is longer. source: the method of most flows.
    """

    rtt_us: int
    spread_us: int
    base_us: int
    flows: int
    source: str
    lower_bound: bool


@dataclass(slots=True)
class _Flow:
    heard_us: int
    source: str
    whole: bool
    told: deque[tuple[int, int]]  # when, RTT


class RttSummary:
    """The flows with the latest samples: at most `flows` of them, none longer ago than `window_us`, after which a way
    that has grown is believed to have."""

    def __init__(self, flows: int = 32, window_us: int = 5_000_000) -> None:
        self._most, self._window_us = flows, window_us
        self._flows: OrderedDict[str, _Flow] = OrderedDict()

    def add(self, sample: RttSample, now_us: int) -> None:
        whole = sample.half == "both"
        flow = self._flows.pop(sample.flow, None)
        if flow is None or whole != flow.whole or sample.source != flow.source:  # a flow's newest way to tell stands
            flow = _Flow(now_us, sample.source, whole, deque(maxlen=_PER_FLOW))
        flow.heard_us = now_us
        flow.told.append((now_us, sample.rtt_us))
        self._flows[sample.flow] = flow
        while len(self._flows) > self._most:
            self._flows.popitem(last=False)

    def at(self, now_us: int) -> Rtt | None:
        """None while nothing has been heard for `window_us`. Far halves count only where there is nothing else."""
        since_us = now_us - self._window_us
        while self._flows and next(iter(self._flows.values())).heard_us < since_us:
            self._flows.popitem(last=False)
        if not self._flows:
            return None
        whole = [flow for flow in self._flows.values() if flow.whole]
        used = whole or list(self._flows.values())
        recent = [[rtt_us for t_us, rtt_us in flow.told if t_us >= since_us] for flow in used]
        middles = [median(rtts) for rtts in recent]
        rtt_us = median(middles)
        return Rtt(
            rtt_us=round(rtt_us),
            spread_us=round(median(abs(value - rtt_us) for value in middles)),
            base_us=min(map(min, recent)),
            flows=len(used),
            source=Counter(flow.source for flow in used).most_common(1)[0][0],
            lower_bound=not whole,
        )
