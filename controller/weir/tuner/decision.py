# SPDX-License-Identifier: Apache-2.0
"""Requests of an operator to the tuner, its answers, and the changes of gains that are worth one. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..gains import KEYS, Gains
from . import design
from .window import Stretch

DIFFERENCE = 0.2
"""Gains closer than this to the present ones are not worth a change."""

LIMITS = {
    "rtt_s": design.RTT_S,
    "capacity_bit_s": design.CAPACITY_BIT_S,
    "target_us": (100, 2**24 - 1),
    "phase_margin_deg": (5, 85),
    "at_most_every_s": (0.1, 86400),
    "loss_price": (0, 100),
}
"""Of an operator's settings, in the units of Settings."""


@dataclass(frozen=True)
class Settings:
    """Settings by an operator; None: found out, or left as it is. ValueError names what is wrong.

    target_us: the most that the queue is held at; below it the tuner searches for the least delay that leaves the line
    in use and costs no more loss than it is worth, unless `hold_target`. loss_price: how many percentage points more of
    the packets may be lost for a ms less. phase_margin_deg: with it Kp is lowered until the linear model promises so
    much, at the price that docs/use/tuning.md gives. at_most_every_s: between changes of one port.
    """

    rtt_s: float | None = None
    capacity_bit_s: float | None = None
    target_us: int | None = None
    phase_margin_deg: float | None = None
    at_most_every_s: float = 1.0
    dry_run: bool = False
    hold_target: bool = False
    loss_price: float = 0.2

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} = {value!r}: must be {least:g} .. {most:g}")


@dataclass(frozen=True)
class Decision:
    """One line: the decision for a port and its reason. `gains`: to be written now, None where nothing is."""

    t_us: int
    device: str
    port: str
    action: str
    reason: str
    gains: Gains | None = None
    changed: dict[str, list[Any]] = field(default_factory=dict)
    capacity_bit_s: float | None = None
    rtt_ms: float | None = None
    rtt_source: str | None = None
    flows: float | None = None
    stable: bool | None = None
    phase_margin_deg: float | None = None
    gain_margin_db: float | None = None
    settling_s: float | None = None
    dry_run: bool = False

    def record(self) -> dict[str, Any]:
        """Its line for programs."""
        found = {"k": "decision"} | {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del found["gains"]
        for key, digits in (("capacity_bit_s", 0), ("rtt_ms", 3), ("flows", 2), ("phase_margin_deg", 1),
                            ("gain_margin_db", 2), ("settling_s", 3)):  # fmt: skip
            if found[key] is not None:
                found[key] = round(found[key], digits) if digits else round(found[key])
        return found


@dataclass(frozen=True)
class Effect:
    """Result of a trial."""

    t_us: int
    device: str
    port: str
    of_t_us: int
    verdict: str
    before: Stretch
    after: Stretch | None  # None: not measured

    def record(self) -> dict[str, Any]:
        return {
            "k": "effect", "t_us": self.t_us, "device": self.device, "port": self.port, "of_t_us": self.of_t_us,
            "verdict": self.verdict, "before": self.before.summary(),
            "after": {} if self.after is None else self.after.summary(),
        }  # fmt: skip


def difference(old: Gains, new: Gains) -> dict[str, list[Any]]:
    """The keys that change, [old, new]."""
    return {
        key: [_short(getattr(old, key)), _short(getattr(new, key))]
        for key in KEYS
        if getattr(old, key) != getattr(new, key)
    }


def _short(value: Any) -> Any:
    """Six digits: what the law's integers make of 48.0 need not be read."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


_MEASURED = {"interval_us", "kp", "ki", "kd"}  # keys that follow from measurements, and vary with them


def matters(old: Gains, new: Gains) -> bool:
    """Whether the way from `old` to `new` is worth a change."""
    if old == new:
        return False
    for key in KEYS:
        was, is_to_be = getattr(old, key), getattr(new, key)
        if was == is_to_be:
            continue
        if key not in _MEASURED or not 0 < max(was, is_to_be) <= min(was, is_to_be) * (1 + DIFFERENCE):
            return True
    return False


@lru_cache(maxsize=4096)  # asked at each sample of a thousand ports, with the same answer nearly always
def near_kept(old: Gains, new: Gains) -> Gains:
    """`new` with small differences from `old` left out, so that a change has one subject."""
    kept = {
        key: getattr(old, key)
        for key in _MEASURED
        if not matters(old, dataclasses.replace(old, **{key: getattr(new, key)}))
    }
    return dataclasses.replace(new, **kept)
