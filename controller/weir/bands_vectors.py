# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of the two bands of flows: `python -m weir.bands_vectors FILE`; the one that is kept is
tests/vectors/bands/arrival.jsonl.

Deterministic: the committed file equals what this prints. The format is in tests/vectors/README.md.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from random import Random

from . import bands, settings
from .bands import DEFAULT, RANGES, BandFlow, Bands, Budget, Kind
from .law import Params, Share

LAW_PARAMS = (
    "target_us", "interval_us", "share_shift", "share_least_q16", "min_backlog_bytes", "delay_limit_us",
)  # fmt: skip
"""Parameters of the law that the bands read."""
TUNED = replace(
    settings.profile("tuned").to_params(), target_us=15000, interval_us=15000, share_shift=17, share_least_q16=2**16
)
CASES: dict[str, tuple[Bands, Params]] = {
    "default": (DEFAULT, TUNED),
    "without a share": (replace(DEFAULT, ahead_share_q16=0), TUNED),
    "all flows small": (DEFAULT, replace(TUNED, share_least_q16=0, delay_limit_us=0)),
    "least": (Bands(**{name: least for name, (least, _) in RANGES.items()}), replace(TUNED, share_shift=10)),
    "greatest": (Bands(**{name: most for name, (_, most) in RANGES.items()}), replace(TUNED, share_shift=24)),
}
"""Parameters on both sides of every choice of docs/design/flows.md."""
FLOWS = 8


@dataclass
class Queue:
    """The state of one queue, with few counters so that flows meet in them."""

    flows: list[BandFlow] = field(default_factory=lambda: [BandFlow() for _ in range(FLOWS)])
    share: Share = field(default_factory=Share)
    budget: Budget = field(default_factory=Budget)


def packets(random: Random) -> Iterator[tuple[int, int, int, int]]:
    """flow, now_us, len_bytes, tau_us of packets that arrive in order: bulk flows, calls, pages, strangers; silences;
    a clock that goes back; numbers of any size."""
    now_us = random.getrandbits(40)
    for _ in range(600):
        now_us += random.randrange(1500)
        kind = random.random()
        if kind < 0.5:
            yield random.randrange(2), now_us, 1514, random.randrange(40_000)
        elif kind < 0.7:
            yield 2, now_us, 214, random.randrange(40_000)
        elif kind < 0.8:
            yield 3 + random.randrange(2), now_us, random.choice((66, 1514)), random.randrange(20_000)
        else:
            yield 5 + random.randrange(3), now_us, random.choice((64, 600, 1514)), random.randrange(20_000)
        if random.random() < 0.01:
            now_us += random.randrange(1 << random.randrange(12, 27))
    for _ in range(40):
        yield random.randrange(FLOWS), random.getrandbits(64) >> random.getrandbits(5), 1514, 15_000
    for _ in range(40):
        any_len = random.getrandbits(64) >> random.getrandbits(6)
        any_tau = random.getrandbits(32) >> random.getrandbits(5)
        yield random.randrange(FLOWS), random.getrandbits(64) >> random.getrandbits(6), any_len, any_tau


def limits(params: Params, random: Random) -> Iterator[tuple[int, int]]:
    """backlog_bytes, tau_us on both sides of the limit of band A, and of any size."""
    for backlog_bytes in (params.min_backlog_bytes - 1, params.min_backlog_bytes):
        yield from ((backlog_bytes, tau_us) for tau_us in (max(params.delay_limit_us, 1) - 1, params.delay_limit_us))
    for _ in range(20):
        yield random.getrandbits(64) >> random.getrandbits(6), random.getrandbits(32) >> random.getrandbits(5)


def generate() -> str:
    """The text of the vector file."""
    lines: list[dict[str, object]] = []
    for number, (name, (given, params)) in enumerate(CASES.items()):
        law = {key: getattr(params, key) for key in LAW_PARAMS}
        lines.append({"op": "params", "case": name, **asdict(given), **law})
        queue, random = Queue(), Random(8290 + number)
        for index, now_us, len_bytes, tau_us in packets(random):
            flow = queue.flows[index]
            kind = bands.arrival(flow, queue.share, queue.budget, params, given, now_us, len_bytes, tau_us)
            refused = bands.is_refused(kind, params, tau_us)
            inputs = {"in_flow": index, "in_now_us": now_us, "in_len_bytes": len_bytes, "in_tau_us": tau_us}
            results = {"kind": int(kind), "refused": int(refused)}
            state = {**asdict(flow), **asdict(queue.share), **asdict(queue.budget)}
            lines.append({"op": "band_arrival", **inputs, **results, **state})
            if kind != Kind.AHEAD and not refused and random.random() < 0.8:  # else by the law
                bands.passed(queue.budget, len_bytes)
                lines.append({"op": "passed", "in_len_bytes": len_bytes, "bulk_bytes": queue.budget.bulk_bytes})
        for backlog_bytes, tau_us in limits(params, random):
            inputs = {"in_backlog_bytes": backlog_bytes, "in_tau_us": tau_us}
            lines.append({"op": "ahead", **inputs, "late": int(bands.is_late(params, backlog_bytes, tau_us))})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
