# SPDX-License-Identifier: Apache-2.0
"""The golden model of the two bands of flows: docs/design/flows.md step by step, clear rather than fast.

Band A (ahead) is served first and has the packets of young and sparse flows; band B (bulk) has the rest, under the law
(`weir.law`). Pure. As in `weir.law` every number is checked against the width that the page promises it, and raises
WidthError beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

from .law import BYTES_MAX, U32_MAX, Params, Share, Size, WidthError

KEYS = {
    "ahead_share": "a flow is sparse below this many times the mean of bulk flows; 0: below ahead_most_bytes",
    "ahead_most_bytes": "and only below so many recent bytes",
    "ahead_least_bytes": "and always below so many",
}
"""Users' settings; `in_users_units` and `weir-xdp` turn them into the integers below."""
SHARE_ONE_Q16 = 2**16
NEW_BYTES = 1024
"""A flow with fewer recent bytes is new: a port that is used once can't have more."""
FREE_BYTES = 8192
"""Bytes that may go ahead while nothing passes in bulk."""
TICK_SHIFT = 10
TICKS = 2**16
HELD_MOST_TICKS = 512


class Kind(IntEnum):
    """Band of a packet, and what the law makes of it there."""

    AHEAD = 0
    SMALL = 1
    LARGE = 2
    SPILLED = 3
    STRANGER = 4


SIZES = {Kind.SMALL: Size.SMALL, Kind.LARGE: Size.LARGE, Kind.SPILLED: Size.LARGE, Kind.STRANGER: Size.LARGE}
"""Size of a packet of band B for the verdict (`weir.law.decide`)."""

RANGES = {"ahead_share_q16": (0, 2**20 - 1), "ahead_most_bytes": (1, U32_MAX), "ahead_least_bytes": (1, U32_MAX)}
"""Least and greatest value of each parameter, both included."""


@dataclass(frozen=True)
class Bands:
    """The run-time data of the bands in its integer formats. Raises ValueError naming parameter, value and range."""

    ahead_share_q16: int
    ahead_most_bytes: int
    ahead_least_bytes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value, (least, most) = getattr(self, field.name), RANGES[field.name]
            if not least <= value <= most:
                raise ValueError(f"{field.name} = {value}: must be {least} .. {most}")


@dataclass
class BandFlow:
    """Counter of the flows that share it, zero at the start: that of `weir.law.Flow` and two times in ticks."""

    flow_bytes: int = 0
    flow_last_us: int = 0
    flow_until_tick: int = 0
    flow_large_tick: int = 0


@dataclass
class Budget:
    """Recent bytes of one queue, halved each 2^`share_shift` us, zero at the start: those that went ahead, those of
    them that were of new flows, and those that passed in bulk."""

    ahead_bytes: int = 0
    new_bytes: int = 0
    bulk_bytes: int = 0
    budget_last_us: int = 0


@dataclass
class MarkedBudget(Budget):
    """Budget where packets go ahead by their DSCP, too, and recent bytes of those that did."""

    marked_bytes: int = 0


DEFAULT = Bands(round(0.1 * SHARE_ONE_Q16), 2**17, 2 * 1514)


def in_users_units(ahead_share: float, ahead_most_bytes: int, ahead_least_bytes: int) -> Bands:
    """From users' units, as `weir-xdp` takes them. Raises ValueError."""
    share_q16 = min(round(ahead_share * SHARE_ONE_Q16), 2**20 - 1) if ahead_share < 16 else 2**20
    return Bands(share_q16, ahead_most_bytes, ahead_least_bytes)


def within(name: str, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise WidthError(f"{name} = {value}: must be 0 .. {most}")
    return value


def sum_bytes(a_bytes: int, b_bytes: int) -> int:
    return min(a_bytes + b_bytes, BYTES_MAX)


def halvings_due(last_us: int, now_us: int, shift: int) -> tuple[int, int]:
    """Number of halvings due, at most 32, and the counter's new time (verdict.md, The share of flows, step 2)."""
    elapsed_us = (now_us - last_us) % 2**64
    halvings = elapsed_us >> shift
    if elapsed_us >= 2**63:
        return 0, now_us
    if halvings > 31:
        return 32, now_us
    return halvings, (last_us + (halvings << shift)) % 2**64


def threshold_bytes(bands: Bands, share: Share) -> int:
    """Recent bytes below which a flow is sparse (step 3)."""
    most = bands.ahead_most_bytes
    if bands.ahead_share_q16:
        most = min(within("share of the mean", bands.ahead_share_q16 * share.share_mean_q6, 2**58) >> 22, most)
    return max(most, bands.ahead_least_bytes)


def hold_ticks(params: Params, tau_us: int) -> int:
    """Ticks after which a packet that enters band B now has left it for sure (step 7)."""
    return min(((2 * within("tau_us", tau_us, U32_MAX) + params.interval_us) >> TICK_SHIFT) + 1, HELD_MOST_TICKS)


def arrival(
    flow: BandFlow, share: Share, budget: Budget, params: Params, bands: Bands, now_us: int, len_bytes: int,
    tau_us: int, marked: bool = False,
) -> Kind:  # fmt: skip
    """Band of a packet of `len_bytes` that `flow` counts, while band B has a delay of `tau_us`. Call with each packet,
    before its verdict; after it `passed` if the packet is of band B and was not dropped. marked: its DSCP asks for
    band A, and `budget` is a MarkedBudget."""
    within("now_us", now_us, 2**64 - 1)
    len_bytes = min(within("len_bytes", len_bytes, 2**64 - 1), BYTES_MAX)
    halvings, flow.flow_last_us = halvings_due(flow.flow_last_us, now_us, params.share_shift)  # 1
    before = flow.flow_bytes >> halvings
    flow.flow_bytes = sum_bytes(before, len_bytes)
    halvings, budget.budget_last_us = halvings_due(budget.budget_last_us, now_us, params.share_shift)  # 2
    budget.ahead_bytes >>= halvings
    budget.new_bytes >>= halvings
    budget.bulk_bytes >>= halvings
    marked_bytes = 0
    if isinstance(budget, MarkedBudget):
        budget.marked_bytes >>= halvings
        marked_bytes = budget.marked_bytes

    sparse = before < threshold_bytes(bands, share)  # 3

    allowed = budget.bulk_bytes + FREE_BYTES  # 4
    is_new = before < NEW_BYTES
    strange = is_new and budget.new_bytes + len_bytes > allowed >> 1
    wanted = budget.ahead_bytes + len_bytes + (0 if is_new else before)
    may_go = sparse and not strange and wanted <= allowed
    fits = marked_bytes + len_bytes <= allowed >> 2 and budget.ahead_bytes + len_bytes <= allowed
    by_mark = marked and not may_go and fits
    may_go = may_go or by_mark

    tick = (now_us >> TICK_SHIFT) % TICKS  # 5
    in_bulk = 0 < (flow.flow_until_tick - tick) % TICKS < TICKS // 2
    held = before > 0 and in_bulk and (tick - flow.flow_large_tick) % TICKS < HELD_MOST_TICKS

    if may_go and not held:  # 6
        flow.flow_until_tick = tick
        budget.ahead_bytes = sum_bytes(budget.ahead_bytes, len_bytes)
        if by_mark and isinstance(budget, MarkedBudget):
            budget.marked_bytes = sum_bytes(marked_bytes, len_bytes)
        elif is_new:
            budget.new_bytes = sum_bytes(budget.new_bytes, len_bytes)
        return Kind.AHEAD

    flow.flow_until_tick = (tick + hold_ticks(params, tau_us)) % TICKS  # 7
    if may_go:
        return Kind.SMALL
    flow.flow_large_tick = tick
    if sparse:
        return Kind.STRANGER if strange else Kind.SPILLED
    mean_q6 = share.share_mean_q6 - (share.share_mean_q6 >> 6) + flow.flow_bytes  # 8
    share.share_mean_q6 = within("share_mean", mean_q6, 2**38 - 1)
    return Kind.LARGE if flow.flow_bytes << 22 >= params.share_least_q16 * mean_q6 else Kind.SMALL


def passed(budget: Budget, len_bytes: int) -> None:
    """A packet of band B was not dropped (step 10)."""
    budget.bulk_bytes = sum_bytes(budget.bulk_bytes, min(len_bytes, BYTES_MAX))


def is_late(params: Params, backlog_bytes: int, tau_us: int) -> bool:
    """Whether a packet of band A is dropped, while A has `backlog_bytes` and with them a delay of `tau_us` (step 9)."""
    return 0 < params.delay_limit_us <= tau_us and backlog_bytes >= params.min_backlog_bytes


def is_refused(kind: Kind, params: Params, tau_us: int) -> bool:
    """Whether a packet is dropped before the law's verdict (step 9)."""
    return kind == Kind.STRANGER and tau_us >= params.target_us >> 2
